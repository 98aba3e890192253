"""The learning rate of a step that has ended, where reading it costs little.

`optimizer.get_lr()` is the rate of the next step, and where the rate follows a schedule it runs a graph (1 to 6 ms, its
first call compiles for 160 ms and more; docs/sources.md, MindSpore). So constant rates and lists are read from the
host's copy, and schedules rarely, the first time after the first step, which compiles anyhow.
"""

from typing import Any, Callable, Dict, NamedTuple, Optional

RATE_STEPS = 50
"""Least distance of two readings."""
SCHEDULE_NS = 10_000_000_000
"""Likewise in time, of those that run a graph: 6 ms in 10 s are 0.06 %."""


class Reader(NamedTuple):
    """How to read it."""

    read: Callable[[int], float]
    """The rate that the step with this number used."""
    is_costly: bool
    """Whether it runs a graph."""


def _constant(rate: Any) -> Optional[Reader]:
    if hasattr(rate, "asnumpy"):
        return Reader(lambda _step: float(rate.asnumpy().reshape(-1)[0]), is_costly=False)
    return Reader(lambda _step: float(rate), is_costly=False) if isinstance(rate, (int, float)) else None


def _listed(table: Any) -> Reader:
    last = len(table) - 1
    return Reader(lambda step: float(table[min(max(step - 1, 0), last)]), is_costly=False)


def _scheduled(schedule: Any) -> Reader:
    import mindspore  # noqa: PLC0415 - imported by the job

    def read(step: int) -> float:
        used_at = mindspore.Tensor([max(step - 1, 0)], mindspore.int32)
        return float(schedule(used_at).asnumpy().reshape(-1)[0])

    return Reader(read, is_costly=True)


def reader(optimizer: Any, parameters: Dict[str, Any]) -> Optional[Reader]:
    """How to read the learning rate of the last parameter group (as MindFormers does), None where nothing fits."""
    groups = getattr(optimizer, "param_groups", None)  # mindspore.experimental.optim
    if isinstance(groups, list) and groups and isinstance(groups[-1], dict):
        return _constant(groups[-1].get("lr"))
    rate = getattr(optimizer, "learning_rate", None)
    if rate is None:
        return None
    if getattr(optimizer, "is_group_lr", False):
        rate = rate[len(rate) - 1]
    if not getattr(optimizer, "dynamic_lr", False):
        return _constant(rate)
    if type(rate).__name__ == "_IteratorLearningRate":
        return _listed(rate.learning_rate.asnumpy())
    # Where MindSpore itself splits graphs over devices, a graph of ours would be split as well.
    return _scheduled(rate) if parameters.get("parallel_mode") in ("stand_alone", "data_parallel") else None

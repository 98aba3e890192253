"""What the numbers in `net_outputs` mean, as the job's own monitors understand them.

MindFormers' graph mode gives (loss, overflow, loss scale, learning rate, global norm[, local norm, sizes]) and divides
the loss before it logs it; what it divides by stands in its MFLossMonitor, which is among the callbacks
(mindformers 2.1.0, core/callback/callback.py, _get_loss_output and _fix_loss_for_parallel).
"""

from typing import Any, Dict, Iterator, NamedTuple, Optional, Tuple

from rankbeat_contract import names

Parameters = Dict[str, Any]

OVERFLOW, LOSS_SCALE, LEARNING_RATE, GLOBAL_NORM = 1, 2, 3, 4
"""Places in `net_outputs` after the loss."""
_FIGURES = (
    (names.SCALAR_LOSS_SCALE, LOSS_SCALE),
    (names.SCALAR_LEARNING_RATE, LEARNING_RATE),
    (names.SCALAR_GRAD_NORM, GLOBAL_NORM),
)
_LENGTHS_WITH_OVERFLOW = (3, 4, 5, 7)
"""Of net_outputs, where its second is an overflow flag and its third a loss scale."""


class Meaning(NamedTuple):
    """How a job's loss is to be read on this rank."""

    divisors: Tuple[int, ...] = ()
    """What the job's own monitor divides the loss by, in its order."""
    is_valid: bool = True
    """False on a pipeline stage that does not compute the loss."""
    first_valid_rank: int = 0
    global_batch: int = 0
    """Samples of the whole job in a step, 0 where the job does not say."""
    has_own_monitor: bool = False
    """Whether the job itself reads outputs of each step (MFLossMonitor, LossMonitor): reading them after it waits for
    nothing."""
    norm_limit: Optional[float] = None
    """Global norm from which MindFormers leaves out the optimizer step (use_skip_data_by_global_norm)."""


def number(tensor: Any) -> Optional[float]:
    """A tensor's number, the mean of several; None where it is no number."""
    if isinstance(tensor, (int, float)):
        return float(tensor)
    if not hasattr(tensor, "asnumpy"):
        return None
    # Never copy().asnumpy(): 1002 us against 0.6 us of item() (docs/sources.md, MindSpore).
    return float(tensor.item() if tensor.size == 1 else tensor.asnumpy().mean())


def loss_of(outputs: Any) -> Optional[float]:
    """The loss as MindSpore's LossMonitor understands net_outputs: NaN as it is; None where there is none."""
    if isinstance(outputs, (tuple, list)):
        outputs = outputs[0] if outputs else None
    return number(outputs)


def has_overflow(outputs: Any) -> bool:
    """Whether outputs are those of a training step with loss scaling."""
    return isinstance(outputs, (tuple, list)) and len(outputs) in _LENGTHS_WITH_OVERFLOW


def figures(outputs: Tuple[Any, ...]) -> Iterator[Tuple[str, float]]:
    """Names and values of what stands beside loss and overflow; what the job does not compute is None there."""
    for name, place in _FIGURES[: max(0, len(outputs) - LOSS_SCALE)]:
        value = number(outputs[place])
        if value is not None:
            yield name, value


def is_left_out(outputs: Tuple[Any, ...], norm_limit: Optional[float]) -> bool:
    """Whether the optimizer left this step out: an overflow, or a global norm of norm_limit and above."""
    if number(outputs[OVERFLOW]):
        return True
    norm = number(outputs[GLOBAL_NORM]) if norm_limit is not None and len(outputs) > GLOBAL_NORM else None
    return norm is not None and norm_limit is not None and not norm < norm_limit


def _monitor(parameters: Parameters, kind: str) -> Any:
    """The job's first callback of the class called kind."""
    for callback in parameters.get("list_callback") or ():
        if any(base.__name__ == kind for base in type(callback).__mro__):
            return callback
    return None


def _pipeline() -> Tuple[int, bool]:
    """Stages, and whether their schedule is zero bubble V, in which the first stage ends with the loss."""
    from mindspore import context  # noqa: PLC0415 - imported by the job

    stages = int(context.get_auto_parallel_context("pipeline_stages") or 1)
    return stages, context.get_auto_parallel_context("pipeline_scheduler") == "zero_bubble_v"


def _divisors(monitor: Any, stages: int) -> Tuple[int, ...]:
    is_per_token = bool(getattr(monitor, "calculate_per_token_loss", False))
    # mirco_size is how MindFormers spells it.
    wanted = (
        (getattr(monitor, "mirco_size", 1), stages > 1 and not is_per_token),
        (getattr(monitor, "micro_batch_interleave_num", 1), True),
        (getattr(monitor, "gradient_accumulation_steps", 1), not is_per_token),
    )
    return tuple(int(divisor) for divisor, is_due in wanted if is_due and divisor and divisor > 1)


def meaning(parameters: Parameters, rank: int, world_size: int) -> Meaning:
    """How to read this job's loss on this rank."""
    monitor = _monitor(parameters, "MFLossMonitor")
    # What the job has logged is corrected, and None where it is not valid.
    stages, is_zero_bubble_v = (1, False) if parameters.get("rankbeat") else _pipeline()
    first = 0 if is_zero_bubble_v else (stages - 1) * (world_size // stages)
    cell = parameters.get("train_network")
    limit = getattr(cell, "global_norm_spike_threshold", None)
    return Meaning(
        divisors=() if monitor is None else _divisors(monitor, stages),
        # MindFormers says of zero bubble V only that rank 0 holds a valid loss.
        is_valid=stages <= 1 or (rank == 0 if is_zero_bubble_v else rank >= first),
        first_valid_rank=first if stages > 1 else 0,
        global_batch=int(getattr(monitor, "global_batch_size", parameters.get("global_batch_size", 0)) or 0),
        # LossMonitor reads the loss at each step, however seldom it prints (mindspore 2.10.0).
        has_own_monitor=(monitor or _monitor(parameters, "LossMonitor")) is not None
        or parameters.get("rankbeat") == "logged",
        norm_limit=float(limit) if limit and getattr(cell, "use_skip_data_by_global_norm", False) is True else None,
    )


def samples_per_step(parameters: Parameters, meant: Meaning, world_size: int, asked: int) -> int:
    """Samples of the whole job in one step, 0 where that is not known.

    What the monitor says, else MindFormers' global batch, else the local batch times the devices where all parallelism
    is over data.
    """
    known = asked or meant.global_batch or int(parameters.get("global_batch_size") or 0)
    if known:
        return known
    if parameters.get("rankbeat") or parameters.get("parallel_mode") not in ("stand_alone", "data_parallel"):
        return 0
    devices = world_size if parameters["parallel_mode"] == "data_parallel" else 1
    # Several ranks that each train alone make no job-wide batch.
    if devices != max(1, world_size):
        return 0
    batch = parameters["train_dataset"].get_batch_size()
    return int(batch or 0) * devices

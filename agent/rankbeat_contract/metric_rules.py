"""Which metrics can have an interval and a filter of their own (`spec.metrics`), and what becomes of both."""

from typing import Iterable

from rankbeat_contract import names, words

_SAMPLED = frozenset(
    (
        names.SCALAR_LOSS,
        names.SCALAR_PERPLEXITY,
        names.SCALAR_LEARNING_RATE,
        names.SCALAR_LOSS_SCALE,
        names.SCALAR_GRAD_NORM,
        names.SCALAR_LOCAL_NORM,
        names.SCALAR_UPDATE_RATIO,
        names.SCALAR_ATTENTION_ENTROPY,
        names.SCALAR_ATTENTION_SPARSITY,
        names.SCALAR_CLASS_LOSS,
        names.SCALAR_EXPERT_LOAD,
        names.SCALAR_LM_LOSS,
        names.SCALAR_LOAD_BALANCING_LOSS,
        names.SCALAR_MTP_LOSS,
        names.SCALAR_INDEXER_LOSS,
        names.SCALAR_SKIPPED,
    )
)
_TIMED = frozenset(
    (
        names.SCALAR_RESIDENT_MEMORY,
        names.SCALAR_DEVICE_MEMORY_ALLOCATED,
        names.SCALAR_DEVICE_MEMORY_PEAK,
        names.SCALAR_DEVICE_MEMORY_RESERVED,
        names.SCALAR_DEVICE_MEMORY_LIMIT,
    )
)
_EVENTS = frozenset((names.SCALAR_CHECKPOINT_DURATION, names.SCALAR_CHECKPOINT_STEP))


def is_sampled(name: str, monitors: Iterable[str]) -> bool:
    """Whether it is taken at sampled steps, so that an interval of its own stands for the sampling's.

    monitors: names of those that run in the training process.
    """
    return name in _SAMPLED or name.startswith(tuple(f"{monitor}_" for monitor in monitors))


def is_event(name: str) -> bool:
    """Whether it comes when it comes, each value to be kept: it can have a filter, an interval would lose some."""
    return name in _EVENTS or name.startswith(names.EVALUATION_PREFIX)


def problem(name: str, monitors: Iterable[str], *, has_interval: bool) -> str:
    """What keeps a metric's entry from being heeded whole, empty if nothing does."""
    if is_event(name):
        text = "its interval is not used, each evaluation and checkpoint is kept; a filter can drop some"
        return text if has_interval else ""
    if is_sampled(name, monitors) or name in _TIMED or name.startswith(names.USER_PREFIX):
        return ""
    known = sorted(_SAMPLED | _TIMED | _EVENTS)
    return (
        f"there is no metric {name!r}{words.nearest(name, known)}; the job's own begin with {names.USER_PREFIX},"
        f" {names.EVALUATION_PREFIX} or the name of a monitor in its process"
    )

"""What a checkpoint cost: the synchronous part of `save_checkpoint`, and the step that it holds."""

from time import monotonic_ns

from rankbeat_agent.hooks import rank
from rankbeat_agent.wire import records
from rankbeat_contract import names, ring

_NAN = float("nan")
_SECOND_NS = 1e-9
_NAMES = (names.SCALAR_CHECKPOINT_DURATION, names.SCALAR_CHECKPOINT_STEP)
_IDS: "list[int]" = []
"""Ids of the two names once they are in the ring."""


def saved(process: rank.Rank, begun_ns: int) -> None:
    """Note the checkpoint that was begun at begun_ns and is done; before the first step its step is 0."""
    writer = process.writer
    if writer is None:
        return
    if not _IDS:
        _IDS.extend(records.intern(writer, name, unit) for name, unit in zip(_NAMES, ("seconds", "")))
    now = monotonic_ns()
    step = max(0, writer.step)
    # What is saved before the first train() is noted: nothing has been decided by then.
    signals = None if process.steps is None else process.steps.signals
    for name, name_id, value in zip(_NAMES, _IDS, ((now - begun_ns) * _SECOND_NS, step)):
        if signals is None or signals.takes(name, step, value):
            records.note(writer, ring.KIND_SCALAR, name_id, step, now, value, _NAN, _NAN)

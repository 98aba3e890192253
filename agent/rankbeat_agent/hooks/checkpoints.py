"""What a checkpoint cost: the synchronous part of `save_checkpoint`, and the step that it holds."""

from time import monotonic_ns

from rankbeat_agent.hooks import rank
from rankbeat_contract import names, ring

_NAN = float("nan")
_SECOND_NS = 1e-9
_IDS: "list[int]" = []
"""Ids of the two names once they are in the ring."""


def saved(process: rank.Rank, begun_ns: int) -> None:
    """Note the checkpoint that was begun at begun_ns and is done; before the first step its step is 0."""
    writer = process.writer
    if writer is None:
        return
    if not _IDS:
        _IDS.append(writer.intern(names.SCALAR_CHECKPOINT_DURATION, "seconds"))
        _IDS.append(writer.intern(names.SCALAR_CHECKPOINT_STEP))
    now = monotonic_ns()
    step = max(0, writer.step)
    for name_id, value in zip(_IDS, ((now - begun_ns) * _SECOND_NS, step)):
        writer.note(ring.KIND_SCALAR, name_id, step, now, value, _NAN, _NAN)

"""Loops of the job's own: a step is a call of an optimizer, or of a TrainOneStepCell with the optimizer inside.

The heartbeat tier: steps, dispatch times and phases. No tensor is read once the loop runs.
"""

import sys
from typing import Any, Callable, Dict, Tuple

from rankbeat_agent.hooks import patches, phases, rank
from rankbeat_contract import ring


class Loop:
    """The steps of one process outside `Model.train`."""

    __slots__ = ("follower", "leader", "parameters", "process", "segment")

    def __init__(self, process: rank.Rank) -> None:
        self.process = process
        self.segment = -1
        """The segment that is this loop's, another's steps have come since where the writer's differs."""
        self.leader = self.follower = 0
        """Id of the cell whose calls count, and of the first other one that was called since."""
        self.parameters: Dict[str, Any] = {}

    def is_step(self, cell: Any) -> bool:
        """Whether this call of cell counts.

        Of several optimizers (the two of a GAN) the one that came first is counted, until another is called twice
        without it.
        """
        called = id(cell)
        if called == self.leader:
            self.follower = 0
            return True
        if self.follower in (0, called):
            if self.follower:
                self.leader, self.follower = called, 0
                return True
            self.follower = called
        return False

    def begin(self, cell: Any) -> bool:
        """A call begins; whether it is a step."""
        process = self.process
        if process.is_off:
            return False
        if process.writer is None or process.writer.segment != self.segment:
            self._start(cell)
        if process.writer is None or not self.is_step(cell):
            return False
        self.parameters["cur_step_num"] += 1
        process.seen().began(self.parameters)
        return True

    def _start(self, cell: Any) -> None:
        """A segment of its own, after `Model.train` or as the first: claims the ring of a job without init()."""
        seen = self.process.seen()
        self.leader, self.follower = id(cell), 0
        self.parameters = {
            "rankbeat": "dispatch",
            "cur_step_num": 0,
            "optimizer": getattr(cell, "optimizer", cell),
            "epoch_num": 0,
            "batch_num": 0,
            "dataset_sink_mode": True,  # so that the length is the product of the two, unknown
            "list_callback": (),
        }
        seen.prepare(self.parameters)
        seen.depth = 0
        writer = self.process.writer
        if writer is not None:
            self.segment = writer.segment
            writer.flags |= ring.HEARTBEAT
            writer.total_steps = 0

    def end(self) -> None:
        """A step's call has returned. The first one compiles and belongs to `build`."""
        if self.process.writer is not None:
            seen = self.process.seen()
            seen.ended(self.parameters)
            seen.followed(self.parameters)

    def broke_off(self) -> None:
        """An exception leaves the call: the step is not made, and counted again when the job tries again."""
        kind, value, _ = sys.exc_info()
        writer = self.process.writer
        self.parameters["cur_step_num"] -= 1
        if writer is not None:
            seen = self.process.seen()
            seen.failed(value)
            seen.ended_ns = 0
            seen.flush(writer)
            phases.left_training(self.process, writer, kind, value)


LOOP = Loop(rank.RANK)


def step(cell: Any, call: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    """call(*args, **kwargs), seen as a step of the job's own loop if it is one."""
    is_step = patches.door("loop", LOOP.begin, cell)
    patches.driven = True  # what is called inside is no step of its own
    try:
        result = call(*args, **kwargs)
    except BaseException:
        if is_step:
            patches.door("loop", LOOP.broke_off)
        raise
    finally:
        patches.driven = False
    if is_step:
        patches.door("loop", LOOP.end)
    return result

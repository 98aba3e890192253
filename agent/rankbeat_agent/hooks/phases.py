"""What follows a phase: who the rank is once it has joined its group, what a checkpoint cost, how training was left."""

import sys
from _thread import get_ident
from typing import Any, Optional, Type

from rankbeat_agent.hooks import endings, rank
from rankbeat_agent.wire.writer import Writer
from rankbeat_contract import ring


def identify(writer: Writer) -> None:
    """Take rank and world size from MindSpore, which may have changed; without init() it is rank 0 of 1."""
    management = sys.modules["mindspore.communication.management"]
    if management.GlobalComm.INITED:
        writer.rank, writer.world_size = int(management.get_rank()), int(management.get_group_size())
    elif writer.rank == ring.UNKNOWN:
        writer.rank, writer.world_size = 0, 1


def done(process: "rank.Rank", phase: int, begun_ns: int, result: Any) -> None:
    """What a phase was has returned result."""
    writer = process.writer
    if writer is None:
        return
    if phase == rank.INIT_COMM:
        endings.watch(process)  # MindSpore has set an except hook of its own
        identify(writer)
    elif phase == rank.CHECKPOINT:
        from rankbeat_agent.hooks import checkpoints  # noqa: PLC0415 - and all names, seldom needed

        checkpoints.saved(process, begun_ns)
    elif phase == rank.EVAL and process.steps is not None:
        process.steps.evaluated(result)


def came_back(process: "rank.Rank", before: int) -> None:
    """The phase that Rank.went_into() announced is over."""
    if process.writer is not None:
        process.writer.enter_phase(before)


def starts_training(process: "rank.Rank", writer: Writer) -> None:
    """This thread is about to train."""
    process.thread = get_ident()
    identify(writer)
    endings.watch(process)
    if process.endings is not None:
        process.endings.forget()
    writer.flags &= ~(ring.HEARTBEAT | ring.LOSS_INVALID)


def left_training(
    process: "rank.Rank", writer: Writer, kind: Optional[Type[BaseException]], value: Optional[BaseException]
) -> None:
    """train() has ended, by an exception of class kind or with None; it fails only if the process ends by it."""
    writer.enter_phase(rank.RECOVERING if kind is not None and issubclass(kind, Exception) else rank.BETWEEN)
    if kind is not None and process.endings is not None:
        process.endings.left_training(kind, value)

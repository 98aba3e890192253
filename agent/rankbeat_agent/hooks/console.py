"""One line per sampled step in the job's own log, where the monitor asks for it (`outputs.console`)."""

import os
import select
import sys
from typing import Any, Iterable, Tuple

from rankbeat_agent.hooks import rank

_STDOUT = 1
MAX_BYTES = select.PIPE_BUF
"""Of a line: so many does a pipe take at once, and whole, where select says that it takes any."""
_LEFT_OUT = " left_out={}\n"
MAX_ERRORS = 10
"""Lines that could not be written, after which none is tried any more."""


def is_asked(ranks: str, this_rank: int, first_valid_rank: int) -> bool:
    """Whether this rank prints. ranks: `auto` (the first rank with a valid loss), `all`, or numbers with commas."""
    if ranks in ("auto", "all"):
        return ranks == "all" or this_rank == first_valid_rank
    return str(this_rank) in [part.strip() for part in ranks.split(",")]


def line(step: int, values: Iterable[Tuple[str, float]]) -> str:
    """`rankbeat step=100 loss=2.31 learning_rate=0.0001`: pairs that no other line of a job starts with.

    Where they are more than MAX_BYTES, `left_out=12` at the end counts those that found no room.
    """
    pairs = [f"{name}={value:.7g}" for name, value in values]
    text = " ".join(("rankbeat", f"step={step}", *pairs)) + "\n"
    if len(text) <= MAX_BYTES:
        return text
    kept = text[: MAX_BYTES - len(_LEFT_OUT)].rpartition(" ")[0]
    return kept + _LEFT_OUT.format(len(pairs) + 1 - kept.count(" "))


class Console:
    """The job's standard output."""

    __slots__ = ("errors", "process")

    def __init__(self, process: rank.Rank) -> None:
        self.process = process
        self.errors = 0

    def say(self, step: int, values: Iterable[Tuple[str, float]]) -> None:
        """Write one whole line; what cannot be written at once is dropped and counted, training never waits for it."""
        if self.errors >= MAX_ERRORS:
            return
        try:
            self._write(line(step, values))
        except (AttributeError, OSError, ValueError) as error:  # closed, full, or no standard output
            self.errors += 1
            if self.errors == 1:
                self.process.count("console", error)

    def _write(self, text: str) -> None:
        stdout: Any = sys.stdout  # None in a process without one
        own: Any = sys.__stdout__
        if stdout is not own or stdout.fileno() != _STDOUT:
            stdout.write(text)  # a tee, a notebook: whoever replaced it gets it as he gets the job's lines
            return
        _refuse_without_room()
        # What the job has printed goes before, so that neither line ends up inside the other. It takes room as well;
        # where it has to wait for some, so would the job at its next line.
        stdout.flush()
        _refuse_without_room()
        os.write(_STDOUT, text.encode())


def _refuse_without_room() -> None:
    """Raises: BlockingIOError where standard output has no room for MAX_BYTES."""
    if not select.select([], [_STDOUT], [], 0)[1]:
        raise BlockingIOError("standard output takes nothing, its reader is slow")

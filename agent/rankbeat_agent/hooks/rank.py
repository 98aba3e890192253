"""This process as a rank: its ring, and the phases that it goes into; phases.py says what follows them."""

import os
import sys
from _thread import get_ident
from contextlib import suppress

from rankbeat_agent.hooks import patches
from rankbeat_agent.wire import writer as wire
from rankbeat_contract import ring

TYPE_CHECKING = False  # typing costs milliseconds where nobody has imported it
if TYPE_CHECKING:
    from typing import Any, Optional

    from rankbeat_agent.hooks.endings import Endings

INIT_COMM, BUILD, LOAD, TRAIN, CALLBACKS, CHECKPOINT, EVAL, BETWEEN, RECOVERING, DONE, FAILED = range(len(ring.PHASES))
_NO_RANKS = ("MS_SCHED", "MS_PSERVER")
# Spelled out: names.py is compiled for half a millisecond; tests/agent/test_autoload.py compares the two.
_RING_DIR, _RING_BYTES, _ATTEMPT = "RANKBEAT_RING_DIR", "RANKBEAT_RING_BYTES", "RANKBEAT_ATTEMPT"


def say(text: str) -> None:
    """One line on stderr, if there is one."""
    with suppress(AttributeError, OSError, ValueError):  # no stderr, or a closed one
        sys.stderr.write(f"rankbeat: {text}; training goes on\n")


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else default


class Rank:
    """This process, at most one ring for as long as it lives."""

    __slots__ = ("endings", "errors", "held", "is_off", "steps", "thread", "writer")

    def __init__(self) -> None:
        self.writer: "Optional[wire.Writer]" = None
        """None before the claim and after the agent was turned off: hooks do nothing then."""
        self.held: "Optional[wire.Writer]" = None
        self.is_off = False
        self.errors = 0
        self.endings: "Optional[Endings]" = None
        self.steps: "Any" = None
        """The process's steps.Steps once it trains."""
        self.thread = 0
        """The thread that trains: what others do is no phase of the rank."""

    def claim(self) -> None:
        """Claim the ring, if this process has none and may be a rank."""
        if self.held is not None or self.is_off:
            return
        directory = os.environ.get(_RING_DIR, "")
        self.is_off = not directory or os.environ.get("MS_ROLE") in _NO_RANKS
        if self.is_off:
            return
        try:
            self.writer = self.held = wire.claim(
                directory,
                _number(_RING_BYTES, ring.DEFAULT_BYTES),
                _number(_ATTEMPT, 0),
                _number("DEVICE_ID", ring.UNKNOWN),
                patches.started_wall_ns,
            )
        except (OSError, ValueError) as error:
            self.is_off = True
            say(f"no ring in {directory!r}: {error}; this rank is not seen")
            return
        self.thread = get_ident()
        os.register_at_fork(after_in_child=self.leave_to_parent)

    def seen(self) -> "Any":
        """The process's steps.Steps."""
        if self.steps is None:
            from rankbeat_agent.hooks import steps  # noqa: PLC0415 - compiled when training begins

            self.steps = steps.Steps(self)
        return self.steps

    def went_into(self, phase: int) -> "Optional[int]":
        """Announce a phase of the training thread; the one to come back to, None where nothing was announced."""
        if phase == INIT_COMM:
            self.claim()
        writer = self.writer
        if writer is None or get_ident() != self.thread or writer.phase in (DONE, FAILED):
            return None
        before = writer.phase
        if phase == INIT_COMM:
            from rankbeat_agent.hooks import endings  # noqa: PLC0415 - not what a start waits for

            endings.watch(self)
            before = before or BUILD
        elif phase == before:
            return None
        writer.enter_phase(phase)
        return before

    def leave_to_parent(self) -> None:
        """In a forked child: the ring is the parent's."""
        held, self.writer, self.held, self.is_off = self.held, None, None, True
        if held is not None:
            held.let_go()

    def count(self, hook: str, error: Exception) -> None:
        """Count an error of the agent's own; after the tenth the agent is off."""
        from rankbeat_agent.hooks import failures  # noqa: PLC0415 - seldom needed

        failures.count(self, hook, error)


RANK = Rank()

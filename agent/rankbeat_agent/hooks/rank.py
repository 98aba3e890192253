"""What this process is: its ring, its rank, its phase, how it ends; and how the agent fails."""

import atexit
import os
import sys
from contextlib import suppress
from time import monotonic_ns
from types import TracebackType
from typing import Any, Callable, Optional, Type

from rankbeat_agent.hooks import imports
from rankbeat_agent.wire import writer as wire
from rankbeat_contract import names, ring

MAX_ERRORS = 10
"""Errors after which the agent turns itself off."""

INIT_COMM, BUILD, TRAIN, CALLBACKS, EVAL, BETWEEN, DONE, FAILED = map(
    ring.PHASES.index, ("init_comm", "build", "train", "callbacks", "eval", "between", "done", "failed")
)
_NO_RANKS = ("MS_SCHED", "MS_PSERVER")


def say(text: str) -> None:
    """One line on stderr, if there is one."""
    with suppress(AttributeError, OSError, ValueError):  # no stderr, or a closed one
        sys.stderr.write(f"rankbeat: {text}; training goes on\n")


def _number(text: Optional[str], default: int) -> int:
    return int(text) if text is not None and text.isdigit() else default


def _left_main_module(trace: Optional[TracebackType]) -> bool:
    """Whether a traceback that was printed goes back to the main module: its exception ended the process."""
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == "__main__":
            return True
        trace = trace.tb_next
    return False


class Rank:
    """This process, at most one ring for as long as it lives."""

    __slots__ = ("errors", "excepthook", "exit_class", "held", "is_off", "writer")

    def __init__(self) -> None:
        self.writer: Optional[wire.Writer] = None
        """None before the claim and after the agent was turned off: hooks do nothing then."""
        self.held: Optional[wire.Writer] = None
        self.is_off = False
        self.errors = 0
        self.excepthook: Optional[Callable[..., Any]] = None
        self.exit_class = ""
        """Class of a SystemExit with a code that left train(): it ends the process without the except hook."""

    def claim(self) -> None:
        """Claim the ring, if this process has none and may be a rank."""
        if self.held is not None or self.is_off:
            return
        environment = os.environ
        directory = environment.get(names.ENV_RING_DIR, "")
        self.is_off = not directory or environment.get("MS_ROLE") in _NO_RANKS
        if self.is_off:
            return
        try:
            self.writer = self.held = wire.claim(
                directory,
                _number(environment.get(names.ENV_RING_BYTES), ring.DEFAULT_BYTES),
                _number(environment.get(names.ENV_ATTEMPT), 0),
                _number(environment.get("DEVICE_ID"), ring.UNKNOWN),
                imports.STARTED_WALL_NS,
            )
        except (OSError, ValueError) as error:
            self.is_off = True
            say(f"no ring in {directory!r}: {error}; this rank is not seen")
            return
        os.register_at_fork(after_in_child=self.leave_to_parent)
        atexit.register(self.exited)

    def identify(self, writer: wire.Writer) -> None:
        """Take rank and world size from MindSpore; a job without init() is rank 0 of 1."""
        management = sys.modules["mindspore.communication.management"]
        if management.GlobalComm.INITED:
            writer.rank, writer.world_size = int(management.get_rank()), int(management.get_group_size())
        else:
            writer.rank, writer.world_size = 0, 1

    def watch_exceptions(self) -> None:
        """Stand before the present except hook.

        To be called after init(): MindSpore's own hook, set there, forgets every hook set after its import
        (communication/_comm_helper.py, _set_elegant_exit_handle).
        """
        previous = sys.excepthook
        if previous is self.excepthook:
            return

        def excepthook(kind: Type[BaseException], value: BaseException, trace: Optional[TracebackType]) -> None:
            self.crashed(kind.__name__)
            previous(kind, value, trace)

        self.excepthook = sys.excepthook = excepthook

    def crashed(self, class_name: str) -> None:
        """Say that this process ends by an exception; the first one counts."""
        try:
            if self.writer is not None and self.writer.phase != FAILED:
                self.writer.exception = class_name.encode("ascii", "replace")
                self.writer.enter_phase(FAILED)
        except Exception as error:  # noqa: BLE001 - a door: the user's exception goes its way
            self.count("except hook", error)

    def exited(self) -> None:
        """Say how the process ended, in atexit."""
        try:
            # A hook of the user's that forgets ours: Python itself remembers what left the main module.
            if _left_main_module(getattr(sys, "last_traceback", None)):
                self.crashed(getattr(sys.last_type, "__name__", ""))
            elif self.exit_class:
                self.crashed(self.exit_class)
            elif self.writer is not None and self.writer.phase != FAILED:
                self.writer.enter_phase(DONE)
        except Exception as error:  # noqa: BLE001 - a door
            self.count("exit", error)

    def leave_to_parent(self) -> None:
        """In a forked child: the ring is the parent's."""
        held, self.writer, self.held, self.is_off = self.held, None, None, True
        if held is not None:
            held.let_go()

    def count(self, hook: str, error: Exception) -> None:
        """Count an error of the agent's own, show the first with its place, turn the agent off after MAX_ERRORS."""
        self.errors += 1
        if self.errors == 1:
            trace = error.__traceback__
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            place = "" if trace is None else f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"
            say(f"error in {hook}{place}: {error!r}")
        writer = self.writer
        if writer is None:
            return
        writer.agent_errors = self.errors
        if self.errors >= MAX_ERRORS:
            self.writer = None
            self.is_off = True
            writer.flags |= ring.AGENT_OFF
            say(f"turned off after {MAX_ERRORS} errors, this rank is no longer seen")
        try:
            writer.publish(monotonic_ns())
        except Exception:  # noqa: BLE001 - the last door: nothing is left to count with
            self.writer = None


RANK = Rank()

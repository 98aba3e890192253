"""How the process ends: what left the main module, and the code that it asked to leave with."""

import atexit
import functools
import os
import sys
from types import TracebackType
from typing import Any, Callable, Optional, Type

from rankbeat_agent.hooks import rank


def _left_main_module(trace: Optional[TracebackType]) -> bool:
    """Whether a traceback that was printed goes back to the main module: its exception ended the process."""
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == "__main__":
            return True
        trace = trace.tb_next
    return False


def _is_success(code: Any) -> bool:
    """What Python makes of an argument of sys.exit: None and 0 are success, a text is printed and means 1."""
    return code is None or (isinstance(code, int) and code == 0)


class Endings:
    """Watches one rank's end. Exit codes are not told to atexit, so the functions that carry them are wrapped.

    Unseen stay a `raise SystemExit(1)` of the job's own after train() has returned, which reads `done` since Python
    clears the exception before it calls atexit; and signals, after which the lock is free and the phase the last one.
    """

    __slots__ = ("asked_class", "excepthook", "process", "training_class")

    def __init__(self, process: "rank.Rank") -> None:
        self.process = process
        self.excepthook: Optional[Callable[..., Any]] = None
        self.asked_class = ""
        """Class of what asked to end the process with a code that is no success."""
        self.training_class = ""
        """Class of the exception that left train() last, empty once it trains again."""
        atexit.register(self.exited)
        sys.exit = self._noted_exit(sys.exit)
        os._exit = self._noted_leave(os._exit)
        site = sys.modules.get("_sitebuiltins")
        if site is not None:  # python -S has no exit() and quit()
            site.Quitter.__call__ = self._noted_quit(site.Quitter.__call__)

    def forget(self) -> None:
        """It trains again: whatever asked to end the process, or left train(), was caught."""
        self.asked_class = self.training_class = ""

    def left_training(self, kind: Type[BaseException], value: Optional[BaseException]) -> None:
        """An exception has left train(); nobody knows yet whether it is caught."""
        if issubclass(kind, Exception):
            self.training_class = kind.__name__
        elif issubclass(kind, SystemExit) and not _is_success(getattr(value, "code", None)):
            self.asked_class = kind.__name__

    def watch_exceptions(self) -> None:
        """Stand before the present except hook."""
        previous = sys.excepthook
        if previous is self.excepthook:
            return

        def excepthook(kind: Type[BaseException], value: BaseException, trace: Optional[TracebackType]) -> None:
            self.crashed(kind.__name__, value)
            previous(kind, value, trace)

        self.excepthook = sys.excepthook = excepthook

    def asked(self, code: Any) -> None:
        """The process is asked to end with code. The last one counts, since each may be caught."""
        if self.process.writer is not None:
            self.asked_class = "" if _is_success(code) else self.training_class or "SystemExit"

    def _noted_exit(self, leave: Callable[..., Any]) -> Callable[..., Any]:
        # No `def exit(code)`: to refuse two arguments is sys.exit's own business.
        def noted(*code: Any) -> Any:
            self.asked(code[0] if code else None)
            return leave(*code)

        noted.__name__ = noted.__qualname__ = "exit"
        noted.__module__ = "sys"
        noted.__doc__ = leave.__doc__
        return noted

    def _noted_quit(self, leave: Callable[..., Any]) -> Callable[..., Any]:
        """exit() and quit() of the site module."""

        @functools.wraps(leave)
        def noted(quitter: Any, code: Any = None) -> Any:
            self.asked(code)
            return leave(quitter, code)

        return noted

    def _noted_leave(self, leave: Callable[..., Any]) -> Callable[..., Any]:
        def noted(status: int) -> Any:
            # Nothing runs after it, so that nobody can catch it; a forked child has no writer.
            if self.process.writer is not None and type(status) is int:
                if status:
                    self.crashed(self.training_class or "SystemExit")
                else:
                    self.exited()
            return leave(status)

        noted.__name__ = noted.__qualname__ = "_exit"
        noted.__module__ = "os"
        noted.__doc__ = leave.__doc__
        return noted

    def crashed(self, class_name: str, value: Optional[BaseException] = None) -> None:
        """Say that this process ends by an exception; the first one counts."""
        try:
            if self.process.steps is not None and value is not None:
                self.process.steps.failed(value)
        except Exception as error:  # noqa: BLE001 - a door: how it ended is said all the same
            self.process.count("forensics", error)
        try:
            self._end(rank.FAILED, class_name)
        except Exception as error:  # noqa: BLE001 - a door: the user's exception goes its way
            self.process.count("except hook", error)

    def _end(self, phase: int, class_name: str = "") -> None:
        writer = self.process.writer
        if writer is None or writer.phase == rank.FAILED:
            return
        writer.exception = class_name.encode("ascii", "replace")
        try:
            if self.process.steps is not None:
                self.process.steps.flush(writer)  # the last steps of a loop, whose end nobody tells
        finally:
            writer.enter_phase(phase)

    def exited(self) -> None:
        """Say how the process ended, in atexit."""
        try:
            # A hook of the user's that forgets ours: Python itself remembers what left the main module.
            if _left_main_module(getattr(sys, "last_traceback", None)):
                self.crashed(getattr(sys.last_type, "__name__", ""), sys.last_value)
            elif self.asked_class:
                self.crashed(self.asked_class)
            else:
                self._end(rank.DONE)
        except Exception as error:  # noqa: BLE001 - a door
            self.process.count("exit", error)


def watch(process: "rank.Rank") -> None:
    """Learn how the process is going to end.

    To be called again after each init(): MindSpore's own hook, set there, forgets every hook set after its import
    (communication/_comm_helper.py, _set_elegant_exit_handle).
    """
    if process.endings is None:
        process.endings = Endings(process)
    process.endings.watch_exceptions()

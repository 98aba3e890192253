"""A deadline for each call into a vendor's library: the caller is stuck in C, so another thread notices."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHECKS_PER_LIMIT = 5


class CallWatch:
    """Calls late(name) once, from its own thread, when a call named by watched() takes longer than limit_seconds.

    ctypes lets go of the interpreter's lock while C runs, so the thread runs. What late does should end the process:
    the stuck call cannot be ended, and a second one is not noticed. A limit of 0 watches nothing.
    """

    def __init__(self, limit_seconds: float, late: Callable[[str], None]) -> None:
        self._limit_seconds = limit_seconds
        self._late = late
        self._call: tuple[str, float] | None = None
        self._running = threading.Event()
        if limit_seconds > 0:
            threading.Thread(target=self._watch, daemon=True, name="call-watch").start()

    @contextmanager
    def round(self) -> Iterator[None]:
        """Between rounds of calls the thread sleeps."""
        self._running.set()
        try:
            yield
        finally:
            self._running.clear()

    def watched(self, name: str) -> Self:
        """`with` it, around the call."""
        self._call = (name, time.monotonic())
        return self

    def __enter__(self) -> None:
        """Of watched(): a generator would cost each call of a round as much as the call's own way through ctypes."""

    def __exit__(self, *_: object) -> None:
        self._call = None

    def _watch(self) -> None:
        while self._running.wait():
            time.sleep(self._limit_seconds / CHECKS_PER_LIMIT)
            call = self._call
            if call is not None and time.monotonic() - call[1] > self._limit_seconds:
                self._late(call[0])
                return

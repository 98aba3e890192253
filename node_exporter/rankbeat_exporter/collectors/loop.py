"""A collector's own thread: it collects at an interval, whatever scrapes do."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)


class Loop:
    """Calls collect every interval_seconds until stopped; is_alive is the health check of the program."""

    def __init__(
        self, name: str, collect: Callable[[], None], interval_seconds: float, patience_seconds: float
    ) -> None:
        self._collect = collect
        self._interval_seconds = interval_seconds
        self._patience_seconds = patience_seconds
        self._stopped = threading.Event()
        self._finished_monotonic = time.monotonic()
        self._thread = threading.Thread(target=self._run, daemon=True, name=name)

    def start(self) -> None:
        self._finished_monotonic = time.monotonic()
        self._thread.start()

    def stop(self, wait_seconds: float = 0.0) -> None:
        """Ends the loop after the collection that is running, which is waited for up to wait_seconds."""
        self._stopped.set()
        if wait_seconds:
            self._thread.join(wait_seconds)

    def is_alive(self) -> bool:
        """Whether a collection, good or bad, ended within the patience."""
        return time.monotonic() - self._finished_monotonic <= self._patience_seconds

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stopped.is_set():
            try:
                self._collect()
            except Exception:  # noqa: BLE001 - a door: the program that reports faults lives on
                _log.exception("collection failed collector=%s", self._thread.name)
            self._finished_monotonic = time.monotonic()
            due = max(due + self._interval_seconds, self._finished_monotonic)
            self._stopped.wait(due - self._finished_monotonic)

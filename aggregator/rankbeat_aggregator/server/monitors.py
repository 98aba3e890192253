"""The limits of every monitor, followed by list and watch in a thread; the last known stay while the API is down."""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from rankbeat_contract import monitor
from rankbeat_contract.monitor import Settings

log = logging.getLogger(__name__)

FIRST_BACK_OFF_SECONDS = 1.0
LONGEST_BACK_OFF_SECONDS = 30.0

Name = tuple[str, str]
"""Namespace and name of a monitor."""
Spec = Mapping[str, object]


class Source(Protocol):
    """Where monitors come from: kubernetes_api.Monitors, or what a test puts in its place."""

    def listed(self) -> tuple[dict[Name, Spec], str]: ...

    def watched(self, version: str, changed: Callable[[str, Name, Spec], None]) -> None: ...


class Watch:
    """Settings by monitor. Written by its thread, read by the event loop: each write replaces one dictionary value."""

    def __init__(self, source: Source, clock: Callable[[], float]) -> None:
        self._source = source
        self._clock = clock
        self._settings: dict[Name, Settings] = {}
        self._stopping = threading.Event()
        self._contact: float | None = None
        self._back_off = FIRST_BACK_OFF_SECONDS
        self._thread = threading.Thread(target=self._run, name="monitors", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Asks the thread to end. It is a daemon: a watch that waits for the API server holds nobody up."""
        self._stopping.set()

    def settings(self, namespace: str, name: str) -> Settings:
        """The monitor's settings, the defaults where it is not known."""
        return self._settings.get((namespace, name), Settings())

    def age_seconds(self) -> float | None:
        """Since the API server last said something, None before the first time."""
        return None if self._contact is None else self._clock() - self._contact

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
            except Exception as error:  # noqa: BLE001 - the watch's door
                # Whatever breaks a watch, the limits we know stay in force, and we try again.
                log.warning("event=monitors_watch_failed back_off_seconds=%s error=%r", self._back_off, error)
            # After a watch that simply ended too: a server that ends them at once must not be listed without pause.
            self._stopping.wait(self._back_off)
            self._back_off = min(2 * self._back_off, LONGEST_BACK_OFF_SECONDS)

    def _follow(self) -> None:
        """Lists once, then watches until the watch ends."""
        listed, version = self._source.listed()
        self._back_off = FIRST_BACK_OFF_SECONDS
        for name in self._settings.keys() - listed.keys():
            self._settings.pop(name, None)
        for name, spec in listed.items():
            self._put(name, spec)
        self._contact = self._clock()
        self._source.watched(version, self._changed)
        self._contact = self._clock()

    def _changed(self, kind: str, name: Name, spec: Spec) -> None:
        self._contact = self._clock()
        if kind == "DELETED":
            self._settings.pop(name, None)
        elif kind in {"ADDED", "MODIFIED"}:
            self._put(name, spec)

    def _put(self, name: Name, spec: Spec) -> None:
        try:
            self._settings[name] = monitor.settings(spec)
        except (ValueError, TypeError, AttributeError) as error:
            log.warning("event=monitor_not_read namespace=%s monitor=%s error=%r", *name, error)

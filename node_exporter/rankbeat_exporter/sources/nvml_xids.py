"""XIDs as the driver reports them: an event set of each GPU, and a thread that waits on it, so that each has its time.

One set of all GPUs would do as long as none is lost: then every wait on it fails at once, and no GPU is watched
(docs/sources.md, NVML).
"""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

import pynvml

from rankbeat_exporter.model.accelerator import Answer, Event

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rankbeat_exporter.sources.nvml_calls import Handle, Library

_log = logging.getLogger(__name__)

WAIT_MILLISECONDS = 1000
FAULT_SECONDS = 1.0
"""After a wait that failed: a lost GPU makes each fail at once."""
_Key = tuple[str, str, str]
"""Device, UUID and model of a GPU."""


class XidWatch:
    """The threads end with their process, or within a second of close()."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._sets: dict[str, Handle] = {}
        self._codes: dict[str, int] = {}
        """What the last wait answered, by device; 0 also where it came to its end without an event."""
        self._lock = threading.Lock()
        self._events: dict[tuple[_Key, int], Event] = {}
        self._closed = threading.Event()

    def answer(self, handle: Handle, device: str, identity: Mapping[str, Answer]) -> Answer:
        """Whether the GPU's XIDs are seen: code 0, or the library's. Begins to watch the GPU where that is not done."""
        if device in self._codes:
            return Answer(self._codes[device])
        if device not in self._sets:
            created = self._library.answer(f"event_set {device}", partial(self._create, device))
            if created.code:
                return created
        kept = self._sets[device]
        register = partial(pynvml.nvmlDeviceRegisterEvents, handle, pynvml.nvmlEventTypeXidCriticalError, kept)
        registered = self._library.answer(f"register {device}", register)
        if not registered.code:
            uuid, model = (str(*identity[name].values[:1]) if name in identity else "" for name in ("uuid", "name"))
            self._codes[device] = 0
            watch = partial(self._watch, kept, (device, uuid, model))
            threading.Thread(target=watch, daemon=True, name=f"xids-{device}").start()
        return registered

    def new_events(self) -> tuple[Event, ...]:
        with self._lock:
            found, self._events = tuple(self._events.values()), {}
        return found

    def close(self) -> None:
        self._closed.set()

    def _create(self, device: str) -> None:
        self._sets[device] = pynvml.nvmlEventSetCreate()

    def _watch(self, events: Handle, gpu: _Key) -> None:
        while not self._closed.is_set():
            code = 0
            try:
                self._note(gpu, pynvml.nvmlEventSetWait_v2(events, WAIT_MILLISECONDS), time.time())
            except pynvml.NVMLError as error:
                code = 0 if error.value == pynvml.NVML_ERROR_TIMEOUT else int(error.value)
            if code != self._codes[gpu[0]]:
                _log.warning("waiting for XIDs device=%s code=%d", gpu[0], code)
            self._codes[gpu[0]] = code
            if code:
                self._closed.wait(FAULT_SECONDS)

    def _note(self, gpu: _Key, data: pynvml.c_nvmlEventData_t, now_seconds: float) -> None:
        if not data.eventType & pynvml.nvmlEventTypeXidCriticalError:
            return
        key = (gpu, int(data.eventData))
        with self._lock:
            before = self._events.get(key)
            self._events[key] = Event(*gpu, key[1], (before.count if before else 0) + 1, now_seconds)

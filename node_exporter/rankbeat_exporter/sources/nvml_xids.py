"""XIDs as the driver reports them: an event set, and a thread that waits on it so that each gets its own time."""

from __future__ import annotations

import ctypes
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
"""After a wait that failed: a lost GPU makes every wait fail at once."""
_Key = tuple[str, str, str]
"""Device, UUID and model of the GPU that an event came from, empty where it is none that was registered."""


class XidWatch:
    """The thread ends with its process, or within a second of close()."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._gpus: dict[int, _Key] = {}
        self._lock = threading.Lock()
        self._events: dict[tuple[_Key, int], Event] = {}
        self._closed = threading.Event()
        self._set: Handle | None = None
        self._created = library.answer("event_set", self._create)

    def _create(self) -> None:
        self._set = pynvml.nvmlEventSetCreate()
        threading.Thread(target=self._watch, daemon=True, name="xids").start()

    def register(self, handle: Handle, device: str, identity: Mapping[str, Answer]) -> Answer:
        """Whether the GPU's XIDs will be seen from now on: code 0, or the library's."""
        if self._created.code:
            return self._created
        uuid, model = (str(*identity[name].values[:1]) if name in identity else "" for name in ("uuid", "name"))
        self._gpus[_address(handle)] = (device, uuid, model)
        register = partial(pynvml.nvmlDeviceRegisterEvents, handle, pynvml.nvmlEventTypeXidCriticalError, self._set)
        return self._library.answer(f"register {device}", register)

    def new_events(self) -> tuple[Event, ...]:
        with self._lock:
            found, self._events = tuple(self._events.values()), {}
        return found

    def close(self) -> None:
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.is_set():
            try:
                data = pynvml.nvmlEventSetWait_v2(self._set, WAIT_MILLISECONDS)
            except pynvml.NVMLError_Timeout:
                continue
            except pynvml.NVMLError as error:
                _log.debug("waiting for events failed code=%s", error.value)
                self._closed.wait(FAULT_SECONDS)
                continue
            self._note(data, time.time())

    def _note(self, data: pynvml.c_nvmlEventData_t, now_seconds: float) -> None:
        if not data.eventType & pynvml.nvmlEventTypeXidCriticalError:
            return
        gpu = self._gpus.get(_address(data.device), ("", "", ""))
        key = (gpu, int(data.eventData))
        with self._lock:
            before = self._events.get(key)
            self._events[key] = Event(*gpu, key[1], (before.count if before else 0) + 1, now_seconds)


def _address(handle: Handle) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0  # type: ignore[arg-type]  # pynvml has no types

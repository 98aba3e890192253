"""NVIDIA GPUs by nvidia-ml-py. It answers raw numbers: what they mean is decided in parsing.nvml.

pynvml raises two families of errors: NVMLError with the library's code, and NVMLLibraryMismatchError, which is none of
them, where an older driver's library lacks the symbol of a call with versioned structures.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pynvml

from rankbeat_exporter.errors import CannotMeasure
from rankbeat_exporter.model import accelerator
from rankbeat_exporter.model.accelerator import Answer, Event, RawChip
from rankbeat_exporter.sources import nvml_calls
from rankbeat_exporter.sources.call_watch import CallWatch
from rankbeat_exporter.sources.nvml_calls import Handle, Library
from rankbeat_exporter.sources.nvml_places import LIBRARY
from rankbeat_exporter.sources.nvml_xids import XidWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@dataclass(slots=True)
class _Gpu:
    """What is kept of a GPU while the library is initialised, as a lost one does not say any more who it was."""

    index: int
    handle: Handle | None = None
    identity: dict[str, Answer] = field(default_factory=dict)


class Nvml:
    """A loaded and initialised library; initialised anew after its inventory failed, as the driver may be another."""

    def __init__(self, watch: CallWatch | None = None) -> None:
        """Raises: CannotMeasure(LibraryNotFound | InitFailed)."""
        self._library = Library(watch or CallWatch(0.0, lambda _: None))
        self._gpus: dict[int, _Gpu] = {}
        self._xids: XidWatch | None = None
        self._untold: tuple[Event, ...] = ()
        with self._library.watch.round():
            self._initialise()

    def chips(self, left_out: Iterable[str] = ()) -> tuple[RawChip, ...]:
        """All GPUs and their MIG instances, read one after the other; none where the library says that there is none.

        left_out: calls that are not to be made, named as hung calls are.
        Raises: CannotMeasure(InitFailed | InventoryFailed).
        """
        self._library.left_out = frozenset(left_out)
        with self._library.watch.round():
            xids = self._xids or self._initialise()
            count = self._library.answer("count", pynvml.nvmlDeviceGetCount)
            if count.code:
                self._forget()
                raise CannotMeasure(accelerator.INVENTORY_FAILED, f"nvmlDeviceGetCount answered {count.code}")
            found = []
            for index in range(int(count.values[0])):
                found += self._chips_of(self._gpus.setdefault(index, _Gpu(index)), xids)
        return tuple(found)

    def new_events(self) -> tuple[Event, ...]:
        """XIDs since the last call, of GPUs that are gone too."""
        untold, self._untold = self._untold, ()
        return untold + (self._xids.new_events() if self._xids else ())

    def _initialise(self) -> XidWatch:
        code = self._library.answer("init", lambda: pynvml.nvmlInitWithFlags(0)).code
        if code == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
            raise CannotMeasure(accelerator.LIBRARY_NOT_FOUND, f"{LIBRARY} cannot be loaded")
        if code:
            raise CannotMeasure(accelerator.INIT_FAILED, f"nvmlInitWithFlags answered {code}")
        self._xids = XidWatch(self._library)
        return self._xids

    def _forget(self) -> None:
        if self._xids is not None:
            self._untold += self._xids.new_events()
            self._xids.close()
        self._xids = None
        self._gpus.clear()
        self._library.answer("shutdown", pynvml.nvmlShutdown)

    def _chips_of(self, gpu: _Gpu, xids: XidWatch) -> list[RawChip]:
        """The GPU, and its instances after it."""
        device = str(gpu.index)
        if gpu.handle is None:
            gpu.handle, reached = self._handle(
                f"handle {device}", partial(pynvml.nvmlDeviceGetHandleByIndex, gpu.index)
            )
            if gpu.handle is None:
                return [RawChip(gpu.index, 0, {"handle": reached})]
        handle = gpu.handle
        gpu.identity |= self._library.answers(handle, device, _missing(gpu))
        answers = {**gpu.identity, **self._library.answers(handle, device, nvml_calls.GPU_CALLS)}
        answers["xid_watch"] = xids.answer(handle, device, gpu.identity)
        mode = answers.get("mig_mode", Answer(pynvml.NVML_ERROR_NOT_SUPPORTED))
        is_divided = not mode.code and mode.values[0] == pynvml.NVML_DEVICE_MIG_ENABLE
        return [RawChip(gpu.index, 0, answers), *(self._instances(gpu.index, handle, answers) if is_divided else ())]

    def _handle(self, name: str, get: Callable[[], Handle]) -> tuple[Handle | None, Answer]:
        """A handle is a pointer, which an answer cannot hold."""
        kept: list[Handle] = []
        reached = self._library.answer(name, lambda: kept.append(get()))
        return (kept[0] if kept else None), reached

    def _instances(self, index: int, parent: Handle, answers: dict[str, Answer]) -> list[RawChip]:
        """The GPU's MIG instances, numbered from 1 in the library's order; a fault goes into the GPU's answers."""
        limit = self._library.answer(f"mig_limit {index}", partial(pynvml.nvmlDeviceGetMaxMigDeviceCount, parent))
        if limit.code:
            answers["mig_limit"] = limit
            return []
        chips = []
        for place in range(int(limit.values[0])):
            device = f"{index}:{place}"
            get = partial(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, parent, place)
            handle, reached = self._handle(f"mig_handle {device}", get)
            if handle is not None:
                calls = (*nvml_calls.IDENTITY_CALLS, *nvml_calls.INSTANCE_CALLS)
                chips.append(RawChip(index, place + 1, self._library.answers(handle, device, calls)))
            elif reached.code != pynvml.NVML_ERROR_NOT_FOUND:  # places are not filled from the front
                answers["mig_handle"] = reached
        return chips


def _missing(gpu: _Gpu) -> tuple[nvml_calls.Call, ...]:
    """What is not yet known of who the GPU is."""
    known = {name for name, found in gpu.identity.items() if not found.code}
    return tuple(call for call in nvml_calls.IDENTITY_CALLS if call.name not in known)

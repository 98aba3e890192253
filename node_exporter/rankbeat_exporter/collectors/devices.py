"""Accelerators as the vendor part last described them, and the counters that only grow here."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rankbeat_exporter.errors import CannotMeasure
from rankbeat_exporter.model import accelerator
from rankbeat_exporter.model.accelerator import Failure, Readings
from rankbeat_exporter.model.assignment import Known
from rankbeat_exporter.model.collection import Collection
from rankbeat_exporter.parsing import ascend, nvml

if TYPE_CHECKING:
    from collections.abc import Callable

    from rankbeat_exporter.model.accelerator import Accelerator, Event, Snapshot

_log = logging.getLogger(__name__)

COLLECTOR = "accelerators"

DEADLINE = "deadline"
"""Code of a call that did not return within its own."""


@dataclass(frozen=True, slots=True)
class VendorView:
    """One vendor's devices: accelerators is None where they are unknown, failures are counted since the start."""

    vendor: str
    accelerators: tuple[Accelerator, ...] | None
    events: tuple[Event, ...]
    failures: tuple[tuple[Failure, int], ...]
    restarts: int
    unkillable: int
    source: str
    """library or tool; empty while the devices are unknown."""


@dataclass(frozen=True, slots=True)
class DevicesView:
    """vendors: those that the vendor part ever spoke of."""

    vendors: tuple[VendorView, ...]
    collections: tuple[Collection, ...]


class DevicesCollector:
    """Reads a snapshot at each collect(); view() may be called from any thread at any time."""

    def __init__(
        self,
        snapshots: Callable[[], tuple[Snapshot, ...]],
        fresh_seconds: float,
        now: Callable[[], tuple[float, float]] = lambda: (time.time(), time.monotonic()),
    ) -> None:
        self._snapshots = snapshots
        self._fresh_seconds = fresh_seconds
        self._now = now
        self._found: tuple[dict[str, VendorView], Collection | None] = ({}, None)
        self._failures: dict[str, dict[Failure, int]] = {}

    def collect(self) -> None:
        """One reading; the one before is forgotten, good or bad. One vendor's fault does not hide another's devices."""
        begin = self._now()[1]
        last_vendors, last = self._found
        vendors = {name: replace(view, accelerators=None) for name, view in last_vendors.items()}
        try:
            snapshots = self._snapshots()
            faults = [(one.reason, one.detail) for one in snapshots if one.reason]
            reason, detail = faults[0] if faults else ("", "")
            vendors |= {one.vendor: self._vendor_view(one) for one in snapshots if one.vendor}
        except CannotMeasure as error:
            reason, detail = error.reason, error.detail
        wall, monotonic = self._now()
        if last is None or reason != last.reason:
            _log.log(
                logging.WARNING if reason else logging.INFO,
                "accelerators reason=%s detail=%r",
                reason or "Measured",
                detail,
            )
        self._found = (vendors, Collection(COLLECTOR, reason, monotonic - begin, wall, monotonic))

    def view(self) -> DevicesView:
        """The newest reading; one that is too old counts as none."""
        found, collection = self._found
        if collection is None:
            return DevicesView((), ())
        vendors = tuple(found.values())
        if self._now()[1] - collection.finished_monotonic > self._fresh_seconds:
            vendors = tuple(replace(view, accelerators=None) for view in vendors)
            collection = replace(collection, reason=accelerator.STALE)
        return DevicesView(vendors, (collection,))

    def known(self) -> tuple[Known, ...]:
        """The devices that are listed now."""
        return tuple(
            Known(one.vendor, each.device, each.uuid) for one in self.view().vendors for each in one.accelerators or ()
        )

    def _vendor_view(self, snapshot: Snapshot) -> VendorView:
        failures = self._failures.setdefault(snapshot.vendor, {})
        readings = None if snapshot.reason else _MEANINGS[snapshot.vendor](snapshot)
        hung = (Failure(snapshot.hung.split()[0], DEADLINE),) if snapshot.hung else ()
        for fault in readings.failures if readings else hung:
            failures[fault] = failures.get(fault, 0) + 1
        return VendorView(
            vendor=snapshot.vendor,
            accelerators=readings.accelerators if readings else None,
            events=snapshot.events,
            failures=tuple(sorted(failures.items())),
            restarts=snapshot.restarts,
            unkillable=snapshot.unkillable,
            source=readings.source if readings else "",
        )


def _gpus(snapshot: Snapshot) -> Readings:
    read = tuple(map(nvml.accelerator, snapshot.chips))
    gpus = tuple(nvml.with_xids(gpu, snapshot.events) for gpu, _ in read)
    return Readings(gpus, tuple(failure for _, of_gpu in read for failure in of_gpu))


_MEANINGS: dict[str, Callable[[Snapshot], Readings]] = {
    accelerator.VENDOR_HUAWEI: ascend.readings,
    accelerator.VENDOR_NVIDIA: _gpus,
}
"""How a vendor's raw answers read."""

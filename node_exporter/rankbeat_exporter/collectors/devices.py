"""Accelerators as the vendor part last described them, and the counters that only grow here."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rankbeat_exporter.errors import CannotMeasure
from rankbeat_exporter.model import accelerator
from rankbeat_exporter.model.collection import Collection
from rankbeat_exporter.parsing import dcmi

if TYPE_CHECKING:
    from collections.abc import Callable

    from rankbeat_exporter.model.accelerator import Accelerator, Failure, Snapshot

_log = logging.getLogger(__name__)

COLLECTOR = "accelerators"


@dataclass(frozen=True, slots=True)
class DevicesView:
    """accelerators is None where they are unknown; restarts is None before the vendor part was heard."""

    accelerators: tuple[Accelerator, ...] | None
    failures: tuple[tuple[Failure, int], ...]
    restarts: int | None
    collections: tuple[Collection, ...]


@dataclass(frozen=True, slots=True)
class _Found:
    accelerators: tuple[Accelerator, ...] | None
    collection: Collection


class DevicesCollector:
    """Reads a snapshot at each collect(); view() may be called from any thread at any time."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        fresh_seconds: float,
        now: Callable[[], tuple[float, float]] = lambda: (time.time(), time.monotonic()),
    ) -> None:
        self._snapshot = snapshot
        self._fresh_seconds = fresh_seconds
        self._now = now
        self._found: _Found | None = None
        self._failures: dict[Failure, int] = {}
        self._restarts: int | None = None

    def collect(self) -> None:
        """One reading; the one before is forgotten, good or bad."""
        begin = self._now()[1]
        accelerators: tuple[Accelerator, ...] | None = None
        try:
            snapshot = self._snapshot()
            self._restarts = snapshot.restarts
            reason, detail = snapshot.reason, snapshot.detail
            if not reason:
                accelerators = self._accelerators(snapshot)
        except CannotMeasure as error:
            reason, detail = error.reason, error.detail
        wall, monotonic = self._now()
        before = self._found.collection.reason if self._found else None
        if reason != before:
            _log.log(
                logging.WARNING if reason else logging.INFO,
                "accelerators reason=%s detail=%r",
                reason or "Measured",
                detail,
            )
        self._found = _Found(accelerators, Collection(COLLECTOR, reason, monotonic - begin, wall, monotonic))

    def view(self) -> DevicesView:
        """The newest reading; one that is too old counts as none."""
        found = self._found
        failures = tuple(sorted(self._failures.copy().items()))
        if found is None:
            return DevicesView(None, failures, self._restarts, ())
        accelerators, collection = found.accelerators, found.collection
        if self._now()[1] - collection.finished_monotonic > self._fresh_seconds:
            accelerators = None
            collection = Collection(
                COLLECTOR,
                accelerator.STALE,
                collection.duration_seconds,
                collection.finished_wall,
                collection.finished_monotonic,
            )
        return DevicesView(accelerators, failures, self._restarts, (collection,))

    def _accelerators(self, snapshot: Snapshot) -> tuple[Accelerator, ...]:
        readings = []
        for chip in snapshot.chips:
            reading, failures = dcmi.accelerator(chip)
            readings.append(reading)
            for failure in failures:
                self._failures[failure] = self._failures.get(failure, 0) + 1
        return tuple(readings)

"""Which pod holds which accelerator, as of the last collection, and the conflicts counted since the start."""

from __future__ import annotations

import logging
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from rankbeat_exporter.errors import CannotMeasure
from rankbeat_exporter.model.accelerator import STALE
from rankbeat_exporter.model.assignment import Assignment, Published
from rankbeat_exporter.model.collection import Collection
from rankbeat_exporter.model.pods import PodsView
from rankbeat_exporter.parsing import assignment
from rankbeat_exporter.parsing.assignment import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from rankbeat_exporter.model.assignment import Allotment, Claimed, Conflict, Known, Pod

_log = logging.getLogger(__name__)

COLLECTOR = "pods"
PODS_UNKNOWN = "PodsUnknown"


class Sources(NamedTuple):
    """Who is asked. pods gives None until the API has answered.

    published is asked of devices that claims gave, rank_tables of the tables that these pods mount.
    """

    devices: Callable[[], tuple[Known, ...]]
    allotments: Callable[[], tuple[Allotment, ...]]
    pods: Callable[[], tuple[Pod, ...] | None]
    published: Callable[[frozenset[Claimed]], Published] = lambda claimed: Published()  # noqa: ARG005
    rank_tables: Callable[[tuple[Pod, ...]], dict[tuple[str, str], str]] = lambda pods: {}  # noqa: ARG005
    npu_resources: tuple[str, ...] = ()


class PodsCollector:
    """Asks all sources at each collect(); view() may be called from any thread at any time."""

    def __init__(
        self,
        sources: Sources,
        fresh_seconds: float,
        now: Callable[[], tuple[float, float]] = lambda: (time.time(), time.monotonic()),
    ) -> None:
        self._sources = sources
        self._fresh_seconds = fresh_seconds
        self._now = now
        self._counts: Counter[tuple[str, str]] = Counter()
        self._standing: frozenset[Conflict] = frozenset()
        self._view = PodsView()

    def collect(self) -> None:
        """One reading; the one before is forgotten. Where the kubelet is silent the other sources still speak."""
        begin = self._now()[1]
        reason, detail, allotments = "", "", None
        try:
            allotments = self._sources.allotments()
        except CannotMeasure as error:
            reason, detail = error.reason, error.detail
        published = self._sources.published(assignment.claimed(allotments or ()))
        if published.reason:
            reason, detail = published.reason, published.detail
        pods = self._sources.pods()
        found = Assignment()
        if pods is None:  # without annotations the kubelet's word may be another chip's
            reason, detail = PODS_UNKNOWN, "the API server has not said which pods are here"
        else:
            tables = self._sources.rank_tables(pods)
            world = World(self._sources.devices(), pods, allotments, published, tables, self._sources.npu_resources)
            found = assignment.assignment(world)
        self._count(found)
        wall, monotonic = self._now()
        self._log(reason, detail)
        collection = Collection(COLLECTOR, reason, monotonic - begin, wall, monotonic)
        self._view = PodsView(found, tuple(sorted(self._counts.items())), (collection,))

    def view(self) -> PodsView:
        """The newest reading; one that is too old names no pod."""
        view = self._view
        if view.collections and self._now()[1] - view.collections[0].finished_monotonic > self._fresh_seconds:
            return replace(view, assignment=Assignment(), collections=(replace(view.collections[0], reason=STALE),))
        return view

    def _count(self, found: Assignment) -> None:
        """A conflict counts when it begins, however long it stands."""
        standing = frozenset(found.conflicts)
        for one in sorted(standing - self._standing):
            self._counts[one.vendor, one.kind] += 1
            _log.warning(
                "device conflict kind=%s vendor=%s device=%s pod=%s/%s",
                *(one.kind, one.vendor, one.device, one.namespace, one.pod),
            )
        self._standing = standing

    def _log(self, reason: str, detail: str) -> None:
        before = self._view.collections[0].reason if self._view.collections else None
        if reason != before:
            level = logging.WARNING if reason else logging.INFO
            _log.log(level, "pods reason=%s detail=%r", reason or "Measured", detail)

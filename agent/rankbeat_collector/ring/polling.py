"""One pass over all rings of this node, again and again."""

import dataclasses
import logging
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, FrozenSet, List, Mapping, Optional, Set, Tuple

from rankbeat_collector.errors import RefusedError
from rankbeat_collector.model import ranks, reports
from rankbeat_collector.model.pods import Pod
from rankbeat_collector.model.ranks import Key, PodRings, Poll, Rank, Totals
from rankbeat_collector.model.written import Written
from rankbeat_collector.ring import folder, reading, sides, status
from rankbeat_contract import names

_log = logging.getLogger(__name__)

_RECORDS = 2048
"""Newest records read of one ring in one poll: 4,096 a second at two polls, ten times what a 2.6 ms step writes."""
_RECORDS_OF_POD = 16384
_ROWS_OF_POD = 4096
"""Steps, and scalars, kept for one pod: what a pod of any number of rings can cost in memory (about 1.3 MiB)."""
_GONE_SECONDS = 300.0
"""How long the last state of a ring that is gone waits for an aggregator that cannot be reached."""
_MAX_GONE = 512


def kubelet_folder(pod: Pod) -> Tuple[str, ...]:
    """Where a pod's rings lie below the kubelet's folder of pods."""
    return (pod.uid, "volumes", "kubernetes.io~empty-dir", names.RING_VOLUME)


@dataclass(frozen=True)
class Source:
    """Where rings are: the node's pods, or one pod's own folder."""

    root: str
    """Folder that must be there; it may be a link, nothing below it may."""
    pods: Callable[[], Optional[Tuple[Pod, ...]]]
    """Pods that are here; None while nobody knows."""
    folder: Callable[[Pod], Tuple[str, ...]]
    """Components below root of the folder that holds a pod's rings."""


def kubelet_source(root: str, pods: Callable[[], Optional[Tuple[Pod, ...]]]) -> Source:
    """All pods of this node. root: the kubelet's root folder, /var/lib/kubelet by default."""
    return Source(str(Path(root) / "pods"), pods, kubelet_folder)


@dataclass(frozen=True)
class Observing:
    """How much of each ring a poll reads, and who is told of every record and of every entry of the side files."""

    observe: Optional[reading.Observe] = None
    records: int = _RECORDS
    records_of_pod: int = _RECORDS_OF_POD
    take_entry: Optional[sides.TakeEntry] = None
    """None: side files are not opened."""

    def budget(self, rings: int) -> int:
        """Newest records read of one ring in one poll, where a pod holds so many rings."""
        return min(self.records, self.records_of_pod // rings)


class _PodReader:
    """The rings of one pod between polls."""

    def __init__(self, observing: Observing) -> None:
        self._observing = observing
        self._rings: Dict[reading.Identity, reading.Ring] = {}
        self._outputs = status.OutputsFile()
        self.records_lost = 0
        """By the last poll."""

    def poll(self, root: int, components: Tuple[str, ...], pod: Pod) -> Tuple[PodRings, List[Rank]]:
        """Raises: RefusedError or OSError where the folder cannot be read; one ring that cannot be read is counted."""
        self.records_lost = 0
        read: Dict[reading.Identity, reading.Ring] = {}
        found: List[Rank] = []
        with folder.opened(root, components) as fd:
            files, refused = folder.rings(fd)
            for file in files:
                identity = (file.name, file.identity)
                kept = min(reports.MAX_ROWS, _ROWS_OF_POD // len(files))
                ring = read[identity] = self._rings.get(identity) or reading.Ring(
                    file.name, kept, self._observing.observe
                )
                is_alive, reasons = self._tried(fd, file, ring, self._observing.budget(len(files)))
                refused = ranks.added(refused, reasons)
                if is_alive is not None:
                    found.append(ring.rank(pod, is_alive=is_alive))
            outcome, reasons = self._tried_outputs(fd, pod)
            refused = ranks.added(refused, reasons)
        self._rings = read
        return PodRings(pod, len(found), tuple(sorted(refused.items())), outcome), found

    def _tried_outputs(self, fd: int, pod: Pod) -> Tuple[Optional[Written], List[Tuple[str, int]]]:
        """What became of the pod's outputs, and what was refused."""
        try:
            return self._outputs.read(fd, time.time_ns(), is_over=pod.is_over), []
        except (RefusedError, OSError) as error:
            return None, [_reason(error)]

    def _tried(
        self, fd: int, file: folder.Found, ring: reading.Ring, budget: int
    ) -> Tuple[Optional[bool], List[Tuple[str, int]]]:
        """What Ring.read() said, None where it cannot be read; and what was refused."""
        try:
            is_alive = self._read(fd, file, ring, budget)
        except FileNotFoundError:
            return None, []
        except (RefusedError, OSError) as error:
            return None, [_reason(error)]
        reasons = [("name", ring.names_refused)] if ring.names_refused else []
        if is_alive is not None and self._observing.take_entry is not None:
            try:
                self._read_side(fd, file, ring, self._observing.take_entry)
            except (RefusedError, OSError) as error:
                reasons.append(_reason(error))
        return is_alive, reasons

    def _read(self, fd: int, file: folder.Found, ring: reading.Ring, budget: int) -> Optional[bool]:
        before, ring.names_refused = ring.records_lost, 0
        with folder.opened_file(fd, file) as (opened, size):
            try:
                return ring.read(opened, size, budget)
            finally:
                self.records_lost += max(0, ring.records_lost - before)

    def _read_side(self, fd: int, file: folder.Found, ring: reading.Ring, take: sides.TakeEntry) -> None:
        """Most rings have no side file. Raises: RefusedError or OSError where there is one that cannot be read."""
        with suppress(FileNotFoundError), folder.opened_file(fd, folder.beside(fd, file)) as (opened, size):
            ring.read_side(opened, size, take)


def _reason(error: Exception) -> Tuple[str, int]:
    return (getattr(error, "reason", "io"), 1)


class Poller:
    """Reads the rings of a source's pods; one poll at a time."""

    def __init__(self, source: Source, observing: Observing = Observing()) -> None:
        self._source = source
        self._observing = observing
        self._readers: Dict[str, _PodReader] = {}
        self._ranks: Dict[Key, Rank] = {}
        self._gone: Dict[Key, Rank] = {}
        self._conflicts: FrozenSet[Key] = frozenset()
        self._totals = Totals()
        self._logged: Set[str] = set()

    def poll(self) -> Poll:
        """What is there now."""
        mono_ns, wall_ns = time.monotonic_ns(), time.time_ns()
        pods = self._source.pods()
        results, is_readable = self._pods(pods or ())
        found = [rank for _, of_pod in results for rank in ranks.newest_claims(of_pod)]
        self._part(found, [rank.key for _, of_pod in results for rank in of_pod], mono_ns)
        conflicts = ranks.winners(found)[1]
        refused: Mapping[str, int] = dict(self._totals.refused)
        for pod_rings, _ in results:
            refused = ranks.added(refused, pod_rings.refused)
        self._totals = Totals(
            polls=self._totals.polls + 1,
            records_lost=self._totals.records_lost + sum(reader.records_lost for reader in self._readers.values()),
            conflicts=self._totals.conflicts + len(conflicts - self._conflicts),
            refused=tuple(sorted(refused.items())),
        )
        self._conflicts = conflicts
        return Poll(
            mono_ns=mono_ns,
            wall_ns=wall_ns,
            has_pods=pods is not None,
            is_readable=is_readable,
            seconds=(time.monotonic_ns() - mono_ns) / 1e9,
            pods=tuple(pod_rings for pod_rings, _ in results),
            ranks=(*self._gone.values(), *found),
            totals=self._totals,
        )

    def _pods(self, pods: Tuple[Pod, ...]) -> Tuple[List[Tuple[PodRings, List[Rank]]], bool]:
        """What each pod holds, and whether the folder of all pods could be opened."""
        self._readers = {pod.uid: self._readers.get(pod.uid) or _PodReader(self._observing) for pod in pods}
        self._logged &= self._readers.keys()
        try:
            root = os.open(self._source.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return [(PodRings(pod), []) for pod in pods], False
        try:
            return [self._pod(root, pod) for pod in pods], True
        finally:
            os.close(root)

    def _pod(self, root: int, pod: Pod) -> Tuple[PodRings, List[Rank]]:
        try:
            return self._readers[pod.uid].poll(root, self._source.folder(pod), pod)
        except FileNotFoundError:
            return PodRings(pod), []
        except (RefusedError, OSError):
            return PodRings(pod, refused=(("folder", 1),)), []
        except Exception:  # noqa: BLE001 - the door of one pod: whatever it holds, the others are read
            if pod.uid not in self._logged:
                self._logged.add(pod.uid)
                _log.exception("pod could not be read namespace=%s pod=%s", pod.namespace, pod.name)
            return PodRings(pod, refused=(("error", 1),)), []

    def _part(self, found: List[Rank], there: List[Key], mono_ns: int) -> None:
        """Moves rings that are no longer there to those that are gone, and forgets those that have been for long."""
        known = set(there)
        for key, rank in self._ranks.items():
            if key not in known:
                self._gone[key] = dataclasses.replace(rank, gone_mono_ns=mono_ns)
        self._ranks = {rank.key: rank for rank in found}
        kept = [
            (key, rank)
            for key, rank in self._gone.items()
            if key not in known and mono_ns - (rank.gone_mono_ns or 0) < _GONE_SECONDS * 1_000_000_000
        ]
        self._gone = dict(kept[-_MAX_GONE:])

"""Polls with the lower tiers: for pods whose monitors ask for them, and only while a pod has never had a ring."""

import dataclasses
import logging
import os
from contextlib import contextmanager
from typing import Dict, Iterator, List, Mapping, Optional, Set, Tuple

from rankbeat_collector.model import ranks
from rankbeat_collector.model.pods import Pod
from rankbeat_collector.model.ranks import Key, PodRings, Poll, Rank
from rankbeat_collector.ring.polling import Poller
from rankbeat_collector.tiers.logs import PodLogs
from rankbeat_collector.tiers.perf import PodFiles
from rankbeat_contract import names

_log = logging.getLogger(__name__)


class _PodTiers:
    """The lower tiers of one pod between polls."""

    def __init__(self) -> None:
        self._files = PodFiles()
        self._logs = PodLogs()
        self._known: Set[Key] = set()

    def poll(
        self, roots: Tuple[Optional[int], Optional[int]], pod: Pod, wall_minus_mono_ns: int
    ) -> Tuple[List[Rank], Dict[str, int]]:
        """Ranks of the highest tier that has any. roots: folders of all pods, and of all pods' logs."""
        found: List[Rank] = []
        refused: Dict[str, int] = {}
        of_pods, of_logs = roots
        if names.ASK_PERF_FILE in pod.tiers and of_pods is not None:
            found, refused = self._files.poll(of_pods, pod, wall_minus_mono_ns)
        if names.ASK_LOG_TAIL in pod.tiers and of_logs is not None and not self._files.is_in_use:
            found, more = self._logs.poll(of_logs, pod, wall_minus_mono_ns)
            refused = ranks.added(refused, more.items())
        # A poll later: a ring that appears between the look at rings and the look at files comes first.
        shown = [rank for rank in found if rank.key in self._known]
        self._known = {rank.key for rank in found}
        return shown, refused


class TieredPoller:
    """A poller of rings, and of what can be seen of pods that have none; one poll at a time."""

    def __init__(self, rings: Poller, pods_root: str, log_root: str = "") -> None:
        """pods_root: the kubelet's folder of pods. log_root: /var/log/pods, empty where it is not mounted."""
        self._rings = rings
        self._roots = (pods_root, log_root)
        self._tiers: Dict[str, _PodTiers] = {}
        self._with_ring: Set[str] = set()
        self._refused: Mapping[str, int] = {}
        self._logged: Set[str] = set()

    def poll(self) -> Poll:
        """What is there now."""
        found = self._rings.poll()
        uids = {each.pod.uid for each in found.pods}
        self._with_ring = (self._with_ring & uids) | {each.pod.uid for each in found.pods if each.rings}
        asking = {each.pod.uid for each in found.pods if each.pod.tiers} - self._with_ring
        self._tiers = {uid: self._tiers.get(uid) or _PodTiers() for uid in asking}
        self._logged &= asking
        if not asking:
            return self._whole(found, found.pods, [])
        pods: List[PodRings] = []
        more: List[Rank] = []
        with _opened(self._roots[0]) as of_pods, _opened(self._roots[1]) as of_logs:
            for each in found.pods:
                if each.pod.uid in asking:
                    shown, refused = self._pod((of_pods, of_logs), each.pod, found.wall_ns - found.mono_ns)
                    more += shown
                    self._refused = ranks.added(self._refused, refused.items())
                    merged = ranks.added(dict(each.refused), refused.items())
                    pods.append(dataclasses.replace(each, refused=tuple(sorted(merged.items()))))
                else:
                    pods.append(each)
        return self._whole(found, tuple(pods), more)

    def _pod(
        self, roots: Tuple[Optional[int], Optional[int]], pod: Pod, wall_minus_mono_ns: int
    ) -> Tuple[List[Rank], Mapping[str, int]]:
        try:
            return self._tiers[pod.uid].poll(roots, pod, wall_minus_mono_ns)
        except Exception:  # noqa: BLE001 - the door of one pod: whatever it holds, the others are read
            if pod.uid not in self._logged:
                self._logged.add(pod.uid)
                _log.exception("lower tiers of pod could not be read namespace=%s pod=%s", pod.namespace, pod.name)
            return [], {"error": 1}

    def _whole(self, found: Poll, pods: Tuple[PodRings, ...], more: List[Rank]) -> Poll:
        refused = ranks.added(dict(found.totals.refused), self._refused.items())
        totals = dataclasses.replace(found.totals, refused=tuple(sorted(refused.items())))
        return dataclasses.replace(found, pods=pods, ranks=(*found.ranks, *more), totals=totals)


@contextmanager
def _opened(root: str) -> Iterator[Optional[int]]:
    """A descriptor of a folder, None where there is none; a folder that is asked for and missing shows in the ranks."""
    fd = None
    if root:
        try:
            fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            fd = None
    try:
        yield fd
    finally:
        if fd is not None:
            os.close(fd)

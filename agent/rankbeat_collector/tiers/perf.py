"""Step files that MindSpore writes when PERF_DUMP_CONFIG asks for them: class ClusterMonitor of MindSpore 2.10.

    UUID:<scheduler's host>_<port>
    FRAMEWORK:MindSpore
    GLOBAL RANKID:<rank>
    STEPTIME:<begin>,<end>          one line per finished step, milliseconds of the epoch

Lines that begin with PP, dp or tp stand between where dtpGroup is on. One file per train() call: the next one deletes
it and begins anew under the same name. A file never rolls over. Steps are counted from 1 in each, for the file does not
say the job's own global step. A job that uses one list of callbacks for several train() calls has one ClusterMonitor
more in each, and as many lines of each step: as many as overlap the first step's, which compiles and so is long.
"""

import os
import re
from typing import Dict, List, Optional, Sequence, Tuple

from rankbeat_collector.errors import RefusedError
from rankbeat_collector.model import ranks
from rankbeat_collector.model.pods import Pod
from rankbeat_collector.model.ranks import Rank, Step
from rankbeat_collector.ring import folder
from rankbeat_collector.tiers import files
from rankbeat_collector.tiers.observed import Life, Observed
from rankbeat_collector.tiers.tailing import Tail
from rankbeat_contract import names

_NAME = re.compile(r"perf_ms_([0-9]{1,10})_([0-9]{1,5})\.log")
_STEP = re.compile(rb"STEPTIME:([0-9]{1,15}),([0-9]{1,15})")
_RANK = re.compile(rb"GLOBAL RANKID:([0-9]{1,7})")
_KNOWN = (b"UUID:", b"FRAMEWORK:", b"PP:", b"dp:", b"tp:")
_LINE_BYTES = 64 << 10
"""A line of dtpGroup lists all ranks of a job."""
_HEAD_BYTES = 256
"""Enough for the header and the first steps: what tells one train() call's file from the next under its name."""
_BYTES_OF_POD = 256 << 10
"""Read of one pod in one poll: 7,000 lines, which cost 18 ms (measured 2026-11-30)."""
PLACES = ((names.PERF_VOLUME,), (names.RING_VOLUME, "perf"))
"""Where the files of a pod may lie, below the folder of its emptyDir volumes."""


class StepFile:
    """One file as read so far."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._head = b""
        self._reset()

    def _reset(self) -> None:
        self._tail = Tail(_LINE_BYTES)
        self._rank: Optional[int] = None
        self._first = (0, 0)
        self._lines = self._writers = 0
        self._end_ms: Optional[int] = None
        self.observed: Optional[Observed] = None
        """Once a step has finished."""
        self.refused = 0
        """Lines that are none of ClusterMonitor's."""

    def read(self, fd: int, budget_bytes: int) -> None:
        """Reads what is new.

        Raises: OSError.
        """
        head = os.pread(fd, _HEAD_BYTES, 0)
        if not head.startswith(self._head):
            self._reset()
        self._head = head
        for line in self._tail.read(fd, budget_bytes):
            self._accept(line)

    def _accept(self, line: bytes) -> None:
        step, rank = _STEP.fullmatch(line), _RANK.fullmatch(line)
        if step is not None:
            self._step(int(step[1]), int(step[2]))
        elif rank is not None and self._rank is None and int(rank[1]) < ranks.MAX_WORLD_SIZE:
            self._rank = int(rank[1])
        elif not line.startswith(_KNOWN):
            self.refused += 1

    def _step(self, begin_ms: int, end_ms: int) -> None:
        if self._rank is None:
            self.refused += 1
            return
        if self.observed is None:
            pid, local_rank = (int(part) for part in self._name[len("perf_ms_") : -len(".log")].split("_"))
            life = Life(
                tier=names.TIER_PERF_FILE,
                file=self._name,
                identity=str(begin_ms),
                begun_wall_ns=begin_ms * 1_000_000,
                rank=self._rank,
                local_rank=local_rank,
                pid=pid,
            )
            self.observed = Observed(life)
            self._first, self._writers = (begin_ms, end_ms), 1
        elif self._lines == self._writers and self._first[0] <= begin_ms < self._first[1]:
            self._writers += 1
        self._lines += 1
        if (self._lines - 1) % self._writers:
            return
        interval = _seconds(self._end_ms, end_ms)
        row = Step(
            step=max(0, self.observed.step) + 1,
            interval_seconds=interval,
            gap_seconds=_seconds(self._end_ms, begin_ms),
            in_step_seconds=_seconds(begin_ms, end_ms),
            segment=1,
        )
        self.observed.add_step(row, end_ms * 1_000_000, interval)
        self._end_ms = end_ms

    @property
    def lines_refused(self) -> int:
        return self.refused + self._tail.refused


def _seconds(begin_ms: Optional[int], end_ms: int) -> Optional[float]:
    """None where there is no begin, or the clock was set back in between."""
    return None if begin_ms is None or end_ms < begin_ms else (end_ms - begin_ms) / 1000


class PodFiles:
    """The step files of one pod between polls."""

    def __init__(self) -> None:
        self._files: Dict[str, StepFile] = {}
        self.is_in_use = False
        """Whether MindSpore writes such files in this pod; before their first step they give no rank."""

    def poll(self, root: int, pod: Pod, wall_minus_mono_ns: int) -> Tuple[List[Rank], Dict[str, int]]:
        """Its ranks, and what was refused. root: descriptor of the kubelet's folder of pods."""
        read: Dict[str, StepFile] = {}
        refused: Dict[str, int] = {}
        for place in PLACES:
            components = (pod.uid, "volumes", "kubernetes.io~empty-dir", *place)
            try:
                with folder.opened(root, components) as fd:
                    refused = ranks.added(refused, self._read(fd, "/".join(place), read).items())
            except FileNotFoundError:
                continue
            except RefusedError as error:
                refused = ranks.added(refused, [(error.reason, 1)])
            except OSError:
                refused = ranks.added(refused, [("folder", 1)])
        self._files = read
        self.is_in_use = bool(read)
        known = [file.observed for file in read.values() if file.observed is not None]
        return _newest(known, pod, wall_minus_mono_ns), refused

    def _read(self, fd: int, place: str, read: Dict[str, StepFile]) -> Dict[str, int]:
        found, refused = files.listed(fd, _NAME)
        for file in found:
            key = f"{place}/{file.name}"
            reader = read[key] = self._files.get(key) or StepFile(file.name)
            before = reader.lines_refused
            try:
                with folder.opened_file(fd, file) as (opened, _):
                    reader.read(opened, _BYTES_OF_POD // len(found))
            except FileNotFoundError:
                continue
            except (RefusedError, OSError) as error:
                refused = ranks.added(refused, [(getattr(error, "reason", "io"), 1)])
            if reader.lines_refused > before:
                refused = ranks.added(refused, [("line", reader.lines_refused - before)])
        return refused


def _newest(known: Sequence[Observed], pod: Pod, wall_minus_mono_ns: int) -> List[Rank]:
    """One rank of each number: files of earlier processes may have stayed."""
    of_pod = sorted(known, key=lambda each: each.life.begun_wall_ns)
    by_number = {each.life.rank: each for each in of_pod}
    return [by_number[number].rank(pod, wall_minus_mono_ns) for number in sorted(by_number)]

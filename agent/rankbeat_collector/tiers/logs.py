"""Ranks as the loss lines in a pod's log show them."""

import math
import re
from typing import Dict, List, NamedTuple, Optional, Tuple

from rankbeat_collector.errors import RefusedError
from rankbeat_collector.model import ranks
from rankbeat_collector.model.pods import Pod
from rankbeat_collector.model.ranks import Rank, Step
from rankbeat_collector.ring import folder
from rankbeat_collector.tiers import loss_lines, msrun, podlog
from rankbeat_collector.tiers.cri import Line, wall_ns
from rankbeat_collector.tiers.loss_lines import LossLine
from rankbeat_collector.tiers.observed import Life, Observed
from rankbeat_collector.tiers.podlog import ContainerLog
from rankbeat_contract import names, ring

_COMPONENT = re.compile(r"[a-z0-9]([a-z0-9.-]{0,252}[a-z0-9])?")
_MAX_RANKS = 64
"""Of one container."""
_BACK_STEPS = 50
"""Mixed lines of several ranks come a few steps out of order; a line further back is a run that began anew."""
_SKIPPED = "skipped"
"""As the aggregator knows a step whose update an overflow left out."""


class _Before(NamedTuple):
    """The line before of a rank."""

    step: int
    wall_ns: int
    written_seconds: Optional[float]


class _LogRank:
    """One rank of a container, line by line; where lines of several ranks may be mixed, all of them together."""

    def __init__(self, life: Life) -> None:
        self.observed = Observed(life)
        self._before: Optional[_Before] = None
        self._overflows = 0

    def accept(self, line: LossLine, at_wall_ns: int) -> None:
        observed, before = self.observed, self._before
        segment = observed.segment
        if before is not None and line.step <= before.step:
            if observed.life.rank == ring.UNKNOWN and line.step > before.step - _BACK_STEPS:
                return
            if line.step == before.step:
                return
            segment, before = segment + 1, None
            observed.begin_segment()
        silence = None if before is None else _silence(before, line, at_wall_ns)
        steps = 1 if before is None else line.step - before.step
        interval = None if silence is None else round(silence / steps, 9)
        observed.add_step(Step(line.step, interval, None, line.step_seconds, segment), at_wall_ns, silence)
        observed.total_steps = line.total_steps
        for name, value in line.values:
            # As the agent does: what a step that was left out says of the loss is no verdict about it.
            if math.isfinite(value) or not (line.has_overflow and name == names.SCALAR_LOSS):
                observed.add_scalar(line.step, name, value)
        if line.has_overflow:
            self._overflows += 1
            observed.add_scalar(line.step, names.SCALAR_OVERFLOW_STEPS, float(self._overflows))
            observed.add_scalar(line.step, _SKIPPED, 1.0)
        self._before = _Before(line.step, at_wall_ns, line.written_seconds)


def _silence(before: _Before, line: LossLine, at_wall_ns: int) -> Optional[float]:
    """Seconds between two lines: by the program's clock, which no pipe delays; else by the runtime's."""
    if before.written_seconds is not None and line.written_seconds is not None:
        seconds = line.written_seconds - before.written_seconds
    else:
        seconds = (at_wall_ns - before.wall_ns) / 1e9
    return seconds if seconds >= 0 else None


class _Container:
    """One container of a pod between polls."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._log = ContainerLog()
        self._restarts = -1
        self._begin()

    def _begin(self) -> None:
        self._workers = msrun.Workers()
        self._ranks: Dict[Optional[int], _LogRank] = {}

    def poll(self, fd: int, pod: Pod) -> Tuple[List[Observed], Dict[str, int]]:
        """Raises: OSError."""
        lines = self._log.read(fd)
        if self._log.restarts != self._restarts:
            self._restarts = self._log.restarts
            self._begin()
        for line in lines:
            self._accept(line, pod)
        return [each.observed for each in self._ranks.values()], self._log.refused

    def _accept(self, line: Line, pod: Pod) -> None:
        text = line.text.decode("utf-8", "replace")
        found = loss_lines.loss_line(text)
        if found is None:
            self._workers.accept(text)
            return
        at = wall_ns(line.stamp)
        rank = self._workers.rank if found.rank is None else found.rank
        if at is None or (rank is not None and rank >= ranks.MAX_WORLD_SIZE):
            return
        if rank not in self._ranks and len(self._ranks) < _MAX_RANKS:
            self._ranks[rank] = _LogRank(self._life(pod, rank, at))
        if rank in self._ranks:
            known = self._ranks[rank]
            known.observed.is_loss_valid = self._workers.has_valid_loss(rank)
            known.accept(found, at)

    def _life(self, pod: Pod, rank: Optional[int], at_wall_ns: int) -> Life:
        """The pod's start stands for the rank's: a log that is rotated away no longer says when it began."""
        started = at_wall_ns if pod.started_wall is None else int(pod.started_wall * 1e9)
        number = "" if rank is None else str(rank)
        return Life(
            tier=names.TIER_LOG_TAIL,
            file=f"{self._name}/{self._restarts}.log/{number}",
            identity="",
            begun_wall_ns=started + self._restarts * 1_000_000,
            rank=ring.UNKNOWN if rank is None else rank,
        )


class PodLogs:
    """The logs of one pod between polls."""

    def __init__(self) -> None:
        self._containers: Dict[str, _Container] = {}

    def poll(self, root: int, pod: Pod, wall_minus_mono_ns: int) -> Tuple[List[Rank], Dict[str, int]]:
        """Its ranks, and what was refused. root: descriptor of the folder of all pods' logs."""
        if not all(_COMPONENT.fullmatch(part) for part in (pod.namespace, pod.name)):
            return [], {"name": 1}
        place = f"{pod.namespace}_{pod.name}_{pod.uid}"
        found: List[Observed] = []
        refused: Dict[str, int] = {}
        try:
            with folder.opened(root, (place,)) as fd:
                for name in [pod.container] if pod.container else podlog.containers(fd):
                    observed, more = self._poll(fd, name, pod)
                    found += observed
                    refused = ranks.added(refused, more.items())
        except FileNotFoundError:
            return [], {}
        except RefusedError as error:
            refused = ranks.added(refused, [(error.reason, 1)])
        except OSError:
            refused = ranks.added(refused, [("folder", 1)])
        return [each.rank(pod, wall_minus_mono_ns) for each in _named(found)], refused

    def _poll(self, pod_fd: int, name: str, pod: Pod) -> Tuple[List[Observed], Dict[str, int]]:
        container = self._containers.setdefault(name, _Container(name))
        with folder.opened(pod_fd, (name,)) as fd:
            return container.poll(fd, pod)


def _named(found: List[Observed]) -> List[Observed]:
    """Ranks with their numbers; where there are any, what could not be told apart is left out as their repetition."""
    named = [each for each in found if each.life.rank != ring.UNKNOWN]
    return named or found

"""Steps and numbers of one rank as a lower tier sees them, in the form that a ring gives."""

import hashlib
import math
from collections import deque
from typing import Deque, Dict, NamedTuple, Optional

from rankbeat_collector.model.pods import Pod
from rankbeat_collector.model.ranks import Rank, Scalar, Step
from rankbeat_contract import names, ring

KEPT_ROWS = 256
"""Newest steps, and newest scalars, kept of a rank: what one report takes."""
_DAY_SECONDS = 86400.0


class Life(NamedTuple):
    """What is fixed for one rank of a lower tier."""

    tier: str
    file: str
    """What it is read from, unique in its pod."""
    identity: str
    """What tells it from other lives of the same file; the same when the collector starts anew."""
    begun_wall_ns: int
    rank: int = ring.UNKNOWN
    local_rank: int = ring.UNKNOWN
    pid: int = 0


class Observed:
    """One rank, row by row. Wall-clock times are those of the pod's processes, which have this node's clock.

    On the monotonic scale they may be negative: before a boot only where the clock was set since.
    """

    def __init__(self, life: Life) -> None:
        self.life = life
        self._steps: Deque[Step] = deque(maxlen=KEPT_ROWS)
        self._scalars: Deque[Scalar] = deque(maxlen=KEPT_ROWS)
        self._counts = (0, 0)
        self._latest: Dict[str, float] = {}
        self.step = ring.UNKNOWN
        self.segment = 1
        self._step_wall_ns = 0
        self._longest_seconds = 0.0
        self.total_steps = 0
        self.is_loss_valid = True
        self._begun_mono_ns = 0

    def add_step(self, row: Step, wall_ns: int, silence_seconds: Optional[float]) -> None:
        """wall_ns: when it ended. silence_seconds: since the end of the row before, None where there is none."""
        self._steps.append(row)
        self._counts = (self._counts[0] + 1, self._counts[1])
        self.step, self.segment, self._step_wall_ns = row.step, row.segment, wall_ns
        if silence_seconds is not None and math.isfinite(silence_seconds):
            self._longest_seconds = max(self._longest_seconds, min(silence_seconds, _DAY_SECONDS))

    def begin_segment(self) -> None:
        """Leaves the rows of a run that began anew behind."""
        self._steps.clear()
        self._scalars.clear()

    def add_scalar(self, step: int, name: str, value: float) -> None:
        self._scalars.append(Scalar(step, name, value))
        self._counts = (self._counts[0], self._counts[1] + 1)
        self._latest[name] = value

    def rank(self, pod: Pod, wall_minus_mono_ns: int) -> Rank:
        """The rank now. What the tier cannot see is unknown: who lives, which step is entered, phases but `train`."""
        life = self.life
        # Once for all polls: a clock that is slewed must not make another life of it.
        begun = self._begun_mono_ns = self._begun_mono_ns or life.begun_wall_ns - wall_minus_mono_ns
        ended = max(begun, self._step_wall_ns - wall_minus_mono_ns)
        state = ring.State(
            sequence=1,
            written=0,
            rank=life.rank,
            segment=self.segment,
            phase=ring.PHASES.index(_phase(pod)),
            flags=0 if self.is_loss_valid else ring.LOSS_INVALID,
            step=self.step,
            phase_since_mono_ns=ended if pod.is_over else begun,
            step_mono_ns=ended,
            updated_mono_ns=ended,
            longest_interval_ns=int(self._longest_seconds * 1e9),
            total_steps=self.total_steps,
        )
        return Rank(
            pod=pod,
            file=life.file,
            header=_header(pod, life, begun),
            state=state,
            is_alive=not pod.is_over,
            steps=tuple(self._steps),
            steps_read=self._counts[0],
            scalars=tuple(self._scalars),
            scalars_read=self._counts[1],
            loss=self._latest.get(names.SCALAR_LOSS),
            lower_tier=life.tier,
        )


def _phase(pod: Pod) -> str:
    """Rows tell of training; that it ended, and how, only the pod tells."""
    return {"Succeeded": "done", "Failed": "failed"}.get(pod.phase, "train")


def _header(pod: Pod, life: Life, begun_mono_ns: int) -> ring.Header:
    run = hashlib.sha256(f"{pod.uid} {life.file} {life.identity}".encode()).hexdigest()[:24]
    return ring.Header(
        capacity=0,
        pid=life.pid,
        attempt=0,
        local_rank=life.local_rank,
        claimed_mono_ns=begun_mono_ns,
        claimed_wall_ns=life.begun_wall_ns,
        started_wall_ns=life.begun_wall_ns,
        run_id=run,
    )

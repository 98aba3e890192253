"""What the aggregator says of a job."""

from dataclasses import dataclass

HANG = "hang"
CRASH = "crash"
NAN_LOSS = "nan_loss"
RANK_MISSING = "rank_missing"

MOST_SUSPECTS = 16
"""Suspects that a verdict names. A page with more of them names nobody."""

WARNING = 1
CRITICAL = 2

ProgressKey = tuple[int, int, int]
"""Attempt, segment, step: where a job stands; larger is later."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A rank that a verdict names; rank is None where the process ended before it knew its own."""

    rank: int | None
    node: str
    pod: str


@dataclass(frozen=True, slots=True)
class Incident:
    """Trouble of one kind, from its first evidence to its end."""

    kind: str
    level: int
    started: float
    """When the trouble began, as near as it is known, on our monotonic clock."""
    started_wall: float
    evidence: str
    suspects: tuple[Suspect, ...]
    message: str
    baseline: ProgressKey
    """Where the job stood: progress beyond it ends the incident."""
    opened: float
    """When the incident was opened, on our monotonic clock."""
    has_crashed: bool = False
    """Whether a crash has joined it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a detector sees now; the first one opens an incident."""

    kind: str
    level: int
    started: float
    evidence: str
    suspects: tuple[Suspect, ...]
    message: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """A job's incidents, and the kinds that could be judged at all."""

    judged: tuple[str, ...] = ()
    incidents: tuple[Incident, ...] = ()
    reason: str = ""
    """`teardown` where all ranks reached the end of training and a process failed after it (no incident)."""
    hang_limit_seconds: float | None = None

    def level(self, kind: str) -> int | None:
        """0 healthy, 1 warning, 2 critical, None while the kind cannot be judged."""
        for incident in self.incidents:
            if incident.kind == kind:
                return incident.level
        return 0 if kind in self.judged else None

"""One rank process: its newest snapshot, and the few things that must be remembered beyond it."""

from dataclasses import dataclass, field

import numpy as np

from rankbeat_aggregator.model.report import RankReport, Rows

KEPT_STEPS = 64
"""Newest step rows kept of a process: enough for a median, 2 KiB."""
KEPT_LOSSES = 3
"""Newest losses kept: the verdict needs two in a row."""

StepRows = Rows
"""float64 [n, 4], ascending: segment, step, step interval, gap."""


@dataclass(slots=True)
class Process:
    """What is known of one run. Mutable: folded in place, thousands of times a second."""

    run: str
    node: str
    snapshot: RankReport
    """The newest: the one with the largest age since the claim, which the node's monotonic clock gave."""
    seen: float
    """When that snapshot was taken."""
    claimed: float
    """When the ring was claimed; the earliest estimate, for it has the least transport in it."""
    received: float
    """Newest receipt of a report that lists the process."""
    alive_seen: float | None = None
    """Newest time at which it was seen alive."""
    dead_seen: float | None = None
    """Earliest time at which it was seen dead."""
    left_init: float | None = None
    """Earliest time at which it was seen in a phase other than init_comm."""
    losses: tuple[tuple[int, float], ...] = ()
    """Newest (step, loss), ascending."""
    samples: tuple[int, float] | None = None
    """Samples of the whole job in one step as last said, with that step."""
    rows: StepRows = field(default_factory=lambda: np.empty((0, 4)), repr=False, compare=False)

    @property
    def rank(self) -> int | None:
        return self.snapshot.rank

    def when(self, age_seconds: float) -> float:
        """The time of an event that the snapshot gives an age of."""
        return self.seen - age_seconds


def first(report: RankReport, node: str, sent: float, received: float) -> Process:
    """The process in the first report that lists it."""
    process = Process(report.run, node, report, sent, sent - report.claimed_age_seconds, received)
    _remember(process, report, sent)
    return process


def fold(process: Process, report: RankReport, sent: float, received: float) -> None:
    """Adds one more report of the same run."""
    process.received = max(process.received, received)
    process.claimed = min(process.claimed, sent - report.claimed_age_seconds)
    if report.segment > process.snapshot.segment:
        process.losses = ()  # a run that began anew has smaller steps: the old ones would stay the newest
    age, known = report.claimed_age_seconds, process.snapshot.claimed_age_seconds
    if age > known:
        process.snapshot, process.seen = report, sent
    elif age == known:
        process.seen = min(process.seen, sent)
    _remember(process, report, sent)


def _remember(process: Process, report: RankReport, sent: float) -> None:
    if report.is_alive:
        process.alive_seen = sent if process.alive_seen is None else max(process.alive_seen, sent)
    else:
        process.dead_seen = sent if process.dead_seen is None else min(process.dead_seen, sent)
    if report.phase != "init_comm":
        process.left_init = sent if process.left_init is None else min(process.left_init, sent)
    if report.losses:
        process.losses = tuple(sorted({**dict(process.losses), **dict(report.losses)}.items())[-KEPT_LOSSES:])
    if report.samples is not None:
        process.samples = max(process.samples or report.samples, report.samples)
    if len(report.steps):
        process.rows = _merged(process.rows, report.segment, report.steps)


def _merged(kept: StepRows, segment: int, steps: Rows) -> StepRows:
    """The newest KEPT_STEPS rows of both, each (segment, step) once."""
    new = np.empty((len(steps), 4))
    new[:, 0] = segment
    new[:, 1:] = steps
    if not len(kept):
        return new[-KEPT_STEPS:].copy()
    rows = np.concatenate((kept, new))
    last = len(kept) - 1
    if (rows[last, 0], rows[last, 1]) >= (rows[last + 1, 0], rows[last + 1, 1]):
        # Not simply what follows: a report that came again, or late.
        _, unique = np.unique(rows[:, :2], axis=0, return_index=True)
        rows = rows[unique]
    return rows[-KEPT_STEPS:].copy() if len(rows) > KEPT_STEPS else rows

"""All nodes and jobs that reports speak of."""

from dataclasses import dataclass, field

from rankbeat_aggregator.model.report import Clock, Exchange, JobKey, Report
from rankbeat_aggregator.window import job as jobs
from rankbeat_aggregator.window.job import Job

SILENT_INTERVALS = 3.0
"""A node that missed this many pushes is silent (docs/sources.md, Stalls): one lost push is not news."""
WARM_INTERVALS = 2.0
"""Pushes of every known node that we wait for after our own start before any verdict."""
FORGOTTEN_SECONDS = 600.0
"""Jobs and nodes are dropped this long after the last report that names them."""
DEFAULT_INTERVAL_SECONDS = 5.0


@dataclass(slots=True)
class Node:
    """A node's newest report."""

    name: str
    received: float
    interval_seconds: float
    clock: Clock | None
    exchange: Exchange | None

    def is_silent(self, now: float) -> bool:
        return now - self.received > SILENT_INTERVALS * self.interval_seconds


@dataclass(slots=True)
class Fleet:
    """The aggregator's whole memory."""

    started: float
    """When this aggregator started."""
    nodes: dict[str, Node] = field(default_factory=dict)
    jobs: dict[JobKey, Job] = field(default_factory=dict)

    def is_warm(self, now: float) -> bool:
        """Whether every known node has had the time to report twice since our start."""
        slowest = max((node.interval_seconds for node in self.nodes.values()), default=DEFAULT_INTERVAL_SECONDS)
        return now - self.started >= WARM_INTERVALS * slowest


@dataclass(frozen=True, slots=True)
class Receipt:
    """When a report arrived: on our monotonic clock, and by our wall clock."""

    mono: float
    wall: float


def transport_seconds(report: Report, receipt: Receipt) -> float:
    """How long the report was under way, between 0 and the last round trip.

    The round trip bounds it, so that a wall clock that was set since the exchange moves no event.
    """
    if report.exchange is None:
        return 0.0
    measured = receipt.wall - report.sent_wall - report.exchange.offset_seconds
    return min(max(measured, 0.0), report.exchange.delay_seconds, report.interval_seconds)


def fold(fleet: Fleet, report: Report, receipt: Receipt) -> bool:
    """Adds a report; true if it changes who is alive, so that a verdict may be due at once."""
    received = receipt.mono
    sent = received - transport_seconds(report, receipt)
    known = fleet.nodes.get(report.node)
    if known is None or received >= known.received:
        fleet.nodes[report.node] = Node(report.node, received, report.interval_seconds, report.clock, report.exchange)
    has_changed = False
    for pod in report.pods:
        job = _job(fleet, pod.key, pod.job, received)
        has_changed |= jobs.fold_pod(job, pod, report.node, sent, received)
    for rank in report.ranks:
        job = _job(fleet, rank.key, rank.job, received)
        has_changed |= jobs.fold_rank(job, rank, report.node, sent, received)
    return has_changed


def _job(fleet: Fleet, key: JobKey, name: str, received: float) -> Job:
    job = fleet.jobs.get(key)
    if job is None:
        job = fleet.jobs[key] = Job(key, name, first_seen=received, last_seen=received)
    job.first_seen = min(job.first_seen, received)
    job.last_seen = max(job.last_seen, received)
    return job


def forget(fleet: Fleet, now: float) -> None:
    """Drops what nobody has spoken of for FORGOTTEN_SECONDS."""
    for key in [key for key, job in fleet.jobs.items() if now - job.last_seen > FORGOTTEN_SECONDS]:
        del fleet.jobs[key]
    for name in [name for name, node in fleet.nodes.items() if now - node.received > FORGOTTEN_SECONDS]:
        del fleet.nodes[name]
    for job in fleet.jobs.values():
        jobs.forget(job, now)

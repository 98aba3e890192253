"""One job: its processes by attempt, its pods, its open incidents."""

from dataclasses import dataclass, field, replace

from rankbeat_aggregator.model.report import JobKey, PodReport, RankReport
from rankbeat_aggregator.model.verdict import Verdict
from rankbeat_aggregator.window import process as processes
from rankbeat_aggregator.window.member import Member
from rankbeat_aggregator.window.process import Process

KEPT_RUNS_SECONDS = 600.0
"""A process of an older attempt that nobody has listed for this long is dropped."""


@dataclass(slots=True)
class Pod:
    """An injected pod that a node listed."""

    node: str
    report: PodReport
    first_seen: float
    received: float
    """Newest receipt of a report that lists it."""
    deleting_since: float | None = None


@dataclass(slots=True)
class Attempt:
    """One attempt of a job."""

    number: int
    """From 1."""
    started: float
    """Claim of its first process; -inf for the first attempt."""
    members: tuple[Process, ...]
    """The processes that count, by rank; those that do not know their rank yet come last."""


@dataclass(slots=True)
class Job:
    """What is known of one job. Mutable: folded in place."""

    key: JobKey
    name: str
    first_seen: float
    last_seen: float
    processes: dict[str, Process] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    dropped_attempts: int = 0
    """Attempts that lie before the oldest process still kept."""
    only: tuple[Process, ...] | None = None
    """The members while all processes know their ranks and no two have the same; None: not known to be so."""
    members: dict[str, Member] = field(default_factory=dict)
    """As they stood when they were last looked at, by run."""
    verdict: Verdict = field(default_factory=Verdict)


def fold_rank(job: Job, report: RankReport, node: str, sent: float, received: float) -> bool:
    """Adds a rank's report; true if the process is new, has died, or has failed by it."""
    known = job.processes.get(report.run)
    if known is None:
        job.processes[report.run] = processes.first(report, node, sent, received)
        job.only = None
        return True
    before = (known.snapshot.is_alive, known.snapshot.phase == "failed")
    rank = known.rank
    processes.fold(known, report, sent, received)
    if known.rank != rank:
        job.only = None
    return (known.snapshot.is_alive, known.snapshot.phase == "failed") != before


def fold_pod(job: Job, report: PodReport, node: str, sent: float, received: float) -> bool:
    """Adds a pod's report; true if the pod is seen being deleted for the first time."""
    known = job.pods.get(report.pod_uid)
    if known is None:
        known = job.pods[report.pod_uid] = Pod(node, report, sent, received)
    known.first_seen = min(known.first_seen, sent)
    if received >= known.received:
        # Once the pod is over its volume goes, and with it the file: what it last said stays.
        kept = report if report.outputs is not None else replace(report, outputs=known.report.outputs)
        known.node, known.report, known.received = node, kept, received
    if not report.is_deleting:
        return False
    is_new = known.deleting_since is None
    known.deleting_since = sent if known.deleting_since is None else min(known.deleting_since, sent)
    return is_new


def newest_attempt(job: Job) -> Attempt | None:
    """The last of attempts(job), None before the first process."""
    if job.only is None:
        by_rank = {one.rank: one for one in job.processes.values() if one.rank is not None}
        if len(by_rank) == len(job.processes):
            job.only = tuple(by_rank[rank] for rank in sorted(by_rank))
    if job.only:
        return Attempt(job.dropped_attempts + 1, float("-inf"), job.only)
    found = attempts(job)
    return found[-1] if found else None


def attempts(job: Job) -> tuple[Attempt, ...]:
    """The attempts among the processes kept, oldest first; empty before the first process.

    In the order of their claims, a process of a rank that the attempt already has starts the next attempt, and so does
    one claimed after the death of a process that never knew its rank.
    """
    found: list[tuple[float, dict[int, Process], list[Process]]] = []
    for one in sorted(job.processes.values(), key=lambda one: (one.claimed, one.run)):
        if not found or one.rank in found[-1][1] or _is_after_death(one, found[-1][2]):
            found.append((one.claimed if found else float("-inf"), {}, []))
        if one.rank is None:
            found[-1][2].append(one)
        else:
            found[-1][1][one.rank] = one
    return tuple(
        Attempt(
            number=job.dropped_attempts + index,
            started=started,
            members=(*(by_rank[rank] for rank in sorted(by_rank)), *unknown),
        )
        for index, (started, by_rank, unknown) in enumerate(found, start=1)
    )


def _is_after_death(one: Process, unknown: list[Process]) -> bool:
    return any(other.dead_seen is not None and other.dead_seen < one.claimed for other in unknown)


def forget(job: Job, now: float) -> None:
    """Drops attempts before the newest once nobody lists their processes, and pods likewise."""
    old = attempts(job)[:-1]
    for attempt in old:
        if any(now - one.received <= KEPT_RUNS_SECONDS for one in attempt.members):
            break
        job.dropped_attempts += 1
        job.only = None
        for one in attempt.members:
            del job.processes[one.run]
    for uid in [uid for uid, pod in job.pods.items() if now - pod.received > KEPT_RUNS_SECONDS]:
        del job.pods[uid]

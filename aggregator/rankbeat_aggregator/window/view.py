"""A job as it stands now: what the detectors judge."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rankbeat_aggregator.model.report import Clock, Exchange
from rankbeat_aggregator.model.verdict import ProgressKey
from rankbeat_aggregator.window import job as jobs
from rankbeat_aggregator.window import steps
from rankbeat_aggregator.window.fleet import Fleet
from rankbeat_aggregator.window.job import Job, Pod
from rankbeat_aggregator.window.member import Member, Surroundings, member
from rankbeat_aggregator.window.process import Process

LATE_INTERVALS = 1.5
"""A node whose report is later than this is left out of how far a stall was seen, so that one lost push hides none."""

SAMPLED_RANKS = 256
"""Ranks whose steps give the job's median interval: in a synchronous job all ranks have the same."""

DELETION_SECONDS = 60.0
"""How long the ends of ranks are put down to a pod of the job that is being deleted. Source: the garbage collector
deletes at 20 pods a second by default, and a killed peer is noticed after 34 to 42 s (docs/sources.md, MindSpore)."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node that holds pods or processes of the job."""

    name: str
    report_age_seconds: float
    is_silent: bool
    is_late: bool
    clock: Clock | None
    exchange: Exchange | None

    @property
    def order_bound_seconds(self) -> float | None:
        """How far off an event's time from this node may be, None without a clock to trust and its bound."""
        if self.clock is None or not self.clock.is_trusted or self.exchange is None:
            return None
        bound = self.clock.error_bound_seconds
        return None if bound is None else max(bound, self.exchange.delay_seconds)


@dataclass(frozen=True, slots=True)
class JobView:
    """A job now. Members are processes of the newest attempt."""

    now: float
    attempt: int
    members: tuple[Member, ...]
    """By rank; those that do not know their rank yet come last."""
    active: tuple[Member, ...]
    ranked: tuple[Member, ...]
    reporting: tuple[Member, ...]
    """Ranks that are before our eyes, or came to their end."""
    expected: int
    """Ranks that should report: those that ever claimed a ring, all of the world while an injected pod has none."""
    nodes: Mapping[str, NodeView]
    pods_without_ring: tuple[Pod, ...]
    pods_with_outputs: tuple[Pod, ...]
    """Pods whose own collector has said what became of their outputs, by name; of one name the newest."""
    deleting_since: float | None
    """Newest time at which a pod of the job was first seen being deleted, None if none is."""
    has_pods: bool
    """Whether any pod or process of the job is still listed, or may be behind a silent node."""
    last_listed: float
    world_size: int | None
    median_interval_seconds: float | None
    longest_interval_seconds: float | None

    @property
    def samples_per_second(self) -> float | None:
        """Of the whole job, while a rank trains; None where its ranks do not agree on the samples of a step."""
        said = {found[1] for member in self.active if (found := member.process.samples) is not None}
        is_training = any(member.phase in ("train", "callbacks") for member in self.active)
        if len(said) != 1 or not is_training or not self.median_interval_seconds:
            return None
        return said.pop() / self.median_interval_seconds

    @property
    def phases(self) -> Mapping[str, int]:
        """Ranks in each phase."""
        return Counter(member.phase for member in self.members)

    @property
    def position(self) -> ProgressKey:
        """Attempt, segment and step of the rank that is furthest."""
        return (self.attempt, *max((member.finished for member in self.members), default=(0, -1)))

    @property
    def silent_nodes(self) -> tuple[NodeView, ...]:
        names = sorted({member.process.node for member in self.members if member.is_silent})
        return tuple(self.nodes[name] for name in names if name in self.nodes)

    @property
    def is_deletion_fresh(self) -> bool:
        """Whether the job's own deletion may be what we see: a large job's pods go one after the other."""
        return self.deleting_since is not None and self.now - self.deleting_since < DELETION_SECONDS


def view(fleet: Fleet, job: Job, now: float) -> JobView:
    """The job as it stands now."""
    newest = jobs.newest_attempt(job)
    processes = tuple(one for one in newest.members if one.snapshot.is_agent_on) if newest else ()
    nodes = _nodes(fleet, job, now)
    members = _members(fleet, job, processes, now)
    ranked = tuple(member for member in members if member.rank is not None)
    listed = [pod for pod in job.pods.values() if _is_listed(fleet, pod, now)]
    without_ring = _pods_without_ring(listed, members)
    world_size = _world_size(processes)
    return JobView(
        now=now,
        attempt=newest.number if newest else 0,
        members=members,
        active=tuple(member for member in members if member.is_active),
        ranked=ranked,
        reporting=tuple(member for member in ranked if member.is_active or member.phase == "done"),
        expected=max(len(ranked), world_size or 0) if without_ring and ranked else len(ranked),
        nodes=nodes,
        pods_without_ring=without_ring,
        pods_with_outputs=_pods_with_outputs(listed),
        deleting_since=max((at for pod in job.pods.values() if (at := pod.deleting_since) is not None), default=None),
        has_pods=bool(listed) or any(member.is_silent for member in members),
        last_listed=max((pod.received for pod in job.pods.values()), default=job.last_seen),
        world_size=world_size,
        median_interval_seconds=_median(processes),
        longest_interval_seconds=max(
            (found for one in processes if (found := one.snapshot.longest_interval_seconds) is not None), default=None
        ),
    )


def _members(fleet: Fleet, job: Job, processes: Sequence[Process], now: float) -> tuple[Member, ...]:
    silent = {name: node.is_silent(now) for name, node in fleet.nodes.items()}
    found = {}
    for one in processes:
        node, pod = fleet.nodes.get(one.node), job.pods.get(one.snapshot.pod_uid)
        is_silent = silent.get(one.node, True)
        # A node that is silent says nothing about what it no longer lists.
        is_listed = is_silent or node is None or one.received >= node.received
        is_gone = pod is None or pod.deleting_since is not None or pod.received < one.received
        around = Surroundings(is_silent, is_listed, is_gone or not is_listed)
        found[one.run] = member(one, around, job.members.get(one.run))
    job.members = found
    return tuple(found.values())


def _nodes(fleet: Fleet, job: Job, now: float) -> dict[str, NodeView]:
    names = {one.node for one in job.processes.values()} | {pod.node for pod in job.pods.values()}
    return {
        node.name: NodeView(
            name=node.name,
            report_age_seconds=now - node.received,
            is_silent=node.is_silent(now),
            is_late=now - node.received > LATE_INTERVALS * node.interval_seconds,
            clock=node.clock,
            exchange=node.exchange,
        )
        for node in (fleet.nodes[name] for name in sorted(names) if name in fleet.nodes)
    }


def _is_listed(fleet: Fleet, pod: Pod, now: float) -> bool:
    node = fleet.nodes.get(pod.node)
    return node is not None and (pod.received >= node.received or node.is_silent(now))


def _pods_without_ring(listed: Sequence[Pod], members: Sequence[Member]) -> tuple[Pod, ...]:
    """Injected, running pods in which no process of the newest attempt has claimed a ring."""
    with_ring = {member.process.snapshot.pod_uid for member in members}
    found = (
        pod
        for pod in listed
        if pod.report.phase == "Running"
        and pod.report.has_agent
        and pod.report.rings == 0
        and not pod.report.is_deleting
        and pod.report.pod_uid not in with_ring
    )
    return tuple(sorted(found, key=lambda pod: pod.report.pod))


def _pods_with_outputs(listed: Sequence[Pod]) -> tuple[Pod, ...]:
    said = (pod for pod in listed if pod.report.outputs is not None)
    by_name = {pod.report.pod: pod for pod in sorted(said, key=lambda pod: pod.received)}
    return tuple(by_name[name] for name in sorted(by_name))


def _world_size(processes: Sequence[Process]) -> int | None:
    known = [(one.claimed, one.snapshot.world_size) for one in processes if one.snapshot.world_size is not None]
    return max(known)[1] if known else None


def _median(processes: Sequence[Process]) -> float | None:
    """Of the aligned steps; of what the ranks say where no row has come."""
    some = processes[:: max(1, len(processes) // SAMPLED_RANKS)]
    aligned = steps.median_interval_seconds(steps.aligned(some))
    if aligned is not None:
        return aligned
    said = [found for one in processes if (found := one.snapshot.median_interval_seconds) is not None]
    return float(np.median(said)) if said else None

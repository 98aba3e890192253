"""The answer to the operator, as in ARCHITECTURE.md."""

from collections.abc import Mapping

from rankbeat_aggregator.detect import loss
from rankbeat_aggregator.model.report import Clock
from rankbeat_aggregator.model.verdict import Incident
from rankbeat_aggregator.server.service import Judged, Service
from rankbeat_aggregator.window.view import JobView
from rankbeat_contract import names, ring


def answer(service: Service) -> Mapping[str, object]:
    """The body of GET /v1/verdicts."""
    now = service.clock.mono()
    return {
        "started_wall": service.started_wall,
        "nodes": [
            {"node": node.name, "report_age_seconds": round(now - node.received, 3), "clock": _clock(node.clock)}
            for node in sorted(service.fleet.nodes.values(), key=lambda node: node.name)
        ],
        "jobs": [_job(one) for one in service.judged],
    }


def _clock(clock: Clock | None) -> Mapping[str, object] | None:
    if clock is None:
        return None
    return {"trusted": clock.is_trusted, "reason": clock.reason, "error_bound_seconds": clock.error_bound_seconds}


def _job(one: Judged) -> Mapping[str, object]:
    view, key = one.view, one.job.key
    snapshots = [member.process.snapshot for member in view.members]
    steps = [member.finished[1] for member in view.members if member.finished[1] >= 0]
    return {
        "namespace": key.namespace,
        "monitor": key.monitor,
        "job": one.job.name,
        "job_uid": key.job_uid,
        "attempt": view.attempt,
        "ranks_expected": view.expected,
        "ranks_reporting": len(view.reporting),
        "step": max(steps, default=None),
        "step_interval_seconds": view.median_interval_seconds,
        "total_steps": max((found for one in snapshots if (found := one.total_steps) is not None), default=None),
        "loss": loss.job_loss(view),
        "phase": _phase(view),
        "reason": one.verdict.reason,
        "pods_without_ring": [pod.report.pod for pod in view.pods_without_ring],
        "tiers": _tiers(view),
        "outputs": _outputs(view),
        "taps": _taps(view),
        "agent_errors": sum(snapshot.agent_errors for snapshot in snapshots),
        "records_lost": sum(snapshot.records_lost for snapshot in snapshots),
        "incidents": [_incident(incident) for incident in one.verdict.incidents],
    }


def _tiers(view: JobView) -> Mapping[str, str]:
    """The tier that shows a pod's ranks, by the pod's name; the lowest where they differ."""
    order = names.TIERS.index
    by_pod: dict[str, str] = {}
    for member in view.members:
        pod, tier = member.snapshot.pod, member.snapshot.tier
        by_pod[pod] = max(by_pod.get(pod, tier), tier, key=order)
    return by_pod


def _outputs(view: JobView) -> Mapping[str, object]:
    """What became of the outputs, by the pod's name, where a pod's own collector has said it."""
    return {
        pod.report.pod: {
            "troubles": list(said.troubles),
            "rows_written": said.rows_written,
            "rows_lost": said.rows_dropped + said.records_lost + said.entries_lost,
        }
        for pod in view.pods_with_outputs
        if (said := pod.report.outputs) is not None
    }


def _taps(view: JobView) -> Mapping[str, object] | None:
    """What could not be tapped, null while no rank has said anything of taps."""
    said = [member.snapshot.taps for member in view.members if member.snapshot.taps is not None]
    if not said:
        return None
    return {
        "ranks": len(said),
        "ranks_refusing": sum(1 for taps in said if taps.refused),
        "refused": max(taps.refused for taps in said),
        "unresolved_paths": sorted({place for taps in said for place in taps.unresolved_paths}),
    }


def _phase(view: JobView) -> str | None:
    """The phase of most active ranks; of all once none is active; None before the first."""
    counted: dict[str, int] = {}
    for member in view.active or view.members:
        counted[member.phase] = counted.get(member.phase, 0) + 1
    return max(counted, key=lambda phase: (counted[phase], -ring.PHASES.index(phase)), default=None)


def _incident(incident: Incident) -> Mapping[str, object]:
    return {
        "kind": incident.kind,
        "level": incident.level,
        "started_wall": incident.started_wall,
        "evidence": incident.evidence,
        # A process that never knew its rank is named by the message and by the metric: here a rank is a number.
        "suspects": [
            {"rank": one.rank, "node": one.node, "pod": one.pod} for one in incident.suspects if one.rank is not None
        ],
        "message": incident.message,
    }

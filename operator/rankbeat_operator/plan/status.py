"""A monitor's status, whole, and the events that a change of it is worth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rankbeat_operator.model.condition import Condition
from rankbeat_operator.model.manifests import Manifest, time_text
from rankbeat_operator.model.monitors import Monitor
from rankbeat_operator.model.observed import Observed
from rankbeat_operator.model.verdicts import Incident, JobVerdict
from rankbeat_operator.plan import breaker, conditions, tiers

NUMBERS_SECONDS = 10.0
"""A status of which only step and loss moved is written this often: a thousand monitors are 100 writes a second. Their
first values are written at once."""
_NUMBERS = ("step", "loss")
_KEPT = ("ranks", "step", "totalSteps", "loss", "phase")


@dataclass(frozen=True, slots=True)
class Notice:
    """An event about a monitor."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What one look at a monitor leads to."""

    status: dict[str, object]
    notices: tuple[Notice, ...]


def reconciled(monitor: Monitor, observed: Observed) -> Reconciled:
    """The status to write, and what to say about its change."""
    state = breaker.breaker(monitor, observed)
    found = conditions.conditions(monitor, observed, state)
    status: dict[str, object] = {
        "observedGeneration": monitor.generation,
        "conditions": conditions.written(found, monitor.status, monitor.generation, observed.now),
        **_job(observed),
        **_numbers(monitor, observed),
        **_incidents(monitor, observed),
        **_tiers(monitor, observed),
        "injection": breaker.injection(observed, state),
    }
    return Reconciled(status, notices(monitor.status, found))


def notices(before: Manifest, found: Sequence[Condition]) -> tuple[Notice, ...]:
    """Conditions that got worse: False now, and not for this reason before. Ready only repeats the others."""
    old: Mapping[str, Manifest] = {c["type"]: c for c in before.get("conditions") or ()}
    return tuple(
        Notice(condition.reason, condition.message)
        for condition in found
        if condition.type != "Ready" and condition.status == "False" and _is_news(old.get(condition.type), condition)
    )


def is_due(before: Manifest, after: Manifest, seconds_since_write: float) -> bool:
    """Whether a changed status is to be written now."""
    if before == after:
        return False
    is_more_than_numbers = _without_values(before) != _without_values(after)
    return is_more_than_numbers or seconds_since_write >= NUMBERS_SECONDS


def is_over(manifest: Manifest) -> bool:
    """Whether the status of a monitor, as an object of the API, says that its workload has come to its end."""
    found = (manifest.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["reason"] in conditions.OVER for each in found)


def _is_news(old: Manifest | None, condition: Condition) -> bool:
    return old is None or old["status"] != "False" or old["reason"] != condition.reason


def _without_values(status: Manifest) -> dict[str, object]:
    """The status; of a number only whether it is there."""
    return {key: None if key in _NUMBERS else value for key, value in status.items()}


def _job(observed: Observed) -> dict[str, object]:
    workload = observed.workload
    if workload is None:
        return {}
    job = {"apiVersion": workload.api_version, "kind": workload.kind, "name": workload.name, "uid": workload.uid}
    return {"job": job}


def _is_same_job(monitor: Monitor, observed: Observed) -> bool:
    uid = (monitor.status.get("job") or {}).get("uid")
    return observed.workload is not None and uid == observed.workload.uid


def _numbers(monitor: Monitor, observed: Observed) -> dict[str, object]:
    """The verdict's numbers; without one, those that the status held for the same job."""
    if observed.verdict is not None:
        return _verdict_numbers(observed.verdict)
    if not _is_same_job(monitor, observed):
        return {}
    return {key: monitor.status[key] for key in _KEPT if key in monitor.status}


def _verdict_numbers(verdict: JobVerdict) -> dict[str, object]:
    expected, reporting = verdict.ranks_expected, verdict.ranks_reporting
    ranks = {} if expected is None else {"expected": expected}
    ranks |= {} if reporting is None else {"reporting": reporting}
    summary = f"{'?' if reporting is None else reporting}/{'?' if expected is None else expected}"
    numbers: dict[str, object | None] = {
        "ranks": {**ranks, "summary": summary},
        "step": verdict.step,
        "totalSteps": verdict.total_steps,
        "loss": None if verdict.loss is None else f"{verdict.loss:.6g}",
        "phase": verdict.phase or None,
    }
    return {key: value for key, value in numbers.items() if value is not None}


def _incidents(monitor: Monitor, observed: Observed) -> dict[str, object]:
    """Open incidents; as they were while the aggregator does not answer, since nobody knows that they ended."""
    verdict = observed.verdict
    if verdict is None and observed.aggregator.problem and _is_same_job(monitor, observed):
        return {key: monitor.status[key] for key in ("alerts", "incidents") if key in monitor.status}
    found = sorted(verdict.incidents if verdict else (), key=lambda incident: (-incident.level, incident.started))
    if not found:
        return {"alerts": "none"}
    kinds = ",".join(dict.fromkeys(incident.kind for incident in found))
    return {"alerts": kinds, "incidents": [_incident(incident) for incident in found[:16]]}


def _tiers(monitor: Monitor, observed: Observed) -> dict[str, object]:
    """How each pod is seen; as it was while the aggregator does not answer."""
    if observed.verdict is None:
        is_kept = observed.aggregator.problem and _is_same_job(monitor, observed) and "tiers" in monitor.status
        return {"tiers": monitor.status["tiers"]} if is_kept else {}
    found = [
        {"pod": one.pod, "tier": one.tier, "reason": one.reason, "message": one.message[:512]}
        for one in tiers.pod_tiers(monitor, observed)[: tiers.MOST_PODS]
    ]
    return {"tiers": found} if found else {}


def _incident(incident: Incident) -> dict[str, object]:
    return {
        "kind": incident.kind,
        "level": incident.level,
        "started": time_text(incident.started),
        "evidence": incident.evidence,
        "message": incident.message[:1024],
        "suspects": [{"rank": s.rank, "node": s.node, "pod": s.pod} for s in incident.suspects[:16]],
    }

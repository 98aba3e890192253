"""A monitor's conditions: each says what is the case and which field, label or command changes it."""

from collections.abc import Callable, Mapping, Sequence

from rankbeat_contract import names
from rankbeat_operator.model.condition import Condition
from rankbeat_operator.model.manifests import Manifest, time_text
from rankbeat_operator.model.monitors import Monitor
from rankbeat_operator.model.observed import Observed
from rankbeat_operator.plan import configuration, launching, outputs, taps
from rankbeat_operator.plan.breaker import Breaker

RING_LIMIT_SECONDS = 60.0
"""A rank claims its ring in communication.init(), seconds after its pod runs; imports of MindSpore take up to 20 s."""

_INCIDENT_REASONS = {
    "hang": "TrainingHung",
    "crash": "TrainingCrashed",
    "nan_loss": "LossNotFinite",
    "rank_missing": "RankMissing",
}


OVER = ("WorkloadComplete", "WorkloadFailed")
"""Reasons of Ready when there is nothing left to observe."""

Judge = Callable[[Monitor, Observed, Breaker], Condition]


def conditions(monitor: Monitor, observed: Observed, state: Breaker) -> tuple[Condition, ...]:
    """All conditions, in the order of the way from a workload to its numbers; Ready and Healthy last."""
    chain = tuple(judge(monitor, observed, state) for judge in _CHAIN)
    return (
        *chain,
        _ready(monitor, observed, chain),
        _healthy(observed),
        *configuration.conditions(monitor, observed),
        *launching.conditions(monitor, observed),
        *outputs.conditions(monitor, observed),
        *taps.conditions(monitor, observed),
    )


def written(found: Sequence[Condition], before: Manifest, generation: int, now: float) -> list[dict[str, object]]:
    """`status.conditions`: lastTransitionTime moves only where the status does."""
    old: Mapping[str, Manifest] = {c["type"]: c for c in before.get("conditions") or ()}
    return [_written(condition, old.get(condition.type, {}), generation, now) for condition in found]


def _written(condition: Condition, old: Manifest, generation: int, now: float) -> dict[str, object]:
    is_same = old.get("status") == condition.status
    return {
        "type": condition.type,
        "status": condition.status,
        "observedGeneration": generation,
        "lastTransitionTime": old["lastTransitionTime"] if is_same else time_text(now),
        "reason": condition.reason,
        "message": condition.message[:1024],
    }


def _target_found(monitor: Monitor, observed: Observed, _: Breaker) -> Condition:
    workload, target = observed.workload, monitor.target
    if workload is not None:
        return Condition("TargetFound", "True", "Found", f"{workload.kind} {workload.name} is the workload")
    if target.job:
        return Condition(
            "TargetFound",
            "False",
            "JobNotFound",
            f"there is no Job {target.job!r} in namespace {monitor.namespace!r}: create it there,"
            " or delete this monitor and write one with the right spec.workloadRef.name",
        )
    return Condition(
        "TargetFound",
        "False",
        "NoPodSelected",
        f"spec.podSelector ({target.label_selector()}) selects no pod in namespace {monitor.namespace!r}:"
        " start the workload, or compare with kubectl get pods --show-labels",
    )


def _injected(monitor: Monitor, observed: Observed, state: Breaker) -> Condition:
    pods = observed.counted_pods
    blocked = _injection_blocked(observed, state)
    if blocked is not None:
        return blocked
    if observed.workload is None:
        return Condition("Injected", "Unknown", "NoWorkload", "there is no workload yet whose pods could get the agent")
    unseen = [pod for pod in pods if not pod.is_injected and not pod.is_skipped]
    if unseen or (not pods and not _is_opted_in(monitor, observed, observed.workload.template_labels)):
        return _not_opted_in(monitor, observed, len(unseen))
    if not pods:
        return Condition(
            "Injected", "Unknown", "NoPods", f"{observed.workload.kind} {observed.workload.name} has no pods yet"
        )
    skipped = [pod for pod in pods if pod.is_skipped]
    if skipped:
        first = skipped[0].injection
        reason = (first.result if first else "") or names.REASON_ERROR
        advice = (first.message if first else "") or "the webhook gave no reason, see the log of rankbeat-webhook"
        return Condition(
            "Injected", "False", reason, f"{len(skipped)} of {len(pods)} pods are without the agent: {advice}"
        )
    return Condition("Injected", "True", names.INJECTED, f"all {len(pods)} pods have the agent")


def _injection_blocked(observed: Observed, state: Breaker) -> Condition | None:
    """Why no new pod gets the agent, None if one may. Pods that have it already keep it."""
    if state.is_open:
        return Condition("Injected", "False", names.REASON_BREAKER_OPEN, f"{state.reason}: {state.message}")
    if observed.counted_pods and all(pod.is_injected for pod in observed.counted_pods):
        return None
    if observed.is_switched_off:
        return Condition(
            "Injected",
            "False",
            names.REASON_KILL_SWITCH,
            "the platform has turned all injection off: ask its owner to set the install value injection to enabled",
        )
    if observed.agent.problem:
        return Condition("Injected", "False", "AgentMissing", observed.agent.problem)
    return None


def _is_opted_in(monitor: Monitor, observed: Observed, labels: Mapping[str, str]) -> bool:
    if labels.get(names.LABEL_INJECT) == "disabled":
        return False
    return observed.is_namespace_opted_in or labels.get(names.LABEL_MONITOR) == monitor.name


def _not_opted_in(monitor: Monitor, observed: Observed, unseen: int) -> Condition:
    """Why the webhook has not seen pods: who they belong to has not opted in, or it was not there yet."""
    workload = observed.workload
    labels = next((p.labels for p in observed.counted_pods if not p.is_injected and not p.is_skipped), None)
    labels = labels if labels is not None else workload.template_labels if workload else {}
    if labels.get(names.LABEL_INJECT) == "disabled":
        return Condition(
            "Injected",
            "False",
            names.REASON_OPTED_OUT,
            f"the pods carry the label {names.LABEL_INJECT}: disabled, which always wins:"
            " remove it from the pod template",
        )
    if _is_opted_in(monitor, observed, labels):
        return Condition(
            "Injected",
            "False",
            "CreatedBeforeWebhook",
            f"{unseen} of {len(observed.counted_pods)} pods were created while the webhook did not answer,"
            " or before they were opted in: recreate them, running pods are never touched",
        )
    return Condition(
        "Injected",
        "False",
        "NotOptedIn",
        f"nobody has opted the pods in: add the label {names.LABEL_MONITOR}: {monitor.name} to the pod template, or run"
        f" kubectl label namespace {monitor.namespace} {names.LABEL_INJECT}=enabled; then recreate the pods",
    )


def _lower_tier(monitor: Monitor) -> str:
    """The tier that shows a job without the agent, where it is not asked for yet."""
    if names.ASK_LOG_TAIL in monitor.settings.tiers:
        return ""
    return f"; until it does, write spec.tiers: [{names.ASK_LOG_TAIL}] for the loss lines of MindFormers' log"


def _agent_loaded(monitor: Monitor, observed: Observed, _: Breaker) -> Condition:
    verdict = observed.verdict
    injected = [pod for pod in observed.counted_pods if pod.is_injected]
    if not injected:
        return Condition("AgentLoaded", "Unknown", "NotInjected", "no pod has the agent: see condition Injected")
    if verdict is None:
        return Condition(
            "AgentLoaded", "Unknown", "NoReports", "no report of these pods has reached the aggregator yet"
        )
    late = [
        pod.name
        for pod in injected
        if (pod.name in verdict.pods_without_ring or verdict.tiers.get(pod.name) in names.LOWER_TIERS)
        and pod.running_since is not None
        and observed.now - pod.running_since > RING_LIMIT_SECONDS
    ]
    if late:
        return Condition(
            "AgentLoaded",
            "False",
            "NotLoaded",
            f"{len(late)} of {len(injected)} injected pods ({', '.join(late[:3])}) have run for"
            f" {RING_LIMIT_SECONDS:g} s without a rank in sight: the program must be Python without -I, -S and -E,"
            f" and must call mindspore's communication.init(){_lower_tier(monitor)}",
        )
    if verdict.ranks_reporting:
        return Condition("AgentLoaded", "True", "Loaded", "ranks write their rings")
    return Condition(
        "AgentLoaded", "Unknown", "Starting", "the pods run, and no rank has entered communication.init() yet"
    )


def _aggregator_reachable(_: Monitor, observed: Observed, __: Breaker) -> Condition:
    aggregator = observed.aggregator
    if not aggregator.problem:
        return Condition("AggregatorReachable", "True", "Answers", "the aggregator answers")
    age = "it never answered" if aggregator.since is None else f"numbers are as of {time_text(aggregator.since)}"
    return Condition(
        "AggregatorReachable",
        "False",
        "NoAnswer",
        f"the aggregator does not answer ({aggregator.problem}); {age}:"
        f" the platform's owner looks at Deployment {names.AGGREGATOR}",
    )


def _reporting(_: Monitor, observed: Observed, __: Breaker) -> Condition:
    verdict = observed.verdict
    if verdict is not None and not verdict.ranks_expected and names.TIER_LOG_TAIL in verdict.tiers.values():
        return Condition(
            "Reporting",
            "Unknown",
            "RanksUnnamed",
            "loss lines of the pods' logs are read, and they do not say which rank wrote them: let msrun copy one"
            " worker's output per pod, --tail_worker_log=RANK",
        )
    if verdict is None:
        return Condition(
            "Reporting",
            "Unknown",
            "NoReports",
            f"no report about this job has reached the aggregator: once its pods run, look at DaemonSet {names.NODE}",
        )
    if not verdict.ranks_expected or verdict.ranks_reporting is None:
        return Condition(
            "Reporting",
            "Unknown",
            "NoSamples",
            "no rank has reported yet: a rank is seen from communication.init() on;"
            " if the job is past it, look at AgentLoaded and at the pods' log",
        )
    share = f"{verdict.ranks_reporting} of {verdict.ranks_expected} ranks report"
    if verdict.ranks_reporting >= verdict.ranks_expected:
        return Condition("Reporting", "True", "AllRanks", share)
    return Condition(
        "Reporting", "False", "RanksMissing", f"{share}: look at the pods and nodes of the others, and at AgentLoaded"
    )


_CHAIN: tuple[Judge, ...] = (_target_found, _injected, _agent_loaded, _aggregator_reachable, _reporting)


def _ready(monitor: Monitor, observed: Observed, chain: Sequence[Condition]) -> Condition:
    workload = observed.workload
    if workload is not None and workload.finished:
        ended = "has completed" if workload.finished == "Complete" else "has failed"
        reason = OVER[workload.finished != "Complete"]
        return Condition(
            "Ready", "False", reason, f"{workload.kind} {workload.name} {ended}: there is nothing left to observe"
        )
    if monitor.settings.paused:
        return Condition(
            "Ready", "False", names.REASON_PAUSED, "spec.paused is true: no alert is raised until you set it to false"
        )
    first = next((c for status in ("False", "Unknown") for c in chain if c.status == status), None)
    if first is None:
        return Condition("Ready", "True", "Observing", "all ranks are being observed")
    return Condition("Ready", "False", first.reason, f"{first.type}: {first.message}")


def _healthy(observed: Observed) -> Condition:
    if observed.verdict is None:
        return Condition("Healthy", "Unknown", "NotJudged", "nothing is known about the ranks yet")
    worst = max(observed.verdict.incidents, key=lambda incident: (incident.level, -incident.started), default=None)
    if worst is None and not observed.verdict.ranks_expected:
        return Condition("Healthy", "Unknown", "NotJudged", "no rank has reported yet: see condition Reporting")
    if worst is None:
        return Condition("Healthy", "True", "NoIncident", "no incident is open")
    return Condition("Healthy", "False", _INCIDENT_REASONS.get(worst.kind, "Incident"), worst.message)

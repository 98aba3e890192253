"""Whether injection may be what keeps a job from starting. If it may, new pods come without the agent.

A wrong opening costs observations, a wrong closing costs the job. Source: docs/adr/0002.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from rankbeat_contract import monitor as contract
from rankbeat_contract import names
from rankbeat_operator.model.manifests import Manifest, seconds, time_text
from rankbeat_operator.model.monitors import Monitor
from rankbeat_operator.model.observed import Observed
from rankbeat_operator.model.pods import Exit, ObjectEvent, Pod

START_LIMIT_SECONDS = 60.0
"""A scheduled, injected pod whose images are there starts in a second or two; after this it counts as kept from it."""
QUICK_EXIT_SECONDS = 2.0
"""A wrapper that cannot run its command ends at once with 126 or 127."""

_VOLUMES = (
    *(names.RING_VOLUME, names.AGENT_VOLUME, names.CONFIG_VOLUME),
    *(names.OUTPUT_VOLUME, names.KEYS_VOLUME),
)
_IMAGE_WAITS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError"}
)
"""These are the user's, but for the sidecar's image."""
_NOT_OURS = frozenset({"FailedCreatePodSandBox", "FailedAttachVolume", "NetworkNotReady", "FailedScheduling"})
_NOT_OUR_CREATE = ("error looking up service account",)
"""We add no ServiceAccount."""
_QUOTA = "exceeded quota"
"""We add no resource request, but for the sidecar's."""


@dataclass(frozen=True, slots=True)
class Breaker:
    """State of a monitor's breaker.

    since: epoch of the last change; what happened before does not count again. reset: the annotation last heeded.
    """

    is_open: bool = False
    reason: str = ""
    message: str = ""
    since: float | None = None
    agent: str = ""
    reset: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One sign that injection may have kept a pod from starting."""

    reason: str
    message: str


def written(status: Manifest) -> Breaker:
    """The breaker as the monitor's status holds it."""
    injection = status.get("injection") or {}
    breaker = injection.get("breaker") or {}
    return Breaker(
        is_open=bool(breaker.get("open", False)),
        reason=breaker.get("reason", ""),
        message=injection.get("message", "") if breaker.get("open") else "",
        since=seconds(breaker.get("since")),
        agent=breaker.get("agent", ""),
        reset=breaker.get("reset", ""),
    )


def breaker(monitor: Monitor, observed: Observed) -> Breaker:
    """The breaker after this look.

    It closes by a new value of the annotation or another agent, and opens on evidence that came after that.
    """
    before = written(monitor.status)
    if before.is_open:
        if before.agent == observed.agent.hash and before.reset == monitor.reset:
            return before
        return Breaker(since=observed.now, agent=observed.agent.hash, reset=monitor.reset)
    found = next(_evidence(monitor, observed, before.since or 0.0), None)
    if found is None:
        return Breaker(since=before.since, agent=observed.agent.hash, reset=monitor.reset)
    return Breaker(True, found.reason, _advice(monitor, found), observed.now, observed.agent.hash, monitor.reset)


def injection(observed: Observed, state: Breaker) -> dict[str, object]:
    """`status.injection`: the plan that the webhook follows."""
    mode, reason, message = _mode(observed, state)
    return {
        "agent": observed.agent.hash,
        "mode": mode,
        "reason": reason,
        "message": message[:1024],
        "breaker": {
            "open": state.is_open,
            "reason": state.reason,
            "since": None if state.since is None else time_text(state.since),
            "agent": state.agent,
            "reset": state.reset,
        },
        "injectedPods": sum(pod.is_injected for pod in observed.counted_pods),
        "skippedPods": sum(pod.is_skipped for pod in observed.counted_pods),
    }


def _mode(observed: Observed, state: Breaker) -> tuple[str, str, str]:
    if state.is_open:
        return "blocked", state.reason, state.message
    if observed.agent.problem:
        return "disabled", "AgentMissing", observed.agent.problem
    return "enabled", "", ""


def _advice(monitor: Monitor, found: Evidence) -> str:
    command = f'kubectl -n {monitor.namespace} annotate tmon {monitor.name} {names.ANNOTATION_BREAKER}="$(date +%s)"'
    return f"{found.message}; new pods come without the agent until you run: {command} --overwrite"


def _evidence(monitor: Monitor, observed: Observed, since: float) -> Iterator[Evidence]:
    """The signs that count, the surest first."""
    agent = observed.agent.hash
    injected = [p for p in observed.pods if p.is_injected and p.created >= since and _agent(p) == agent]
    for pod in injected:
        yield from _failed_starts(pod)
    events = [event for event in observed.events if event.seen >= since]
    uids = {pod.uid: pod.name for pod in injected if not pod.has_started}
    for event in events:
        if event.uid in uids and event.reason == "FailedMount" and _names_our_volume(event):
            yield Evidence("FailedMount", f"pod {uids[event.uid]} cannot mount a volume of ours: {event.message[:300]}")
        if event.uid in uids and event.reason == "FailedScheduling" and _names_our_claim(monitor, event):
            yield Evidence(
                "OutputVolume",
                f"pod {uids[event.uid]} waits for the claim of spec.outputs.volume: {event.message[:300]};"
                " create the claim, or delete the pods, which then come without it",
            )
    yield from _failed_creates(monitor, observed, events)
    yield from _kept_from_starting(observed, injected, events)


def _agent(pod: Pod) -> str:
    return pod.injection.agent if pod.injection else ""


def _failed_starts(pod: Pod) -> Iterator[Evidence]:
    wrapped = pod.injection.container if pod.injection else ""
    for container in pod.init_containers:
        if container.name == names.SIDECAR and not container.has_started and container.waiting in _IMAGE_WAITS:
            yield Evidence(
                "SidecarImage",
                f"the image of container {container.name}, which is ours, cannot be pulled for pod {pod.name}"
                f" ({container.waiting}): the platform's owner looks at the values images and sidecar",
            )
        for end in container.exits:
            if container.name == names.SIDECAR and end.reason in {"StartError", "ContainerCannotRun"}:
                yield Evidence("StartError", f"container {container.name} of injected pod {pod.name} cannot be started")
    for container in pod.containers:
        for end in container.exits:
            if container.name == wrapped and _is_failed_start(end):
                yield Evidence(
                    "StartError" if end.code == 128 else "CommandFailed",
                    f"container {container.name} of injected pod {pod.name} ended with {end.code}"
                    f" ({end.reason or 'no reason'}) instead of starting",
                )


def _is_failed_start(end: Exit) -> bool:
    if end.reason in {"StartError", "ContainerCannotRun"}:
        return True
    return end.code in {126, 127} and end.seconds is not None and end.seconds <= QUICK_EXIT_SECONDS


def _names_our_volume(event: ObjectEvent) -> bool:
    return any(f'volume "{name}"' in event.message for name in _VOLUMES)


def _names_our_claim(monitor: Monitor, event: ObjectEvent) -> bool:
    claim = ((monitor.settings.outputs.volume or {}).get("persistentVolumeClaim") or {}).get("claimName", "")
    has_sidecar = monitor.settings.collector_mode == contract.MODE_SIDECAR
    return has_sidecar and bool(claim) and f'persistentvolumeclaim "{claim}"' in event.message


def _failed_creates(monitor: Monitor, observed: Observed, events: list[ObjectEvent]) -> Iterator[Evidence]:
    workload = observed.workload
    has_sidecar = monitor.settings.collector_mode == contract.MODE_SIDECAR
    not_ours = _NOT_OUR_CREATE if has_sidecar else (*_NOT_OUR_CREATE, _QUOTA)
    if workload is None or not workload.wants_pods or observed.alive_pods:
        return
    for event in events:
        is_ours = not any(text in event.message for text in not_ours)
        if event.uid == workload.uid and event.reason == "FailedCreate" and is_ours:
            yield Evidence(
                "FailedCreate",
                f"pods of {workload.kind} {workload.name} are refused, perhaps for what we add: {event.message[:300]}",
            )


def _kept_from_starting(observed: Observed, injected: list[Pod], events: list[ObjectEvent]) -> Iterator[Evidence]:
    workload = observed.workload
    if workload is None or not workload.wants_pods or any(pod.has_started for pod in injected):
        return
    for pod in injected:
        own = [event for event in events if event.uid == pod.uid]
        if observed.now - pod.created > START_LIMIT_SECONDS and not _is_provably_not_ours(pod, own):
            yield Evidence(
                "NotStarted",
                f"no injected pod of {workload.kind} {workload.name} has started"
                f" within {START_LIMIT_SECONDS:g} s, and no other cause is known",
            )


def _is_provably_not_ours(pod: Pod, events: list[ObjectEvent]) -> bool:
    """Unscheduled, being deleted, or waiting for an image, a network or a volume of the user."""
    reasons = [event.reason for event in events]
    if pod.is_deleting or not pod.is_scheduled or _NOT_OURS.intersection(reasons):
        return True
    if any(c.waiting in _IMAGE_WAITS for c in (*pod.containers, *pod.init_containers)):
        return True
    if reasons.count("Pulling") > reasons.count("Pulled"):
        return True
    return any(event.reason == "FailedMount" and not _names_our_volume(event) for event in events)

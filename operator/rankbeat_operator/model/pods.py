"""Pods, as far as injection and the breaker must know them."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rankbeat_contract import names
from rankbeat_operator.model import launches
from rankbeat_operator.model.launches import Start
from rankbeat_operator.model.manifests import Manifest, annotations, labels, seconds

_REASON = re.compile(r"[A-Za-z]{1,63}")


@dataclass(frozen=True, slots=True)
class Exit:
    """How a container ended. seconds: how long it ran, None if it never started."""

    code: int
    reason: str
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Container:
    """waiting: reason for which it has not started. exits: the newest last."""

    name: str
    has_started: bool = False
    waiting: str = ""
    exits: tuple[Exit, ...] = ()


@dataclass(frozen=True, slots=True)
class Injection:
    """What the webhook wrote on the pod; result "" where it wrote nothing legible.

    sidecar: INJECTED or the reason for which the pod has none, "" where none was asked for.
    """

    result: str = ""
    message: str = ""
    agent: str = ""
    container: str = ""
    sidecar: str = ""
    sidecar_message: str = ""


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller of a pod."""

    api_version: str
    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod of a workload. Times are epochs.

    running_since: since when all its containers have been started, None if they have not.
    """

    name: str
    uid: str
    phase: str
    created: float
    labels: Mapping[str, str]
    is_scheduled: bool = True
    is_deleting: bool = False
    running_since: float | None = None
    injection: Injection | None = None
    owner: Owner | None = None
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    start: Start = launches.UNKNOWN

    @property
    def is_injected(self) -> bool:
        return self.labels.get(names.LABEL_STATE) == names.STATE_INJECTED

    @property
    def is_skipped(self) -> bool:
        return self.labels.get(names.LABEL_STATE) == names.STATE_SKIPPED

    @property
    def is_alive(self) -> bool:
        """Whether it runs or is still to run."""
        return self.phase in {"Pending", "Running"} and not self.is_deleting

    @property
    def has_started(self) -> bool:
        """Whether any container, init containers included, ever ran."""
        return any(container.has_started for container in (*self.containers, *self.init_containers))


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """A Kubernetes event about a pod or a workload."""

    uid: str
    reason: str
    message: str
    seen: float


def pod(manifest: Manifest) -> Pod:
    """The pod in an object of the API."""
    metadata, status = manifest["metadata"], manifest.get("status") or {}
    conditions = {c["type"]: c for c in status.get("conditions") or ()}
    containers = tuple(_container(c) for c in status.get("containerStatuses") or ())
    ready = conditions.get("ContainersReady", {})
    injection = _injection(annotations(manifest).get(names.ANNOTATION_INJECTION))
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        phase=status.get("phase", "Pending"),
        created=seconds(metadata["creationTimestamp"]) or 0.0,
        labels=labels(manifest),
        is_scheduled=conditions.get("PodScheduled", {}).get("status") == "True",
        is_deleting="deletionTimestamp" in metadata,
        running_since=seconds(ready.get("lastTransitionTime")) if ready.get("status") == "True" else None,
        injection=injection,
        owner=_owner(metadata.get("ownerReferences") or ()),
        containers=containers,
        init_containers=tuple(_container(c) for c in status.get("initContainerStatuses") or ()),
        start=launches.start(manifest.get("spec") or {}, injection.container if injection else ""),
    )


def object_event(manifest: Manifest) -> ObjectEvent:
    """The event in an object of the API, either generation of its times."""
    series = (manifest.get("series") or {}).get("lastObservedTime")
    times = (
        series,
        manifest.get("lastTimestamp"),
        manifest.get("eventTime"),
        manifest["metadata"]["creationTimestamp"],
    )
    return ObjectEvent(
        uid=manifest["involvedObject"].get("uid", ""),
        reason=manifest.get("reason", ""),
        message=manifest.get("message", ""),
        seen=next(found for found in map(seconds, times) if found is not None),
    )


def _container(status: Manifest) -> Container:
    states = (status.get("lastState") or {}, status.get("state") or {})
    exits = tuple(_exit(state["terminated"]) for state in states if "terminated" in state)
    return Container(
        name=status["name"],
        has_started="running" in states[1] or any(end.seconds is not None for end in exits),
        waiting=states[1].get("waiting", {}).get("reason", ""),
        exits=exits,
    )


def _exit(terminated: Manifest) -> Exit:
    """A container that never started has startedAt of the epoch (StartError) or none."""
    started, finished = seconds(terminated.get("startedAt")), seconds(terminated.get("finishedAt"))
    lasted = finished - started if started and finished is not None else None
    return Exit(terminated.get("exitCode", 0), terminated.get("reason", ""), lasted)


def _injection(text: str | None) -> Injection | None:
    if text is None:
        return None
    try:
        written = json.loads(text)
    except (ValueError, RecursionError):  # tenants can write annotations too
        return Injection()
    if not isinstance(written, dict):
        return Injection()
    result, *rest = (str(written.get(field) or "") for field in ("result", "message", "agent", "container"))
    sidecar = written.get("sidecar")
    beside = sidecar if isinstance(sidecar, dict) else {}
    answer = str(beside.get("result") or "")
    message, agent, container = rest
    return Injection(
        result=result if _REASON.fullmatch(result) else "",
        message=message,
        agent=agent,
        container=container,
        sidecar=answer if _REASON.fullmatch(answer) else "",
        sidecar_message=str(beside.get("message") or ""),
    )


def _owner(references: Iterable[Manifest]) -> Owner | None:
    for reference in references:
        if reference.get("controller"):
            return Owner(reference["apiVersion"], reference["kind"], reference["name"], reference["uid"])
    return None

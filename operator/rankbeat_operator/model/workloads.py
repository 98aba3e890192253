"""The workload that a monitor targets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rankbeat_operator.model import launches
from rankbeat_operator.model.launches import Start
from rankbeat_operator.model.manifests import Manifest
from rankbeat_operator.model.pods import Pod


@dataclass(frozen=True, slots=True)
class Workload:
    """A Job, or whatever owns the pods that a selector found.

    finished: "", "Complete" or "Failed". template_labels: labels of its pod template, empty where it is not known.
    """

    api_version: str
    kind: str
    name: str
    uid: str
    wants_pods: bool = True
    finished: str = ""
    template_labels: Mapping[str, str] = field(default_factory=dict)
    start: Start | None = None
    """Of its pod template, None where it is not known."""
    pods_at_once: int = 1


def job(manifest: Manifest) -> Workload:
    """A Job, indexed or not."""
    spec, status = manifest["spec"], manifest.get("status") or {}
    ends = [c["type"] for c in status.get("conditions") or () if c["status"] == "True"]
    finished = next((end for end in ends if end in {"Complete", "Failed"}), "")
    return Workload(
        api_version="batch/v1",
        kind="Job",
        name=manifest["metadata"]["name"],
        uid=manifest["metadata"]["uid"],
        wants_pods=not finished and not spec.get("suspend", False) and spec.get("parallelism", 1) > 0,
        finished=finished,
        template_labels=spec["template"].get("metadata", {}).get("labels") or {},
        start=launches.start(spec["template"].get("spec") or {}),
        pods_at_once=min(spec.get("parallelism", 1), spec.get("completions") or spec.get("parallelism", 1)),
    )


def owner_of(pods: Sequence[Pod]) -> Workload | None:
    """The workload that made the newest of the pods that a selector found; the pod itself if nothing did."""
    if not pods:
        return None
    newest = max(pods, key=lambda pod: (pod.created, pod.name))
    siblings = [pod for pod in pods if pod.owner == newest.owner]
    is_over = all(pod.phase in {"Succeeded", "Failed"} for pod in siblings)
    has_failed = any(pod.phase == "Failed" for pod in siblings)
    finished = ("Failed" if has_failed else "Complete") if is_over else ""
    if newest.owner is None:
        return Workload("v1", "Pod", newest.name, newest.uid, not is_over, finished, newest.labels)
    owner = newest.owner
    return Workload(owner.api_version, owner.kind, owner.name, owner.uid, not is_over, finished, newest.labels)

"""Which monitor a pod belongs to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rankbeat_contract import names

if TYPE_CHECKING:
    from rankbeat_webhook.model import monitors, plans, pods

_JOB_NAME_LABELS = ("batch.kubernetes.io/job-name", "job-name")
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@dataclass(frozen=True, slots=True)
class Selection:
    """The monitor of a pod; monitor is None while none of that name exists. message: what a reader should know."""

    name: str
    monitor: monitors.Monitor | None
    message: str = ""

    @property
    def is_nameable(self) -> bool:
        """Whether a monitor can have this name at all: a label's value may be what no object's name may be."""
        return _OBJECT_NAME.fullmatch(self.name) is not None


def selection(pod: pods.Pod, view: plans.View) -> Selection | None:
    """The pod's monitor: the one that its label names, else the oldest that selects it. None: the pod is not ours."""
    if names.LABEL_MONITOR in pod.labels:
        return _named(pod.labels[names.LABEL_MONITOR], view)
    if view.is_namespace_opted_in is False:
        return None
    found = sorted((each for each in view.monitors if selects(each, pod)), key=lambda each: (each.created, each.name))
    if not found:
        return None
    message = ""
    if len(found) > 1:
        every = ", ".join(repr(each.name) for each in found)
        message = (
            f"monitors {every} select this pod, the oldest has it: {found[0].name!r}; "
            f"label the pod template {names.LABEL_MONITOR}=NAME to choose"
        )
    return Selection(found[0].name, found[0], message)


def _named(name: str, view: plans.View) -> Selection:
    for each in view.monitors:
        if each.name == name:
            return Selection(name, each)
    return Selection(name, None, f"TrainingMonitor {name!r} does not exist yet: the defaults of the install hold")


def selects(monitor: monitors.Monitor, pod: pods.Pod) -> bool:
    """Whether spec.workloadRef or spec.podSelector of the monitor means this pod."""
    if monitor.workload is not None:
        return _is_of_workload(pod, monitor.workload)
    return bool(monitor.selector) and all(_holds(each, pod) for each in monitor.selector or ())


def _is_of_workload(pod: pods.Pod, workload: monitors.WorkloadRef) -> bool:
    owner = pod.owner
    group = workload.api_version.partition("/")[0]
    if owner is not None and owner.api_version.partition("/")[0] == group and owner.kind == workload.kind:
        return owner.name == workload.name
    is_job = group == "batch" and workload.kind == "Job"
    return is_job and any(pod.labels.get(label) == workload.name for label in _JOB_NAME_LABELS)


def _holds(requirement: monitors.Requirement, pod: pods.Pod) -> bool:
    match requirement.operator:
        case "In":
            return pod.labels.get(requirement.key) in requirement.values
        case "NotIn":
            return pod.labels.get(requirement.key) not in requirement.values
        case "Exists":
            return requirement.key in pod.labels
        case "DoesNotExist":
            return requirement.key not in pod.labels
        case _:
            return False

"""The decision on one pod: all of it or nothing, and a reason either way."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rankbeat_contract import names
from rankbeat_webhook.model import monitors, plans
from rankbeat_webhook.patch import command, operations, selection

if TYPE_CHECKING:
    from rankbeat_webhook.model import pods

_USUAL_NAMES = ("ascend", "mindspore")
_ACCELERATORS = ("huawei.com/", "nvidia.com/")
_VOLUMES = frozenset({names.RING_VOLUME, names.AGENT_VOLUME, names.CONFIG_VOLUME})
_ROOT = "/rankbeat"


def decision(pod: pods.Pod, settings: plans.Settings, view: plans.View) -> plans.Decision:
    """What becomes of a pod. Applied to its own output it changes nothing."""
    if names.LABEL_STATE in pod.labels or _carries_agent(pod):
        return plans.Decision(names.REASON_ALREADY_INJECTED)
    selected = selection.selection(pod, view)
    if selected is None:
        return plans.Decision(plans.NOT_SELECTED, is_settled=view.is_namespace_opted_in is not False)
    made = _refused(pod, settings, view, selected) or _injected(pod, settings, view, selected)
    made = replace(made, monitor=selected.name)
    agent = settings.agent if made.result == names.INJECTED else ""
    return replace(made, operations=(*made.operations, *operations.marks(pod, made, agent)))


def _carries_agent(pod: pods.Pod) -> bool:
    """Whether the pod holds what we add, whatever became of our label."""
    variables = {(each.name, each.value) for container in pod.containers for each in container.env}
    return set(pod.volumes) >= _VOLUMES and (names.ENV_RING_DIR, names.RING_PATH) in variables


def _refused(
    pod: pods.Pod, settings: plans.Settings, view: plans.View, selected: selection.Selection
) -> plans.Decision | None:
    """The decision where nothing of the pod's shape matters."""
    if pod.labels.get(names.LABEL_INJECT) == "disabled":
        return plans.Decision(names.REASON_OPTED_OUT, f"the pod is labelled {names.LABEL_INJECT}=disabled")
    if not selected.is_nameable:
        return plans.Decision(
            names.REASON_NO_MONITOR,
            f"label {names.LABEL_MONITOR} is {selected.name!r}, which no TrainingMonitor can be called; "
            "write the monitor's name: lower case letters, digits, - and .",
        )
    if view.switch != "enabled":
        return plans.Decision(
            names.REASON_KILL_SWITCH,
            f"injection is turned off for the whole cluster ({names.KILL_SWITCH_KEY}: {view.switch!r} in ConfigMap "
            f"{names.FLEET_CONFIG_MAP}); the platform team turns it on with the install value injection: enabled",
        )
    return _planned_off(selected.monitor.injection, settings.agent) if selected.monitor else None


def _planned_off(injection: monitors.Injection, agent: str) -> plans.Decision | None:
    """The operator's plan where it keeps the agent out. spec.paused is no part of it: it only stops alerts."""
    if injection.mode == monitors.BLOCKED and injection.breaker_agent in {"", agent}:
        return plans.Decision(
            names.REASON_BREAKER_OPEN,
            injection.message
            or f"the breaker is open; remove the cause, then set {names.ANNOTATION_BREAKER}=NEW-VALUE on the monitor",
        )
    if injection.mode == monitors.DISABLED:
        return plans.Decision(
            names.REASON_KILL_SWITCH,
            injection.message or f"the operator has turned injection off for this monitor: {injection.reason}",
        )
    return None


def _injected(
    pod: pods.Pod, settings: plans.Settings, view: plans.View, selected: selection.Selection
) -> plans.Decision:
    wanted = selected.monitor.container if selected.monitor else ""
    container = _target(pod, wanted)
    if container is None:
        every = ", ".join(repr(each.name) for each in pod.containers)
        return plans.Decision(
            names.REASON_NO_CONTAINER, f"spec.injection.container is {wanted!r}, the pod has {every}; name one of these"
        )
    change = command.python_path(pod, container, selected.monitor.shell if selected.monitor else "", view)
    if isinstance(change, command.Refusal):
        return plans.Decision(change.reason, change.message, container=container.name, is_settled=change.is_settled)
    clash = _clash(pod, container)
    if clash:
        return plans.Decision(names.REASON_MOUNT_TAKEN, clash, container=container.name)
    volumes = operations.volumes(settings, selected.name)
    changes = operations.injection(pod, container, change, volumes)
    return plans.Decision(names.INJECTED, selected.message, container=container.name, operations=changes)


def _target(pod: pods.Pod, wanted: str) -> pods.Container | None:
    """The container that trains: the one the monitor names, else a usual name, else accelerators, else the first."""
    if wanted:
        return next((each for each in pod.containers if each.name == wanted), None)
    named = [each for each in pod.containers if each.name in _USUAL_NAMES]
    computing = [each for each in pod.containers if any(name.startswith(_ACCELERATORS) for name in each.requested)]
    return (named or computing or list(pod.containers))[0]


def _clash(pod: pods.Pod, container: pods.Container) -> str:
    """What stands where ours would stand, and what to do; empty if nothing does."""
    volumes = [f"volume {each!r}" for each in pod.volumes if each in _VOLUMES]
    mounts = [f"a mount at {each!r}" for each in container.mount_paths if _is_below_root(each)]
    ours = {each["name"] for each in operations.ENV}
    variables = [f"variable {each.name!r}" for each in container.env if each.name in ours]
    taken = ", ".join((*volumes, *mounts, *variables))
    return f"container {container.name!r} already has {taken}; rename or remove it" if taken else ""


def _is_below_root(path: str) -> bool:
    parts = [part for part in path.split("/") if part not in {"", "."}]
    return parts[:1] == [_ROOT.strip("/")]

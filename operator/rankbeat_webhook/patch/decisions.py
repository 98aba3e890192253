"""The decision on one pod: all of it or nothing, and a reason either way."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rankbeat_contract import launch, names
from rankbeat_contract import monitor as contract
from rankbeat_webhook.model import monitors, plans
from rankbeat_webhook.patch import command, mending, operations, selection, sidecar, tiers

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
    more = (
        {"tiers": list(selected.monitor.settings.tiers)} if selected.monitor and selected.monitor.settings.tiers else {}
    )
    made = replace(made, monitor=selected.name, more={**made.more, **more})
    agent = settings.agent if made.result == names.INJECTED else ""
    return replace(made, operations=(*made.operations, *operations.marks(pod, made, agent)))


def _carries_agent(pod: pods.Pod) -> bool:
    """Whether the pod holds what we add, whatever became of our label."""
    variables = {(each.name, each.value) for container in pod.containers for each in container.env}
    has_agent = set(pod.volumes) >= _VOLUMES and (names.ENV_RING_DIR, names.RING_PATH) in variables
    return has_agent or names.PERF_VOLUME in pod.volumes


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
    asked = selected.monitor.settings if selected.monitor else contract.Settings()
    mended = mending.mending(pod, container, asked.msrun_fixes, view.job.pods if view.job else None)
    shell = selected.monitor.shell if selected.monitor else ""
    change = command.python_path(pod, mended.container, shell, view, mended.launcher)
    if isinstance(change, command.Refusal):
        return _lower_tier(pod, container, asked, change)
    clash = _clash(pod, container)
    if clash:
        return plans.Decision(names.REASON_MOUNT_TAKEN, clash, container=container.name)
    line, message = _command_line(pod, mended, shell, view, change)
    answer = sidecar.sidecar(pod, container, asked, settings, view)
    changes = operations.injection(pod, container, line, operations.volumes(settings, selected.name))
    return plans.Decision(
        names.INJECTED,
        "; ".join(each for each in (selected.message, mended.message, message) if each),
        container=container.name,
        operations=(*changes, *answer.operations),
        is_settled=not _may_learn_more(pod, asked, view),
        more=answer.said,
    )


def _may_learn_more(pod: pods.Pod, asked: contract.Settings, view: plans.View) -> bool:
    """Whether the pod's Job, which says how many pods there are, or the server's version may only be late."""
    is_job_late = view.job is None and pod.owner is not None and pod.owner.is_job
    is_version_late = view.server is None and asked.collector_mode == contract.MODE_SIDECAR
    return (launch.NODE_RANK in asked.msrun_fixes and is_job_late) or is_version_late


def _command_line(
    pod: pods.Pod, mended: mending.Mending, shell: str, view: plans.View, change: command.Prepend | command.Wrap
) -> tuple[operations.Change, str]:
    """The container's command line, and what could not be done to it."""
    container = mended.container
    if isinstance(change, command.Wrap):
        return operations.Change(change.command, container.args), ""
    plain = operations.Change(container.command, container.args, change)
    if not mended.launcher:
        return plain, ""
    unfixed = f"{' and '.join(mended.launcher)} cannot be mended"
    if not container.command:
        return plain, f"{unfixed}: the container names no command, write the image's into the pod template"
    wrapped = command.wrapping(pod, container, shell, view, command.launching(mended.launcher))
    if isinstance(wrapped, command.Refusal):
        return plain, f"{unfixed}: {wrapped.message}"
    return operations.Change(wrapped.command, container.args, change), ""


def _lower_tier(
    pod: pods.Pod, container: pods.Container, asked: contract.Settings, refusal: command.Refusal
) -> plans.Decision:
    """What is done where the agent cannot be put in: the tier perfFile if the monitor allows it, else nothing."""
    message = refusal.message
    if names.ASK_PERF_FILE in asked.tiers:
        obstacle = tiers.obstacle(pod, container)
        if not obstacle:
            return plans.Decision(
                names.INJECTED_PERF_FILE,
                f"{refusal.reason}: {message}; until then the tier perfFile shows step times and nothing else",
                container=container.name,
                operations=tiers.perf_file(pod, container),
                is_settled=refusal.is_settled,
            )
        message = f"{message}; {obstacle}"
    return plans.Decision(refusal.reason, message, container=container.name, is_settled=refusal.is_settled)


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

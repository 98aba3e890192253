"""Conditions of how the pods start: msrun's traps, and the sidecar. None keeps a job from being seen."""

from collections.abc import Iterator

from rankbeat_contract import launch, names
from rankbeat_contract import monitor as contract
from rankbeat_operator.model.condition import Condition
from rankbeat_operator.model.launches import Start
from rankbeat_operator.model.monitors import Monitor
from rankbeat_operator.model.observed import Observed
from rankbeat_operator.model.pods import Pod

SHORT_GRACE_SECONDS = 5
"""A deletion that waits no longer than this is no trap."""

_WAITS = frozenset(
    {"CrashLoopBackOff", "ErrImagePull", "ImagePullBackOff", "CreateContainerError", "RunContainerError"}
)

_SAID = {
    launch.JOIN: "msrun without --join=True ends with 0 once its workers are started, and the pod takes them with it",
    launch.SIGNALS: "SIGTERM is ignored, so that a deletion waits the whole grace period of {grace} s for nothing",
    launch.EXIT_CODE: "msrun ends with 0 when it is interrupted, so that an aborted job counts as succeeded",
    launch.NODE_RANK: "msrun without --node_rank on more than one node gives its processes a wrong RANK_ID",
}


def conditions(monitor: Monitor, observed: Observed) -> Iterator[Condition]:
    """LaunchSafe where there is a workload, Sidecar where a sidecar is asked for."""
    if observed.workload is not None:
        yield _launch_safe(monitor, observed)
    if monitor.settings.collector_mode == contract.MODE_SIDECAR:
        yield _sidecar(observed)


def _starts(observed: Observed) -> tuple[Start, ...]:
    """Of the pods as they are, else of the workload's template."""
    starts = tuple(pod.start for pod in observed.counted_pods)
    template = observed.workload.start if observed.workload else None
    return starts or ((template,) if template is not None else ())


def _launch_safe(monitor: Monitor, observed: Observed) -> Condition:
    starts = _starts(observed)
    known = [each for each in starts if each.launch is not None]
    if not known:
        return Condition(
            "LaunchSafe",
            "Unknown",
            "CannotTell",
            "the pods' command does not show an msrun (an image's entrypoint, a script or another program): whether it"
            " joins its workers and ends on SIGTERM cannot be told from here",
        )
    at_once = max(len(observed.alive_pods), observed.workload.pods_at_once if observed.workload else 1)
    found = {trap for each in known for trap in _traps(each, at_once)}
    traps = [each for each in launch.FIXES if each in found]
    if not traps:
        return Condition("LaunchSafe", "True", "Safe", "msrun is started without any known trap")
    grace = max(each.grace_seconds for each in known)
    said = "; ".join(_SAID[each].format(grace=grace) for each in traps)
    return Condition("LaunchSafe", "False", "LaunchUnsafe", f"{said}: {_remedy(monitor, observed, traps)}")


def _traps(start: Start, pods_at_once: int) -> tuple[str, ...]:
    if start.launch is None:
        return ()
    is_ignored = start.is_process_one and start.grace_seconds > SHORT_GRACE_SECONDS
    return launch.traps(start.launch, pods_at_once, is_process_one=is_ignored)


def _remedy(monitor: Monitor, observed: Observed, traps: list[str]) -> str:
    asked = monitor.settings.msrun_fixes
    if not set(traps) <= set(asked):
        wanted = [each for each in launch.FIXES if each in traps or each in asked]
        return f"write spec.msrun.fix: [{', '.join(wanted)}] and recreate the pods"
    said = next((pod.injection.message for pod in observed.counted_pods if pod.injection and pod.injection.message), "")
    because = f" ({said})" if said else ""
    return f"spec.msrun.fix names them, and these pods came without{because}: recreate them, and see condition Injected"


def _sidecar(observed: Observed) -> Condition:
    pods = [pod for pod in observed.counted_pods if pod.is_injected]
    if not pods:
        return Condition("Sidecar", "Unknown", "NotInjected", "no pod has the agent: see condition Injected")
    without = [pod for pod in pods if _result(pod) != names.INJECTED]
    if without:
        reason = _result(without[0]) or "CreatedBefore"
        said = without[0].injection.sidecar_message if without[0].injection else ""
        advice = said or "they were created before spec.collector.mode was sidecar: recreate them"
        return Condition(
            "Sidecar", "False", reason, f"{len(without)} of {len(pods)} pods are without the sidecar: {advice}"
        )
    failing = [pod.name for pod in pods if _is_failing(pod)]
    if failing:
        return Condition(
            "Sidecar",
            "False",
            "SidecarFails",
            f"the container {names.SIDECAR} of {', '.join(failing[:3])} does not stay up, training goes on: see"
            f" kubectl logs POD -c {names.SIDECAR}",
        )
    return Condition("Sidecar", "True", names.INJECTED, f"all {len(pods)} pods have the sidecar")


def _result(pod: Pod) -> str:
    return pod.injection.sidecar if pod.injection else ""


def _is_failing(pod: Pod) -> bool:
    """Whether the sidecar waits to be started or restarted, while its pod is alive."""
    return pod.is_alive and any(c.name == names.SIDECAR and c.waiting in _WAITS for c in pod.init_containers)

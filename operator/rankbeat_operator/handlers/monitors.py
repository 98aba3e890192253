"""A monitor: observe -> plan -> apply -> status."""

import logging
from dataclasses import replace

from rankbeat_contract import names
from rankbeat_operator.handlers import listed, namespaces
from rankbeat_operator.handlers.context import Context, Key, Scope
from rankbeat_operator.kube import files, kinds
from rankbeat_operator.model import monitors, observed, pods, workloads
from rankbeat_operator.model import sampling as model
from rankbeat_operator.model.manifests import Manifest, labels
from rankbeat_operator.model.monitors import Monitor
from rankbeat_operator.model.observed import Observed
from rankbeat_operator.model.planned import Planned, Sampling
from rankbeat_operator.model.pods import ObjectEvent, Pod
from rankbeat_operator.model.workloads import Workload
from rankbeat_operator.plan import sampling, status, tenants

LOG = logging.getLogger(__name__)

STARTING_SECONDS = 5.0
"""How soon to look again while pods have not started: the breaker must not wait for a resync."""
_EVENTS_BY_UID = 8
"""With more pods than these pending, one list of the namespace's pod events is cheaper."""


async def reconcile(context: Context, namespace: str, name: str) -> None:
    """One monitor; nothing is written that is as it should be.

    Raises: ApiError.
    """
    manifest = await context.cluster.found(kinds.MONITORS, name, namespace)
    place = await listed.namespace(context, namespace)
    if manifest is None or place is None or _is_ending(manifest):
        return
    try:
        monitor = monitors.monitor(manifest)
    except ValueError as error:  # the cluster's CRD is not ours: it took what ours refuses
        await context.events.warn(manifest, "InvalidSpec", str(error))
        return
    seen = await _observed(context, monitor, place)
    planned = await _apply_configuration(context, monitor, seen)
    if seen is None:
        return  # the first poll, whatever its outcome, gives each monitor its turn
    reconciled = status.reconciled(monitor, replace(seen, planned=planned))
    for notice in reconciled.notices:
        await context.events.warn(manifest, notice.reason, notice.message)
    await _write_status(context, monitor, reconciled.status)
    if _is_starting(seen):
        context.keys.add(Key(Scope.MONITOR, namespace, name), STARTING_SECONDS)


async def _apply_configuration(context: Context, monitor: Monitor, seen: Observed | None) -> Planned:
    """The agent's ConfigMap. What it holds is read first: it alone says what was decided about a changed sampling."""
    name = names.MONITOR_CONFIG_MAP_PREFIX + monitor.name
    written = model.written(await listed.config_map(context, monitor.namespace, name))
    if seen is None and written is not None:
        return written  # the step from which a change holds can be said after the first poll
    wanted = Sampling(monitor.settings.interval_steps, monitor.settings.dense_first_steps)
    planned = sampling.planned(wanted, written, model.progress(seen))
    desired = tenants.configuration(monitor, planned)
    if not listed.is_intact(context, desired):
        applied = await context.cluster.apply(desired, names.MANAGER_MONITOR)
        listed.note_intact(context, desired, applied)
    return planned


def _is_starting(seen: Observed) -> bool:
    if seen.workload is None or not seen.workload.wants_pods:
        return False
    return not seen.alive_pods or any(pod.is_injected and not pod.has_started for pod in seen.alive_pods)


def _is_ending(manifest: Manifest) -> bool:
    return "deletionTimestamp" in manifest["metadata"]


async def _observed(context: Context, monitor: Monitor, place: Manifest) -> Observed | None:
    """None just after the start, while it is not known yet whether the aggregator answers."""
    selector = monitor.target.label_selector()
    found = await context.cluster.listed(kinds.PODS, monitor.namespace, labels=selector)
    targeted = [pods.pod(manifest) for manifest in found]
    workload = await _workload(context, monitor, targeted)
    present = observed.present_pods(workload, targeted)
    agent = observed.Agent(context.agent.hash, await namespaces.agent_problem(context, monitor.namespace))
    knowledge = context.knowledge
    if knowledge.aggregator is None:
        return None
    return Observed(
        now=context.wall(),
        agent=agent,
        aggregator=knowledge.aggregator,
        workload=workload,
        pods=present,
        events=await _events(context, monitor.namespace, workload, present),
        # The watch knows of a label that came while the last list was under way.
        is_namespace_opted_in=labels(place).get(names.LABEL_INJECT) == "enabled"
        or monitor.namespace in knowledge.opted_in,
        is_switched_off=files.is_switched_off(context.settings.fleet_folder),
        rivals=knowledge.rivals(monitor.namespace, monitor.name),
        verdict=knowledge.verdicts.get((monitor.namespace, monitor.name, workload.uid)) if workload else None,
    )


async def _workload(context: Context, monitor: Monitor, targeted: list[Pod]) -> Workload | None:
    if not monitor.target.job:
        return workloads.owner_of(targeted)
    job = await context.cluster.found(kinds.JOBS, monitor.target.job, monitor.namespace)
    return None if job is None else workloads.job(job)


async def _events(
    context: Context, namespace: str, workload: Workload | None, present: tuple[Pod, ...]
) -> tuple[ObjectEvent, ...]:
    """Events that the breaker judges by; none are asked for while all is well."""
    if workload is None or not workload.wants_pods:
        return ()
    alive = [pod for pod in present if pod.is_alive]
    uids = [pod.uid for pod in alive if pod.is_injected and not pod.has_started] if alive else [workload.uid]
    if len(uids) > _EVENTS_BY_UID:
        selectors = ["involvedObject.kind=Pod"]
    else:
        selectors = [f"involvedObject.uid={uid}" for uid in uids]
    found = [await context.cluster.listed(kinds.EVENTS, namespace, fields=selector) for selector in selectors]
    return tuple(pods.object_event(manifest) for page in found for manifest in page)


async def _write_status(context: Context, monitor: Monitor, desired: dict[str, object]) -> None:
    now = context.clock()
    since = now - context.status_writes.get(monitor.uid, float("-inf"))
    if not status.is_due(monitor.status, desired, since):
        return
    manifest = {
        "apiVersion": monitors.API_VERSION,
        "kind": names.KIND,
        "metadata": {"namespace": monitor.namespace, "name": monitor.name, "uid": monitor.uid},
        "status": desired,
    }
    await context.cluster.apply(manifest, names.MANAGER_STATUS, "status")
    context.status_writes[monitor.uid] = now
    LOG.debug("status written namespace=%s monitor=%s", monitor.namespace, monitor.name)

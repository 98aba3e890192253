"""The agent in tenants' namespaces: there before it is needed, gone when nothing mounts it.

Its ConfigMap in the release namespace comes last: a webhook that injects this agent is not ready before.
"""

import logging

from rankbeat_contract import names
from rankbeat_operator.errors import ApiError
from rankbeat_operator.handlers import listed
from rankbeat_operator.handlers.context import Context
from rankbeat_operator.kube import kinds
from rankbeat_operator.plan import tenants

LOG = logging.getLogger(__name__)

_AGENTS = f"{names.LABEL_COMPONENT}={tenants.COMPONENT_AGENT}"
_REFUSED = frozenset({403, 422})
"""A quota, a policy or a namespace that is being deleted: asking again settles nothing."""


async def reconcile(context: Context, namespace: str) -> None:
    """The agent's ConfigMap of one namespace. That of the release's is kept here, and written by reconcile_release.

    Raises: ApiError.
    """
    found = await listed.namespace(context, namespace)
    if found is None:
        return
    if namespace == context.settings.namespace:
        await _delete_leftovers(context, namespace, is_needed=True)
        return
    is_needed = tenants.needs_agent(found, sum(1 for _ in context.knowledge.monitors_of(namespace)))
    if is_needed:
        await agent_problem(context, namespace)
    await _delete_leftovers(context, namespace, is_needed=is_needed)


async def reconcile_release(context: Context) -> None:
    """The agent's ConfigMap of the release namespace, once every namespace has it that pods are injected in.

    A namespace that refuses it holds nobody up: its monitors say so, and their pods are not injected.

    Raises: ApiError if a namespace may still be without it.
    """
    release = context.settings.namespace
    if listed.is_intact(context, tenants.agent(release, context.agent)):
        return
    labelled = await context.cluster.listed(kinds.NAMESPACES, labels=f"{names.LABEL_INJECT}=enabled")
    monitors = await context.cluster.listed(kinds.MONITORS, metadata_only=True)
    failures = []
    for namespace in tenants.agent_namespaces(labelled, monitors, release):
        try:
            await agent_problem(context, namespace)
        except ApiError as error:
            failures.append(error)
    if failures:
        LOG.warning("new webhooks wait agent=%s namespaces_without_it=%d", context.agent.hash, len(failures))
        raise failures[0]
    await _write_agent(context, release)


async def agent_problem(context: Context, namespace: str) -> str:
    """Nothing once the agent's ConfigMap is there as it must be; what is wrong if it cannot be.

    Raises: ApiError on what a retry may settle.
    """
    if namespace == context.settings.namespace:
        return "pods of Rankbeat's own namespace never get the agent: run the workload, and its monitor, in another one"
    try:
        await _write_agent(context, namespace)
    except ApiError as error:
        if error.status in _REFUSED:
            name = names.AGENT_CONFIG_MAP_PREFIX + context.agent.hash
            return f"ConfigMap {name} cannot be written ({error.reason}): a quota or policy must let it"
        raise
    return ""


async def _write_agent(context: Context, namespace: str) -> None:
    """The agent's ConfigMap is there as it must be. Its content, 100 kB, is read only when its version is not known.

    Raises: ApiError.
    """
    desired = tenants.agent(namespace, context.agent)
    if listed.is_intact(context, desired):
        return
    name = desired["metadata"]["name"]
    found = await context.cluster.found(kinds.CONFIG_MAPS, name, namespace)
    if found is None or not tenants.is_agent_intact(found, context.agent):
        if found is not None:
            LOG.warning("agent replaced by somebody, restored namespace=%s name=%s", namespace, name)
            await context.cluster.delete(kinds.CONFIG_MAPS, name, namespace)
        found = await context.cluster.apply(desired, names.MANAGER_MONITOR)
        LOG.info("agent written namespace=%s name=%s", namespace, name)
    listed.note_intact(context, desired, found)


async def _delete_leftovers(context: Context, namespace: str, *, is_needed: bool) -> None:
    needed = names.AGENT_CONFIG_MAP_PREFIX + context.agent.hash if is_needed else None
    known = listed.agents(context, namespace)
    if known is not None and known <= {needed}:
        return
    found = await context.cluster.listed(kinds.CONFIG_MAPS, namespace, labels=_AGENTS, metadata_only=True)
    agents = [tenants.agent_config_map(manifest) for manifest in found]
    if all(agent.name == needed for agent in agents):
        return
    injected = f"{names.LABEL_STATE}={names.STATE_INJECTED}"
    mounted = tenants.mounted_agents(await context.cluster.listed(kinds.PODS, namespace, labels=injected))
    for name in tenants.leftover_agents(agents, mounted, needed, context.wall()):
        await context.cluster.delete(kinds.CONFIG_MAPS, name, namespace)
        LOG.info("agent deleted namespace=%s name=%s", namespace, name)

"""The agent in tenants' namespaces: there before it is needed, gone when nothing mounts it."""

import logging

from rankbeat_contract import names
from rankbeat_operator.errors import ApiError
from rankbeat_operator.handlers.context import Context
from rankbeat_operator.kube import kinds
from rankbeat_operator.plan import tenants

LOG = logging.getLogger(__name__)

_AGENTS = f"{names.LABEL_COMPONENT}={tenants.COMPONENT_AGENT}"


async def reconcile(context: Context, namespace: str) -> None:
    """The agent's ConfigMap of one namespace.

    Raises: ApiError.
    """
    found = await context.cluster.found(kinds.NAMESPACES, namespace)
    if found is None or "deletionTimestamp" in found["metadata"]:
        return
    is_needed = tenants.needs_agent(found, sum(1 for _ in context.knowledge.monitors_of(namespace)))
    if is_needed:
        await agent_problem(context, namespace)
    await _delete_leftovers(context, namespace, is_needed=is_needed)


async def agent_problem(context: Context, namespace: str) -> str:
    """Nothing once the agent's ConfigMap is there as it must be; what is wrong if it cannot be.

    Raises: ApiError on what a retry may settle.
    """
    desired = tenants.agent(namespace, context.agent)
    name = desired["metadata"]["name"]
    version = await _version(context, namespace, name)
    if version and context.intact_agents.get(namespace) == version:
        return ""
    found = await context.cluster.found(kinds.CONFIG_MAPS, name, namespace) if version else None
    if found is not None and tenants.is_agent_intact(found, context.agent):
        context.intact_agents[namespace] = found["metadata"]["resourceVersion"]
        return ""
    if found is not None:
        LOG.warning("agent replaced by somebody, restored namespace=%s name=%s", namespace, name)
        await context.cluster.delete(kinds.CONFIG_MAPS, name, namespace)
    try:
        await context.cluster.apply(desired, names.MANAGER_MONITOR)
    except ApiError as error:
        if error.status in {403, 422}:
            return f"ConfigMap {name} cannot be written ({error.reason}): a quota or policy must let it"
        raise
    LOG.info("agent written namespace=%s name=%s", namespace, name)
    return ""


async def _version(context: Context, namespace: str, name: str) -> str:
    """resourceVersion of a ConfigMap, "" if there is none: its content, 100 kB, is read only when this changes."""
    found = await context.cluster.found(kinds.CONFIG_MAPS, name, namespace, metadata_only=True)
    return found["metadata"]["resourceVersion"] if found else ""


async def namespaces_with_agents(context: Context) -> frozenset[str]:
    """Where agents' ConfigMaps are.

    Raises: ApiError.
    """
    found = await context.cluster.listed(kinds.CONFIG_MAPS, labels=_AGENTS, metadata_only=True)
    return frozenset(manifest["metadata"]["namespace"] for manifest in found)


async def _delete_leftovers(context: Context, namespace: str, *, is_needed: bool) -> None:
    found = await context.cluster.listed(kinds.CONFIG_MAPS, namespace, labels=_AGENTS, metadata_only=True)
    agents = [tenants.agent_config_map(manifest) for manifest in found]
    needed = names.AGENT_CONFIG_MAP_PREFIX + context.agent.hash if is_needed else None
    if all(agent.name == needed for agent in agents):
        return
    injected = f"{names.LABEL_STATE}={names.STATE_INJECTED}"
    mounted = tenants.mounted_agents(await context.cluster.listed(kinds.PODS, namespace, labels=injected))
    for name in tenants.leftover_agents(agents, mounted, needed, context.wall()):
        await context.cluster.delete(kinds.CONFIG_MAPS, name, namespace)
        LOG.info("agent deleted namespace=%s name=%s", namespace, name)

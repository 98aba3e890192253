"""What each resync lists once, so that a reconcile without news need not ask: namespaces, versions of our ConfigMaps.

Two lists for all monitors instead of three requests for each. A ConfigMap that somebody changed is noticed by the next
resync; a namespace whose label changed, or a new monitor's, is asked for again at once.
"""

from rankbeat_contract import names
from rankbeat_operator.handlers.context import Context
from rankbeat_operator.kube import kinds
from rankbeat_operator.model.manifests import Manifest

_OURS = f"app.kubernetes.io/managed-by={names.OPERATOR}"


async def refresh(context: Context) -> None:
    """List both again.

    Raises: ApiError.
    """
    namespaces = await context.cluster.listed(kinds.NAMESPACES, metadata_only=True)
    context.knowledge.namespaces = {each["metadata"]["name"]: _kept(each) for each in namespaces}
    listed: dict[str, dict[str, str]] = {}
    for manifest in await context.cluster.listed(kinds.CONFIG_MAPS, labels=_OURS, metadata_only=True):
        metadata = manifest["metadata"]
        listed.setdefault(metadata["namespace"], {})[metadata["name"]] = metadata["resourceVersion"]
    intact = context.intact_config_maps
    for namespace, name in [place for place in intact if place[1] not in listed.get(place[0], {})]:
        del intact[namespace, name]
    context.knowledge.config_maps = listed


def is_intact(context: Context, desired: Manifest) -> bool:
    """Whether a ConfigMap was seen to be as desired, and is still of that version."""
    namespace, name = desired["metadata"]["namespace"], desired["metadata"]["name"]
    version = context.knowledge.config_maps.get(namespace, {}).get(name)
    return version is not None and context.intact_config_maps.get((namespace, name)) == (version, desired)


async def config_map(context: Context, namespace: str, name: str) -> Manifest | None:
    """The ConfigMap as we wrote it where nobody touched it since, else as the API has it; None if there is none.

    Raises: ApiError.
    """
    version = context.knowledge.config_maps.get(namespace, {}).get(name)
    held = context.intact_config_maps.get((namespace, name))
    if held is not None and held[0] == version:
        return held[1]
    return await context.cluster.found(kinds.CONFIG_MAPS, name, namespace)


def note_intact(context: Context, desired: Manifest, found: Manifest) -> None:
    """found, of the API server, is as desired."""
    namespace, name = desired["metadata"]["namespace"], desired["metadata"]["name"]
    version = found["metadata"]["resourceVersion"]
    context.knowledge.config_maps.setdefault(namespace, {})[name] = version
    context.intact_config_maps[namespace, name] = (version, desired)


async def namespace(context: Context, name: str) -> Manifest | None:
    """The metadata of a namespace, None if there is none or it is being deleted.

    Raises: ApiError.
    """
    found = context.knowledge.namespaces.get(name)
    if found is None:
        found = await context.cluster.found(kinds.NAMESPACES, name, metadata_only=True)
    return None if found is None or "deletionTimestamp" in found["metadata"] else found


def _kept(namespace: Manifest) -> Manifest:
    """What is read of a namespace: with all else, thousands of them are tens of megabytes."""
    metadata = namespace["metadata"]
    return {"metadata": {key: metadata[key] for key in ("name", "labels", "deletionTimestamp") if key in metadata}}


def forget_namespace(context: Context, namespace: str) -> None:
    """A namespace that changed or came, perhaps again under its name, is looked at afresh."""
    context.knowledge.namespaces.pop(namespace, None)
    context.knowledge.config_maps.pop(namespace, None)
    context.intact_config_maps.pop((namespace, names.AGENT_CONFIG_MAP_PREFIX + context.agent.hash), None)


def agents(context: Context, namespace: str) -> frozenset[str] | None:
    """Names of the agents' ConfigMaps in a namespace; None where they have not been listed."""
    known = context.knowledge.config_maps.get(namespace)
    return None if known is None else frozenset(n for n in known if n.startswith(names.AGENT_CONFIG_MAP_PREFIX))


def namespaces_with_agents(context: Context) -> frozenset[str]:
    """Where agents' ConfigMaps are."""
    return frozenset(namespace for namespace in context.knowledge.config_maps if agents(context, namespace))

"""What the operator keeps in tenants' namespaces: ConfigMaps, nothing else."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from rankbeat_contract import monitor as contract
from rankbeat_contract import names
from rankbeat_contract.packing import Packed
from rankbeat_operator.model.manifests import Manifest, labels, seconds
from rankbeat_operator.model.monitors import API_VERSION, Monitor
from rankbeat_operator.model.planned import Planned, Sampling

COMPONENT_AGENT = "agent"
AGENT_GRACE_SECONDS = 900.0
"""An agent that was replaced stays this long after its successor came: webhooks of the old version serve until those of
the new one are ready, which an image to pull can delay by minutes, and pods that they admitted mount it later still."""

_MANAGED_BY = {"app.kubernetes.io/managed-by": names.OPERATOR, "app.kubernetes.io/part-of": "rankbeat"}


@dataclass(frozen=True, slots=True)
class AgentConfigMap:
    """An agent's ConfigMap found in a namespace. created: epoch."""

    name: str
    created: float


def configuration(monitor: Monitor, planned: Planned) -> Manifest:
    """ConfigMap that the agent reads its settings from. planned: the sampling, and from which step it holds."""
    change = planned.change
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": names.MONITOR_CONFIG_MAP_PREFIX + monitor.name,
            "namespace": monitor.namespace,
            "labels": {
                **_MANAGED_BY,
                names.LABEL_COMPONENT: "configuration",
                names.LABEL_MONITOR_UID: monitor.uid,
            },
            **({} if change is None else {"annotations": {names.ANNOTATION_CHANGE_RUN: change.run}}),
            "ownerReferences": [
                {
                    "apiVersion": API_VERSION,
                    "kind": names.KIND,
                    "name": monitor.name,
                    "uid": monitor.uid,
                    "controller": True,
                }
            ],
        },
        "data": {
            names.MONITOR_CONFIG_KEY: json.dumps(_content(monitor, planned), sort_keys=True),
        },
    }


def _content(monitor: Monitor, planned: Planned) -> dict[str, object]:
    change = planned.change
    content = {**contract.agent_configuration(monitor.settings), "sampling": _sampling(planned.sampling)}
    if change is not None:
        content["change"] = {"fromStep": change.from_step, "previous": _sampling(change.previous)}
    return content


def _sampling(sampling: Sampling) -> dict[str, int]:
    return contract.sampling_configuration(sampling.interval_steps, sampling.dense_first_steps)


def agent(namespace: str, packed: Packed) -> Manifest:
    """ConfigMap that the agent's files are mounted from; nobody owns it, since pods outlive monitors."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": names.AGENT_CONFIG_MAP_PREFIX + packed.hash,
            "namespace": namespace,
            "labels": {**_MANAGED_BY, names.LABEL_COMPONENT: COMPONENT_AGENT},
        },
        "immutable": True,
        "data": packed.data,
    }


def is_agent_intact(found: Manifest, packed: Packed) -> bool:
    """Whether a ConfigMap holds the agent and nothing but it, and cannot be changed."""
    return found.get("data") == packed.data and not found.get("binaryData") and found.get("immutable") is True


def needs_agent(namespace: Manifest, monitors: int) -> bool:
    """Whether pods of a namespace may be injected: it opted in, or has a monitor. Never while it is being deleted."""
    if "deletionTimestamp" in namespace["metadata"]:
        return False
    return monitors > 0 or labels(namespace).get(names.LABEL_INJECT) == "enabled"


def agent_namespaces(labelled: Iterable[Manifest], monitors: Iterable[Manifest], release: str) -> tuple[str, ...]:
    """Namespaces that must have the agent before a webhook may inject it: labelled ones, and those of the monitors.

    Not the release's: no pod of it is ever injected, and its ConfigMap comes last, the sign that all others are there.
    """
    opted_in = {each["metadata"]["name"] for each in labelled if needs_agent(each, 0)}
    return tuple(sorted((opted_in | {each["metadata"]["namespace"] for each in monitors}) - {release}))


def agent_config_map(manifest: Manifest) -> AgentConfigMap:
    metadata = manifest["metadata"]
    return AgentConfigMap(metadata["name"], seconds(metadata["creationTimestamp"]) or 0.0)


def mounted_agents(pods: Iterable[Manifest]) -> frozenset[str]:
    """Names of the agents' ConfigMaps that pods still mount, or will when they start."""
    alive = (pod for pod in pods if (pod.get("status") or {}).get("phase") not in {"Succeeded", "Failed"})
    volumes = (volume for pod in alive for volume in pod["spec"].get("volumes") or ())
    return frozenset(volume["configMap"]["name"] for volume in volumes if "configMap" in volume)


def leftover_agents(
    found: Iterable[AgentConfigMap], mounted: frozenset[str], needed: str | None, now: float
) -> tuple[str, ...]:
    """Agents' ConfigMaps to delete. needed: name of the one that new pods mount, None if the namespace needs none."""
    found = tuple(found)
    current = next((config_map for config_map in found if config_map.name == needed), None)
    if needed is not None and (current is None or now - current.created < AGENT_GRACE_SECONDS):
        return ()
    return tuple(sorted(c.name for c in found if c.name != needed and c.name not in mounted))

"""JSON Patch operations: each leaves the order and the values of what others wrote as they are."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rankbeat_contract import names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rankbeat_webhook.model import plans, pods
    from rankbeat_webhook.patch.command import Prepend

    Operation = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Change:
    """A container's command line after injection; python_path: the entry of its env that is prepended to, if one is."""

    command: tuple[str, ...]
    args: tuple[str, ...]
    python_path: Prepend | None = None


ENV = (
    {"name": names.ENV_RING_DIR, "value": names.RING_PATH},
    {"name": names.ENV_CONFIG, "value": f"{names.CONFIG_PATH}/{names.MONITOR_CONFIG_KEY}"},
)
MOUNTS: tuple[Mapping[str, object], ...] = (
    {"name": names.AGENT_VOLUME, "mountPath": names.AGENT_PATH, "readOnly": True},
    {"name": names.CONFIG_VOLUME, "mountPath": names.CONFIG_PATH, "readOnly": True},
    {"name": names.RING_VOLUME, "mountPath": names.RING_PATH},
)


def marks(pod: pods.Pod, decision: plans.Decision, agent: str) -> tuple[Operation, ...]:
    """The label and the annotation by which the operator learns what became of the pod.

    agent: hash of the agent that the pod got, empty for a skipped pod.
    """
    state = names.STATE_INJECTED if decision.result == names.INJECTED else names.STATE_SKIPPED
    report: dict[str, object] = {
        "monitor": decision.monitor,
        "result": decision.result,
        "message": decision.message,
        "agent": agent,
        "container": decision.container,
        **decision.more,
    }
    return (
        *_members("/metadata/labels", names.LABEL_STATE, state, exists=bool(pod.labels)),
        *_members("/metadata/annotations", names.ANNOTATION_INJECTION, json.dumps(report), exists=pod.has_annotations),
    )


def _members(path: str, key: str, value: str, *, exists: bool) -> tuple[Operation, ...]:
    if not exists:
        return ({"op": "add", "path": path, "value": {key: value}},)
    return ({"op": "add", "path": f"{path}/{key.replace('~', '~0').replace('/', '~1')}", "value": value},)


def injection(
    pod: pods.Pod,
    container: pods.Container,
    change: Change,
    volumes: tuple[Mapping[str, object], ...],
) -> tuple[Operation, ...]:
    """The volumes, and in one container the mounts, the environment and the way to the agent."""
    place = f"/spec/containers/{container.index}"
    return (
        *elements("/spec/volumes", volumes, exists=bool(pod.volumes)),
        *_command_line(place, container, change),
        *elements(f"{place}/env", ENV, exists=container.has_env),
        *elements(f"{place}/volumeMounts", MOUNTS, exists=container.has_mounts),
    )


def _command_line(place: str, container: pods.Container, change: Change) -> Iterator[Operation]:
    if change.python_path is not None:
        path = f"{place}/env/{change.python_path.index}/value"
        yield {"op": "add", "path": path, "value": change.python_path.value}
    for field, old, new in (("command", container.command, change.command), ("args", container.args, change.args)):
        if new != old:
            yield {"op": "replace", "path": f"{place}/{field}", "value": list(new)}


def elements(path: str, added: tuple[Mapping[str, object], ...], *, exists: bool) -> tuple[Operation, ...]:
    if not exists:
        return ({"op": "add", "path": path, "value": list(added)},)
    return tuple({"op": "add", "path": f"{path}/-", "value": each} for each in added)


def volumes(settings: plans.Settings, monitor: str) -> tuple[Mapping[str, object], ...]:
    """The agent, the monitor's configuration, the rings. What is absent keeps no pod from starting."""
    return (
        {
            "name": names.AGENT_VOLUME,
            "configMap": {
                "name": f"{names.AGENT_CONFIG_MAP_PREFIX}{settings.agent}",
                "items": [dict(each) for each in settings.items],
                "defaultMode": 0o444,
                "optional": True,
            },
        },
        {
            "name": names.CONFIG_VOLUME,
            "configMap": {
                "name": f"{names.MONITOR_CONFIG_MAP_PREFIX}{monitor}",
                "defaultMode": 0o444,
                "optional": True,
            },
        },
        {"name": names.RING_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": settings.ring_limit}},
    )

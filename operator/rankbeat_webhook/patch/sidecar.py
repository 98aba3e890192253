"""The collector as a native sidecar, on request (spec.collector.mode: sidecar). Rules: docs/sources.md, Injection.

It is an init container that restarts: it ends after the training container, and never keeps a pod from ending. It has
no port, changes no quality-of-service class, and gets Secrets and volumes that the tenant named, under the tenant's own
quota and pod security: mutation comes before both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rankbeat_contract import monitor as contract
from rankbeat_contract import names
from rankbeat_contract import outputs as contract_outputs
from rankbeat_webhook.patch import operations, quality

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rankbeat_contract.outputs import Outputs
    from rankbeat_webhook.model import plans, pods

FIRST_SERVER = (1, 29)
"""Older servers drop restartPolicy of an init container: training would wait for it for ever."""
_USER = 65532


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of the sidecar. result: INJECTED or a reason, "" where none was asked for."""

    result: str = ""
    message: str = ""
    operations: tuple[operations.Operation, ...] = ()

    @property
    def said(self) -> dict[str, object]:
        """What the annotation holds of it."""
        return {"sidecar": {"result": self.result, "message": self.message}} if self.result else {}


def sidecar(
    pod: pods.Pod, container: pods.Container, asked: contract.Settings, install: plans.Settings, view: plans.View
) -> Answer:
    """The sidecar of a pod whose container `container` gets the agent."""
    if asked.collector_mode != contract.MODE_SIDECAR:
        return Answer()
    refused = _refused(pod, asked.outputs, install, view)
    if refused is not None or install.sidecar is None:
        return refused or Answer()
    made = _container(pod, container, asked.outputs, install.sidecar)
    secrets = [{"name": each} for each in install.sidecar.pull_secrets if each not in pod.pull_secrets]
    volumes = tuple(_volumes(asked.outputs))
    return Answer(
        names.INJECTED,
        "",
        (
            # Agent, configuration and ring have made the array by now.
            *(operations.elements("/spec/volumes", volumes, exists=True) if volumes else ()),
            *operations.elements("/spec/initContainers", (made,), exists=bool(pod.init_containers)),
            *(
                operations.elements("/spec/imagePullSecrets", tuple(secrets), exists=bool(pod.pull_secrets))
                if secrets
                else ()
            ),
        ),
    )


def _refused(pod: pods.Pod, outputs: Outputs, install: plans.Settings, view: plans.View) -> Answer | None:
    if install.sidecar is None:
        return Answer(
            names.REASON_SIDECAR_TURNED_OFF,
            "this install allows no sidecars: ask its owner to set the value sidecar.enabled to true, "
            "or write spec.collector.mode: node and leave out outputs.files",
        )
    if view.server is None or view.server < FIRST_SERVER:
        seen = "is not known yet" if view.server is None else f"is {view.server[0]}.{view.server[1]}"
        return Answer(
            names.REASON_SIDECAR_NOT_SUPPORTED,
            f"the API server's version {seen}, sidecars need {FIRST_SERVER[0]}.{FIRST_SERVER[1]}: "
            "write spec.collector.mode: node and leave out outputs.files",
        )
    if quality.has_exclusive_cpus(pod):
        return Answer(
            names.REASON_EXCLUSIVE_CPUS,
            "the pod is Guaranteed with whole CPUs, which a sidecar could cost it: "
            "write spec.collector.mode: node, or ask for a fraction of a CPU more",
        )
    return _taken(pod, outputs)


def _taken(pod: pods.Pod, outputs: Outputs) -> Answer | None:
    own = (outputs.volume or {}).get("name")
    if own and own not in pod.volumes:
        every = ", ".join(repr(each) for each in pod.volumes) or "none"
        return Answer(
            names.REASON_NO_SUCH_VOLUME,
            f"spec.outputs.volume.name is {own!r}, the pod has the volumes {every}: name one of them",
        )
    ours = {names.OUTPUT_VOLUME, names.KEYS_VOLUME} & set(pod.volumes)
    every_container = {each.name for each in (*pod.containers, *pod.init_containers)}
    taken = [f"volume {each!r}" for each in sorted(ours)]
    taken += [f"a container {each!r}" for each in sorted(every_container & {names.SIDECAR})]
    if taken:
        return Answer(names.REASON_MOUNT_TAKEN, f"the pod already has {', '.join(taken)}; rename or remove it")
    return None


def _volumes(outputs: Outputs) -> Iterator[Mapping[str, object]]:
    volume = outputs.volume or {}
    if volume and "name" not in volume:
        yield {"name": names.OUTPUT_VOLUME, **volume}
    keys = [
        {"secret": {"name": each["secretName"], "items": [{"key": each["key"], "path": file}], "optional": True}}
        for file, each in ((names.KEY_ENCRYPTION, outputs.encryption), (names.KEY_MASKING, outputs.masking))
        if each is not None
    ]
    if keys:
        # A Secret that is missing keeps no pod from starting: the sidecar writes nothing without its key.
        yield {"name": names.KEYS_VOLUME, "projected": {"sources": keys, "defaultMode": 0o444}}


def _container(
    pod: pods.Pod, container: pods.Container, outputs: Outputs, install: plans.Sidecar
) -> Mapping[str, object]:
    asks = {} if quality.quality(pod) == quality.BEST_EFFORT or quality.has_own_resources(pod) else install.resources
    return {
        "name": names.SIDECAR,
        "image": install.image,
        "imagePullPolicy": install.pull_policy,
        "command": ["python3", "-m", "rankbeat_collector", "sidecar"],
        "args": ["--status-file", f"{names.RING_PATH}/{contract_outputs.STATUS_FILE}"],
        "env": list(_environment(outputs)),
        **({"resources": {"requests": dict(asks), "limits": dict(asks)}} if asks else {}),
        "restartPolicy": "Always",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            **_user(pod, container),
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": list(_mounts(outputs)),
    }


def _user(pod: pods.Pod, container: pods.Container) -> Mapping[str, int]:
    """The user that trains, so that its volume is writable and its files are its own; never root."""
    if container.user:
        return {"runAsUser": container.user, **({"runAsGroup": container.group} if container.group else {})}
    if container.user is None and pod.user:
        return {}
    return {"runAsUser": _USER, "runAsGroup": _USER}


def _environment(outputs: Outputs) -> Iterator[Mapping[str, object]]:
    yield from operations.ENV
    if outputs.volume:
        yield {"name": names.ENV_OUTPUT, "value": names.OUTPUT_PATH}
    for name, field in (
        (names.ENV_POD_NAME, "metadata.name"),
        (names.ENV_POD_NAMESPACE, "metadata.namespace"),
        (names.ENV_POD_UID, "metadata.uid"),
        (names.ENV_NODE, "spec.nodeName"),
    ):
        yield {"name": name, "valueFrom": {"fieldRef": {"fieldPath": field}}}


def _mounts(outputs: Outputs) -> Iterator[Mapping[str, object]]:
    yield {"name": names.CONFIG_VOLUME, "mountPath": names.CONFIG_PATH, "readOnly": True}
    # Writable for the status file alone: the node's collector reads it there, since nothing else leads out of the pod.
    yield {"name": names.RING_VOLUME, "mountPath": names.RING_PATH}
    if outputs.volume:
        yield {"name": outputs.volume.get("name") or names.OUTPUT_VOLUME, "mountPath": names.OUTPUT_PATH}
    if outputs.encryption is not None or outputs.masking is not None:
        yield {"name": names.KEYS_VOLUME, "mountPath": names.KEYS_PATH, "readOnly": True}

"""DaemonSet rankbeat-node: the collector reads rings, the clock says how far to trust the node's time."""

from typing import TypeVar

from rankbeat_contract import names
from rankbeat_operator.model.fleet import Fleet
from rankbeat_operator.model.manifests import Manifest
from rankbeat_operator.plan.fleet import metrics, pods
from rankbeat_operator.plan.fleet.pods import Release

Part = TypeVar("Part")
KUBELET_ROOT = "/var/lib/kubelet"
"""Where the collector sees the kubelet's folder, wherever the node has it."""
POD_LOGS = "/var/log/pods"
"""Likewise the folder of all pods' logs, if the install asks for it."""


def daemon_set(fleet: Fleet, release: Release) -> Manifest:
    """The DaemonSet.

    The collector can read the volumes of all pods of its node, their logs if the install asks for it, and nothing else
    of the node.
    """
    rest: Manifest = {
        "containers": [_collector(fleet, release), _clock(fleet)],
        "volumes": [
            {"name": "pods", "hostPath": {"path": f"{fleet.node.kubelet_root}/pods", "type": "Directory"}},
            *_pod_logs(fleet, {"name": "pod-logs", "hostPath": {"path": fleet.node.pod_logs, "type": "Directory"}}),
            *_chrony(fleet, {"name": "chrony", "hostPath": {"path": _chrony_folder(fleet)}}),
            *metrics.volumes(fleet),
            pods.api_access(),
            pods.identity(),
            pods.scratch(),
        ],
    }
    template = pods.template(names.NODE, fleet, fleet.node.placement, rest)
    return pods.daemon_set(names.NODE, fleet, release, template)


def _pod_logs(fleet: Fleet, volume_or_mount: Manifest) -> tuple[Manifest, ...]:
    """It where the install lets the collector see pods' logs, else nothing."""
    return (volume_or_mount,) if fleet.node.pod_logs else ()


def _collector(fleet: Fleet, release: Release) -> Manifest:
    return {
        "name": "collector",
        "image": fleet.node_image,
        "imagePullPolicy": fleet.image_pull_policy,
        "command": ["python3", "-m", "rankbeat_collector"],
        "args": [
            "--node=$(NODE_NAME)",
            f"--kubelet-root={KUBELET_ROOT}",
            *([f"--pod-logs={POD_LOGS}"] if fleet.node.pod_logs else []),
            f"--aggregator-url=https://{names.AGGREGATOR}.{release.namespace}.svc:{names.PORT_AGGREGATOR}",
            f"--ca-file={pods.IDENTITY_PATH}/ca.crt",
            f"--token-file={pods.IDENTITY_PATH}/token",
            f"--push-interval={fleet.node.push_interval_seconds:g}",
            f"--poll-interval={fleet.node.poll_interval_seconds:g}",
            *metrics.arguments(fleet),
        ],
        "env": [pods.field_env("NODE_NAME", "spec.nodeName")],
        "ports": [metrics.port(fleet, names.PORT_COLLECTOR)],
        "resources": fleet.node.placement.resources,
        "livenessProbe": metrics.probe(fleet, names.PORT_COLLECTOR),
        "securityContext": _reading_all(fleet),
        "volumeMounts": [
            {**pods.mount("pods", f"{KUBELET_ROOT}/pods"), "mountPropagation": "HostToContainer"},
            *_pod_logs(fleet, pods.mount("pod-logs", POD_LOGS)),
            pods.mount("api-access", pods.API_ACCESS_PATH),
            pods.mount("identity", pods.IDENTITY_PATH),
            *metrics.mounts(fleet),
            pods.SCRATCH_MOUNT,
        ],
    }


def _reading_all(fleet: Fleet) -> Manifest:
    """Uid 0 with DAC_READ_SEARCH alone reads the kubelet's folders, which are root's; it cannot write there."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], "add": ["DAC_READ_SEARCH"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": False,
        "runAsUser": 0,
        "seccompProfile": {"type": "RuntimeDefault"},
        **({"seLinuxOptions": fleet.node.se_linux_options} if fleet.node.se_linux_options else {}),
    }


def _chrony(fleet: Fleet, part: Part) -> tuple[Part, ...]:
    """It where the install lets the clock ask the node's chronyd, else nothing."""
    return (part,) if fleet.clock.chrony_socket else ()


def _chrony_folder(fleet: Fleet) -> str:
    """Of the socket: under the same path in the container, as chronyd answers to the path of the asking socket.

    Without a type, so that a node without chronyd keeps its collector: the clock says SocketNotFound there.
    """
    return fleet.clock.chrony_socket.rpartition("/")[0]


def _asking_chrony(fleet: Fleet) -> Manifest:
    """No privilege, but chronyd's own user: the folder of its socket is closed to all others."""
    return {**pods.RESTRICTED, "runAsUser": fleet.clock.chrony_user}


def _clock(fleet: Fleet) -> Manifest:
    return {
        "name": "clock",
        "image": fleet.node_image,
        "imagePullPolicy": fleet.image_pull_policy,
        "command": ["python3", "-m", "rankbeat_exporter", "clock"],
        "args": [
            "--node=$(NODE_NAME)",
            *(f"--server={server}" for server in fleet.clock.servers),
            *_chrony(fleet, f"--chrony={fleet.clock.chrony_socket}"),
            f"--offset-limit={fleet.clock.offset_limit_seconds:g}s",
            f"--loopback-port={names.PORT_CLOCK_LOOPBACK}",
            *metrics.arguments(fleet),
        ],
        "env": [pods.field_env("NODE_NAME", "spec.nodeName")],
        "ports": [metrics.port(fleet, names.PORT_CLOCK, "metrics-clock", "https-clock")],
        "resources": fleet.clock.resources,
        "livenessProbe": metrics.probe(fleet, names.PORT_CLOCK),
        "securityContext": _asking_chrony(fleet) if fleet.clock.chrony_socket else pods.RESTRICTED,
        "volumeMounts": [
            *_chrony(fleet, {"name": "chrony", "mountPath": _chrony_folder(fleet)}),
            *metrics.mounts(fleet),
            pods.SCRATCH_MOUNT,
        ],
    }

"""DaemonSet rankbeat-devices: one part may touch devices and speaks to nobody, the other serves and touches nothing."""

from rankbeat_contract import names
from rankbeat_operator.model.fleet import Fleet
from rankbeat_operator.model.manifests import Manifest
from rankbeat_operator.plan.fleet import pods
from rankbeat_operator.plan.fleet.pods import Release

SOCKET = "/run/rankbeat/vendor.sock"


def daemon_set(fleet: Fleet, release: Release) -> Manifest:
    """The DaemonSet, without any token."""
    rest: Manifest = {
        # The socket gets the folder's group, which is that of the part that connects.
        "securityContext": {"fsGroup": pods.NON_ROOT_UID, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_vendor(fleet), _devices(fleet)],
        "volumes": [
            {"name": "socket", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
            {"name": "npu-driver", "hostPath": {"path": fleet.devices.npu_driver_root, "type": ""}},
            pods.scratch(),
        ],
    }
    template = pods.template(names.DEVICES, fleet, fleet.devices.placement, rest)
    return pods.daemon_set(names.DEVICES, fleet, release, template)


def _vendor(fleet: Fleet) -> Manifest:
    """Privileged, since DCMI opens the devices' management files; its only way out is the socket."""
    return {
        "name": "vendor",
        "image": fleet.node_image,
        "imagePullPolicy": fleet.image_pull_policy,
        "command": ["python3", "-m", "rankbeat_exporter", "vendor"],
        "args": [f"--socket={SOCKET}", f"--npu-driver-root={fleet.devices.npu_driver_root}"],
        "resources": fleet.devices.placement.resources,
        "securityContext": {"privileged": True, "runAsUser": 0, "readOnlyRootFilesystem": True},
        "volumeMounts": [
            {"name": "socket", "mountPath": "/run/rankbeat"},
            pods.SCRATCH_MOUNT,
            pods.mount("npu-driver", fleet.devices.npu_driver_root),
        ],
    }


def _devices(fleet: Fleet) -> Manifest:
    return {
        "name": "devices",
        "image": fleet.node_image,
        "imagePullPolicy": fleet.image_pull_policy,
        "command": ["python3", "-m", "rankbeat_exporter", "devices"],
        "args": ["--node=$(NODE_NAME)", f"--socket={SOCKET}"],
        "env": [pods.field_env("NODE_NAME", "spec.nodeName")],
        "ports": [{"name": "metrics", "containerPort": names.PORT_DEVICES}],
        "resources": fleet.devices.placement.resources,
        "livenessProbe": pods.probe("/healthz", names.PORT_DEVICES),
        "securityContext": pods.RESTRICTED,
        "volumeMounts": [pods.mount("socket", "/run/rankbeat"), pods.SCRATCH_MOUNT],
    }

"""DaemonSets of accelerator nodes: one part of a pod may touch devices, the other serves and touches none."""

from rankbeat_contract import names
from rankbeat_operator.model.fleet import Fleet, Placement
from rankbeat_operator.model.manifests import Manifest
from rankbeat_operator.plan.fleet import metrics, pods
from rankbeat_operator.plan.fleet.pods import Release

SOCKET = "/run/rankbeat/vendor.sock"
POD_RESOURCES = "/var/lib/kubelet/pod-resources"
"""Where the serving part sees the kubelet's socket, wherever the node has it."""
NPU_NODES = (
    ("accelerator", ("huawei-npu", "huawei-Ascend910", "huawei-Ascend310", "huawei-Ascend310P")),
    ("feature.node.kubernetes.io/pci-1200_19e5.present", ("true",)),
)
GPU_NODES = (
    ("nvidia.com/gpu.present", ("true",)),
    ("feature.node.kubernetes.io/pci-10de.present", ("true",)),
    ("feature.node.kubernetes.io/pci-0302_10de.present", ("true",)),
)
"""Labels by which vendors' own components and node-feature-discovery mark accelerator nodes (docs/node-exporter.md)."""


def daemon_set(fleet: Fleet, release: Release) -> Manifest:
    """The DaemonSet of NPU nodes. The part that may touch devices has no token."""
    driver = {"name": "npu-driver", "hostPath": {"path": fleet.devices.npu_driver_root, "type": ""}}
    rest = {**_pod(fleet, _vendor(fleet), (driver,)), **_affinity(fleet.devices.placement, NPU_NODES)}
    template = pods.template(names.DEVICES, fleet, fleet.devices.placement, rest)
    return pods.daemon_set(names.DEVICES, fleet, release, template)


def nvidia_daemon_set(fleet: Fleet, release: Release) -> Manifest:
    """Likewise of GPU nodes.

    NVIDIA's container runtime brings library and device nodes into the vendor part, which then needs no privilege;
    where there is none, the folder with the driver is mounted.
    """
    nvidia = fleet.devices.nvidia
    driver = {"name": "nvidia-driver", "hostPath": {"path": nvidia.driver_root, "type": "Directory"}}
    rest: Manifest = {
        **_pod(fleet, _nvidia_vendor(fleet), (driver,) if nvidia.driver_root else ()),
        "serviceAccountName": names.DEVICES,
        **_affinity(nvidia.placement, GPU_NODES),
        **({"runtimeClassName": nvidia.runtime_class_name} if _has_runtime_class(fleet) else {}),
    }
    template = pods.template(names.DEVICES_NVIDIA, fleet, nvidia.placement, rest)
    return pods.daemon_set(names.DEVICES_NVIDIA, fleet, release, template)


def _has_runtime_class(fleet: Fleet) -> bool:
    return bool(fleet.devices.nvidia.runtime_class_name) and not fleet.devices.nvidia.driver_root


def _affinity(placement: Placement, nodes: tuple[tuple[str, tuple[str, ...]], ...]) -> Manifest:
    """Without a node selector of the install's: nodes with one of the labels, so that no other node runs a pod."""
    if placement.node_selector:
        return {}
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]} for key, values in nodes]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def _pod(fleet: Fleet, vendor: Manifest, drivers: tuple[Manifest, ...]) -> Manifest:
    return {
        # The socket gets the folder's group, which is that of the part that connects.
        "securityContext": {"fsGroup": pods.NON_ROOT_UID, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [vendor, _devices(fleet)],
        "volumes": [
            {"name": "socket", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
            *drivers,
            {
                "name": "pod-resources",
                "hostPath": {"path": f"{fleet.node.kubelet_root}/pod-resources", "type": "Directory"},
            },
            *metrics.volumes(fleet),
            pods.api_access(),
            pods.scratch(),
        ],
    }


def _vendor(fleet: Fleet) -> Manifest:
    """Privileged, since DCMI opens the devices' management files; its only way out is the socket."""
    return {
        "name": "vendor",
        "image": fleet.node_image,
        "imagePullPolicy": fleet.image_pull_policy,
        "command": ["python3", "-m", "rankbeat_exporter", "vendor"],
        "args": [f"--socket={SOCKET}", "--vendor=huawei", f"--npu-driver-root={fleet.devices.npu_driver_root}"],
        "resources": fleet.devices.placement.resources,
        "securityContext": {"privileged": True, "runAsUser": 0, "readOnlyRootFilesystem": True},
        "volumeMounts": [
            {"name": "socket", "mountPath": "/run/rankbeat"},
            pods.SCRATCH_MOUNT,
            pods.mount("npu-driver", fleet.devices.npu_driver_root),
        ],
    }


def _nvidia_vendor(fleet: Fleet) -> Manifest:
    """Its environment is for the runtime: which GPUs, and that NVML is all of the driver that is asked for."""
    nvidia = fleet.devices.nvidia
    environment = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "utility"}
    if nvidia.reads_mig:
        environment["NVIDIA_MIG_MONITOR_DEVICES"] = "all"
    driver = nvidia.driver_root
    return {
        "name": "vendor",
        "image": fleet.node_image,
        "imagePullPolicy": fleet.image_pull_policy,
        "command": ["python3", "-m", "rankbeat_exporter", "vendor"],
        "args": [
            f"--socket={SOCKET}",
            "--vendor=nvidia",
            *([f"--nvidia-driver-root={driver}"] if driver else []),
        ],
        **({} if driver else {"env": [{"name": name, "value": value} for name, value in environment.items()]}),
        "resources": nvidia.placement.resources,
        "securityContext": _nvidia_security(fleet),
        "volumeMounts": [
            {"name": "socket", "mountPath": "/run/rankbeat"},
            pods.SCRATCH_MOUNT,
            *([pods.mount("nvidia-driver", driver)] if driver else []),
        ],
    }


def _nvidia_security(fleet: Fleet) -> Manifest:
    """Without a runtime only a privileged container gets at the device nodes.

    With one, SYS_ADMIN is what the runtime asks of a container that shall see all MIG instances
    (NVIDIA_MIG_MONITOR_DEVICES, NVIDIA container toolkit), and what NVIDIA's own device plugin has for that.
    """
    if fleet.devices.nvidia.driver_root:
        return {"privileged": True, "runAsUser": 0, "readOnlyRootFilesystem": True}
    if fleet.devices.nvidia.reads_mig:
        root = {"runAsNonRoot": False, "runAsUser": 0}
        return {**pods.RESTRICTED, **root, "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}}
    return pods.RESTRICTED


def _devices(fleet: Fleet) -> Manifest:
    """Uid 0 without any capability: the kubelet's socket is root's, and it only answers which pod has which device."""
    linux = fleet.node.se_linux_options
    return {
        "name": "devices",
        "image": fleet.node_image,
        "imagePullPolicy": fleet.image_pull_policy,
        "command": ["python3", "-m", "rankbeat_exporter", "devices"],
        "args": [
            "--node=$(NODE_NAME)",
            f"--socket={SOCKET}",
            f"--pod-resources={POD_RESOURCES}/kubelet.sock",
            *(f"--npu-resource={resource}" for resource in fleet.devices.npu_resources),
            *(["--rank-tables"] if fleet.devices.reads_rank_tables else []),
            *(["--npu-exporter-names"] if fleet.devices.has_exporter_names else []),
            *metrics.arguments(fleet),
        ],
        "env": [pods.field_env("NODE_NAME", "spec.nodeName")],
        "ports": [metrics.port(fleet, names.PORT_DEVICES)],
        "resources": fleet.devices.placement.resources,
        "livenessProbe": metrics.probe(fleet, names.PORT_DEVICES),
        "securityContext": {
            **pods.RESTRICTED,
            "runAsNonRoot": False,
            "runAsUser": 0,
            **({"seLinuxOptions": linux} if linux else {}),
        },
        "volumeMounts": [
            pods.mount("socket", "/run/rankbeat"),
            pods.mount("pod-resources", POD_RESOURCES),
            *metrics.mounts(fleet),
            pods.mount("api-access", pods.API_ACCESS_PATH),
            pods.SCRATCH_MOUNT,
        ],
    }

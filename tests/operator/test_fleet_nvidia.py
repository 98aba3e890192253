"""The pod of GPU nodes: each vendor part holds exactly what its way to the library needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rankbeat_operator.errors import InvalidFleetError
from rankbeat_operator.model import fleet as model
from rankbeat_operator.model.fleet import Nvidia, Placement
from rankbeat_operator.plan import fleet
from rankbeat_operator.plan.fleet.pods import Release

if TYPE_CHECKING:
    from kube import Kube

IMAGES = {"images": {"node": "rankbeat/node:1", "aggregator": "rankbeat/aggregator:1"}}
RELEASE = Release("rankbeat", "f1e2d3c4")
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "runAsGroup": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}
VISIBLE = [
    {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
    {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"},
]
SOCKET = {"name": "socket", "mountPath": "/run/rankbeat"}
SCRATCH = {"name": "tmp", "mountPath": "/tmp"}


def objects(release=RELEASE, **nvidia):
    document = {**IMAGES, "devices": {"nvidia": {"exporter": "builtin", **nvidia}}}
    return {one["metadata"]["name"]: one for one in fleet.desired(model.fleet(document), release).objects}


def pod(**nvidia):
    return objects(**nvidia)["rankbeat-devices-nvidia"]["spec"]["template"]["spec"]


def vendor(**nvidia):
    return next(one for one in pod(**nvidia)["containers"] if one["name"] == "vendor")


def a_vendor(**changes):
    """The vendor part where NVIDIA's runtime brings the library."""
    return {
        "name": "vendor",
        "image": "rankbeat/node:1",
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-m", "rankbeat_exporter", "vendor"],
        "args": ["--socket=/run/rankbeat/vendor.sock", "--vendor=nvidia"],
        "env": VISIBLE,
        "resources": {},
        "securityContext": RESTRICTED,
        "volumeMounts": [SOCKET, SCRATCH],
        **changes,
    }


def test_gpu_nodes_are_asked_for_by_their_own_value():
    assert "rankbeat-devices" not in objects()
    assert fleet.desired(model.fleet(IMAGES), RELEASE).absent_daemon_sets == (
        "rankbeat-devices",
        "rankbeat-devices-nvidia",
    )


def test_with_nvidias_runtime_the_vendor_part_has_no_privilege_and_no_folder_of_the_node():
    assert vendor() == a_vendor()
    assert pod()["runtimeClassName"] == "nvidia"


def test_where_nvidias_runtime_is_the_default_no_class_is_named():
    assert "runtimeClassName" not in pod(runtimeClassName="")


def test_to_see_mig_instances_the_vendor_part_gets_the_one_capability_that_the_runtime_asks_for():
    capability = {"drop": ["ALL"], "add": ["SYS_ADMIN"]}

    assert vendor(mig=True) == a_vendor(
        env=[*VISIBLE, {"name": "NVIDIA_MIG_MONITOR_DEVICES", "value": "all"}],
        securityContext={**RESTRICTED, "runAsNonRoot": False, "runAsUser": 0, "capabilities": capability},
    )


def test_without_a_runtime_the_driver_is_mounted_read_only_and_the_vendor_part_is_privileged():
    root = "/home/kubernetes/bin/nvidia"
    expected = a_vendor(
        args=["--socket=/run/rankbeat/vendor.sock", "--vendor=nvidia", f"--nvidia-driver-root={root}"],
        securityContext={"privileged": True, "runAsUser": 0, "readOnlyRootFilesystem": True},
        volumeMounts=[SOCKET, SCRATCH, {"name": "nvidia-driver", "mountPath": root, "readOnly": True}],
    )
    del expected["env"]

    assert vendor(driverRoot=root) == expected
    assert "runtimeClassName" not in pod(driverRoot=root)
    assert {"name": "nvidia-driver", "hostPath": {"path": root, "type": "Directory"}} in pod(driverRoot=root)["volumes"]


@pytest.mark.parametrize("nvidia", [{}, {"mig": True}, {"driverRoot": "/run/nvidia/driver"}])
def test_the_vendor_part_holds_no_token_no_port_and_no_folder_but_the_drivers(nvidia):
    spec = pod(**nvidia)
    volumes = {one["name"]: one for one in spec["volumes"]}
    mounted = {one["name"] for one in vendor(**nvidia)["volumeMounts"]}

    assert spec["automountServiceAccountToken"] is False
    assert spec["serviceAccountName"] == "rankbeat-devices"
    assert "ports" not in vendor(**nvidia)
    assert mounted <= {"socket", "tmp", "nvidia-driver"}
    assert {name for name in mounted if "hostPath" in volumes[name]} == set(
        ["nvidia-driver"] if "driverRoot" in nvidia else []
    )
    assert "npu-driver" not in volumes
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()


def test_gpu_nodes_have_their_own_placement_and_the_devices_resources():
    limits = {"limits": {"memory": "256Mi"}}
    devices = {
        "nodeSelector": {"npu": "true"},
        "resources": limits,
        "priorityClassName": "high",
        "nvidia": {"exporter": "builtin", "nodeSelector": {"nvidia.com/gpu.present": "true"}},
    }

    found = model.fleet({**IMAGES, "devices": devices}).devices.nvidia

    assert found == Nvidia(is_enabled=True, placement=Placement({"nvidia.com/gpu.present": "true"}, (), "high", limits))


@pytest.mark.parametrize(
    ("nvidia", "message"),
    [
        ({"exporter": "yes"}, "devices.nvidia.exporter of fleet.yaml is 'yes'"),
        ({"driverRoot": "lib"}, "devices.nvidia.driverRoot of fleet.yaml is 'lib', write an absolute path"),
        ({"runtimeClass": "nvidia"}, "devices.nvidia of fleet.yaml has 'runtimeClass', write only"),
    ],
)
def test_what_means_nothing_is_refused(nvidia, message):
    with pytest.raises(InvalidFleetError, match=message):
        model.fleet({**IMAGES, "devices": {"nvidia": nvidia}})


@pytest.mark.controlplane
@pytest.mark.parametrize("nvidia", [{}, {"mig": True}, {"driverRoot": "/run/nvidia/driver"}])
def test_an_api_server_takes_it(kube: Kube, nvidia):
    release = Release(kube.namespace(), RELEASE.owner_uid)
    manifest = objects(release=release, **nvidia)["rankbeat-devices-nvidia"]

    taken = kube.resource("apps/v1", "DaemonSet").server_side_apply(
        body=manifest, namespace=release.namespace, field_manager="test", dry_run="All"
    )

    assert taken.spec.template.spec.runtimeClassName == (None if "driverRoot" in nvidia else "nvidia")

"""What each pod of the fleet that runs on nodes is by default, whole: exactly that, and nothing else of the node.

A new mount, capability, token, port, argument or environment variable is a decision: it is written down here, with its
reason. Where the pods run (affinity) has tests of its own.
"""

from __future__ import annotations

import copy

import pytest

from rankbeat_operator.model import fleet as model
from rankbeat_operator.plan import fleet
from rankbeat_operator.plan.fleet.pods import Release

RELEASE = Release("rankbeat", "f1e2d3c4")
IMAGES = {"images": {"node": "rankbeat/node:1", "aggregator": "rankbeat/aggregator:1"}}
NPU = {"devices": {"exporter": "builtin"}}
GPU = {"devices": {"nvidia": {"exporter": "builtin"}}}


def pods(document):
    """Pod specs by name."""
    objects = fleet.desired(model.fleet({**IMAGES, **document}), RELEASE).objects
    return {one["metadata"]["name"]: one["spec"]["template"]["spec"] for one in objects if one["kind"] == "DaemonSet"}


def without_affinity(spec):
    return {key: value for key, value in spec.items() if key != "affinity"}


def a_pod(service_account, containers, volumes, **more):
    """No token unasked, nothing of the node's network, processes or IPC, no container before the others."""
    return {
        "serviceAccountName": service_account,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [],
        "imagePullSecrets": [],
        "containers": containers,
        "volumes": volumes,
        **more,
    }


def a_container(name, command, args, security, mounts):
    return {
        "name": name,
        "image": "rankbeat/node:1",
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-m", *command],
        "args": args,
        "resources": {},
        "securityContext": security,
        "volumeMounts": mounts,
    }


def serving(port, port_name="metrics"):
    """What each part has that serves a page."""
    return {
        "env": [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}}],
        "ports": [{"name": port_name, "containerPort": port}],
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": port},
            "periodSeconds": 10,
            "timeoutSeconds": 5,
        },
    }


def a_user(uid, *capabilities, **more):
    added = {"add": list(capabilities)} if capabilities else {}
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], **added},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": uid != 0,
        "runAsUser": uid,
        "seccompProfile": {"type": "RuntimeDefault"},
        **more,
    }


def token(audience):
    return {"serviceAccountToken": {**audience, "expirationSeconds": 3607, "path": "token"}}


def certificate(config_map):
    return {"configMap": {"name": config_map, "items": [{"key": "ca.crt", "path": "ca.crt"}]}}


def projected(name, *sources):
    return {"name": name, "projected": {"defaultMode": 0o444, "sources": list(sources)}}


NAMESPACE = {
    "downwardAPI": {
        "items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]
    }
}
API_ACCESS = projected("api-access", token({}), certificate("kube-root-ca.crt"), NAMESPACE)
API_MOUNT = {"name": "api-access", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}
IDENTITY = projected("identity", token({"audience": "rankbeat-aggregator"}), certificate("rankbeat-ca"))
IDENTITY_MOUNT = {"name": "identity", "mountPath": "/var/run/secrets/rankbeat", "readOnly": True}
SCRATCH = {"name": "tmp", "emptyDir": {"sizeLimit": "16Mi"}}
SCRATCH_MOUNT = {"name": "tmp", "mountPath": "/tmp"}
SOCKET = {"name": "socket", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}
SOCKET_MOUNT = {"name": "socket", "mountPath": "/run/rankbeat"}
NOBODY = a_user(65532, runAsGroup=65532)

PODS = "/var/lib/kubelet/pods"
COLLECTOR = {
    **a_container(
        "collector",
        ["rankbeat_collector"],
        [
            "--node=$(NODE_NAME)",
            "--kubelet-root=/var/lib/kubelet",
            "--aggregator-url=https://rankbeat-aggregator.rankbeat.svc:9420",
            "--ca-file=/var/run/secrets/rankbeat/ca.crt",
            "--token-file=/var/run/secrets/rankbeat/token",
            "--push-interval=5",
            "--poll-interval=0.5",
        ],
        a_user(0, "DAC_READ_SEARCH"),  # the kubelet's pods folder is root's, mode 0750
        [
            {"name": "pods", "mountPath": PODS, "readOnly": True, "mountPropagation": "HostToContainer"},
            API_MOUNT,
            IDENTITY_MOUNT,
            SCRATCH_MOUNT,
        ],
    ),
    **serving(9410),
}
CLOCK = {
    **a_container(
        "clock",
        ["rankbeat_exporter", "clock"],
        ["--node=$(NODE_NAME)", "--offset-limit=0.05s", "--loopback-port=9413"],
        NOBODY,
        [SCRATCH_MOUNT],
    ),
    **serving(9411, "metrics-clock"),
}
NODE_POD = a_pod(
    "rankbeat-node",
    [COLLECTOR, CLOCK],
    [{"name": "pods", "hostPath": {"path": PODS, "type": "Directory"}}, API_ACCESS, IDENTITY, SCRATCH],
)

POD_RESOURCES = "/var/lib/kubelet/pod-resources"
DRIVER = "/usr/local/Ascend/driver"
DEVICES = {
    **a_container(
        "devices",
        ["rankbeat_exporter", "devices"],
        [
            "--node=$(NODE_NAME)",
            "--socket=/run/rankbeat/vendor.sock",
            f"--pod-resources={POD_RESOURCES}/kubelet.sock",
        ],
        a_user(0, runAsGroup=65532),  # connects to the kubelet's socket, which is root's
        [
            {**SOCKET_MOUNT, "readOnly": True},
            {"name": "pod-resources", "mountPath": POD_RESOURCES, "readOnly": True},
            API_MOUNT,
            SCRATCH_MOUNT,
        ],
    ),
    **serving(9412),
}
SOCKET_GROUP = {"fsGroup": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
KUBELET = {"name": "pod-resources", "hostPath": {"path": POD_RESOURCES, "type": "Directory"}}
NPU_VENDOR = a_container(
    "vendor",
    ["rankbeat_exporter", "vendor"],
    ["--socket=/run/rankbeat/vendor.sock", "--vendor=huawei", f"--npu-driver-root={DRIVER}"],
    {"privileged": True, "runAsUser": 0, "readOnlyRootFilesystem": True},
    [SOCKET_MOUNT, SCRATCH_MOUNT, {"name": "npu-driver", "mountPath": DRIVER, "readOnly": True}],
)
NPU_POD = a_pod(
    "rankbeat-devices",
    [NPU_VENDOR, DEVICES],
    [SOCKET, {"name": "npu-driver", "hostPath": {"path": DRIVER, "type": ""}}, KUBELET, API_ACCESS, SCRATCH],
    securityContext=SOCKET_GROUP,
)
GPU_VENDOR = {
    **a_container(
        "vendor",
        ["rankbeat_exporter", "vendor"],
        ["--socket=/run/rankbeat/vendor.sock", "--vendor=nvidia"],
        NOBODY,
        [SOCKET_MOUNT, SCRATCH_MOUNT],
    ),
    "env": [
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
        {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"},
    ],
}
GPU_POD = a_pod(
    "rankbeat-devices",
    [GPU_VENDOR, DEVICES],
    [SOCKET, KUBELET, API_ACCESS, SCRATCH],
    securityContext=SOCKET_GROUP,
    runtimeClassName="nvidia",
)


@pytest.mark.parametrize(
    ("document", "name", "expected"),
    [
        pytest.param({}, "rankbeat-node", NODE_POD, id="training node"),
        pytest.param(NPU, "rankbeat-devices", NPU_POD, id="NPU node"),
        pytest.param(GPU, "rankbeat-devices-nvidia", GPU_POD, id="GPU node"),
    ],
)
def test_the_pod_of_a_node_is_exactly_this(document, name, expected):
    assert without_affinity(pods(document)[name]) == expected


MUTANTS = {
    "all keys of a Secret": lambda vendor, _, __: vendor.update(envFrom=[{"secretRef": {"name": "s"}}]),
    "a key of a Secret": lambda _, devices, __: devices["env"][0].update(
        valueFrom={"secretKeyRef": {"name": "s", "key": "k"}}
    ),
    "the whole of /proc": lambda _, devices, __: devices["securityContext"].update(procMount="Unmasked"),
    "SELinux's super-privileged type": lambda _, devices, __: devices["securityContext"].update(
        seLinuxOptions={"type": "spc_t"}
    ),
    "a port of the node": lambda _, devices, __: devices["ports"][0].update(hostPort=9412),
    "a port more": lambda vendor, _, __: vendor.update(ports=[{"containerPort": 9999, "hostPort": 9999}]),
    "another command": lambda _, devices, __: devices.update(command=["sh"]),
    "an argument more": lambda vendor, _, __: vendor["args"].append("--debug"),
    "a hook": lambda vendor, _, __: vendor.update(lifecycle={"postStart": {"exec": {"command": ["sh"]}}}),
    "a device": lambda vendor, _, __: vendor.update(volumeDevices=[{"name": "d", "devicePath": "/dev/d"}]),
    "a writable root": lambda _, devices, __: devices["securityContext"].pop("readOnlyRootFilesystem"),
    "a Secret beside the token": lambda _, __, pod: pod["volumes"][3]["projected"]["sources"].append(
        {"secret": {"name": "s"}}
    ),
    "root's group": lambda _, __, pod: pod["securityContext"].update(supplementalGroups=[0]),
    "another ServiceAccount": lambda _, __, pod: pod.update(serviceAccountName="rankbeat-operator"),
    "the node's network": lambda _, __, pod: pod.update(hostNetwork=True),
    "a container before the others": lambda vendor, _, pod: pod.update(initContainers=[{**vendor, "name": "first"}]),
    "a volume that nothing mounts": lambda _, __, pod: pod["volumes"].append(
        {"name": "root", "hostPath": {"path": "/"}}
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_what_would_give_the_pod_more_is_seen(mutant):
    pod = copy.deepcopy(without_affinity(pods(NPU)["rankbeat-devices"]))
    MUTANTS[mutant](*pod["containers"], pod)

    assert pod != NPU_POD


@pytest.mark.parametrize(
    ("document", "label"),
    [(NPU, ("accelerator", "huawei-Ascend910")), (GPU, ("nvidia.com/gpu.present", "true"))],
    ids=["npu", "gpu"],
)
def test_without_a_selector_only_nodes_that_the_vendors_components_mark_run_the_pod(document, label):
    (spec,) = [spec for name, spec in pods(document).items() if name != "rankbeat-node"]

    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    terms = [term["matchExpressions"] for term in required["nodeSelectorTerms"]]
    assert all(len(term) == 1 and term[0]["operator"] == "In" for term in terms)
    assert label in {(term[0]["key"], value) for term in terms for value in term[0]["values"]}


def test_a_selector_of_the_install_takes_the_place_of_these_labels():
    spec = pods({"devices": {"exporter": "builtin", "nodeSelector": {"npu": "true"}}})["rankbeat-devices"]

    assert "affinity" not in spec
    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux", "npu": "true"}


@pytest.mark.parametrize("exporter", ["external", "off", False])
def test_where_the_exporter_is_not_ours_or_off_no_node_runs_the_pod(exporter):
    document = {"devices": {"exporter": exporter, "nvidia": {"exporter": exporter}}}

    assert pods(document).keys() == {"rankbeat-node"}

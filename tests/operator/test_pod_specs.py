"""What each pod of the fleet that runs on nodes holds: exactly that, and nothing else of the node.

A new mount, capability, token, port or environment variable is a decision: it is written down here, with its reason.
"""

from __future__ import annotations

import pytest

from rankbeat_operator.model import fleet as model
from rankbeat_operator.plan import fleet
from rankbeat_operator.plan.fleet.pods import Release

RELEASE = Release("rankbeat", "f1e2d3c4")
IMAGES = {"images": {"node": "rankbeat/node:1", "aggregator": "rankbeat/aggregator:1"}}
NPU = {"devices": {"exporter": "builtin"}}
GPU = {"devices": {"nvidia": {"exporter": "builtin"}}}
ROOT_READER = {"user": 0, "capabilities": ["DAC_READ_SEARCH"]}  # the kubelet's pods folder is root's, mode 0750
NOBODY = {"user": 65532, "capabilities": []}
ROOT_WITHOUT = {"user": 0, "capabilities": []}  # connects to the kubelet's socket, which is root's
PRIVILEGED = {"user": 0, "privileged": True}
TOKEN_API = "token for the API server"
TOKEN_AGGREGATOR = "token with audience rankbeat-aggregator"


def pods(document):
    """Pod specs by name."""
    objects = fleet.desired(model.fleet({**IMAGES, **document}), RELEASE).objects
    return {one["metadata"]["name"]: one["spec"]["template"]["spec"] for one in objects if one["kind"] == "DaemonSet"}


def held(spec):
    """Per container: what it may do, and all that it gets from outside its own image."""
    volumes = {one["name"]: one for one in spec["volumes"]}
    return {one["name"]: {**_rights(one), "mounts": _mounts(one, volumes), **_rest(one)} for one in spec["containers"]}


def _rights(container):
    context = container["securityContext"]
    assert context["readOnlyRootFilesystem"] is True
    if context.get("privileged"):
        return {"user": context["runAsUser"], "privileged": True}
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"]["drop"] == ["ALL"]
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    return {"user": context["runAsUser"], "capabilities": context["capabilities"].get("add", [])}


def _mounts(container, volumes):
    return {one["mountPath"]: _source(volumes[one["name"]], one) for one in container["volumeMounts"]}


def _source(volume, mount):
    access = "ro" if mount.get("readOnly") else "rw"
    if "hostPath" in volume:
        return f"node {volume['hostPath']['path']} {access}"
    if "emptyDir" in volume:
        return f"own {access}"
    sources = (one.get("serviceAccountToken") for one in volume["projected"]["sources"])
    tokens = [one.get("audience", "API") for one in sources if one is not None]
    return {"API": TOKEN_API, "rankbeat-aggregator": TOKEN_AGGREGATOR}[tokens[0]]


def _rest(container):
    """Ports, environment."""
    environment = {one["name"]: one.get("value", "downward") for one in container.get("env", ())}
    return {"ports": [one["containerPort"] for one in container.get("ports", ())], "env": environment}


NODE = {"NODE_NAME": "downward"}
SERVING = {
    **ROOT_WITHOUT,
    "mounts": {
        "/run/rankbeat": "own ro",
        "/var/lib/kubelet/pod-resources": "node /var/lib/kubelet/pod-resources ro",
        "/var/run/secrets/kubernetes.io/serviceaccount": TOKEN_API,
        "/tmp": "own rw",
    },
    "ports": [9412],
    "env": NODE,
}


def test_the_pod_of_training_nodes():
    assert held(pods({})["rankbeat-node"]) == {
        "collector": {
            **ROOT_READER,
            "mounts": {
                "/var/lib/kubelet/pods": "node /var/lib/kubelet/pods ro",
                "/var/run/secrets/kubernetes.io/serviceaccount": TOKEN_API,
                "/var/run/secrets/rankbeat": TOKEN_AGGREGATOR,
                "/tmp": "own rw",
            },
            "ports": [9410],
            "env": NODE,
        },
        "clock": {**NOBODY, "mounts": {"/tmp": "own rw"}, "ports": [9411], "env": NODE},
    }


def test_the_pod_of_npu_nodes():
    assert held(pods(NPU)["rankbeat-devices"]) == {
        "vendor": {
            **PRIVILEGED,
            "mounts": {
                "/run/rankbeat": "own rw",
                "/usr/local/Ascend/driver": "node /usr/local/Ascend/driver ro",
                "/tmp": "own rw",
            },
            "ports": [],
            "env": {},
        },
        "devices": SERVING,
    }


def test_the_pod_of_gpu_nodes():
    assert held(pods(GPU)["rankbeat-devices-nvidia"]) == {
        "vendor": {
            **NOBODY,
            "mounts": {"/run/rankbeat": "own rw", "/tmp": "own rw"},
            "ports": [],
            "env": {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "utility"},
        },
        "devices": SERVING,
    }


@pytest.mark.parametrize("document", [{}, NPU, GPU], ids=["node", "npu", "gpu"])
def test_no_pod_shares_the_nodes_network_processes_or_ipc_or_gets_a_token_unasked(document):
    for spec in pods(document).values():
        assert not {"hostNetwork", "hostPID", "hostIPC", "hostUsers", "shareProcessNamespace"} & spec.keys()
        assert spec["automountServiceAccountToken"] is False
        assert spec["enableServiceLinks"] is False
        assert "initContainers" not in spec
        assert {"name", "mountPath", "readOnly", "mountPropagation"} >= {
            key for container in spec["containers"] for mount in container["volumeMounts"] for key in mount
        }


def test_each_volume_is_mounted():
    for document in ({}, NPU, GPU):
        for spec in pods(document).values():
            mounted = {mount["name"] for container in spec["containers"] for mount in container["volumeMounts"]}
            assert {volume["name"] for volume in spec["volumes"]} == mounted


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

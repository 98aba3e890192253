"""A real scheduler and kubelet give GPUs that are not there by resource claims; our exporter says who holds which.

The figures come from the double of NVIDIA's library, the devices from a driver of ours that names them as NVIDIA's does
where minor numbers and indices differ: gpu-1 is GPU 0, gpu-0 is GPU 1.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import devices_account

pytestmark = [pytest.mark.node, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
DRIVER = "gpu.nvidia.com"
GPUS = {"gpu-1": "GPU-d0b1e000-0000-0000-0000-000000000000", "gpu-0": "GPU-d0b1e000-0000-0000-0000-000000000010"}
INTERVAL_SECONDS = 2.0
CREDENTIALS = "/run/secrets/kubernetes.io/serviceaccount"
PODS_SUCCESS = 'rankbeat_node_collector_success{collector="pods",node="node-1"} 1.0'
HELD = re.compile(
    r'holder\{container="(.*?)",device="(.*?)",local_rank="(.*?)",namespace="(.*?)",.*?pod="(.*?)",(.*?),'
)
LISTING = """
import json, pathlib
from rankbeat_exporter.sources import pod_resources
kubelet = pod_resources.Kubelet(pathlib.Path("/var/lib/kubelet/pod-resources/kubelet.sock"))
print(json.dumps(sorted(one for one in kubelet.allotments() if one.resource == "gpu.nvidia.com")))
"""


def inside(cluster, *command, **environment):
    paths = os.pathsep.join(str(ROOT / folder) for folder in ("dev/cluster", "node_exporter", "agent"))
    settings = [f"{name}={value}" for name, value in {"PYTHONPATH": paths, **environment}.items()]
    return cluster.inside(["env", *settings, *map(str, command)])


@contextmanager
def running(command):
    process = subprocess.Popen(command)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(10)


def eventually(question, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not (found := question()):
        assert time.monotonic() < deadline, "not within the time"
        time.sleep(0.1)
    return found


def doubles():
    sys.path.insert(0, str(ROOT / "dev/doubles"))
    try:
        import build  # noqa: PLC0415 - a script
    finally:
        sys.path.pop(0)
    return build


@pytest.fixture(scope="module")
def slices(cluster, cluster_kube):
    """The driver's, once it has published."""
    devices = [word for name, uuid in GPUS.items() for word in ("--device", f"{name}={uuid}")]
    program = ("-m", "rankbeat_cluster.dra_driver", "--pki", cluster.folder / "pki", "--driver", DRIVER, *devices)
    found = cluster_kube.resource("resource.k8s.io/v1", "ResourceSlice")
    with running(inside(cluster, sys.executable, *program)):
        eventually(lambda: found.get().items)
        yield found


@pytest.fixture(scope="module")
def scrape(cluster, cluster_kube, slices, tmp_path_factory):
    """Lines of the real exporter on the node, with the chart's rights and the double of libnvidia-ml.so.1."""
    folder = tmp_path_factory.mktemp("exporter")
    doubles().build_nvml(folder / "lib64")
    devices_account.make(cluster_kube, folder)
    copy = f"mkdir -p {CREDENTIALS} && cp {folder}/token {folder}/ca.crt {CREDENTIALS}"
    subprocess.run(cluster.inside(["sh", "-c", copy]), check=True)
    port = cluster.state.port + 1001
    exporter = (sys.executable, "-m", "rankbeat_exporter")
    vendor = ("vendor", "--vendor", "nvidia", "--nvidia-driver-root", folder, "--socket", folder / "vendor.sock")
    devices = ("devices", "--socket", folder / "vendor.sock", "--node", "node-1", "--interval", f"{INTERVAL_SECONDS}s")
    joined = ("--pod-resources", "/var/lib/kubelet/pod-resources/kubelet.sock", "--port", str(port))
    server = {"KUBERNETES_SERVICE_HOST": "10.90.0.1", "KUBERNETES_SERVICE_PORT": "6443"}

    def lines():
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                return answer.read().decode().splitlines()
        except OSError:
            return []

    with ExitStack() as stack:
        stack.enter_context(running(inside(cluster, *exporter, *vendor)))
        stack.enter_context(running(inside(cluster, *exporter, *devices, *joined, **server)))
        cluster.forward(port, f"10.90.0.1:{port}")
        eventually(lambda: PODS_SUCCESS in lines())
        yield lines


def holders(lines):
    """(namespace, pod, container, local rank, source) by device."""
    found = [HELD.search(line) for line in lines if line.startswith("rankbeat_node_accelerator_holder{")]
    return {
        device: (namespace, pod, container, int(rank), source)
        for container, device, rank, namespace, pod, source in (one.groups() for one in found)
    }


def held_by(namespace, scrape, number):
    """holders, once they are so many and all of the namespace."""

    def found():
        held = holders(scrape())
        return len(held) == number and {one[0] for one in held.values()} == {namespace} and held

    return eventually(found)


def temperatures(lines):
    """(namespace, pod, container) by device."""
    names = ("namespace", "pod", "container")
    rows = [dict(re.findall(r'(\w+)="(.*?)"', line)) for line in lines if "accelerator_temperature_celsius{" in line]
    return {row["device"]: tuple(row[name] for name in names) for row in rows if row.get("vendor") == "nvidia"}


def conflicts(lines):
    return [line for line in lines if line.startswith("rankbeat_node_accelerator_holder_conflicts_total{")]


def a_claim(*requests):
    return {"devices": {"requests": [{"name": name, "exactly": exactly} for name, exactly in requests]}}


def exactly(uuid):
    expression = f'device.attributes["{DRIVER}"].uuid == "{uuid}"'
    return {"deviceClassName": DRIVER, "selectors": [{"cel": {"expression": expression}}]}


def a_pod(namespace, name, **containers):
    """Containers by name with their resources."""
    of = {"image": "localhost/busybox:1", "imagePullPolicy": "Never", "command": ["sleep", "3600"]}
    spec = {
        "containers": [{"name": key, "resources": resources, **of} for key, resources in containers.items()],
        "terminationGracePeriodSeconds": 0,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name}, "spec": spec}


@pytest.fixture
def start(cluster_kube):
    """Starts a pod, with a claim of its own where one is given, and gives its namespace once it is Ready."""
    pods = cluster_kube.resource("v1", "Pod")
    started = []

    def started_pod(name, claim=None, labels=None, **containers):
        namespace = cluster_kube.namespace(labels)
        pod = a_pod(namespace, name, **containers)
        if claim:
            template = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "spec": {"spec": claim}}
            cluster_kube.apply({**template, "metadata": {"namespace": namespace, "name": "gpus"}})
            pod["spec"]["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": "gpus"}]
        cluster_kube.apply(pod)
        started.append((namespace, name))
        eventually(lambda: is_ready(pods.get(name=name, namespace=namespace).to_dict()))
        return namespace

    yield started_pod
    for namespace, name in started:
        end(cluster_kube, namespace, name)


def is_ready(pod):
    found = {one["type"]: one["status"] for one in pod["status"].get("conditions", ())}
    return found.get("Ready") == "True"


def end(kube, namespace, name):
    """Ends a pod; returns when the API server has it no more, and at once where it had none."""
    pods = kube.resource("v1", "Pod")
    if pods.get(namespace=namespace, field_selector=f"metadata.name={name}").items:
        pods.delete(name=name, namespace=namespace)
        eventually(lambda: not pods.get(namespace=namespace, field_selector=f"metadata.name={name}").items)


def kubelets_word(cluster):
    done = subprocess.run(inside(cluster, sys.executable, "-c", LISTING), capture_output=True, text=True, check=True)
    return [tuple(one) for one in json.loads(done.stdout)]


GPUS_CLAIM = {"claims": [{"name": "gpus"}]}


def test_a_gpu_held_by_claim_carries_its_pod_by_uuid_and_nobody_within_an_interval_after_it(
    cluster, cluster_kube, scrape, start
):
    namespace = start("llm-0", a_claim(("gpu", exactly(GPUS["gpu-1"]))), train=GPUS_CLAIM, beside={})

    held = held_by(namespace, scrape, 1)
    during = temperatures(scrape())
    word = kubelets_word(cluster)
    end(cluster_kube, namespace, "llm-0")
    ended = time.monotonic()
    eventually(lambda: not holders(scrape()))
    seconds = time.monotonic() - ended

    assert word == [(namespace, "llm-0", "train", DRIVER, ["gpu-1"], "node-1")]
    assert held == {"0": (namespace, "llm-0", "train", 0, 'source="resource_claim"')}
    assert during == {"0": (namespace, "llm-0", "train"), "1": ("", "", "")}
    assert temperatures(scrape()) == dict.fromkeys(("0", "1"), ("", "", ""))
    print(f"labels empty {seconds:.1f} s after the pod")
    assert seconds < INTERVAL_SECONDS + 1


def test_both_gpus_of_a_claim_are_ranked_by_their_own_order(scrape, start):
    namespace = start("llm-0", a_claim(("gpu", {"deviceClassName": DRIVER, "count": 2})), train=GPUS_CLAIM)

    held = held_by(namespace, scrape, 2)

    assert held == {
        "0": (namespace, "llm-0", "train", 0, 'source="resource_claim"'),
        "1": (namespace, "llm-0", "train", 1, 'source="resource_claim"'),
    }


def test_of_containers_that_share_a_claim_the_kubelet_does_not_say_which_has_which_request(cluster, scrape, start):
    claim = a_claim(("first", exactly(GPUS["gpu-1"])), ("second", exactly(GPUS["gpu-0"])))
    parts = {name: {"claims": [{"name": "gpus", "request": name}]} for name in ("first", "second")}
    namespace = start("llm-0", claim, **parts)

    held = held_by(namespace, scrape, 2)

    assert {(container, *devices) for _, _, container, _, devices, _ in kubelets_word(cluster)} == {
        ("first", "gpu-0"), ("first", "gpu-1"), ("second", "gpu-0"), ("second", "gpu-1"),
    }  # fmt: skip
    assert {one[:3] for one in held.values()} == {(namespace, "llm-0", "")}


def test_beside_a_claim_with_admin_access_the_kubelet_names_two_holders_and_none_is_shown(cluster, scrape, start):
    namespace = start("llm-0", a_claim(("gpu", exactly(GPUS["gpu-1"]))), train=GPUS_CLAIM)
    held_by(namespace, scrape, 1)
    every = {"deviceClassName": DRIVER, "adminAccess": True, "allocationMode": "All"}

    start("watcher", a_claim(("gpus", every)), {"resource.kubernetes.io/admin-access": "true"}, watch=GPUS_CLAIM)

    eventually(lambda: list(holders(scrape())) == ["1"])
    assert [(one[1], one[4]) for one in kubelets_word(cluster) if "gpu-1" in one[4]] == [
        ("llm-0", ["gpu-1"]),
        ("watcher", ["gpu-1"]),
    ]
    assert any('kind="several_holders"' in line for line in conflicts(scrape()))


def test_a_resource_that_stands_for_claims_is_one(cluster_kube, scrape, start):
    """A pod that asks for nvidia.com/gpu as it always did, on nodes whose driver is one for claims."""
    spec = {"extendedResourceName": "nvidia.com/gpu", "selectors": [{"cel": {"expression": "true"}}]}
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"}
    cluster_kube.apply({**kind, "metadata": {"name": "gpus"}, "spec": spec})
    namespace = start("llm-0", train={"limits": {"nvidia.com/gpu": "1"}})

    (held,) = held_by(namespace, scrape, 1).values()

    assert held == (namespace, "llm-0", "train", 0, 'source="resource_claim"')


def test_a_kubelet_that_starts_anew_deletes_the_slices_and_nobody_loses_a_gpu(cluster, slices, scrape, start):
    namespace = start("llm-0", a_claim(("gpu", exactly(GPUS["gpu-1"]))), train=GPUS_CLAIM)
    held = held_by(namespace, scrape, 1)
    before, (published,) = conflicts(scrape()), slices.get().items

    cluster.restart_server("kubelet-node-1")
    eventually(lambda: [one for one in slices.get().items if one.metadata.uid != published.metadata.uid])

    eventually(lambda: PODS_SUCCESS in scrape() and holders(scrape()) == held)
    assert conflicts(scrape()) == before

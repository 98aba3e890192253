"""A real kubelet allots devices that are not there, and our exporter's source reads what it allotted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from rankbeat_cluster import programs

pytestmark = [pytest.mark.node, pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[2]
RESOURCE = "huawei.com/Ascend910"
LISTING = """
import json, pathlib, stat, sys
from rankbeat_exporter.sources import pod_resources
socket = pathlib.Path("/var/lib/kubelet/pod-resources/kubelet.sock")
kubelet = pod_resources.Kubelet(socket)
print(json.dumps({
    "owner": [socket.stat().st_uid, stat.S_IMODE(socket.stat().st_mode)],
    "allotments": [one._asdict() for one in kubelet.allotments() if one.namespace == "default"],
}))
"""


def inside(cluster, *command, **more):
    paths = os.pathsep.join(str(ROOT / folder) for folder in ("dev/cluster", "node_exporter", "agent"))
    return cluster.inside(["env", f"PYTHONPATH={paths}", sys.executable, *command], **more)


def kubectl(cluster, *words, stdin=None):
    command = [programs.built("kubectl"), f"--kubeconfig={cluster.kubeconfig}", *words]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=True, timeout=90).stdout


def eventually(question, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not (found := question()):
        assert time.monotonic() < deadline, "not within the time"
        time.sleep(0.2)
    return found


@contextmanager
def plugin(cluster, *devices):
    words = [word for device in devices for word in ("--device", device)]
    command = inside(cluster, "-m", "rankbeat_cluster.device_plugin", "--resource", RESOURCE, *words)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(10)


def allocatable(cluster):
    node = json.loads(kubectl(cluster, "get", "node", "node-1", "-o", "json"))
    return node["status"]["allocatable"].get(RESOURCE)


def kubelets_word(cluster):
    done = subprocess.run(inside(cluster, "-c", LISTING), capture_output=True, text=True, check=True, timeout=30)
    return json.loads(done.stdout)


def test_what_the_kubelet_allots_is_read_by_the_exporters_source(cluster):
    container = {
        "name": "train",
        "image": "localhost/busybox:1",
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", "env; sleep 3600"],
        "resources": {"limits": {RESOURCE: "2"}},
    }
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "chips"}, "spec": spec}

    with plugin(cluster, "Ascend910-4", "Ascend910-6"):
        eventually(lambda: allocatable(cluster) == "2")
        kubectl(cluster, "apply", "-f", "-", stdin=json.dumps(pod))
        kubectl(cluster, "wait", "--for=condition=Ready", "pod/chips", "--timeout=60s")
        during = kubelets_word(cluster)
        environment = kubectl(cluster, "logs", "chips")
        kubectl(cluster, "delete", "pod", "chips", "--wait=true")
        after = eventually(lambda: (word := kubelets_word(cluster)) and not word["allotments"] and word)

    allotments = sorted(during["allotments"], key=lambda one: one["devices"])  # the kubelet lists each device apart
    assert [one.pop("devices") for one in allotments] == [["Ascend910-4"], ["Ascend910-6"]]
    whole = {"namespace": "default", "pod": "chips", "container": "train", "resource": RESOURCE, "pool": ""}
    assert allotments == [whole, whole]
    assert "ASCEND_VISIBLE_DEVICES=4,6" in environment
    assert after["allotments"] == []
    assert during["owner"][0] == 0, "docs/security.md says that uid 0 is needed for this socket"
    assert not during["owner"][1] & 0o002

"""The whole cluster: what it offers while it is up, and that nothing of it stays."""

import json
import subprocess
import sys
import urllib.request

import pytest

from rankbeat_cluster import cluster as clusters
from rankbeat_cluster import images, leftovers, programs, servers, start

pytestmark = [pytest.mark.node, pytest.mark.timeout(240)]


def kubectl(running, *words):
    command = [programs.built("kubectl"), f"--kubeconfig={running.kubeconfig}", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=90).stdout


def start_pod(running, name, *command, node=None):
    """A pod of busybox that is Ready when this returns; its address."""
    container = {"name": "main", "image": "localhost/busybox:1", "imagePullPolicy": "Never", "command": list(command)}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0} | ({"nodeName": node} if node else {})
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": spec}
    subprocess.run(
        [programs.built("kubectl"), f"--kubeconfig={running.kubeconfig}", "apply", "-f", "-"],
        input=json.dumps(pod), text=True, check=True, capture_output=True,
    )  # fmt: skip
    kubectl(running, "wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s")
    return json.loads(kubectl(running, "get", "pod", name, "-o", "json"))["status"]["podIP"]


def test_two_nodes_come_up_work_together_and_leave_nothing(tmp_path):
    before = leftovers.snapshot()

    with clusters.cluster(start.Wanted(tmp_path / "state", name="test-two", nodes=2)) as running:
        marks = leftovers.marks(running.folder, running.state)
        address = start_pod(running, "far", "httpd", "-f", "-p", "8080", "-h", "/etc", node="node-2")
        start_pod(running, "near", "sh", "-c", "trap '' TERM; sleep 3600", node="node-1")
        kubectl(running, "expose", "pod", "far", "--port=80", "--target-port=8080")
        looked_up = kubectl(running, "exec", "near", "--", "nslookup", "far.default.svc.cluster.local")
        fetched = kubectl(running, "exec", "near", "--", "wget", "-qO-", f"http://{address}:8080/group")
        service = json.loads(kubectl(running, "get", "service", "far", "-o", "json"))["spec"]["clusterIP"]
        by_service = kubectl(running, "exec", "near", "--", "wget", "-qO-", f"http://{service}/group")
        marks_with_pods = leftovers.marks(running.folder, running.state)
        meanwhile = leftovers.leftovers(before, leftovers.snapshot(), marks_with_pods)

    assert service in looked_up
    assert (fetched, by_service) == ("root:x:0:\n", "root:x:0:\n")
    assert len(marks_with_pods.namespaces) > len(marks.namespaces)
    assert {line.split()[0] for line in meanwhile} == {"process", "cgroup", "folder"}
    assert leftovers.leftovers(before, leftovers.snapshot(), marks_with_pods) == ()


def test_the_host_sees_a_service_through_a_forward(cluster):
    address = start_pod(cluster, "shown", "httpd", "-f", "-p", "8080", "-h", "/etc")
    port = cluster.state.port + 1000

    cluster.forward(port, f"{address}:8080")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/group", timeout=10) as answer:
        fetched = answer.read()

    assert fetched == b"root:x:0:\n"


def test_a_program_inside_the_node_is_reached_by_pods_and_ends_with_its_starter(cluster):
    start_pod(cluster, "client", "sleep", "3600")
    server = subprocess.Popen(cluster.inside([sys.executable, "-m", "http.server", "--bind", "10.90.0.1", "8099"]))

    fetch = ("sh", "-c", "until wget -qO- http://10.90.0.1:8099/; do sleep 0.2; done")
    fetched = kubectl(cluster, "exec", "client", "--", *fetch)
    server.terminate()
    server.wait(10)
    gone = ("sh", "-c", "while wget -qO- http://10.90.0.1:8099/; do sleep 0.2; done")
    kubectl(cluster, "exec", "client", "--", *gone)

    assert "Directory listing" in fetched


def test_each_node_serves_the_time(cluster):
    question = (
        "import ntplib; answer = ntplib.NTPClient().request('10.90.0.1', version=4, timeout=3);"
        "print(answer.stratum, answer.leap, abs(answer.offset) < 0.1)"
    )

    done = clusters.exec_in_node(cluster, [sys.executable, "-c", question])

    assert done.stdout.split() == ["3", "0", "True"]


def test_an_image_is_imported_once(cluster):
    archive = images.busybox()

    assert cluster.load_images([archive]) == 0


def test_a_killed_server_shows_and_a_restarted_apiserver_keeps_what_was_stored(cluster):
    kubectl(cluster, "create", "configmap", "kept", "--from-literal=hang=20s")

    cluster.restart_server("apiserver")

    assert kubectl(cluster, "get", "configmap", "kept", "-o", "jsonpath={.data.hang}") == "20s"
    assert cluster.dead_parts() == ()


def test_up_finds_a_healthy_cluster_and_starts_nothing(cluster):
    said = []
    pids = cluster.state.servers

    clusters.up(start.Wanted(cluster.folder, name=cluster.state.name), said.append)

    assert said == [f"cluster {cluster.state.name!r} is up already"]
    assert cluster.state.servers == pids


def test_a_cluster_whose_node_died_is_removed_and_started_anew(tmp_path):
    wanted = start.Wanted(tmp_path / "state", name="test-dead", dies_with_us=True)
    first = clusters.up(wanted)
    servers.end(first.state.nodes[0].unshare)

    again = clusters.up(wanted)

    assert again.is_healthy()
    assert clusters.down(again.folder)
    assert not clusters.down(again.folder)

"""Pods of a node and rank tables by a real API server, with the rights that the chart gives."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import urllib.parse
from pathlib import Path

import pytest
import yaml

from rankbeat_exporter.errors import CannotMeasure
from rankbeat_exporter.model.assignment import Pod
from rankbeat_exporter.sources import api_pods, api_server

pytestmark = pytest.mark.controlplane

CHART = Path(__file__).parents[2] / "charts/helm/rankbeat"
RESOURCE = "huawei.com/Ascend910"


@pytest.fixture(params=["", "devices.npu.rankTables=true"], ids=["default", "rank-tables"])
def server(request, kube, tmp_path):
    """The control plane as the serving part sees it, with a token of an account that holds the chart's ClusterRole."""
    namespace = kube.namespace()
    helm = Path(__file__).parents[2] / "build/bin/helm"
    command = [helm, "template", "rankbeat", CHART, "--namespace", namespace, "--show-only", "templates/rbac.yaml"]
    rendered = subprocess.run(
        [*command, *(["--set", request.param] if request.param else [])], check=True, capture_output=True, text=True
    ).stdout
    for one in yaml.safe_load_all(rendered):
        if one and one["metadata"]["name"] == "rankbeat-devices":
            name = f"rankbeat-devices-{namespace}" if one["kind"].startswith("Cluster") else "rankbeat-devices"
            changed = {**one, "metadata": {**one["metadata"], "name": name}}
            if one["kind"] == "ServiceAccount":
                changed["metadata"]["namespace"] = namespace
            if "roleRef" in one:
                changed["roleRef"] = {**one["roleRef"], "name": name}
            kube.apply(changed)
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/rankbeat-devices/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token = kube.dynamic.request("post", account, body=body)
    (tmp_path / "token").write_text(token["status"]["token"])
    cluster = yaml.safe_load(kube.kubeconfig.read_text())["clusters"][0]["cluster"]
    authority = cluster.get("certificate-authority-data")
    text = base64.b64decode(authority) if authority else Path(cluster["certificate-authority"]).read_bytes()
    (tmp_path / "ca.crt").write_bytes(text)
    address = urllib.parse.urlsplit(cluster["server"])
    return api_server.Server(address.hostname, address.port, tmp_path)


@pytest.fixture
def watcher(server, kube):
    node = f"node-{kube.namespace()}"
    made = api_pods.NodePods(server, node)
    made.node = node
    yield made
    made.stop()


def a_pod(namespace, name, node, **spec):
    container = {"name": "train", "image": "x", "resources": {"limits": {RESOURCE: "2"}}}
    spec = {"nodeName": node, "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name}, "spec": spec}


def names(pods):
    return None if pods is None else [pod.name for pod in pods]


def test_the_pods_of_this_node_come_change_and_go(kube, watcher, eventually):
    namespace = kube.namespace()
    kube.apply(a_pod(namespace, "first", watcher.node))
    kube.apply(a_pod(namespace, "elsewhere", "another-node"))
    assert watcher.pods() is None

    watcher.start()

    eventually(lambda: names(watcher.pods()) == ["first"])
    assert watcher.pods()[0].containers[0].limits == {RESOURCE: 2}
    kube.apply(a_pod(namespace, "second", watcher.node))
    eventually(lambda: names(watcher.pods()) == ["first", "second"])
    pods = kube.resource("v1", "Pod")
    patch = {"metadata": {"annotations": {"huawei.com/AscendReal": "Ascend910-3"}}}
    pods.patch(name="first", namespace=namespace, body=patch, content_type="application/merge-patch+json")
    eventually(lambda: watcher.pods()[0].annotations == {"huawei.com/AscendReal": "Ascend910-3"})
    ended = {"status": {"phase": "Succeeded"}}
    pods.status.patch(name="first", namespace=namespace, body=ended, content_type="application/merge-patch+json")
    eventually(lambda: names(watcher.pods()) == ["second"])
    pods.delete(name="second", namespace=namespace, grace_period_seconds=0)
    eventually(lambda: names(watcher.pods()) == [])


def test_rank_tables_are_read_only_where_the_install_asks_for_them(request, kube, server):
    namespace = kube.namespace()
    table = {"status": "completed"}
    data = {"hccl.json": json.dumps(table)}
    metadata = {"namespace": namespace, "name": "rings-config-llm"}
    kube.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    pod = Pod("u", namespace, "llm-0", rank_tables=("rings-config-llm", "rings-config-none"))

    found = api_pods.RankTables(server).of((pod,))

    is_given = "rank-tables" in request.node.name
    assert found == ({(namespace, "rings-config-llm"): data["hccl.json"]} if is_given else {})


@pytest.mark.parametrize("path", ["/api/v1/secrets", "/api/v1/nodes", "/api/v1/namespaces/default/pods/x"])
def test_nothing_else_may_be_read(server, path):
    with pytest.raises(CannotMeasure, match=re.escape(f"ApiRefused: {path}: 403")):
        api_server.document(server, path, 5.0)


def test_a_server_that_is_not_there_is_a_reason(server, free_port):
    with pytest.raises(CannotMeasure) as refused:
        api_server.document(server._replace(port=free_port), "/api/v1/pods", 1.0)

    assert refused.value.reason == "ApiUnavailable"

"""Pods of a node, rank tables and ResourceSlices by a real API server, with the rights that the chart gives."""

from __future__ import annotations

import json
import re
import urllib.parse

import pytest

import devices_account
from rankbeat_exporter.errors import CannotMeasure
from rankbeat_exporter.model.assignment import Claimed, Pod, Published
from rankbeat_exporter.sources import api_pods, api_server, api_slices

pytestmark = pytest.mark.controlplane

RESOURCE = "huawei.com/Ascend910"


@pytest.fixture(params=["", "devices.npu.rankTables=true"], ids=["default", "rank-tables"])
def server(request, kube, tmp_path):
    """The control plane as the serving part sees it, with a token of an account that holds the chart's ClusterRole."""
    address = urllib.parse.urlsplit(devices_account.make(kube, tmp_path, *filter(None, [request.param])))
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


def a_slice(node, uuid, driver="gpu.nvidia.com"):
    """One GPU gpu-0 of a node."""
    device = {"name": "gpu-0", "attributes": {"uuid": {"string": uuid}, "index": {"int": 3}, "ok": {"bool": True}}}
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": [device]}
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}
    return {**kind, "metadata": {"name": f"{node}-{driver}"}, "spec": spec}


class Clock:
    seconds = 100.0

    def __call__(self):
        return self.seconds


def test_what_a_claimed_name_means_is_read_of_this_nodes_slices_and_stays_while_it_is_held(kube, server):
    node, now = f"node-{kube.namespace()}", Clock()
    slices = api_slices.ResourceSlices(server, node, now)
    kube.apply(a_slice(f"{node}-else", "GPU-else"))
    kube.apply(a_slice(node, "GPU-aaaa"))
    kube.apply(a_slice(node, "GPU-other", driver="other.nvidia.com"))
    ours = frozenset({Claimed("gpu.nvidia.com", node, "gpu-0")})
    found = {Claimed("gpu.nvidia.com", node, "gpu-0"): {"uuid": "GPU-aaaa", "index": "3"}}

    assert slices.published(frozenset()) == Published()
    assert slices.published(ours) == Published(found)
    kube.resource("resource.k8s.io/v1", "ResourceSlice").delete(name=f"{node}-gpu.nvidia.com")
    now.seconds += api_slices.SLICE_SECONDS
    assert slices.published(ours) == Published(found)
    assert slices.published(frozenset()) == slices.published(ours) == Published()


def test_a_device_of_another_driver_is_looked_up_at_once_and_a_change_within_a_while(kube, server):
    node, now = f"node-{kube.namespace()}", Clock()
    slices = api_slices.ResourceSlices(server, node, now)
    first, second = (Claimed(driver, node, "gpu-0") for driver in ("gpu.nvidia.com", "npu.huawei.com"))
    kube.apply(a_slice(node, "GPU-aaaa"))

    def uuids(*claimed):
        return [one["uuid"] for one in slices.published(frozenset(claimed)).attributes.values()]

    assert uuids(first) == ["GPU-aaaa"]
    kube.apply(a_slice(node, "GPU-bbbb"))
    kube.apply(a_slice(node, "NPU-cccc", driver="npu.huawei.com"))
    assert uuids(first) == ["GPU-aaaa"]
    assert sorted(uuids(first, second)) == ["GPU-bbbb", "NPU-cccc"]
    kube.apply(a_slice(node, "GPU-dddd"))
    now.seconds += api_slices.SLICE_SECONDS
    assert uuids(first) == ["GPU-dddd"]


def test_slices_that_cannot_be_read_are_a_reason_until_all_that_is_held_is_known(kube, server):
    node, now = f"node-{kube.namespace()}", Clock()
    kube.apply(a_slice(node, "GPU-aaaa"))
    ours = frozenset({Claimed("gpu.nvidia.com", node, "gpu-0")})
    slices = api_slices.ResourceSlices(server, node, now)
    token, away = server.credentials / "token", server.credentials / "away"
    token.rename(away)

    assert [slices.published(ours).reason for _ in range(2)] == ["ApiUnavailable"] * 2
    away.rename(token)
    now.seconds += api_slices.SLICE_SECONDS
    assert slices.published(ours).reason == ""
    token.rename(away)
    now.seconds += api_slices.SLICE_SECONDS
    assert slices.published(ours).reason == ""


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/secrets",
        "/api/v1/nodes",
        "/api/v1/namespaces/default/pods/x",
        "/apis/resource.k8s.io/v1/resourceslices/x",
        "/apis/resource.k8s.io/v1/resourceclaims",
    ],
)
def test_nothing_else_may_be_read(server, path):
    with pytest.raises(CannotMeasure, match=re.escape(f"ApiRefused: {path}: 403")):
        api_server.document(server, path, 5.0)


def test_a_server_that_is_not_there_is_a_reason(server, free_port):
    with pytest.raises(CannotMeasure) as refused:
        api_server.document(server._replace(port=free_port), "/api/v1/pods", 1.0)

    assert refused.value.reason == "ApiUnavailable"

"""The kubelet's pod-resources service on a unix socket, as a real gRPC server speaks it."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from google.protobuf import descriptor_pb2

from rankbeat_exporter.errors import CannotMeasure
from rankbeat_exporter.model.assignment import Allotment
from rankbeat_exporter.sources import pod_resources


@contextmanager
def a_kubelet(socket, answer):
    """A server whose List gives answer(): bytes, or an exception to raise."""

    def listed(request, context):
        return answer()

    method = grpc.unary_unary_rpc_method_handler(listed)
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1.PodResourcesLister", {"List": method}),))
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    try:
        yield
    finally:
        server.stop(None).wait()


def response():
    """Two pods: one with devices over two NUMA nodes and a claim, one with none."""
    made = pod_resources.message_class("ListPodResourcesResponse")()
    pod = made.pod_resources.add(name="llm-0", namespace="team-a")
    train = pod.containers.add(name="train")
    train.devices.add(resource_name="huawei.com/Ascend910", device_ids=["Ascend910-3"])
    train.devices.add(resource_name="huawei.com/Ascend910", device_ids=["Ascend910-4", "Ascend910-5"])
    claim = train.dynamic_resources.add(claim_name="gpu", claim_namespace="team-a")
    claim.claim_resources.add(driver_name="gpu.nvidia.com", pool_name="n1", device_name="gpu-1")
    pod.containers.add(name="beside")
    made.pod_resources.add(name="web", namespace="team-b").containers.add(name="web")
    return made.SerializeToString()


@pytest.fixture
def kubelet(tmp_path):
    made = pod_resources.Kubelet(tmp_path / "kubelet.sock", timeout_seconds=0.5)
    yield made
    made.close()


def test_every_containers_devices_and_claims_are_read(tmp_path, kubelet):
    with a_kubelet(tmp_path / "kubelet.sock", response):
        assert kubelet.allotments() == (
            Allotment("team-a", "llm-0", "train", "huawei.com/Ascend910", ("Ascend910-3",)),
            Allotment("team-a", "llm-0", "train", "huawei.com/Ascend910", ("Ascend910-4", "Ascend910-5")),
            Allotment("team-a", "llm-0", "train", "gpu.nvidia.com", ("gpu-1",), "n1"),
        )


def test_a_kubelet_that_is_not_there_is_a_reason_not_an_empty_answer(kubelet):
    with pytest.raises(CannotMeasure) as refused:
        kubelet.allotments()

    assert refused.value.reason == "KubeletUnavailable"


def test_a_kubelet_that_hangs_is_given_up_within_the_deadline(tmp_path, kubelet):
    with a_kubelet(tmp_path / "kubelet.sock", lambda: time.sleep(1.0) or b""):
        began = time.monotonic()
        with pytest.raises(CannotMeasure, match="DEADLINE_EXCEEDED"):
            kubelet.allotments()

    assert time.monotonic() - began < 3


def test_an_answer_that_is_no_message_is_a_reason(tmp_path, kubelet):
    with a_kubelet(tmp_path / "kubelet.sock", lambda: b"\xff\xff\xff"), pytest.raises(CannotMeasure) as refused:
        kubelet.allotments()

    assert refused.value.reason == "KubeletInvalid"


def test_a_kubelet_that_comes_back_is_found_again(tmp_path, kubelet, eventually):
    def answers():
        try:
            return kubelet.allotments()
        except CannotMeasure:
            return None

    with a_kubelet(tmp_path / "kubelet.sock", response):
        assert answers()
    assert answers() is None
    with a_kubelet(tmp_path / "kubelet.sock", response):
        assert len(eventually(answers)) == 3


def test_the_schema_of_the_code_is_that_of_the_file(tmp_path):
    folder = Path(pod_resources.__file__).parents[2]
    made = tmp_path / "descriptors"
    command = [
        "-m",
        "grpc_tools.protoc",
        f"-I{folder}",
        f"--descriptor_set_out={made}",
        str(folder / pod_resources.FILE),
    ]
    subprocess.run([sys.executable, *command], check=True)

    (of_file,) = descriptor_pb2.FileDescriptorSet.FromString(made.read_bytes()).file
    for message in of_file.message_type:
        for field in message.field:
            field.ClearField("json_name")
    assert of_file == pod_resources.file_descriptor()

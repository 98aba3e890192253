"""What the kubelet's device manager gave to the containers of this node: pod-resources v1 on its unix socket.

Messages are made at import from the table below: no generated file that binds one version of the runtime. A test holds
the table to what protoc makes of pod_resources.proto. Importing grpc costs 14 MiB (1.85.3, 2026-11-30).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from rankbeat_exporter.errors import CannotMeasure
from rankbeat_exporter.model.assignment import Allotment

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE = "v1"
FILE = "rankbeat_exporter/sources/pod_resources.proto"
LIST = "/v1.PodResourcesLister/List"
KUBELET_UNAVAILABLE = "KubeletUnavailable"
KUBELET_INVALID = "KubeletInvalid"
MAX_BYTES = 16 << 20
"""The kubelet's own limit of a message."""
MESSAGES = {
    "ListPodResourcesRequest": (),
    "ListPodResourcesResponse": (("pod_resources", 1, "repeated PodResources"),),
    "PodResources": (
        ("name", 1, "STRING"),
        ("namespace", 2, "STRING"),
        ("containers", 3, "repeated ContainerResources"),
    ),
    "ContainerResources": (
        ("name", 1, "STRING"),
        ("devices", 2, "repeated ContainerDevices"),
        ("dynamic_resources", 5, "repeated DynamicResource"),
    ),
    "ContainerDevices": (("resource_name", 1, "STRING"), ("device_ids", 2, "repeated STRING")),
    "DynamicResource": (
        ("claim_name", 2, "STRING"),
        ("claim_namespace", 3, "STRING"),
        ("claim_resources", 4, "repeated ClaimResource"),
    ),
    "ClaimResource": (("driver_name", 2, "STRING"), ("pool_name", 3, "STRING"), ("device_name", 4, "STRING")),
}


def file_descriptor() -> Any:
    """The FileDescriptorProto of pod_resources.proto."""
    file = descriptor_pb2.FileDescriptorProto(name=FILE, package=PACKAGE, syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            added = message.field.add(name=field, number=number)
            repeated, _, bare = kind.rpartition(" ")
            added.label = added.LABEL_REPEATED if repeated else added.LABEL_OPTIONAL
            if bare in MESSAGES:
                added.type, added.type_name = added.TYPE_MESSAGE, f".{PACKAGE}.{bare}"
            else:
                added.type = getattr(added, f"TYPE_{bare}")
    return file


def message_class(name: str) -> Any:
    """The class of one of MESSAGES."""
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{PACKAGE}.{name}"))


_POOL = descriptor_pool.DescriptorPool()
_POOL.AddSerializedFile(file_descriptor().SerializeToString())
_REQUEST = message_class("ListPodResourcesRequest")().SerializeToString()
_RESPONSE = message_class("ListPodResourcesResponse")


class Kubelet:
    """The service at a socket; the channel connects anew by itself when the kubelet restarts."""

    def __init__(self, socket: Path, timeout_seconds: float = 2.0) -> None:
        self._timeout_seconds = timeout_seconds
        options = (
            ("grpc.max_receive_message_length", MAX_BYTES),
            ("grpc.initial_reconnect_backoff_ms", 500),
            ("grpc.max_reconnect_backoff_ms", 5000),
            ("grpc.enable_http_proxy", 0),
            ("grpc.default_authority", "localhost"),  # else the escaped path, which Go's server refuses
        )
        self._channel = grpc.insecure_channel(f"unix:{socket}", options)
        self._list = self._channel.unary_unary(LIST)

    def allotments(self) -> tuple[Allotment, ...]:
        """Devices of every container that has any.

        Raises: CannotMeasure(KubeletUnavailable | KubeletInvalid).
        """
        try:
            answer = _RESPONSE.FromString(self._list(_REQUEST, timeout=self._timeout_seconds))
        except grpc.RpcError as error:
            code = error.code().name if isinstance(error, grpc.Call) else "UNKNOWN"
            raise CannotMeasure(KUBELET_UNAVAILABLE, f"{code}: {error}"[:300]) from error
        except DecodeError as error:
            raise CannotMeasure(KUBELET_INVALID, str(error)) from error
        return tuple(
            allotment
            for pod in answer.pod_resources
            for container in pod.containers
            for allotment in _of_container(pod, container)
        )

    def close(self) -> None:
        self._channel.close()


def _of_container(pod: Any, container: Any) -> tuple[Allotment, ...]:
    where = (str(pod.namespace), str(pod.name), str(container.name))
    given = tuple(Allotment(*where, str(one.resource_name), tuple(one.device_ids)) for one in container.devices)
    claimed = tuple(
        Allotment(*where, str(one.driver_name), (str(one.device_name),), str(one.pool_name))
        for claim in container.dynamic_resources
        for one in claim.claim_resources
        if one.device_name
    )
    return tuple(one for one in (*given, *claimed) if one.devices)

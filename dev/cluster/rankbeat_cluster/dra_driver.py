"""A driver for dynamic resource allocation whose devices are not there: scheduler and kubelet treat them as a vendor's.

usage: python -m rankbeat_cluster.dra_driver --pki STATE/pki --driver gpu.nvidia.com --device gpu-0=GPU-... --device ...

Runs inside the first node (rankbeat_cluster exec). It publishes the devices with their UUIDs as NVIDIA's driver does,
in a pool named as the node, and again when the kubelet has deleted them; a DeviceClass has the driver's name.
Containers get nothing: containerd 1.6 knows no CDI devices.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc

from rankbeat_cluster import api
from rankbeat_cluster.kubelet import API

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = Path("/var/lib/kubelet")
RESOURCES = "/apis/resource.k8s.io/v1"
DRA, REGISTRATION = (f"rankbeat_cluster/{name}.proto" for name in ("dra_driver", "plugin_registration"))
SERVICE = "v1.DRAPlugin"
"""Not the service's full name: the kubelet compares with this text."""
LOOK_SECONDS = 1.0


class Driver(NamedTuple):
    """devices: UUID by the name that claims get."""

    name: str
    node: str
    devices: Mapping[str, str]
    api: api.Api


class Registration:
    """The two calls by which the kubelet takes the driver in, made at the socket that it found by itself."""

    def __init__(self, messages: Any, driver: Driver, endpoint: Path) -> None:
        self._messages = messages
        self._driver = driver
        self._endpoint = endpoint

    def GetInfo(self, request: Any, context: Any) -> Any:  # noqa: N802 - the service's names
        del request, context
        return self._messages.PluginInfo(
            type="DRAPlugin", name=self._driver.name, endpoint=str(self._endpoint), supported_versions=[SERVICE]
        )

    def NotifyRegistrationStatus(self, request: Any, context: Any) -> Any:  # noqa: N802
        del context
        print(f"registered {self._driver.name}" if request.plugin_registered else request.error, flush=True)
        return self._messages.RegistrationStatusResponse()


class Plugin:
    """The two calls that the kubelet makes for pods with claims."""

    def __init__(self, messages: Any, driver: Driver) -> None:
        self._messages = messages
        self._driver = driver

    def NodePrepareResources(self, request: Any, context: Any) -> Any:  # noqa: N802
        del context
        answer = self._messages.NodePrepareResourcesResponse()
        for claim in request.claims:
            prepared = answer.claims[claim.uid]
            for result in self._allocated(claim):
                device = result["device"]
                prepared.devices.add(
                    request_names=[result["request"]],
                    pool_name=result["pool"],
                    device_name=device,
                    cdi_device_ids=[f"k8s.{self._driver.name}/claim={claim.uid}-{device}"],
                )
                print(f"prepared {device} for {claim.namespace}/{claim.name}", flush=True)
            prepared.error = "" if prepared.devices else f"nothing is allocated in claim {claim.name}"
        return answer

    def NodeUnprepareResources(self, request: Any, context: Any) -> Any:  # noqa: N802
        del context
        answer = self._messages.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            answer.claims[claim.uid].error = ""
            print(f"unprepared {claim.namespace}/{claim.name}", flush=True)
        return answer

    def _allocated(self, claim: Any) -> list[dict[str, str]]:
        """What the scheduler allocated of this driver, as the claim's status has it."""
        path = f"{RESOURCES}/namespaces/{claim.namespace}/resourceclaims/{claim.name}"
        found: dict[str, Any] = api.get(self._driver.api, path)
        devices = found.get("status", {}).get("allocation", {}).get("devices", {})
        return [result for result in devices.get("results", []) if result["driver"] == self._driver.name]


def device_class(driver: Driver) -> dict[str, object]:
    """All devices of the driver."""
    selector = {"cel": {"expression": f"device.driver == '{driver.name}'"}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": driver.name},
        "spec": {"selectors": [selector]},
    }


def resource_slice(driver: Driver) -> dict[str, object]:
    """The devices with the two attributes of a GPU by which one is picked."""
    devices = [
        {"name": name, "attributes": {"type": {"string": "gpu"}, "uuid": {"string": uuid}}}
        for name, uuid in driver.devices.items()
    ]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{driver.node}-{driver.name}"},
        "spec": {
            "driver": driver.name,
            "nodeName": driver.node,
            "pool": {"name": driver.node, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def serve(folder: Path, driver: Driver, stopped: threading.Event) -> None:
    """Serves until stopped is set; a kubelet that starts anew finds the sockets again by itself."""
    endpoint = folder / "plugins" / driver.name / "dra.sock"
    sockets = endpoint, folder / "plugins_registry" / f"{driver.name}-reg.sock"
    servers = [grpc.server(ThreadPoolExecutor(4)) for _ in sockets]
    messages, services = grpc.protos_and_services(DRA)
    services.add_DRAPluginServicer_to_server(Plugin(messages, driver), servers[0])
    messages, services = grpc.protos_and_services(REGISTRATION)
    services.add_RegistrationServicer_to_server(Registration(messages, driver, endpoint), servers[1])
    for server, socket in zip(servers, sockets, strict=True):
        socket.parent.mkdir(parents=True, exist_ok=True)
        socket.unlink(missing_ok=True)
        server.add_insecure_port(f"unix:{socket}")
        server.start()
    path = f"{RESOURCES}/resourceslices/{driver.node}-{driver.name}"
    api.apply(driver.api, f"{RESOURCES}/deviceclasses/{driver.name}", device_class(driver))
    while not stopped.is_set():
        if not api.is_ok(driver.api, path):
            api.apply(driver.api, path, resource_slice(driver))
            print(f"published {len(driver.devices)} devices", flush=True)
        stopped.wait(LOOK_SECONDS)
    for server, socket in zip(servers, sockets, strict=True):
        server.stop(None).wait()
        socket.unlink(missing_ok=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pki", type=Path, required=True, help="the cluster's, with the admin's certificate")
    parser.add_argument("--driver", required=True)
    parser.add_argument("--node", default="node-1")
    parser.add_argument("--device", action="append", required=True, metavar="NAME=UUID")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="the kubelet's")
    options = parser.parse_args()
    devices = dict(each.split("=", 1) for each in options.device)
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    serve(options.folder, Driver(options.driver, options.node, devices, api.Api(API, options.pki)), stopped)
    return 0


if __name__ == "__main__":
    sys.exit(main())

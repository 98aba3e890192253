"""A device plugin for devices that are not there: the kubelet allots them as it would allot a vendor's.

usage: python -m rankbeat_cluster.device_plugin --resource huawei.com/Ascend910 --device Ascend910-0 --device ...

Runs inside a node (rankbeat_cluster exec). Containers get $ASCEND_VISIBLE_DEVICES as Ascend's own plugin gives it, and
no device file. It registers again when the kubelet has started anew.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FOLDER = Path("/var/lib/kubelet/device-plugins")
PROTO = "rankbeat_cluster/device_plugin.proto"
LOOK_SECONDS = 1.0
CALL_SECONDS = 5.0


class DevicePlugin:
    """The three calls that the kubelet makes. stopped ends the watch of devices."""

    def __init__(self, messages: Any, devices: Sequence[str], stopped: threading.Event) -> None:
        self._messages = messages
        self._devices = devices
        self._stopped = stopped

    def GetDevicePluginOptions(self, request: Any, context: Any) -> Any:  # noqa: N802 - the service's names
        del request, context
        return self._messages.DevicePluginOptions()

    def ListAndWatch(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        del request
        listed = [self._messages.Device(ID=device, health="Healthy") for device in self._devices]
        yield self._messages.ListAndWatchResponse(devices=listed)
        while context.is_active() and not self._stopped.wait(LOOK_SECONDS):
            pass

    def Allocate(self, request: Any, context: Any) -> Any:  # noqa: N802
        del context
        answer = self._messages.AllocateResponse()
        for container in request.container_requests:
            numbers = ",".join(sorted(device.rpartition("-")[2] for device in container.devices_ids))
            answer.container_responses.add(envs={"ASCEND_VISIBLE_DEVICES": numbers})
            print(f"allotted {','.join(container.devices_ids)}", flush=True)
        return answer


def serve(folder: Path, resource: str, devices: Sequence[str], stopped: threading.Event) -> None:
    """Serves the devices until stopped is set, registering whenever the kubelet has a new socket."""
    messages, services = grpc.protos_and_services(PROTO)
    endpoint = f"rankbeat-{resource.replace('/', '-')}.sock"
    kubelet, registered = folder / "kubelet.sock", None
    server = None
    while not stopped.wait(0 if registered is None else LOOK_SECONDS):
        if not kubelet.exists() or kubelet.stat().st_ctime_ns == registered:
            stopped.wait(LOOK_SECONDS)
            continue
        found = kubelet.stat().st_ctime_ns
        if server is not None:
            server.stop(None).wait()
        (folder / endpoint).unlink(missing_ok=True)  # a kubelet that starts clears the folder
        server = grpc.server(ThreadPoolExecutor(8))
        services.add_DevicePluginServicer_to_server(DevicePlugin(messages, devices, stopped), server)
        server.add_insecure_port(f"unix:{folder / endpoint}")
        server.start()
        with grpc.insecure_channel(f"unix:{kubelet}", (("grpc.default_authority", "localhost"),)) as channel:
            wanted = messages.RegisterRequest(version="v1beta1", endpoint=endpoint, resource_name=resource)
            services.RegistrationStub(channel).Register(wanted, timeout=CALL_SECONDS)
        registered = found
        print(f"registered {resource} with {len(devices)} devices", flush=True)
    if server is not None:
        server.stop(None).wait()
    (folder / endpoint).unlink(missing_ok=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--resource", required=True)
    parser.add_argument("--device", action="append", required=True, metavar="ID")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="the kubelet's, with kubelet.sock in it")
    options = parser.parse_args()
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    serve(options.folder, options.resource, options.device, stopped)
    return 0


if __name__ == "__main__":
    sys.exit(main())

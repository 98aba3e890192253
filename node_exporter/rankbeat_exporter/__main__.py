"""rankbeat-exporter: clock, vendor or devices, one container each. A program loads only what it runs."""
# ruff: noqa: PLC0415

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rankbeat_contract import names
from rankbeat_contract.monitor import duration_seconds
from rankbeat_exporter.model.accelerator import VENDORS

if TYPE_CHECKING:
    from types import FrameType

    from rankbeat_exporter.collectors.loop import Loop
    from rankbeat_exporter.server.http import HttpServer

DEFAULT_SOCKET = Path("/run/rankbeat/vendor.sock")
DEFAULT_DRIVER_ROOT = Path("/usr/local/Ascend/driver")
FRESH_ROUNDS = 3


def main(arguments: list[str] | None = None) -> int:
    """Runs one program until SIGTERM or SIGINT."""
    options = _parser().parse_args(arguments)
    level = logging.DEBUG if options.verbose else logging.INFO
    logging.basicConfig(level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)  # as process 1 of a container there is no default action
    programs = {"clock": _clock, "vendor": _vendor, "vendor-child": _vendor_child, "devices": _devices}
    programs[options.program](options, stopped)
    return 0


def _clock(options: argparse.Namespace, stopped: threading.Event) -> None:
    from rankbeat_exporter.collectors.clock import ClockCollector, LocalSources
    from rankbeat_exporter.collectors.clock_series import ClockSeries
    from rankbeat_exporter.collectors.loop import Loop
    from rankbeat_exporter.model.clock import ClockLimits, clock_object
    from rankbeat_exporter.server import http
    from rankbeat_exporter.sources import adjtimex, chrony, sntp

    interval = options.round_interval
    pace = sntp.pace(interval)
    fresh = FRESH_ROUNDS * interval + pace.total_seconds
    limits = ClockLimits(options.offset_limit, options.error_limit, fresh)
    servers = tuple(sntp.SntpServer(server, pace) for server in dict.fromkeys(options.server))
    local = LocalSources(adjtimex.timex, chrony.Chronyd(options.chrony).tracking if options.chrony else None)
    collector = ClockCollector(servers, limits, local)
    loop = Loop("clock", collector.collect, interval, fresh)
    pages = {
        "/metrics": http.metrics_page(ClockSeries(options.node, collector.view)),
        "/v1/clock": http.json_page(lambda: clock_object(collector.view().verdict)),
        "/healthz": http.health_page(loop.is_alive),
    }
    _serve(http.HttpServer(options.port, pages, options.address), loop, stopped)


def _devices(options: argparse.Namespace, stopped: threading.Event) -> None:
    from rankbeat_exporter.collectors.devices import DevicesCollector
    from rankbeat_exporter.collectors.devices_series import DevicesSeries
    from rankbeat_exporter.collectors.loop import Loop
    from rankbeat_exporter.server import http
    from rankbeat_exporter.sources import vendor_socket

    interval = options.interval
    source = partial(vendor_socket.snapshots, options.socket, options.timeout)
    collector = DevicesCollector(source, FRESH_ROUNDS * interval + options.timeout)
    loop = Loop("accelerators", collector.collect, interval, FRESH_ROUNDS * interval + options.timeout)
    pages = {
        "/metrics": http.metrics_page(DevicesSeries(options.node, collector.view)),
        "/healthz": http.health_page(loop.is_alive),
    }
    _serve(http.HttpServer(options.port, pages, options.address), loop, stopped)


def _serve(server: HttpServer, loop: Loop, stopped: threading.Event) -> None:
    loop.start()
    threading.Thread(target=server.serve_forever, daemon=True, name="http").start()
    stopped.wait()
    loop.stop()
    server.shutdown()
    server.server_close()


def _vendor(options: argparse.Namespace, stopped: threading.Event) -> None:
    from rankbeat_exporter.server.vendor import VendorServer
    from rankbeat_exporter.sources import vendor_child

    roots = vendor_child.DriverRoots(options.npu_driver_root, options.nvidia_driver_root)
    children = vendor_child.VendorChildren(roots, tuple(options.vendor), options.deadline)
    server = VendorServer(options.socket, children.snapshots)
    thread = threading.Thread(target=server.serve, daemon=True, name="vendor")
    thread.start()
    stopped.wait()
    server.stop()
    thread.join(options.deadline + vendor_child.KILL_SECONDS)
    children.close()


def _vendor_child(options: argparse.Namespace, stopped: threading.Event) -> None:
    del stopped
    from rankbeat_exporter.sources import vendor_child

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    roots = vendor_child.DriverRoots(options.npu_driver_root)
    vendor_child.serve_requests(options.vendor, roots, options.call_seconds)


def _duration(text: str) -> float:
    try:
        return duration_seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _chrony(text: str) -> str:
    return text if text.startswith("/") else _ntp_server(text)


def _ntp_server(text: str) -> str:
    from rankbeat_exporter.sources import sntp

    try:
        sntp.host_port(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rankbeat-exporter", description=__doc__)
    parser.add_argument("--verbose", action="store_true", help="log at DEBUG")
    programs = parser.add_subparsers(dest="program", required=True)
    clock = programs.add_parser("clock", help="the node's clock by adjtimex and SNTP")
    clock.add_argument(
        "--server",
        action="append",
        default=[],
        type=_ntp_server,
        metavar="HOST[:PORT]",
        help="an NTP server, repeatable",
    )
    clock.add_argument(
        "--chrony",
        type=_chrony,
        metavar="SOCKET|HOST[:PORT]",
        help="chronyd's command socket, by its absolute path, or its command port (323)",
    )
    clock.add_argument("--round-interval", type=_duration, default="32s")
    clock.add_argument("--offset-limit", type=_duration, default="50ms")
    clock.add_argument("--error-limit", type=_duration, default="100ms")
    devices = programs.add_parser("devices", help="serve accelerators' metrics from the vendor part")
    devices.add_argument("--interval", type=_duration, default="5s")
    devices.add_argument("--timeout", type=_duration, default="6s", help="longer than the vendor part's deadline")
    vendor = programs.add_parser("vendor", help="read the vendor's library, answer raw numbers on a unix socket")
    vendor.add_argument("--deadline", type=_duration, default="4s", help="for one collection; then the child is killed")
    vendor.add_argument(
        "--vendor",
        action="append",
        default=[],
        choices=VENDORS,
        help="whose devices the node has, repeatable; default: those whose driver is found",
    )
    vendor.add_argument(
        "--nvidia-driver-root",
        type=Path,
        help="where no runtime brings libnvidia-ml.so.1: the folder that holds it, or a root with lib64 or usr/lib",
    )
    child = programs.add_parser("vendor-child", help="started by vendor")
    child.add_argument("--vendor", choices=VENDORS, required=True)
    child.add_argument(
        "--call-seconds", type=float, default=0.0, help="how long one call may take; 0: as long as it likes"
    )
    for program, port in ((clock, names.PORT_CLOCK), (devices, names.PORT_DEVICES)):
        program.add_argument("--port", type=int, default=port)
        program.add_argument("--address", default="", help="all addresses by default")
        program.add_argument("--node", default=os.environ.get("NODE_NAME") or os.uname().nodename)
    for program in (vendor, child):
        program.add_argument("--npu-driver-root", type=Path, default=DEFAULT_DRIVER_ROOT)
    for program in (vendor, devices):
        program.add_argument("--socket", type=Path, default=DEFAULT_SOCKET)
    return parser


if __name__ == "__main__":
    sys.exit(main())

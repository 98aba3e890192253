"""rankbeat-exporter: the clock and the accelerators of a machine, as metrics.

With --config FILE all of it in one service, which follows changes of the file. In pods each program has a container of
its own: clock, devices, and vendor, which alone may touch devices. verify compares what is read with the vendor's tool.
"""
# ruff: noqa: PLC0415 - a program loads only what it runs

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from rankbeat_contract import names
from rankbeat_contract.units import duration_seconds
from rankbeat_exporter import LOG_FORMAT
from rankbeat_exporter.errors import InvalidConfiguration
from rankbeat_exporter.model.accelerator import VENDORS
from rankbeat_exporter.model.configuration import ClockSection, Configuration, DevicesSection, WebSection
from rankbeat_serving import access

if TYPE_CHECKING:
    from types import FrameType

DEFAULT_SOCKET = Path("/run/rankbeat/vendor.sock")
DEFAULT_DRIVER_ROOT = Path("/usr/local/Ascend/driver")
LOOK_SECONDS = 2.0
"""Between two looks at the configuration's file."""


def main(arguments: list[str] | None = None) -> int:
    """Runs one program until SIGTERM or SIGINT."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if (options.program is None) == (options.config is None):
        parser.error("write --config FILE, or the name of a program")
    level = logging.DEBUG if options.verbose else logging.INFO
    logging.basicConfig(level=level, stream=sys.stderr, format=LOG_FORMAT)
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        stopped.set()

    programs = {
        None: _configured,
        "clock": _clock,
        "vendor": _vendor,
        "devices": _devices,
        "verify": _verify,
    }
    if options.program != "verify":
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)  # as process 1 of a container there is no default action
    try:
        return programs[options.program](options, stopped) or 0
    except InvalidConfiguration as error:
        sys.stderr.write(f"rankbeat-exporter: {error}\n")
        return 2


def _configured(options: argparse.Namespace, stopped: threading.Event) -> None:
    from rankbeat_exporter.server import service
    from rankbeat_exporter.sources.configuration_file import ConfigurationFile

    file = ConfigurationFile(options.config, _node())
    service.run_file(file.changed, LOOK_SECONDS, stopped)


def _clock(options: argparse.Namespace, stopped: threading.Event) -> None:
    from rankbeat_exporter.server import service

    section = ClockSection(
        servers=tuple(options.server),
        chrony=options.chrony or "",
        round_interval_seconds=options.round_interval,
        offset_limit_seconds=options.offset_limit,
        error_limit_seconds=options.error_limit,
    )
    service.run(Configuration(options.node, _web(options), clock=section), stopped)


def _devices(options: argparse.Namespace, stopped: threading.Event) -> None:
    from rankbeat_exporter.server import service

    section = DevicesSection(
        interval_seconds=options.interval,
        deadline_seconds=options.deadline,
        socket=str(options.socket),
        pod_resources=options.pod_resources or "",
        npu_resources=tuple(options.npu_resource),
        rank_tables=options.rank_tables,
        npu_exporter_names=options.npu_exporter_names,
    )
    service.run(Configuration(options.node, _web(options), devices=section), stopped)


def _web(options: argparse.Namespace) -> WebSection:
    from rankbeat_exporter.parsing import configuration

    web = WebSection(options.port, options.address, access.given(options), options.loopback_port)
    return configuration.checked_web(web)


def _vendor(options: argparse.Namespace, stopped: threading.Event) -> None:
    from rankbeat_exporter.server import stopping
    from rankbeat_exporter.server.vendor import VendorServer
    from rankbeat_exporter.sources import vendor_supervisor
    from rankbeat_exporter.sources.driver_roots import DriverRoots

    roots = DriverRoots(options.npu_driver_root, options.nvidia_driver_root)
    children = vendor_supervisor.VendorChildren(roots, tuple(options.vendor), options.deadline)
    server = VendorServer(options.socket, children.snapshots)
    thread = threading.Thread(target=server.serve, daemon=True, name="vendor")
    thread.start()
    stopping.wait(stopped)
    server.stop()
    thread.join(options.deadline + vendor_supervisor.KILL_SECONDS)
    children.close()


def _verify(options: argparse.Namespace, stopped: threading.Event) -> int:
    del stopped
    from rankbeat_exporter import verify
    from rankbeat_exporter.sources.driver_roots import DriverRoots

    roots = DriverRoots(options.npu_driver_root, options.nvidia_driver_root)
    return verify.run(verify.Request(roots, tuple(options.vendor), options.deadline, options.tool, options.json))


def _node() -> str:
    return os.environ.get("NODE_NAME") or os.uname().nodename


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
    parser = argparse.ArgumentParser(
        prog="rankbeat-exporter", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--verbose", action="store_true", help="log at DEBUG")
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML (docs/node-exporter.md); runs all in one")
    parser.set_defaults(loopback_port=0)
    programs = parser.add_subparsers(dest="program", metavar="PROGRAM")
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
    clock.add_argument(
        "--loopback-port", type=int, default=0, metavar="PORT", help="/v1/clock, plain, for a neighbour in the same pod"
    )
    clock.add_argument("--offset-limit", type=_duration, default="50ms")
    clock.add_argument("--error-limit", type=_duration, default="100ms")
    devices = programs.add_parser("devices", help="serve accelerators' metrics from the vendor part")
    devices.add_argument("--interval", type=_duration, default="5s")
    devices.add_argument("--pod-resources", metavar="SOCKET", help="the kubelet's; joins devices with this node's pods")
    devices.add_argument("--npu-resource", action="append", default=[], metavar="NAME", help="beside huawei.com/...")
    devices.add_argument("--rank-tables", action="store_true", help="read ConfigMaps rings-config-... that pods mount")
    devices.add_argument("--npu-exporter-names", action="store_true", help="show NPUs under npu-exporter's names too")
    vendor = programs.add_parser("vendor", help="read the vendor's library, answer raw numbers on a unix socket")
    verify = programs.add_parser("verify", help="compare what is read with npu-smi or nvidia-smi, side by side")
    verify.add_argument("--tool", type=Path, metavar="PATH", help="npu-smi or nvidia-smi; default: on PATH")
    verify.add_argument("--json", type=Path, metavar="FILE", help="the comparison for a report, too")
    for program, port in ((clock, names.PORT_CLOCK), (devices, names.PORT_DEVICES)):
        _add_web(program, port)
    for program in (vendor, verify):
        _add_vendors(program)
    for program in (vendor, verify):
        program.add_argument("--npu-driver-root", type=Path, default=DEFAULT_DRIVER_ROOT)
    for program in (vendor, verify, devices):
        program.add_argument(
            "--deadline", type=_duration, default="4s", help="for one collection; then the child is killed"
        )
    for program in (vendor, devices):
        program.add_argument("--socket", type=Path, default=DEFAULT_SOCKET)
    return parser


def _add_web(program: argparse.ArgumentParser, port: int) -> None:
    program.add_argument("--port", type=int, default=port)
    program.add_argument("--address", default="", help="all addresses by default")
    program.add_argument("--node", default=_node())
    access.add_options(program)


def _add_vendors(program: argparse.ArgumentParser) -> None:
    program.add_argument(
        "--vendor",
        action="append",
        default=[],
        choices=VENDORS,
        help="whose devices the node has, repeatable; default: those whose driver is found",
    )
    program.add_argument(
        "--nvidia-driver-root",
        type=Path,
        help="where no runtime brings libnvidia-ml.so.1: the folder that holds it, or a root with lib64 or usr/lib",
    )


if __name__ == "__main__":
    sys.exit(main())

"""rankbeat-exporter verify: what this machine's accelerators say to us, beside what the vendor's own tool says.

Exit 0: all that both sides say agrees. 1: something differs, or a device is known to one side only. 2: nothing could be
compared.
"""

from __future__ import annotations

import json
import os
import platform
from typing import TYPE_CHECKING, NamedTuple

from rankbeat_exporter.collectors.devices import DevicesCollector
from rankbeat_exporter.errors import CannotMeasure
from rankbeat_exporter.model.accelerator import VENDOR_HUAWEI, VENDOR_NVIDIA
from rankbeat_exporter.parsing import comparison
from rankbeat_exporter.sources import vendor_tools
from rankbeat_exporter.sources.vendor_supervisor import VendorChildren

if TYPE_CHECKING:
    from pathlib import Path

    from rankbeat_exporter.collectors.devices import VendorView
    from rankbeat_exporter.model.accelerator import Failure
    from rankbeat_exporter.model.comparison import Comparison
    from rankbeat_exporter.sources.driver_roots import DriverRoots

AGREES, DIFFERS, NOTHING_COMPARED = 0, 1, 2
FRESH_SECONDS = 3600.0
TITLES = {
    VENDOR_HUAWEI: "NPUs by libdcmi.so, beside npu-smi and hccn_tool",
    VENDOR_NVIDIA: "GPUs by NVML, beside nvidia-smi",
}


class Request(NamedTuple):
    """tool: None for that on PATH. report: where the comparison is written to as JSON, too."""

    roots: DriverRoots
    vendors: tuple[str, ...]
    deadline_seconds: float
    tool: Path | None
    report: Path | None


class _Found(NamedTuple):
    vendor: str
    tool: str
    fault: str
    compared: Comparison | None
    view: VendorView | None
    not_understood: tuple[Failure, ...] = ()


def run(request: Request) -> int:
    """Prints the comparison of each vendor, and gives the exit code. Ours is the library's word alone."""
    children = VendorChildren(request.roots, request.vendors, request.deadline_seconds, asks_tools=False)
    collector = DevicesCollector(children.snapshots, FRESH_SECONDS)
    print(_machine())
    try:
        _collect_all(collector)
        vendors = collector.view().vendors
        found = tuple(_compared(one.vendor, one, collector, request) for one in vendors)
    finally:
        children.close()
    for one in found:
        _print(one)
    if not found:
        reasons = ", ".join(one.reason for one in collector.view().collections if one.reason)
        print(f"no device was read: {reasons or 'no reason given'}. Is the driver installed, are its roots right?")
    if request.report is not None:
        request.report.write_text(json.dumps(_report(found), indent=2) + "\n", encoding="utf-8")
    return _exit_code(found)


def _collect_all(collector: DevicesCollector) -> None:
    """Collects until a round brings nothing more: one of many NPUs makes a part of the calls."""
    before = -1
    while (known := _known(collector)) > before:
        before = known
        collector.collect()


def _known(collector: DevicesCollector) -> int:
    return sum(len(comparison.flat(chip)) for one in collector.view().vendors for chip in one.accelerators or ())


def _compared(vendor: str, before: VendorView, collector: DevicesCollector, request: Request) -> _Found:
    if before.accelerators is None:
        reasons = ", ".join(one.reason for one in collector.view().collections if one.reason)
        return _Found(vendor, "", f"could not be read: {reasons}", None, before)
    try:
        said = vendor_tools.said(vendor, request.tool, request.roots)
    except CannotMeasure as error:
        return _Found(vendor, "", f"no tool to compare with: {error}", None, before)
    collector.collect()
    after = next((one for one in collector.view().vendors if one.vendor == vendor), before)
    compared = comparison.comparison(before.accelerators, after.accelerators or before.accelerators, said.devices)
    return _Found(vendor, said.command, "", compared, after, said.not_understood)


def _print(found: _Found) -> None:
    print(f"\n{TITLES[found.vendor]}")
    if found.fault:
        print(found.fault)
    if found.compared is not None:
        print(f"$ {found.tool}")
        print(comparison.table(found.compared), end="")
        words = "all that both say agrees" if found.compared.agrees else "NOT all agrees"
        print(f"{found.compared.compared} figures compared: {words}")
    if found.view is not None and found.view.failures:
        print("calls without a usable answer (call, code): an old driver or another chip may lack them")
        for failure, _ in found.view.failures:
            print(f"  {failure.call} {failure.code}")
    if found.not_understood:
        print("commands of the tools without a usable answer (command, why)")
        for failure in dict.fromkeys(found.not_understood):
            print(f"  {failure.call}: {failure.code}")


def _exit_code(found: tuple[_Found, ...]) -> int:
    compared = [one.compared for one in found if one.compared is not None]
    if any(not one.agrees for one in compared):
        return DIFFERS
    if not compared or any(not one.compared for one in compared) or any(one.fault for one in found):
        return NOTHING_COMPARED
    return AGREES


def _machine() -> str:
    library = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else "unknown C library"
    system = os.uname()
    return f"{system.machine}, {system.sysname} {system.release}, {library}, Python {platform.python_version()}"


def _report(found: tuple[_Found, ...]) -> dict[str, object]:
    return {
        "machine": _machine(),
        "exit_code": _exit_code(found),
        "vendors": [
            {
                "vendor": one.vendor,
                "tool": one.tool,
                "fault": one.fault,
                "rows": [row._asdict() for row in one.compared.rows] if one.compared else [],
                "unmatched": one.compared.unmatched if one.compared else (),
                "failures": [failure._asdict() for failure, _ in one.view.failures] if one.view else [],
                "not_understood": [failure._asdict() for failure in one.not_understood],
            }
            for one in found
        ],
    }

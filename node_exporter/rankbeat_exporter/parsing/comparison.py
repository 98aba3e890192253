"""Whether the exporter's readings are what the vendor's tool prints, and both as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rankbeat_exporter.model.comparison import AGREES, DIFFERS, ONLY_OURS, ONLY_TOOL, Comparison, Row, ToolDevice

if TYPE_CHECKING:
    from rankbeat_exporter.model.accelerator import Accelerator


class _Tolerance(NamedTuple):
    """absolute: what a tool rounds away, and what moves within a second. relative: of the tool's figure."""

    absolute: float
    relative: float = 0.0


MEBIBYTE = 1 << 20
LINE_RATE = 400e9 / 8
"""Bytes per second of the fastest network port."""
SECONDS = 60.0
"""How long a reading of ours may be kept, and the tool's commands take."""
TOLERANCES = {
    "utilization_ratio": _Tolerance(0.1),
    "memory_size_bytes": _Tolerance(MEBIBYTE),
    "memory_used_bytes": _Tolerance(64 * MEBIBYTE),
    "temperature_celsius": _Tolerance(2),
    "memory_temperature_celsius": _Tolerance(2),
    "power_watts": _Tolerance(3, 0.05),
    "power_limit_watts": _Tolerance(0.5),
    "frequency_hertz": _Tolerance(1e6, 0.05),
    "frequency_max_hertz": _Tolerance(1e6),
    "memory_frequency_hertz": _Tolerance(1e6, 0.05),
    "memory_bandwidth_utilization_ratio": _Tolerance(0.1),
    "vector_utilization_ratio": _Tolerance(0.1),
    "cube_utilization_ratio": _Tolerance(0.1),
    "overall_utilization_ratio": _Tolerance(0.1),
    "memory_busy_ratio": _Tolerance(0.1),
    "ddr_size_bytes": _Tolerance(MEBIBYTE),
    "ddr_used_bytes": _Tolerance(64 * MEBIBYTE),
    "process_memory_by_pid_bytes": _Tolerance(64 * MEBIBYTE),
    "network_bytes_total": _Tolerance(LINE_RATE * SECONDS),
    "network_packets_total": _Tolerance(LINE_RATE * SECONDS / 64),
    **dict.fromkeys(
        (
            "health_level",
            "error_codes",
            "processes",
            "ecc_enabled",
            "ecc_errors_total",
            "ecc_lifetime_errors_total",
            "isolated_pages",
            "ddr_ecc_errors_total",
            "ddr_ecc_lifetime_errors_total",
            "ddr_isolated_pages",
            "network_healthy",
            "network_bad_packets_total",
            "network_bad_bytes_total",
            "network_errors_total",
            "mig_enabled",
            "retired_pages_pending",
            "pcie_link_generation_max",
            "pcie_link_width",
            "pcie_link_width_max",
        ),
        _Tolerance(0),
    ),
}
"""The figures that tools print too, all parts of them. A unit read wrongly is off by a factor of ten at least: these do
not hide it."""


def comparison(
    before: tuple[Accelerator, ...], after: tuple[Accelerator, ...], tool: tuple[ToolDevice, ...]
) -> Comparison:
    """Each device that both sides know, figure by figure; the tool ran between before and after."""
    later = {_key(one): flat(one) for one in after}
    left = list(tool)
    rows: list[Row] = []
    unmatched = []
    for one in (one for one in before if not one.instance_of):
        match = _match(one, left)
        if match is None:
            unmatched.append(f"{one.device} ({one.model or 'model unknown'}) is not in the tool's list")
            continue
        left.remove(match)
        ours = flat(one)
        rows += _rows(one.device, (ours, later.get(_key(one), ours)), match)
    unmatched += [f"{one.device} ({one.model or 'model unknown'}) is only in the tool's list" for one in left]
    return Comparison(tuple(rows), tuple(unmatched))


def table(found: Comparison) -> str:
    """For people: one line a figure, device by device."""
    head = ("DEVICE", "FIGURE", "OURS", "TOOL", "TOLERANCE", "")
    lines = [head, *(_cells(row) for row in found.rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([*text, *found.unmatched]) + "\n"


def _key(one: Accelerator) -> tuple[str, str]:
    return one.uuid, one.device


def _match(one: Accelerator, tool: list[ToolDevice]) -> ToolDevice | None:
    """By uuid, then by PCI address, then by number where the tool gives neither."""
    for ours, theirs in (("uuid", "uuid"), ("pci_address", "pci_address")):
        known = getattr(one, ours).lower()
        found = next((device for device in tool if known and getattr(device, theirs).lower() == known), None)
        if found is not None:
            return found
    nameless = (device for device in tool if not device.uuid and not device.pci_address)
    return next((device for device in nameless if device.device == one.device), None)


def flat(one: Accelerator) -> dict[str, float]:
    """All numbers of an accelerator, a part as `figure{label,label}`, and how many error codes it has.

    network_healthy goes without its label, which is the state itself.
    """
    found = dict(one.figures)
    for figure, parts in one.parts.items():
        found |= {f"{figure}{{{part}}}": number for part, number in parts.items()}
    for figure, rows in one.rows.items():
        for labels, number in rows.items():
            found[figure if figure == "network_healthy" else f"{figure}{{{','.join(labels)}}}"] = number
    return found if one.error_codes is None else {**found, "error_codes": float(len(one.error_codes))}


def _rows(device: str, readings: tuple[dict[str, float], dict[str, float]], tool: ToolDevice) -> list[Row]:
    rows = []
    places = {figure: place for place, figure in enumerate(TOLERANCES)}
    names = {name for one in (*readings, tool.figures) for name in one if name.partition("{")[0] in places}
    for name in sorted(names, key=lambda name: (places[name.partition("{")[0]], name)):
        tolerance = TOLERANCES[name.partition("{")[0]]
        ours = [one[name] for one in readings if name in one]
        theirs = tool.figures.get(name)
        allowed = tolerance.absolute + tolerance.relative * abs(theirs or 0.0)
        low, high = (min(ours), max(ours)) if ours else (None, None)
        rows.append(Row(device, name, low, high, theirs, allowed, _verdict(low, high, theirs, allowed)))
    return rows


def _verdict(low: float | None, high: float | None, tool: float | None, allowed: float) -> str:
    if low is None or high is None:
        return ONLY_TOOL
    if tool is None:
        return ONLY_OURS
    return AGREES if low - allowed <= tool <= high + allowed else DIFFERS


def _cells(row: Row) -> tuple[str, ...]:
    ours = "-" if row.low is None else _number(row.low)
    if row.low != row.high and row.high is not None:
        ours += f" to {_number(row.high)}"
    tool = "-" if row.tool is None else _number(row.tool)
    return row.device, row.figure, ours, tool, _number(row.tolerance), row.verdict


def _number(value: float) -> str:
    return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.0f}"

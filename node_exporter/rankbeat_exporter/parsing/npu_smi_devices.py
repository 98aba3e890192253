"""`npu-smi info`, and its `-t common` and `-t memory`, as devices in base units, to compare with."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from rankbeat_exporter.model.comparison import ToolDevice
from rankbeat_exporter.parsing import npu_smi

HEALTH_LEVELS = {"ok": 0.0, "warning": 1.0, "alarm": 2.0, "critical": 3.0}
MEBIBYTE = 1 << 20
MEGAHERTZ = 1e6
MORE = {"common": True, "memory": False}
"""Sub-commands of `info -t`, and whether a chip's id stands before its lines there."""
_MORE_LINES = {
    "aicore curfreq(mhz)": ("frequency_hertz", MEGAHERTZ),
    "aicore freq(mhz)": ("frequency_max_hertz", MEGAHERTZ),
    "hbm clock speed(mhz)": ("memory_frequency_hertz", MEGAHERTZ),
    "hbm temperature(c)": ("memory_temperature_celsius", 1.0),
}


class Place(NamedTuple):
    """A chip by the tool's numbers: NPU, and chip in it."""

    npu: int
    chip: int


def devices(text: str) -> dict[Place, ToolDevice]:
    """Every chip of the main table; a cell that is no number (`-`, `NA`) gives no figure."""
    found = {}
    for cells in npu_smi.table(text).chips:
        npu, chip = npu_smi.whole(cells.get("npu")), npu_smi.whole(cells.get("chip", "0"))
        if npu is not None and chip is not None:
            found[Place(npu, chip)] = _device(cells)
    return found


def with_more(known: dict[Place, ToolDevice], npu: int, kind: str, text: str) -> dict[Place, ToolDevice]:
    """The devices with what `info -t KIND -i NPU` adds to them."""
    found = dict(known)
    for section in npu_smi.sections(text, is_id_first=MORE[kind]):
        place = Place(npu, section.chip if section.chip is not None else -1)
        if place in found:
            figures = dict(found[place].figures)
            for label, (figure, factor) in _MORE_LINES.items():
                number = npu_smi.number(section.lines.get(label))
                if number is not None:
                    figures[figure] = number * factor
            found[place] = replace(found[place], figures=figures)
    return found


def _device(cells: dict[str, str]) -> ToolDevice:
    figures = {
        "health_level": HEALTH_LEVELS.get(cells.get("health", "").lower()),
        "power_watts": npu_smi.number(cells.get("power(w)")),
        "temperature_celsius": npu_smi.number(cells.get("temp(c)")),
        "utilization_ratio": _scaled(cells.get("utilization"), 0.01),
        **_memory(cells),
    }
    return ToolDevice(
        device=cells.get("phy-id") or cells.get("npu", ""),
        pci_address=cells.get("bus-id", "").lower(),
        model=cells.get("name", ""),
        figures={name: value for name, value in figures.items() if value is not None},
    )


def _memory(cells: dict[str, str]) -> dict[str, float | None]:
    """HBM where the chip has it, else DDR: a memory of size 0 is none."""
    for label in ("hbm-usage(mb)", "memory-usage(mb)"):
        size = _scaled(cells.get(f"{label} total"), MEBIBYTE)
        if size:
            return {"memory_size_bytes": size, "memory_used_bytes": _scaled(cells.get(label), MEBIBYTE)}
    return {}


def _scaled(cell: str | None, factor: float) -> float | None:
    number = npu_smi.number(cell)
    return None if number is None else number * factor

"""What `nvidia-smi --query-gpu=FIELDS --format=csv,noheader,nounits` prints."""

from __future__ import annotations

import csv
import math
from typing import NamedTuple

from rankbeat_exporter.model.comparison import ToolDevice


class _Field(NamedTuple):
    """A field that is a number, the exporter's figure, and the factor to base units."""

    figure: str
    factor: float


FIELDS = ("index", "uuid", "pci.bus_id", "name")
NUMBERS = {
    "temperature.gpu": _Field("temperature_celsius", 1),
    "power.draw": _Field("power_watts", 1),
    "power.limit": _Field("power_limit_watts", 1),
    "memory.total": _Field("memory_size_bytes", 1 << 20),
    "utilization.gpu": _Field("utilization_ratio", 0.01),
    "clocks.sm": _Field("frequency_hertz", 1e6),
    "clocks.max.sm": _Field("frequency_max_hertz", 1e6),
    "clocks.mem": _Field("memory_frequency_hertz", 1e6),
    "utilization.memory": _Field("memory_busy_ratio", 0.01),
    "temperature.memory": _Field("memory_temperature_celsius", 1),
    "ecc.mode.current": _Field("ecc_enabled", 1),
    "ecc.errors.corrected.volatile.total": _Field("ecc_errors_total{corrected}", 1),
    "ecc.errors.uncorrected.volatile.total": _Field("ecc_errors_total{uncorrected}", 1),
    "ecc.errors.corrected.aggregate.total": _Field("ecc_lifetime_errors_total{corrected}", 1),
    "ecc.errors.uncorrected.aggregate.total": _Field("ecc_lifetime_errors_total{uncorrected}", 1),
    "retired_pages.pending": _Field("retired_pages_pending", 1),
    "mig.mode.current": _Field("mig_enabled", 1),
    "pcie.link.gen.max": _Field("pcie_link_generation_max", 1),
    "pcie.link.width.current": _Field("pcie_link_width", 1),
    "pcie.link.width.max": _Field("pcie_link_width_max", 1),
}
_WORDS = {"enabled": 1.0, "yes": 1.0, "disabled": 0.0, "no": 0.0}
# Not memory.used: newer drivers leave out of it what they keep for themselves, older ones do not, and ours holds it.
QUERY = (f"--query-gpu={','.join((*FIELDS, *NUMBERS))}", "--format=csv,noheader,nounits")
"""Arguments of nvidia-smi."""


def devices(text: str) -> tuple[ToolDevice, ...]:
    """A device for each whole line; `[N/A]`, `[Not Supported]` and other words are no figures, `Enabled` is 1."""
    found = []
    for row in csv.reader(text.splitlines(), skipinitialspace=True):
        cells = [cell.strip() for cell in row]
        if len(cells) != len(FIELDS) + len(NUMBERS) or not cells[0].isdigit():
            continue
        numbers = zip(NUMBERS.values(), map(_number, cells[len(FIELDS) :]), strict=True)
        figures = {one.figure: number * one.factor for one, number in numbers if number is not None}
        found.append(ToolDevice(cells[0], cells[1], _pci_address(cells[2]), cells[3], figures))
    return tuple(found)


def _number(cell: str) -> float | None:
    if cell.lower() in _WORDS:
        return _WORDS[cell.lower()]
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _pci_address(cell: str) -> str:
    """As lspci writes it: the tool gives eight digits of domain, in capitals."""
    domain, colon, rest = cell.lower().partition(":")
    return f"{domain[-4:]}:{rest}" if colon and len(domain) == 8 else cell.lower()

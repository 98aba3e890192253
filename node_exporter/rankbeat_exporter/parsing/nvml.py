"""What NVML's raw numbers mean: units, and the numbers that mean nothing (docs/sources.md, NVML).

Unknown is a missing figure and a named failure, never a number. A figure is missing without a failure only where the
library was not asked, since a call before it said that the GPU is lost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from rankbeat_exporter.model.accelerator import Accelerator, Answer, Event, Failure, RawChip

if TYPE_CHECKING:
    from collections.abc import Iterable

GPU_IS_LOST = 15
RESET_REQUIRED = 16
SENTINELS = frozenset({-1, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF, 0x7FFFFFFFFFFFFFFF})
"""NVML_VALUE_NOT_AVAILABLE in its widths, and the blank that became a utilization of 9.2e18 elsewhere."""
SENTINEL = "sentinel"
MALFORMED = "malformed"
OUT_OF_RANGE = "out_of_range"

MEGAHERTZ = 10**6
KIBIBYTE = 1 << 10
KILOBYTE = 1000
MILLI = 1000
NANO = 10**9
_ANY = 2**63 - 2
_MILLIWATTS = 10**8

THROTTLE_REASONS = {
    0x2: "application_clocks",
    0x4: "software_power_cap",
    0x8: "hardware_slowdown",
    0x10: "sync_boost",
    0x20: "software_thermal",
    0x40: "hardware_thermal",
    0x80: "hardware_power_brake",
    0x100: "display_clocks",
    0x200: "board_limit",
    0x400: "reliability",
}
_IDLE = 0x1
"""Also a bit of the mask, but an idle GPU is not held down."""
_POLICIES = ("power", "thermal", "sync_boost", "board_limit", "reliability")


class _Rule(NamedTuple):
    """One figure: the call that gives it, where in its answer, its range before and how it becomes base units.

    part: the value of the extra label, for a figure of metrics.ACCELERATOR_PARTS.
    """

    figure: str
    call: str
    position: int = 0
    lowest: int = 0
    highest: int = _ANY
    multiplier: int = 1
    divisor: int = 1
    part: str = ""


_RULES = (
    _Rule("utilization_ratio", "utilization", 0, 0, 100, divisor=100),
    _Rule("memory_busy_ratio", "utilization", 1, 0, 100, divisor=100),
    _Rule("memory_size_bytes", "memory", 0, 1),
    _Rule("memory_used_bytes", "memory", 1),
    _Rule("memory_reserved_bytes", "memory_reserved"),
    _Rule("memory_temperature_celsius", "memory_temperature", 0, 1, 300),
    _Rule("memory_frequency_hertz", "memory_frequency", 0, 0, 100_000, MEGAHERTZ),
    _Rule("temperature_celsius", "temperature", 0, -100, 300),
    _Rule("power_watts", "power", 0, 0, _MILLIWATTS, divisor=MILLI),
    _Rule("power_limit_watts", "power_limit", 0, 1, _MILLIWATTS, divisor=MILLI),
    _Rule("energy_joules_total", "energy", divisor=MILLI),
    _Rule("frequency_hertz", "frequency", 0, 0, 100_000, MEGAHERTZ),
    _Rule("frequency_max_hertz", "frequency_max", 0, 1, 100_000, MEGAHERTZ),
    *(_Rule("throttled_seconds_total", f"violation_{name}", divisor=NANO, part=name) for name in _POLICIES),
    _Rule("ecc_enabled", "ecc_mode", 0, 0, 1),
    _Rule("ecc_errors_total", "ecc_corrected", part="corrected"),
    _Rule("ecc_errors_total", "ecc_uncorrected", part="uncorrected"),
    _Rule("ecc_lifetime_errors_total", "ecc_lifetime_corrected", part="corrected"),
    _Rule("ecc_lifetime_errors_total", "ecc_lifetime_uncorrected", part="uncorrected"),
    _Rule("remapped_rows_total", "remapped_rows", 0, part="correctable"),
    _Rule("remapped_rows_total", "remapped_rows", 1, part="uncorrectable"),
    _Rule("row_remap_pending", "remapped_rows", 2, 0, 1),
    _Rule("row_remap_failure", "remapped_rows", 3, 0, 1),
    _Rule("retired_pages_pending", "retired_pages_pending", 0, 0, 1),
    _Rule("pcie_link_generation", "pcie_generation", 0, 1, 99),
    _Rule("pcie_link_generation_max", "pcie_generation_max", 0, 1, 99),
    _Rule("pcie_link_width", "pcie_width", 0, 1, 64),
    _Rule("pcie_link_width_max", "pcie_width_max", 0, 1, 64),
    _Rule("pcie_replays_total", "pcie_replays"),
    _Rule("pcie_transmit_bytes_total", "pcie_bytes", 0),
    _Rule("pcie_receive_bytes_total", "pcie_bytes", 1),
    _Rule("pcie_transmit_bytes_per_second", "pcie_transmit", 0, 0, 10**9, KILOBYTE),
    _Rule("pcie_receive_bytes_per_second", "pcie_receive", 0, 0, 10**9, KILOBYTE),
    _Rule("nvlink_transmit_bytes_total", "nvlink_kibibytes", 0, multiplier=KIBIBYTE),
    _Rule("nvlink_receive_bytes_total", "nvlink_kibibytes", 1, multiplier=KIBIBYTE),
    _Rule("nvlink_errors_total", "nvlink_errors", 0, part="replay"),
    _Rule("nvlink_errors_total", "nvlink_errors", 1, part="recovery"),
    _Rule("nvlink_errors_total", "nvlink_errors", 2, part="crc"),
    _Rule("mig_enabled", "mig_mode", 0, 0, 1),
    _Rule("processes", "processes", 0),
    _Rule("process_memory_bytes", "processes", 1),
)


def accelerator(chip: RawChip) -> tuple[Accelerator, tuple[Failure, ...]]:
    """One GPU or MIG instance in base units, and each call that gave nothing usable, once."""
    failures: dict[Failure, None] = {}
    figures: dict[str, float] = {}
    parts: dict[str, dict[str, float]] = {}
    for rule in _RULES:
        found = chip.answers.get(rule.call)
        if found is None or found.code:
            continue
        raw = found.values[rule.position] if rule.position < len(found.values) else None
        if not isinstance(raw, int) or (fault := _fault(rule, raw)):
            failures.setdefault(Failure(rule.call, fault if isinstance(raw, int) else MALFORMED))
        elif rule.part:
            parts.setdefault(rule.figure, {})[rule.part] = raw * rule.multiplier / rule.divisor
        else:
            figures[rule.figure] = raw * rule.multiplier / rule.divisor
    figures |= _states(chip)
    parts |= _throttle(chip.answers.get("throttle"), failures) | _links(chip.answers.get("nvlink_states"))
    _drop_impossible_memory(figures, failures)
    for call, found in chip.answers.items():
        if found.code:
            failures.setdefault(Failure(call, str(found.code)))
    return _device(chip, figures, parts), tuple(failures)


def with_xids(gpu: Accelerator, events: Iterable[Event]) -> Accelerator:
    """The GPU with the number of its XIDs, where they are watched."""
    if "xid_errors_total" not in gpu.figures:
        return gpu
    count = sum(one.count for one in events if (one.device, one.uuid) == (gpu.device, gpu.uuid))
    return replace(gpu, figures={**gpu.figures, "xid_errors_total": float(count)})


def _device(chip: RawChip, figures: dict[str, float], parts: dict[str, dict[str, float]]) -> Accelerator:
    index = str(chip.card)
    return Accelerator(
        device=f"{index}:{chip.device - 1}" if chip.device else index,
        uuid=_text(chip.answers.get("uuid")),
        model=_text(chip.answers.get("name")),
        pci_address=_pci_address(_text(chip.answers.get("pci"))),
        card=chip.card,
        chip=chip.device,
        figures=figures,
        error_codes=None,
        parts=parts,
        instance_of=index if chip.device else "",
    )


def _fault(rule: _Rule, raw: int) -> str:
    """Why the number means nothing; empty where it means something."""
    if raw in SENTINELS and not rule.lowest <= raw < 0:
        return SENTINEL
    return "" if rule.lowest <= raw <= rule.highest else OUT_OF_RANGE


def _states(chip: RawChip) -> dict[str, float]:
    """What the codes of a GPU's answers say together; nothing about a GPU none of whose answers is good."""
    codes = {one.code for call, one in chip.answers.items() if call not in {"uuid", "name", "pci", "xid_watch"}}
    figures = {}
    if not chip.device and codes & {0, GPU_IS_LOST, RESET_REQUIRED}:
        figures["lost"] = float(GPU_IS_LOST in codes)
        if GPU_IS_LOST not in codes:
            figures["reset_required"] = float(RESET_REQUIRED in codes)
    watched = chip.answers.get("xid_watch")
    if watched is not None and not watched.code:
        figures["xid_errors_total"] = 0.0
    return figures


def _throttle(found: Answer | None, failures: dict[Failure, None]) -> dict[str, dict[str, float]]:
    """Each reason as 1 or 0; a bit that has no name yet by its number."""
    if found is None or found.code:
        return {}
    mask = found.values[0] if found.values else None
    if not isinstance(mask, int) or mask < 0 or mask in SENTINELS:
        failures.setdefault(Failure("throttle", SENTINEL if isinstance(mask, int) else MALFORMED))
        return {}
    named = {name: float(bool(mask & bit)) for bit, name in THROTTLE_REASONS.items()}
    rest = mask & ~_IDLE & ~sum(THROTTLE_REASONS)
    unnamed = {f"0x{1 << bit:x}": 1.0 for bit in range(rest.bit_length()) if rest >> bit & 1}
    return {"throttled": named | unnamed}


def _links(found: Answer | None) -> dict[str, dict[str, float]]:
    """Up or not, of each link that the GPU has."""
    if found is None or found.code:
        return {}
    return {"nvlink_up": {str(link): float(state) for link, state in enumerate(found.values) if state in {0, 1}}}


def _drop_impossible_memory(figures: dict[str, float], failures: dict[Failure, None]) -> None:
    """No use above the size."""
    size = figures.get("memory_size_bytes", 0.0)
    if figures.get("memory_used_bytes", 0.0) > size:
        del figures["memory_used_bytes"]
        failures.setdefault(Failure("memory", OUT_OF_RANGE))


def _text(found: Answer | None) -> str:
    return str(found.values[0]) if found is not None and not found.code and found.values else ""


def _pci_address(bus_id: str) -> str:
    """domain:bus:device.function as lspci writes it: NVML gives eight digits of domain, in capitals."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{domain[4:] if domain.startswith('0000') and len(domain) == 8 else domain}:{rest}" if rest else ""

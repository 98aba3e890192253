"""What DCMI's raw numbers mean: units, and the numbers that mean nothing (docs/sources.md, DCMI).

Unknown is a missing figure and a named failure, never a number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rankbeat_exporter.model.accelerator import CODE_HUNG, Accelerator, Answer, Failure, RawChip
from rankbeat_exporter.parsing import dcmi_rows
from rankbeat_exporter.parsing.dcmi_rows import NO_NUMBERS

if TYPE_CHECKING:
    from collections.abc import Iterable

MEBIBYTE = 1 << 20
"""DCMI's MB: an HBM of 65536 MB is 64 GiB."""
MEGAHERTZ = 10**6
SENSOR_SENTINELS = frozenset({0x7FFD, 0x7FFF})
"""Invalid, and read failure. Not of memory: 32765 MB may well be in use."""
SENTINEL = "sentinel"
MALFORMED = "malformed"
OUT_OF_RANGE = "out_of_range"
HUNG = "hung"


class _Rule(NamedTuple):
    """One figure: the call that gives it, where in its answer, its range before and how it becomes base units."""

    figure: str
    call: str
    position: int
    lowest: int
    highest: int
    multiplier: int = 1
    divisor: int = 1


_ANY = 2**63
_PARTS = tuple(
    prefix + figure
    for prefix in ("", "ddr_")
    for figure in ("ecc_errors_total", "ecc_lifetime_errors_total", "isolated_pages")
)
"""Figures with one more label, its kind, that GPUs have too."""
_RULES = (
    _Rule("health_level", "health", 0, 0, 3),
    _Rule("utilization_ratio", "utilization", 0, 0, 100, divisor=100),
    _Rule("vector_utilization_ratio", "vector_utilization", 0, 0, 100, divisor=100),
    _Rule("cube_utilization_ratio", "cube_utilization", 0, 0, 100, divisor=100),
    _Rule("overall_utilization_ratio", "overall_utilization", 0, 0, 100, divisor=100),
    _Rule("memory_size_bytes", "memory", 0, 1, _ANY, MEBIBYTE),
    _Rule("memory_frequency_hertz", "memory", 1, 1, _ANY, MEGAHERTZ),
    _Rule("memory_used_bytes", "memory", 2, 0, _ANY, MEBIBYTE),
    _Rule("memory_temperature_celsius", "memory", 3, -100, 300),
    _Rule("memory_bandwidth_utilization_ratio", "memory", 4, 0, 100, divisor=100),
    _Rule("ddr_size_bytes", "ddr", 0, 0, _ANY, MEBIBYTE),
    _Rule("ddr_available_bytes", "ddr", 1, 0, _ANY, MEBIBYTE),
    _Rule("temperature_celsius", "temperature", 0, -100, 300),
    _Rule("power_watts", "power", 0, 0, 100_000, divisor=10),
    _Rule("card_power_watts", "card_power", 0, 0, 100_000, divisor=10),
    _Rule("voltage_volts", "voltage", 0, 0, 10_000, divisor=100),
    _Rule("frequency_hertz", "frequency", 0, 0, 100_000, MEGAHERTZ),
    _Rule("frequency_max_hertz", "frequency_max", 0, 1, 100_000, MEGAHERTZ),
    _Rule("vector_frequency_hertz", "vector_frequency", 0, 0, 100_000, MEGAHERTZ),
    _Rule("ecc_enabled", "ecc_hbm", 0, 0, 1),
    _Rule("pcie_replays_total", "pcie_errors", 4, 0, _ANY),
)


def accelerator(chip: RawChip) -> tuple[Accelerator, tuple[Failure, ...]]:
    """One chip in base units, and each call of this collection that gave nothing usable, once."""
    failures: dict[Failure, None] = {}
    figures = {}
    for rule in _RULES:
        answer = chip.answers.get(rule.call)
        if answer is None or answer.code:
            continue
        raw = answer.values[rule.position] if rule.position < len(answer.values) else None
        if isinstance(raw, int) and not (fault := _fault(rule, raw)):
            figures[rule.figure] = raw * rule.multiplier / rule.divisor
        else:
            failures.setdefault(Failure(rule.call, fault if isinstance(raw, int) else MALFORMED))
    _drop_impossible_memory(figures, failures)
    _settle_ddr(figures, failures)
    withhold_idle_readings(figures)
    rows, lost = dcmi_rows.rows(chip.answers)
    for call in lost:
        failures.setdefault(Failure(call, MALFORMED))
    _add_sums(figures, rows, chip)
    for call, answer in chip.answers.items():
        if answer.code:
            failures.setdefault(Failure(call, HUNG if answer.code == CODE_HUNG else str(answer.code)))
    reading = Accelerator(
        device=_device(chip),
        uuid=_uuid(chip.answers.get("die")),
        model=_model(chip.answers.get("chip")),
        pci_address=_pci_address(chip.answers.get("pcie")),
        card=chip.card,
        chip=chip.device,
        figures=figures,
        error_codes=_error_codes(chip.answers.get("errors")),
        rows=rows,
        parts={
            figure: {label: number for (label,), number in rows.pop(figure, {}).items()}
            for figure in _PARTS
            if figure in rows
        },
        card_power_watts=figures.pop("card_power_watts", None),
    )
    return reading, _counted(failures, chip.repeated)


def _counted(failures: Iterable[Failure], repeated: tuple[str, ...]) -> tuple[Failure, ...]:
    """Those of this collection, once a code where each port is a call of its own."""
    new = (failure for failure in failures if failure.call not in repeated)
    return tuple(dict.fromkeys(Failure(failure.call.partition(" ")[0], failure.code) for failure in new))


def _fault(rule: _Rule, raw: int) -> str:
    """Why the number means nothing; empty where it means something."""
    if raw in NO_NUMBERS or (rule.highest < _ANY and raw in SENSOR_SENTINELS):
        return SENTINEL
    # A utilization above 100 carries the flag of a virtual function; a memory of 0 is a chip without one.
    return "" if rule.lowest <= raw <= rule.highest else OUT_OF_RANGE


def _drop_impossible_memory(figures: dict[str, float], failures: dict[Failure, None]) -> None:
    """No use without a size, none above it: a chip without HBM answers zeros."""
    size = figures.get("memory_size_bytes")
    if size is None:
        for name in [name for name in figures if name.startswith("memory_")]:
            del figures[name]
    elif figures.get("memory_used_bytes", 0.0) > size:
        del figures["memory_used_bytes"]
        failures.setdefault(Failure("memory", OUT_OF_RANGE))


def _settle_ddr(figures: dict[str, float], failures: dict[Failure, None]) -> None:
    """In use is what is not available; a size of 0 is a chip without DDR, as 910B is, and no failure."""
    available = figures.pop("ddr_available_bytes", None)
    size = figures.get("ddr_size_bytes")
    if size is None or available is None:
        return
    if not size:
        del figures["ddr_size_bytes"]
    elif available > size:
        failures.setdefault(Failure("ddr", OUT_OF_RANGE))
    else:
        figures["ddr_used_bytes"] = size - available


def withhold_idle_readings(figures: dict[str, float]) -> None:
    """Drops zeros of AI Core and vector that the whole chip's load contradicts.

    While the vendor's profiler is on both read 0 without a meaning (DCMI reference, dcmi_get_device_utilization_rate).
    The profiler cannot be asked for; that a chip is at work whose parts are all idle is how it shows.
    """
    overall = figures.get("overall_utilization_ratio")
    if overall is None or figures.get("utilization_ratio") is None:
        return
    parts = ("utilization_ratio", "vector_utilization_ratio")
    is_contradicted = overall > 0 and not any(figures.get(part) for part in parts)
    figures["utilization_withheld"] = float(is_contradicted)
    if is_contradicted:
        for part in parts:
            figures.pop(part, None)


def _add_sums(figures: dict[str, float], rows: dcmi_rows.Rows, chip: RawChip) -> None:
    """What has no call of its own: processes, their memory, and bytes over PCIe of all kinds."""
    processes = chip.answers.get("processes")
    if processes is not None and not processes.code:
        used = rows.get("process_memory_by_pid_bytes", {})
        figures["processes"] = float(len(used))
        figures["process_memory_bytes"] = sum(used.values())
    transactions = rows.get("pcie_transaction_bytes_per_second", {})
    for direction in ("transmit", "receive"):
        means = [transactions.get((direction, kind, "average")) for kind in dcmi_rows.PCIE_TRANSACTIONS]
        if all(mean is not None for mean in means):
            figures[f"pcie_{direction}_bytes_per_second"] = sum(mean for mean in means if mean is not None)


def _integers(answer: Answer | None, count: int) -> tuple[int, ...] | None:
    """All the answer's values where it is good, holds count of them at least, and all are integers."""
    if answer is None or answer.code or len(answer.values) < count:
        return None
    numbers = tuple(value for value in answer.values if isinstance(value, int))
    return numbers if len(numbers) == len(answer.values) else None


def _device(chip: RawChip) -> str:
    """The physical id, which /dev/davinciN bears; where it is unknown, card and chip, which no id looks like."""
    physical = _integers(chip.answers.get("physical_id"), 1)
    return str(physical[0]) if physical and physical[0] not in NO_NUMBERS else f"card{chip.card}-chip{chip.device}"


def _uuid(answer: Answer | None) -> str:
    """The die's id as five 32-bit words in hex; empty where unknown or all zero."""
    words = _integers(answer, 5)
    return "-".join(f"{word & 0xFFFFFFFF:08X}" for word in words[:5]) if words and any(words[:5]) else ""


def _model(answer: Answer | None) -> str:
    """Type and name: `Ascend 910B3`."""
    if answer is None or answer.code:
        return ""
    return " ".join(str(value) for value in answer.values[:2] if value).strip()


def _pci_address(answer: Answer | None) -> str:
    """domain:bus:device.function in hex, as lspci writes it."""
    numbers = _integers(answer, 4)
    if numbers is None:
        return ""
    domain, bus, device, function = numbers[:4]
    return f"{domain & 0xFFFFFFFF:04x}:{bus & 0xFF:02x}:{device & 0x1F:02x}.{function & 7:x}"


def _error_codes(answer: Answer | None) -> tuple[int, ...] | None:
    """Codes without doubles, in order; None where they could not be read."""
    codes = _integers(answer, 0)
    return None if codes is None else tuple(sorted(set(codes)))

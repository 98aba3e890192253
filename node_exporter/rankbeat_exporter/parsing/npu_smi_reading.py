"""NPUs from npu-smi's texts, in the library's place: fewer figures, the same names and units."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rankbeat_exporter.model.accelerator import Accelerator, Failure
from rankbeat_exporter.parsing import npu_smi
from rankbeat_exporter.parsing.dcmi import withhold_idle_readings

if TYPE_CHECKING:
    from rankbeat_exporter.model.accelerator import ToolText
    from rankbeat_exporter.parsing.dcmi_rows import Rows

INFO = "npu-smi info"
MAPPING = "npu-smi info -m"
MEBIBYTE = 1 << 20
MEGAHERTZ = 10**6
HEALTH_LEVELS = {"ok": 0.0, "warning": 1.0, "alarm": 2.0, "critical": 3.0}
SECTION_COMMANDS = ("health", "ecc", "usages")
"""Sub-commands of one NPU, all with the chip's id at the end of its block."""


class Chip(NamedTuple):
    """How the tool numbers a chip; chip is 0 where its table has none."""

    npu: int
    chip: int


def section_command(npu: int, command: str) -> str:
    return f"npu-smi info -t {command} -i {npu}"


def remap_command(physical: int) -> str:
    """Which chip has the physical id, as the tool numbers it."""
    return f"npu-smi info -t phyid-remap -p {physical}"


def has_physical_ids(info: str, mapping: str) -> bool:
    """Whether the table or the map names each chip's physical id."""
    known = _mapped_ids(mapping)
    chips = {_place(row): npu_smi.whole(row.get("phy-id")) for row in npu_smi.table(info).chips}
    return all(physical is not None or place in known for place, physical in chips.items() if place)


def npus(info: str) -> tuple[int, ...]:
    """NPU ids that the main table lists, in order."""
    found = (npu_smi.whole(row.get("npu")) for row in npu_smi.table(info).chips)
    return tuple(dict.fromkeys(npu for npu in found if npu is not None))


def accelerators(
    texts: dict[str, ToolText], repeated: tuple[str, ...] = ()
) -> tuple[tuple[Accelerator, ...], tuple[Failure, ...]]:
    """All chips of the main table, with what the other texts add. A text that is not there adds nothing.

    repeated: commands whose failures were counted before.
    """
    new = [text for text in texts.values() if text.command.startswith("npu-smi") and text.command not in repeated]
    failures = [_failure(text) for text in new if _is_lost(text)]
    table = npu_smi.table(_output(texts, INFO))
    physical = {**_remapped_ids(texts), **_mapped_ids(_output(texts, MAPPING))}
    found: dict[Chip, Accelerator] = {}
    doubled = set()
    for row in table.chips:
        place = _place(row)
        if place is None:
            continue
        if place in found:
            doubled.add(place)
        found[place] = _accelerator(place, row, table.processes, physical, texts)
    if not found and INFO not in repeated:
        failures.append(Failure(INFO, "output_unknown"))
    return tuple(one for place, one in found.items() if place not in doubled), tuple(failures)


def _output(texts: dict[str, ToolText], command: str) -> str:
    text = texts.get(command)
    return text.output if text is not None and not text.reason else ""


def _is_lost(text: ToolText) -> bool:
    return bool(text.reason or npu_smi.failure(text.output))


def _failure(text: ToolText) -> Failure:
    call = " ".join(word for word in text.command.split() if not word.isdigit())
    return Failure(call, text.reason or npu_smi.failure(text.output))


def _place(row: dict[str, str]) -> Chip | None:
    npu, chip = npu_smi.whole(row.get("npu")), npu_smi.whole(row.get("chip", "0"))
    return None if npu is None or chip is None else Chip(npu, chip)


def _remapped_ids(texts: dict[str, ToolText]) -> dict[Chip, int]:
    """From answers to remap_command; none of a chip that two ids claim, or of an answer to another question."""
    found: dict[Chip, int] = {}
    doubled = set()
    for command in texts:
        lines = npu_smi.single(_output(texts, command))
        npu, chip, physical = (npu_smi.whole(lines.get(label)) for label in ("npu id", "chip id", "chip physical id"))
        if npu is None or chip is None or physical is None or command != remap_command(physical):
            continue
        place = Chip(npu, chip)
        if place in found:
            doubled.add(place)
        found[place] = physical
    return {place: physical for place, physical in found.items() if place not in doubled}


def _mapped_ids(mapping: str) -> dict[Chip, int]:
    """From the tool's versions that print them."""
    found: dict[Chip, int] = {}
    for row in npu_smi.mapping(mapping):
        npu, chip, physical = (npu_smi.whole(row.get(label)) for label in ("npu id", "chip id", "chip phy-id"))
        if npu is not None and chip is not None and physical is not None:
            found[Chip(npu, chip)] = physical
    return found


def _accelerator(
    place: Chip,
    row: dict[str, str],
    processes: tuple[npu_smi.Process, ...],
    physical: dict[Chip, int],
    texts: dict[str, ToolText],
) -> Accelerator:
    device = npu_smi.whole(row.get("phy-id"))
    device = physical.get(place) if device is None else device
    sections = {command: _section(texts, place, command) for command in SECTION_COMMANDS}
    address = row["bus-id"].lower()
    figures = _figures(row, sections["usages"])
    withhold_idle_readings(figures)
    rows: Rows = {}
    own = [one for one in processes if one.npu == place.npu and (one.chip if one.chip is not None else 0) == place.chip]
    used: dict[tuple[str, ...], float] = {
        (str(one.pid),): one.memory_megabytes * MEBIBYTE for one in own if one.memory_megabytes is not None
    }
    if own:
        figures["processes"] = float(len(own))
        rows["process_memory_by_pid_bytes"] = used
    return Accelerator(
        device=str(device) if device is not None else f"card{place.npu}-chip{place.chip}",
        uuid="",
        model=row.get("name", ""),
        pci_address=address if ":" in address else "",
        card=place.npu,
        chip=place.chip,
        figures=figures,
        error_codes=npu_smi.error_codes(sections["health"].get("error code")),
        parts=_ecc(sections["ecc"]),
        rows=rows,
    )


def _section(texts: dict[str, ToolText], place: Chip, command: str) -> dict[str, str]:
    """The chip's lines of a sub-command; of an NPU with one chip also where they bear no chip's id."""
    text = _output(texts, section_command(place.npu, command))
    return next(
        (
            section.lines
            for section in npu_smi.sections(text, is_id_first=False)
            if section.chip == place.chip and section.npu in (None, place.npu)
        ),
        {},
    )


def _figures(row: dict[str, str], usages: dict[str, str]) -> dict[str, float]:
    figures: dict[str, float] = {}
    level = HEALTH_LEVELS.get(row.get("health", "").lower())
    if level is not None:
        figures["health_level"] = level
    for figure, text, lowest, highest, divisor in (
        ("power_watts", row.get("power(w)"), 0.0, 10_000.0, 1.0),
        ("temperature_celsius", row.get("temp(c)"), -100.0, 300.0, 1.0),
        ("utilization_ratio", row.get("utilization"), 0.0, 100.0, 100.0),
        ("vector_utilization_ratio", usages.get("aivector usage rate(%)"), 0.0, 100.0, 100.0),
        ("cube_utilization_ratio", usages.get("aicube usage rate(%)"), 0.0, 100.0, 100.0),
        ("overall_utilization_ratio", usages.get("npu utilization(%)"), 0.0, 100.0, 100.0),
        ("memory_bandwidth_utilization_ratio", usages.get("hbm bandwidth usage rate(%)"), 0.0, 100.0, 100.0),
    ):
        number = npu_smi.number(text)
        if number is not None and lowest <= number <= highest:
            figures[figure] = number / divisor
    for prefix, label in (("memory", "hbm-usage(mb)"), ("ddr", "memory-usage(mb)")):
        used, size = npu_smi.number(row.get(label)), npu_smi.number(row.get(label + " total"))
        if size:
            figures[prefix + "_size_bytes"] = size * MEBIBYTE
            if used is not None and 0 <= used <= size:
                figures[prefix + "_used_bytes"] = used * MEBIBYTE
    return figures


def _ecc(section: dict[str, str]) -> dict[str, dict[str, float]]:
    """Of the HBM, whose lines begin so; of the DDR likewise."""
    found: dict[str, dict[str, float]] = {}
    for prefix, memory in (("", "hbm"), ("ddr_", "ddr")):
        for kind, bit in (("corrected", "single"), ("uncorrected", "double")):
            for figure, label in (
                ("ecc_errors_total", f"{memory} {bit} bit error count"),
                ("ecc_lifetime_errors_total", f"{memory} {bit} bit aggregate total err cnt"),
                ("isolated_pages", f"{memory} {bit} bit isolated pages count"),
            ):
                count = npu_smi.whole(section.get(label))
                if count is not None:
                    found.setdefault(prefix + figure, {})[kind] = float(count)
    return found

"""npu-smi's texts, mutated: no crash, and no value that no text holds."""

from __future__ import annotations

import random

import pytest

from ascend_support import FIXTURES, MIB, MUTATIONS, fixture, mutated, read_npu_smi, said
from rankbeat_exporter.parsing import npu_smi
from rankbeat_exporter.parsing import npu_smi_reading as meaning

pytestmark = pytest.mark.slow

SCALES = {"_ratio": 100.0, "_bytes": 1 / MIB}
TABLES = sorted(path.stem for path in FIXTURES.glob("info_*.txt"))


def said_of(npu, info):
    """All numbers in the table's rows that begin with the NPU's id, and in the rows below them."""
    lines = info.splitlines()
    begins = [line.strip(" |\t").split()[:1] == [str(npu)] for line in lines]
    return {number for at, line in enumerate(lines) if begins[at] or (at and begins[at - 1]) for number in said(line)}


def raw_number(figure, number):
    """As the tool prints it."""
    for end, scale in SCALES.items():
        if figure.endswith(end):
            return number * scale
    return number


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", TABLES)
def test_ten_thousand_mutations_of_the_table_neither_crash_nor_invent_a_value(name, seed):
    """Divided among the tables, with their other texts mutated too."""
    chance = random.Random(f"table {name} {seed}")
    levels = set(meaning.HEALTH_LEVELS.values())
    for _ in range(MUTATIONS // len(TABLES) // 3 + 1):
        texts = [
            mutated(fixture(each), chance)
            for each in (name, "map_c", "usages_910_93", "health_910b", "ecc_910b", "remap_910b")
        ]
        info, mapping, usages, health, ecc, remap = texts
        npu = chance.choice((2, 3, 5))
        commands = {command: meaning.section_command(npu, command) for command in meaning.SECTION_COMMANDS}
        others = {commands["usages"]: usages, commands["health"]: health, commands["ecc"]: ecc}
        others[meaning.remap_command(5)] = remap

        found, _ = read_npu_smi(info, **{meaning.MAPPING: mapping}, **others)

        for one in found:
            numbers = said_of(one.card, info) | said(usages)
            for figure, number in one.figures.items():
                if figure == "health_level":
                    assert number in levels
                elif figure not in ("processes", "utilization_withheld"):
                    raw = raw_number(figure, number)
                    assert any(abs(raw - each) < 1e-6 for each in numbers), (figure, number, info)
            for per_kind in one.parts.values():
                assert set(per_kind.values()) <= said(ecc)
            for code in one.error_codes or ():
                assert f"{code:X}" in health.upper(), health
            assert one.device.startswith("card") or float(one.device) in said(info) | said(mapping) | {5.0}


@pytest.mark.parametrize(
    ("name", "is_id_first"),
    [("common_310p", True), ("board", True), ("usages_910_93", False), ("memory_910b", False), ("health_910b", False)],
)
def test_a_thousand_mutations_of_each_sub_command_give_no_line_that_is_not_there(name, is_id_first):
    chance = random.Random(f"section {name}")
    for _ in range(MUTATIONS // 10):
        text = mutated(fixture(name), chance)

        for section in npu_smi.sections(text, is_id_first=is_id_first):
            for label, value in section.lines.items():
                assert any(
                    line.partition(":")[2].strip() == value and label.split("(")[0] in " ".join(line.lower().split())
                    for line in text.splitlines()
                ), (label, value, text)


@pytest.mark.parametrize("parse", [npu_smi.table, npu_smi.mapping, npu_smi.failure])
def test_no_text_of_any_command_crashes_the_parser_of_another(parse):
    chance = random.Random("crossed")
    for path in sorted(FIXTURES.glob("*.txt")):
        for _ in range(20):
            parse(mutated(path.read_text(), chance))

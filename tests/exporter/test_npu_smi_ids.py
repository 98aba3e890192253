"""Physical ids of NPUs by npu-smi: from its table, its map, or a question for each; else none."""

from __future__ import annotations

import pytest

from ascend_support import fixture, read_npu_smi
from rankbeat_exporter.parsing import npu_smi_reading as meaning

REMAPPED = {meaning.remap_command(5): fixture("remap_910b")}


@pytest.mark.parametrize(
    ("name", "physical"),
    [("map_b", {}), ("map_c", {(3, 0): 6, (3, 1): 7}), ("map_950", {(4, 0): 4})],
)
def test_physical_ids_come_from_the_versions_that_print_them_and_never_from_the_order(name, physical):
    assert meaning._mapped_ids(fixture(name)) == physical


def test_the_map_names_the_physical_id_of_a_table_that_has_none():
    (found,), _ = read_npu_smi(fixture("info_e_950"), **{meaning.MAPPING: fixture("map_950")})

    assert found.device == "4"


def test_where_neither_table_nor_map_has_physical_ids_the_tool_says_which_chip_has_one():
    found, _ = read_npu_smi(fixture("info_b_910b"), **{meaning.MAPPING: fixture("map_b")}, **REMAPPED)

    assert [(one.card, one.device) for one in found] == [(2, "card2-chip0"), (5, "5"), (2944, "card2944-chip0")]


@pytest.mark.parametrize(
    "remapped",
    [
        {meaning.remap_command(6): fixture("remap_910b")},
        {
            **REMAPPED,
            meaning.remap_command(7): fixture("remap_910b").replace("ID              :5", "ID              :7"),
        },
        {meaning.remap_command(5): fixture("remap_910b").replace("\tNPU ID                        :5\n", "")},
        {meaning.remap_command(5): fixture("remap_910b") + "\tChip ID                       :1\n"},
        {meaning.remap_command(5): "Error parameter of -t\n"},
    ],
    ids=["an answer to another question", "two ids for one chip", "no NPU", "two chips", "an older tool"],
)
def test_a_chip_whose_physical_id_is_not_certain_bears_a_name_that_is_no_id(remapped):
    found, _ = read_npu_smi(fixture("info_b_910b"), **remapped)

    assert [one.device for one in found] == ["card2-chip0", "card5-chip0", "card2944-chip0"]


def test_the_tables_and_the_maps_word_about_physical_ids_come_first():
    (first, *_), _ = read_npu_smi(
        fixture("info_c_910_93"), **{meaning.remap_command(5): fixture("remap_910b").replace(":5", ":3")}
    )

    assert first.device == "6"


@pytest.mark.parametrize(
    ("info", "mapping", "is_known"),
    [
        ("info_b_910b", "map_b", False),
        ("info_a_310p", "map_b", False),
        ("info_c_910_93", "map_b", True),
        ("info_e_950", "map_950", True),
        ("info_d_950", "map_950", False),
    ],
)
def test_the_tool_is_asked_for_physical_ids_where_a_chip_has_none(info, mapping, is_known):
    assert meaning.has_physical_ids(fixture(info), fixture(mapping)) == is_known

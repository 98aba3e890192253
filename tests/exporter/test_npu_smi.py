"""npu-smi's texts, every layout: what they say in base units, and nothing that they do not say.

The fixtures are of our own making after the layouts that the driver's sources print; none was captured on a machine.
"""

from __future__ import annotations

import pytest

from ascend_support import MIB, fixture, read_npu_smi
from rankbeat_exporter.model.accelerator import Snapshot, ToolText
from rankbeat_exporter.parsing import ascend, npu_smi
from rankbeat_exporter.parsing import npu_smi_reading as meaning


def summary(name):
    """(device, model, address, health, power, temperature, load, HBM used and size in MiB) of each chip."""
    found, failures = read_npu_smi(fixture(name))
    assert failures == ()
    rows = []
    for one in found:
        memory = [one.figures.get(f"memory_{what}_bytes") for what in ("used", "size")]
        values = (
            one.figures.get(f) for f in ("health_level", "power_watts", "temperature_celsius", "utilization_ratio")
        )
        rows.append((one.device, one.model, one.pci_address, *values, *(each and each / MIB for each in memory)))
    return rows


def test_layout_a_has_two_chips_on_a_card_ddr_and_no_power_of_a_chip():
    found, failures = read_npu_smi(fixture("info_a_310p"))

    assert failures == ()
    assert [(one.device, one.card, one.chip, one.model, one.figures) for one in found] == [
        (
            "card2-chip0", 2, 0, "310P3",
            {
                "health_level": 0.0, "temperature_celsius": 45.0, "utilization_ratio": 0.0,
                "ddr_size_bytes": 44280.0 * MIB, "ddr_used_bytes": 1529.0 * MIB,
            },
        ),
        (
            "card2-chip1", 2, 1, "310P3",
            {
                "health_level": 0.0, "temperature_celsius": 47.0, "utilization_ratio": 0.12,
                "ddr_size_bytes": 43693.0 * MIB, "ddr_used_bytes": 1377.0 * MIB, "processes": 1.0,
            },
        ),
    ]  # fmt: skip
    assert found[1].rows == {"process_memory_by_pid_bytes": {("991",): 912.0 * MIB}}


def test_layout_b_has_ids_with_holes_and_words_for_what_is_unknown():
    assert summary("info_b_910b") == [
        ("card2-chip0", "910B3", "0000:82:00.0", 0.0, 301.7, 58.0, 0.97, 60123.0, 65536.0),
        ("card5-chip0", "910B3", "0000:c2:00.0", 1.0, 98.4, 50.0, 0.0, 3369.0, 65536.0),
        ("card2944-chip0", "910B3", "0000:c3:00.0", None, None, None, None, None, 65536.0),
    ]


def test_layout_b_names_processes_also_those_without_a_name():
    assert npu_smi.table(fixture("info_b_910b")).processes == (
        (2, 0, 40711, "python", 56010.0),
        (2, 0, 40712, "", 104.0),
    )


def test_an_old_table_with_blanks_after_its_frame_and_both_memories():
    (found,), _ = read_npu_smi(fixture("info_b_910a"))

    assert found.figures["ddr_used_bytes"] == 591.0 * MIB
    assert (found.figures["memory_used_bytes"], found.figures["memory_size_bytes"]) == (1.0 * MIB, 32255.0 * MIB)


LAYOUT_C = [
    ("6", "Ascend910", "0000:9d:00.0", 0.0, 171.2, 41.0, 0.87, 57001.0, 65536.0),
    ("7", "Ascend910", "0000:9f:00.0", 0.0, None, 42.0, 0.88, 56990.0, 65536.0),
]


def test_layout_c_has_two_chips_under_one_id_and_power_on_the_first_only():
    assert summary("info_c_910_93") == [
        *LAYOUT_C,
        ("14", "Ascend910", "0000:1d:00.0", 2.0, 160.0, 40.0, 0.0, 2901.0, 65536.0),
        ("15", "Ascend910", "0000:1f:00.0", 3.0, None, 39.0, 0.0, 2902.0, 65536.0),
    ]


def test_a_wider_table_reads_the_same():
    assert summary("info_c_wide") == LAYOUT_C


def test_layout_d_has_no_chips_and_another_name_for_the_load():
    assert summary("info_d_950") == [
        ("card0-chip0", "Ascend950PR", "0000:0b:00.0", 0.0, 210.4, 44.0, 0.33, 21000.0, 114688.0),
        ("card1-chip0", "Ascend950PR", "", 1.0, 188.0, 46.0, 0.0, 2100.0, 114688.0),
    ]


def test_layout_e_has_processes_without_chips():
    (found,), _ = read_npu_smi(fixture("info_e_950"))

    assert (found.model, found.rows) == ("Ascend950DT", {"process_memory_by_pid_bytes": {("77",): 18300.0 * MIB}})


def test_the_maps_rows_keep_names_with_a_blank_and_controllers_without_a_logical_id():
    rows = npu_smi.mapping(fixture("map_b"))

    assert [(row["npu id"], row["chip logic id"], row["chip name"]) for row in rows] == [
        ("2", "0", "Ascend 910B3"), ("2", "-", "Mcu"), ("5", "1", "Ascend 910B3"), ("5", "-", "Mcu")
    ]  # fmt: skip


def test_common_begins_with_the_chips_id_and_the_controllers_block_is_nobodys():
    chips = npu_smi.sections(fixture("common_310p"), is_id_first=True)

    assert [(one.npu, one.chip, one.lines["temperature(c)"]) for one in chips] == [
        (2, 0, "45"),
        (2, 1, "47"),
        (2, None, "39"),
    ]
    assert [one.chip for one in chips if "npu real-time power(w)" in one.lines] == [None]


@pytest.mark.parametrize(
    ("name", "chips"),
    [("usages_910b", [0]), ("usages_910_93", [0, 1]), ("memory_910b", [0]), ("health_910b", [0]), ("ecc_910b", [0])],
)
def test_other_sub_commands_end_with_the_chips_id(name, chips):
    assert [one.chip for one in npu_smi.sections(fixture(name), is_id_first=False)] == chips


def test_a_section_whose_border_is_lost_is_left_out():
    text = fixture("usages_910_93").replace("\tChip ID                        : 0\n", "")

    assert npu_smi.sections(text, is_id_first=False) == ()


def test_a_board_has_its_names():
    (chip,) = npu_smi.sections(fixture("board"), is_id_first=True)

    assert (chip.chip, chip.lines["chip name"], chip.lines["pcie bus info"]) == (0, "910B3", "0000:82:00.0")


@pytest.mark.parametrize(
    ("name", "label", "value"),
    [
        ("temp_server", "npu temperature(c)", 52.0),
        ("temp_server", "lm75a_te temperature(c)", None),
        ("power_na", "power dissipation(w)", None),
        ("memory_910b", "hbm clock speed(mhz)", 1600.0),
    ],
)
def test_a_label_is_the_same_with_and_without_a_blank_before_its_unit(name, label, value):
    assert npu_smi.number(npu_smi.single(fixture(name))[label]) == value


def test_loads_of_vector_cube_and_the_whole_chip_come_from_usages():
    found, _ = read_npu_smi(fixture("info_b_910b"), **{meaning.section_command(2, "usages"): fixture("usages_910b")})

    assert {figure: found[0].figures[figure] for figure in found[0].figures if "utilization" in figure} == {
        "utilization_ratio": 0.97,
        "vector_utilization_ratio": 0.31,
        "cube_utilization_ratio": 0.88,
        "overall_utilization_ratio": 0.99,
        "memory_bandwidth_utilization_ratio": 0.44,
        "utilization_withheld": 0.0,
    }
    assert "vector_utilization_ratio" not in found[1].figures


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (fixture("health_910b"), (0x80DE1801, 0x80E01801, 0x110001024)),
        (fixture("health_ok"), ()),
        ("", None),
        (fixture("health_910b").replace("80DE1801", "many"), None),
    ],
    ids=["three", "none", "not asked", "one that is no code"],
)
def test_error_codes_are_hex_and_may_have_more_than_32_bits(text, codes):
    npu = 2 if "Health   " in text else 5
    found, _ = read_npu_smi(fixture("info_b_910b"), **{meaning.section_command(npu, "health"): text})

    assert next(one.error_codes for one in found if one.card == npu) == codes


def test_memory_errors_come_from_their_sub_command():
    found, _ = read_npu_smi(fixture("info_b_910b"), **{meaning.section_command(2, "ecc"): fixture("ecc_910b")})

    assert found[0].parts == {
        "ecc_errors_total": {"corrected": 4.0, "uncorrected": 0.0},
        "ecc_lifetime_errors_total": {"corrected": 31.0, "uncorrected": 2.0},
        "isolated_pages": {"corrected": 0.0, "uncorrected": 1.0},
    }
    assert found[1].parts == {}


def test_the_list_of_npus_is_read_by_name():
    assert [value for label, value in npu_smi._pairs(fixture("list")) if label == "npu id"] == ["2", "5"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (fixture("refused"), "-8020"),
        ("dcmi module initialize failed. ret is -8005\n", "-8005"),
        ("Invalid card id.\n", "invalid_card"),
        ("Error parameter of -t\n", "usage"),
        ("This device does not support querying product.\n", "not_supported"),
        (fixture("info_b_910b"), ""),
    ],
)
def test_a_tool_that_refuses_says_why(text, reason):
    assert npu_smi.failure(text) == reason


def test_a_refused_table_gives_no_chip_and_is_counted():
    found, failures = read_npu_smi(fixture("refused"))

    assert found == ()
    assert failures == (("npu-smi info", "-8020"), ("npu-smi info", "output_unknown"))


def test_a_chip_that_stands_twice_in_the_table_is_nobody():
    text = fixture("info_c_910_93").replace("| 1     7 ", "| 0     7 ")

    assert [one.device for one in read_npu_smi(text)[0]] == ["14", "15"]


def test_an_npu_of_the_tool_bears_the_readings_way():
    info = ToolText(meaning.INFO, "", fixture("info_c_910_93"))
    link = ToolText("hccn_tool -i 6 -link -g", "", "link status: DOWN\n")

    readings = ascend.readings(Snapshot("", texts=(info, link)))

    assert readings.source == "tool"
    assert [one.rows.get("link_up") for one in readings.accelerators] == [{("0",): 0.0}, None, None, None]

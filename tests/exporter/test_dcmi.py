"""NPUs: the double of libdcmi.so, loaded by the code that loads the real one, and what its numbers mean."""

from __future__ import annotations

import ctypes
import time
from dataclasses import replace

import pytest

from rankbeat_exporter.errors import CannotMeasure
from rankbeat_exporter.model.accelerator import Accelerator, Answer, RawChip
from rankbeat_exporter.parsing import dcmi as meaning
from rankbeat_exporter.parsing import network_counters
from rankbeat_exporter.sources import adjtimex, dcmi, dcmi_places
from rankbeat_exporter.sources import dcmi_layouts as layouts

GIB = 2**30
HEALTHY = {
    "health_level": 0.0,
    "utilization_ratio": 0.0,
    "vector_utilization_ratio": 0.0,
    "cube_utilization_ratio": 0.0,
    "overall_utilization_ratio": 0.0,
    "memory_size_bytes": 64.0 * GIB,
    "memory_frequency_hertz": 1.6e9,
    "memory_used_bytes": 4.0 * GIB,
    "memory_temperature_celsius": 46.0,
    "memory_bandwidth_utilization_ratio": 0.0,
    "temperature_celsius": 42.0,
    "power_watts": 95.3,
    "voltage_volts": 0.88,
    "frequency_hertz": 1.8e9,
    "frequency_max_hertz": 1.8e9,
    "vector_frequency_hertz": 1.8e9,
    "ecc_enabled": 1.0,
    "pcie_replays_total": 0.0,
    "utilization_withheld": 0.0,
    "processes": 0.0,
    "process_memory_bytes": 0.0,
    "pcie_transmit_bytes_per_second": 0.0,
    "pcie_receive_bytes_per_second": 0.0,
}
UTILIZATIONS = ["utilization_ratio", "utilization_withheld"]


@pytest.fixture
def read(driver_root, script, monkeypatch):
    """What the library gives under a script: (accelerator, failures) for each chip."""
    monkeypatch.setenv("DCMI_DOUBLE_SCRIPT", str(script.path))

    def chips(text="", root=driver_root):
        script(text)
        library = dcmi.Dcmi(dcmi_places.library_paths(root))
        return [meaning.accelerator(chip) for chip in library.chips()]

    return chips


def test_structures_lie_in_memory_as_the_c_compiler_lays_them(doubles, tmp_path):
    ours = {
        "dcmi_chip_info": layouts.ChipInfo,
        "dcmi_chip_info_v2": layouts.ChipInfoV2,
        "dcmi_hbm_info": layouts.HbmInfo,
        "dcmi_get_memory_info_stru": layouts.MemoryInfo,
        "dcmi_ecc_info": layouts.EccInfo,
        "dcmi_pcie_info_all": layouts.PcieInfoAll,
        "dcmi_pcie_link_error_info": layouts.PcieLinkErrors,
        "dcmi_pcie_link_bandwidth_info": layouts.PcieBandwidth,
        "dcmi_hccs_bandwidth_info": layouts.HccsBandwidth,
        "dcmi_hccs_statistic_info": layouts.HccsStatistics,
        "dcmi_hccs_statistic_info_u64": layouts.HccsStatisticsU64,
        "dcmi_proc_mem_info": layouts.ProcessMemory,
        "dcmi_die_id": layouts.DieId,
        "dcmi_multi_utilization_info": layouts.Utilizations,
        "dcmi_network_pkt_stats_info": layouts.PacketStatistics,
        "timex": adjtimex.TimexStructure,
    }

    given = doubles.layouts(tmp_path)

    assert {structure for structure, _ in given} == set(ours)
    for (structure, field), number in given.items():
        layout = ours[structure]
        found = ctypes.sizeof(layout) if field == "*" else getattr(layout, field).offset
        assert found == number, (structure, field)
    for structure, layout in ours.items():
        assert {field for name, field in given if name == structure} >= {
            entry[0] for entry in layout._fields_ if structure != "timex"
        }


def test_every_counter_of_the_network_port_is_known_by_the_structures_order():
    assert [name for name, _ in layouts.PacketStatistics._fields_][: len(network_counters.DCMI_ORDER)] == list(
        network_counters.DCMI_ORDER
    )
    assert set(network_counters.COUNTERS) <= set(network_counters.DCMI_ORDER)


def test_two_chips_are_read_in_base_units(read):
    first, second = read()

    reading, failures = first
    assert (replace(reading, rows={}, parts={}), failures) == (
        Accelerator(
            device="0",
            uuid="D0B1E000-D0B1E001-D0B1E002-D0B1E003-D0B1E004",
            model="Ascend 910B3",
            pci_address="0000:c1:00.0",
            card=0,
            chip=0,
            figures=HEALTHY,
            error_codes=(),
        ),
        (),
    )
    assert (second[0].device, second[0].card, second[0].uuid[-8:]) == ("1", 1, "D0B1E014")


def test_card_numbers_need_not_be_contiguous_and_the_mcu_is_no_chip(read):
    found = read("cards 2 7 5\nchips 2\n")

    assert [(one.device, one.card, one.chip) for one, _ in found] == [
        ("0", 2, 0), ("1", 2, 1), ("2", 7, 0), ("3", 7, 1), ("4", 5, 0), ("5", 5, 1)
    ]  # fmt: skip


def test_what_a_card_lists_beside_its_npus_is_no_accelerator(read):
    assert [(one.card, one.chip) for one, _ in read("chips 2\n0/1 type 1\n1/1 type 2\n")] == [(0, 0), (1, 0)]


def test_a_chip_whose_type_cannot_be_read_stays_in_the_inventory(read):
    assert len(read("return dcmi_get_device_type -8012\n")) == 2


def test_no_card_is_no_chip_and_no_fault(read):
    assert read("cards\n") == []


@pytest.mark.parametrize(
    ("setting", "lost", "failure"),
    [
        ("temperature 0x7ffd", ["temperature_celsius"], ("temperature", "sentinel")),
        ("temperature 0x7fff", ["temperature_celsius"], ("temperature", "sentinel")),
        ("power -1", ["power_watts"], ("power", "sentinel")),
        ("health 0xFFFFFFFF", ["health_level"], ("health", "sentinel")),
        ("health 4", ["health_level"], ("health", "out_of_range")),
        ("utilization 0xFFFFFFFF", UTILIZATIONS, ("utilization", "sentinel")),
        ("utilization 356", UTILIZATIONS, ("utilization", "out_of_range")),
        ("hbm_used 70000", ["memory_used_bytes"], ("memory", "out_of_range")),
        ("hbm_temperature 0x7ffd", ["memory_temperature_celsius"], ("memory", "sentinel")),
        ("hbm_bandwidth 0xFFFFFFFF", ["memory_bandwidth_utilization_ratio"], ("memory", "sentinel")),
        (
            "hbm_size 0",
            [*(name for name in HEALTHY if name.startswith("memory_")), "ecc_enabled"],
            ("memory", "out_of_range"),
        ),
        ("frequency 0x7fffffff", ["frequency_hertz"], ("frequency", "sentinel")),
        ("voltage 0x7ffd", ["voltage_volts"], ("voltage", "sentinel")),
        ("voltage 0x7fff", ["voltage_volts"], ("voltage", "sentinel")),
        ("vector_utilization 512", ["vector_utilization_ratio"], ("vector_utilization", "out_of_range")),
        ("vector_frequency 0xFFFFFFFF", ["vector_frequency_hertz"], ("vector_frequency", "sentinel")),
        (
            "return dcmi_get_device_ecc_info -8005",
            ["ecc_enabled"],
            ("ecc_hbm", "-8005"),
        ),
        ("return dcmi_get_device_temperature -8255", ["temperature_celsius"], ("temperature", "-8255")),
        ("return dcmi_get_device_power_info -8005", ["power_watts"], ("power", "-8005")),
        ("return dcmi_get_device_health -8012", ["health_level"], ("health", "-8012")),
    ],
)
def test_a_number_that_means_nothing_is_absent_and_named_and_the_rest_stays(read, setting, lost, failure):
    (first, failures), (second, quiet) = read(f"0/0 {setting}\n")

    assert first.figures == {name: number for name, number in HEALTHY.items() if name not in lost}
    assert failures == (failure,)
    assert (second.figures, quiet) == (HEALTHY, ())


@pytest.mark.parametrize(
    ("setting", "figure", "number"),
    [
        ("temperature -5", "temperature_celsius", -5.0),
        ("temperature 97", "temperature_celsius", 97.0),
        ("power 3500", "power_watts", 350.0),
        ("utilization 100", "utilization_ratio", 1.0),
        ("utilization 7", "utilization_ratio", 0.07),
        ("hbm_size 32255", "memory_size_bytes", 32255.0 * 2**20),
        ("frequency 800", "frequency_hertz", 8e8),
        ("health 3", "health_level", 3.0),
        ("hbm_used 32765", "memory_used_bytes", 32765.0 * 2**20),
        ("hbm_used 32767", "memory_used_bytes", 32767.0 * 2**20),
        ("voltage 85", "voltage_volts", 0.85),
        ("vector_frequency 900", "vector_frequency_hertz", 9e8),
        ("pcie_errors 1 2 3 4 5", "pcie_replays_total", 5.0),
    ],
)
def test_values_of_one_chip_are_its_own(read, setting, figure, number):
    (first, _), (second, _) = read(f"1/0 {setting}\n")

    assert second.figures[figure] == number
    assert first.figures == HEALTHY


def test_more_than_ten_error_codes_are_all_kept(read):
    codes = " ".join(hex(0x80E01800 + number) for number in range(40))

    (first, _), _ = read(f"0/0 errors {codes}\n")

    assert first.error_codes == tuple(0x80E01800 + number for number in range(40))


def test_error_codes_that_could_not_be_read_are_unknown_not_none(read):
    (first, failures), _ = read("0/0 return dcmi_get_device_errorcode_v2 -8009\n")

    assert first.error_codes is None
    assert failures == (("errors", "-8009"),)


def test_a_chip_without_a_physical_id_bears_a_name_that_is_no_id(read):
    (first, _), _ = read("return dcmi_get_device_phyid_from_logicid -8255\n")

    assert first.device == "card0-chip0"


@pytest.mark.parametrize(
    ("symbol", "figure"),
    [
        ("dcmi_get_device_power_info", "power_watts"),
        ("dcmi_get_device_hbm_info", "memory_size_bytes"),
        ("dcmi_get_device_voltage", "voltage_volts"),
        ("dcmi_get_device_resource_info", "processes"),
    ],
)
def test_an_older_library_without_a_function_lacks_that_metric_only(read, doubles, tmp_path, symbol, figure):
    doubles.build_dcmi(tmp_path, without=(symbol,))

    (first, failures), _ = read(root=tmp_path)

    assert figure not in first.figures
    assert first.figures["temperature_celsius"] == 42.0
    assert [failure.code for failure in failures] == ["-99998"]


def test_an_older_library_lists_cards_and_chips_by_its_older_functions(read, doubles, tmp_path):
    doubles.build_dcmi(tmp_path, without=("dcmi_get_card_list", "dcmi_get_device_id_in_card"))

    assert [one.device for one, _ in read("cards 0 1\nchips 2\n", root=tmp_path)] == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("return dcmi_init -8005\n", "InitFailed"),
        ("return dcmi_get_card_list -8005\n", "InventoryFailed"),
        ("return dcmi_get_device_id_in_card -8007\n", "InventoryFailed"),
    ],
)
def test_without_an_inventory_nothing_is_claimed(read, text, reason):
    with pytest.raises(CannotMeasure, match=reason):
        read(text)


def test_no_library_is_said_and_so_is_a_file_that_is_none(tmp_path):
    with pytest.raises(CannotMeasure, match="LibraryNotFound"):
        dcmi.Dcmi((tmp_path / "libdcmi.so",))

    (tmp_path / "libdcmi.so").write_text("no library")
    with pytest.raises(CannotMeasure, match="LibraryUnloadable"):
        dcmi.Dcmi((tmp_path / "libdcmi.so",))


@pytest.mark.parametrize("values", [(), ("text",), (None,)])
def test_an_answer_of_another_shape_is_malformed_not_a_crash(values):
    chip = RawChip(0, 0, {"temperature": Answer(0, values)})

    reading, failures = meaning.accelerator(chip)

    assert reading.figures == {}
    assert failures == (("temperature", "malformed"),)


def rows_of(read, text, figure, root=None):
    """The figure's labelled numbers of the first chip, zeros left out."""
    reading, failures = read(text, root)[0] if root else read(text)[0]
    assert failures == ()
    return {labels: number for labels, number in reading.rows.get(figure, {}).items() if number}


@pytest.mark.parametrize(
    ("loads", "withheld", "shown"),
    [
        ("utilization 0\nvector_utilization 0\noverall_utilization 0\n", 0.0, True),
        ("utilization 0\nvector_utilization 0\noverall_utilization 87\n", 1.0, False),
        ("utilization 0\nvector_utilization 3\noverall_utilization 87\n", 0.0, True),
        ("utilization 5\nvector_utilization 0\noverall_utilization 5\n", 0.0, True),
    ],
    ids=["idle", "profiled", "vector only", "at work"],
)
def test_zeros_of_ai_core_and_vector_that_the_whole_chips_load_contradicts_are_marked_and_absent(
    read, loads, withheld, shown
):
    """While the vendor's profiler is on they read 0 without a meaning."""
    figures = read(loads)[0][0].figures

    assert figures["utilization_withheld"] == withheld
    assert ("utilization_ratio" in figures, "vector_utilization_ratio" in figures) == (shown, shown)


def test_the_cubes_load_comes_by_the_call_for_all_loads_where_it_has_no_type_of_its_own(read, doubles, tmp_path):
    doubles.build_dcmi(tmp_path, without=("dcmi_get_device_multi_utilization_rate",))

    (known, _), _ = read("cube_utilization 61\n")
    (unknown, failures), _ = read("cube_utilization 61\n", tmp_path)

    assert known.figures["cube_utilization_ratio"] == 0.61
    assert "cube_utilization_ratio" not in unknown.figures
    assert failures == (("cube_utilization", "-8255"),)


def test_without_a_call_for_loads_all_but_the_cubes_are_absent(read, doubles, tmp_path):
    doubles.build_dcmi(tmp_path, without=("dcmi_get_device_utilization_rate",))

    (first, failures), _ = read(root=tmp_path)

    assert sorted(figure for figure in first.figures if "utilization" in figure) == [
        "cube_utilization_ratio", "memory_bandwidth_utilization_ratio"
    ]  # fmt: skip
    assert [failure.call for failure in failures] == ["utilization", "vector_utilization", "overall_utilization"]


def test_a_board_with_ddr_shows_it_and_one_without_does_not(read):
    figures = read("ddr_size 14000\nddr_available 4000\n")[0][0].figures

    assert (figures["ddr_size_bytes"], figures["ddr_used_bytes"]) == (14000.0 * 2**20, 10000.0 * 2**20)
    assert not [figure for figure in read()[0][0].figures if "ddr" in figure]


def test_more_ddr_available_than_there_is_gives_no_use(read):
    (first, failures), _ = read("0/0 ddr_size 100\n0/0 ddr_available 101\n")

    assert "ddr_used_bytes" not in first.figures
    assert failures == (("ddr", "out_of_range"),)


def test_memory_errors_are_counted_by_kind_since_the_start_and_in_the_devices_life(read):
    parts = read("ddr_size 100\nddr_available 100\necc hbm 1 5 1 9 2 3 4\necc ddr 1 0 7 0 8 0 0\n")[0][0].parts

    assert parts == {
        "ecc_errors_total": {"corrected": 5.0, "uncorrected": 1.0},
        "ecc_lifetime_errors_total": {"corrected": 9.0, "uncorrected": 2.0},
        "isolated_pages": {"corrected": 3.0, "uncorrected": 4.0},
        "ddr_ecc_errors_total": {"corrected": 0.0, "uncorrected": 7.0},
        "ddr_ecc_lifetime_errors_total": {"corrected": 0.0, "uncorrected": 8.0},
        "ddr_isolated_pages": {"corrected": 0.0, "uncorrected": 0.0},
    }


def test_a_count_that_is_unknown_is_absent_and_the_others_stay(read):
    parts = read("ecc hbm 1 4294967295 1 9 2 3 4\n")[0][0].parts

    assert parts["ecc_errors_total"] == {"uncorrected": 1.0}


def test_a_310p_shows_its_cards_power_once_and_no_power_of_a_chip(read):
    found = read("chips 2\nchip_name 310P3\nhbm_size 0\nddr_size 44280\nddr_available 42000\n0/-1 card_power 722\n")

    assert [(one.card, one.card_power_watts) for one, _ in found] == [(0, 72.2), (0, 72.2), (1, 120.0), (1, 120.0)]
    assert not [one for one, _ in found if "power_watts" in one.figures]
    assert {failure.call for _, failures in found for failure in failures} == {"memory"}


@pytest.mark.parametrize(
    ("result", "row"),
    [
        (0, {("success",): 1.0}),
        (1, {("socket_fail",): 0.0}),
        (4, {("time_exceeded",): 0.0}),
        (6, {("init",): 1.0}),
        (8, {("detect_ip_set",): 0.0}),
        (9, {}),
        (0xFF, {}),
    ],
)
def test_the_network_probes_state_is_named_and_init_counts_as_healthy(read, result, row):
    assert read(f"network_health {result}\n")[0][0].rows.get("network_healthy", {}) == row


def test_counters_of_the_network_port_are_named_by_what_they_count(read):
    text = (
        "packets mac_tx_total_oct_num 1000\npackets mac_rx_mac_pause_num 3\npackets roce_new_pkt_rty_num 7\n"
        "packets mac_rx_fcs_err_pkt_num 2\npackets roce_ecn_db_num 9\npackets roce_err_qp_status_num 4\n"
    )

    assert rows_of(read, text, "network_bytes_total") == {("0", "transmit"): 1000.0}
    assert rows_of(read, text, "network_pause_packets_total") == {("0", "receive"): 3.0}
    assert rows_of(read, text, "network_errors_total") == {
        ("0", "retransmit"): 7.0, ("0", "frame_check"): 2.0, ("0", "queue_pair"): 4.0
    }  # fmt: skip
    assert rows_of(read, text, "roce_ecn_packets_total") == {("0",): 9.0}


@pytest.mark.parametrize("narrow", ["", "return dcmi_get_device_info/16/5 -8255\n"], ids=["64 bit", "32 bit"])
def test_flits_between_npus_are_read_by_the_call_that_the_driver_has(read, narrow):
    text = narrow + "hccs 1 11 12 0 0\nhccs 3 100 200 1 2\nhccs 0 5 5 5 5\nhccs 8 5 5 5 5\n"

    assert rows_of(read, text, "hccs_flits_total") == {
        ("1", "transmit"): 11.0, ("1", "receive"): 12.0, ("3", "transmit"): 100.0, ("3", "receive"): 200.0
    }  # fmt: skip
    assert rows_of(read, text, "hccs_crc_errors_total") == {("3",): 1.0}
    assert rows_of(read, text, "hccs_retries_total") == {("3",): 2.0}


def test_the_super_pods_ports_between_npus_begin_at_two(read):
    text = "mainboard 0x1c\nhccs 1 11 12 0 0\nhccs 2 1 2 0 0\n"

    assert rows_of(read, text, "hccs_flits_total") == {("2", "transmit"): 1.0, ("2", "receive"): 2.0}


def test_throughputs_are_bytes_a_second(read):
    text = "hccs_bandwidth 3 1.5 0.25\npcie_bandwidth 1 9 4\n"

    assert rows_of(read, text, "hccs_bytes_per_second") == {
        ("3", "transmit"): 1.5 * GIB, ("3", "receive"): 0.25 * GIB
    }  # fmt: skip
    transactions = rows_of(read, text, "pcie_transaction_bytes_per_second")
    assert len(transactions) == 18
    assert transactions["receive", "completion", "max"] == 9e9
    assert read(text)[0][0].figures["pcie_transmit_bytes_per_second"] == 12e9


def test_processes_are_counted_and_their_memory_shown(read):
    reading = read("processes 4711:1048576 12:2097152\n")[0][0]

    assert (reading.figures["processes"], reading.figures["process_memory_bytes"]) == (2.0, 3145728.0)
    assert reading.rows["process_memory_by_pid_bytes"] == {("4711",): 1048576.0, ("12",): 2097152.0}


def test_boards_of_the_second_generation_are_read_by_its_functions(read, doubles, tmp_path):
    doubles.build_dcmi(tmp_path, symbols="dcmiv2_*")

    found = read(
        "cards 0 3\nchip_name 950PR\n3/0 temperature 71\n3/0 processes 8:9\n3/0 hccs 2 1 1 0 0\nutilization 40\n",
        tmp_path,
    )

    assert [(one.device, one.card, one.chip, one.model) for one, _ in found] == [
        ("0", 0, 0, "Ascend 950PR"), ("1", 3, 0, "Ascend 950PR")
    ]  # fmt: skip
    reading, failures = found[1]
    assert (reading.figures["temperature_celsius"], reading.figures["utilization_ratio"]) == (71.0, 0.4)
    assert reading.uuid == "D0B1E010-D0B1E011-D0B1E012-D0B1E013-D0B1E014"
    assert reading.rows["hccs_flits_total"]["2", "transmit"] == 1.0
    assert failures == ()
    assert set(HEALTHY) - set(reading.figures) == set()


def test_a_library_of_both_generations_is_read_by_the_one_that_lists_npus(doubles, tmp_path, script, monkeypatch):
    monkeypatch.setenv("DCMI_DOUBLE_SCRIPT", str(script.path))
    paths = (doubles.build_dcmi(tmp_path, symbols="dcmi_*; dcmiv2_*"),)

    script("")
    both = dcmi.Dcmi(paths)
    script("cards\n")
    neither = dcmi.Dcmi(paths)

    assert (both.generation, len(neither.chips()), neither.generation) == (1, 0, 1)


def test_a_library_of_the_second_generation_that_lacks_a_function_lacks_that_metric_only(read, doubles, tmp_path):
    doubles.build_dcmi(tmp_path, symbols="dcmiv2_*", without=("dcmiv2_get_device_voltage",))

    (first, failures), _ = read(root=tmp_path)

    assert set(HEALTHY) - set(first.figures) == {"voltage_volts"}
    assert failures == (("voltage", "-99998"),)


def test_no_generation_that_starts_is_said(doubles, tmp_path, script, monkeypatch):
    monkeypatch.setenv("DCMI_DOUBLE_SCRIPT", str(script.path))
    script("return dcmiv2_init -8005\n")

    with pytest.raises(CannotMeasure, match="InitFailed: dcmi_init answered -99998, dcmiv2_init -8005"):
        dcmi.Dcmi((doubles.build_dcmi(tmp_path, symbols="dcmiv2_*"),))


@pytest.mark.parametrize(("code", "calls"), [(-8006, 3), (-8012, 3), (-8017, 3), (-8020, 3), (-8005, 1), (-8255, 1)])
def test_calls_that_ask_for_patience_are_tried_again_a_few_times(read, script, code, calls):
    """Counted by how long they take: 0.1 s each."""
    read("")
    begin = time.monotonic()
    _, failures = read(f"0/0 return dcmi_get_device_voltage {code}\n0/0 latency dcmi_get_device_voltage 100\n")[0]

    assert calls * 0.1 <= time.monotonic() - begin < calls * 0.1 + 0.2
    assert failures == (("voltage", str(code)),)


def test_codes_of_more_than_32_bits_and_more_than_ten_keep_all_their_digits():
    codes = (0x110001024, 0x200001002, *(0x80E01800 + number for number in range(20)))
    chip = RawChip(0, 0, {"errors": Answer(0, codes)})

    assert meaning.accelerator(chip)[0].error_codes == tuple(sorted(codes))


@pytest.mark.parametrize("call", ["ecc_hbm", "hccs", "hccs_bandwidth", "pcie_bandwidth", "pcie_errors", "packets"])
@pytest.mark.parametrize("values", [(), (1,), ("text",) * 400], ids=["empty", "short", "text"])
def test_a_structure_of_another_shape_is_malformed_and_gives_no_row(call, values):
    reading, failures = meaning.accelerator(RawChip(0, 0, {call: Answer(0, values)}))

    assert (reading.rows, reading.parts) == ({}, {})
    assert (call, "malformed") in failures


def test_an_answer_of_an_earlier_collection_is_shown_and_not_counted_again():
    chip = RawChip(0, 0, {"voltage": Answer(0, (88,)), "power": Answer(-8255)}, repeated=("voltage", "power"))

    reading, failures = meaning.accelerator(chip)

    assert (reading.figures["voltage_volts"], failures) == (0.88, ())

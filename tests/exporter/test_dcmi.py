"""NPUs: the double of libdcmi.so, loaded by the code that loads the real one, and what its numbers mean."""

from __future__ import annotations

import ctypes

import pytest

from rankbeat_exporter.errors import CannotMeasure
from rankbeat_exporter.model.accelerator import Accelerator, Answer, RawChip
from rankbeat_exporter.parsing import dcmi as meaning
from rankbeat_exporter.sources import adjtimex, dcmi

GIB = 2**30
HEALTHY = {
    "health_level": 0.0,
    "utilization_ratio": 0.0,
    "memory_size_bytes": 64.0 * GIB,
    "memory_frequency_hertz": 1.6e9,
    "memory_used_bytes": 4.0 * GIB,
    "memory_temperature_celsius": 46.0,
    "memory_bandwidth_utilization_ratio": 0.0,
    "temperature_celsius": 42.0,
    "power_watts": 95.3,
    "frequency_hertz": 1.8e9,
    "frequency_max_hertz": 1.8e9,
}


@pytest.fixture
def read(driver_root, script, monkeypatch):
    """What the library gives under a script: (accelerator, failures) for each chip."""
    monkeypatch.setenv("DCMI_DOUBLE_SCRIPT", str(script.path))

    def chips(text="", root=driver_root):
        script(text)
        library = dcmi.Dcmi(dcmi.library_paths(root))
        return [meaning.accelerator(chip) for chip in library.chips()]

    return chips


def test_structures_lie_in_memory_as_the_c_compiler_lays_them(doubles, tmp_path):
    ours = {
        "dcmi_chip_info": dcmi.ChipInfo,
        "dcmi_hbm_info": dcmi.HbmInfo,
        "dcmi_pcie_info_all": dcmi.PcieInfoAll,
        "dcmi_die_id": dcmi.DieId,
        "timex": adjtimex.TimexStructure,
    }

    for (structure, field), number in doubles.layouts(tmp_path).items():
        layout = ours[structure]
        found = ctypes.sizeof(layout) if field == "*" else getattr(layout, field).offset
        assert found == number, (structure, field)


def test_two_chips_are_read_in_base_units(read):
    first, second = read()

    assert first == (
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
        ("utilization 0xFFFFFFFF", ["utilization_ratio"], ("utilization", "sentinel")),
        ("utilization 356", ["utilization_ratio"], ("utilization", "out_of_range")),
        ("hbm_used 70000", ["memory_used_bytes"], ("memory", "out_of_range")),
        ("hbm_temperature 0x7ffd", ["memory_temperature_celsius"], ("memory", "sentinel")),
        ("hbm_bandwidth 0xFFFFFFFF", ["memory_bandwidth_utilization_ratio"], ("memory", "sentinel")),
        ("hbm_size 0", [name for name in HEALTHY if name.startswith("memory_")], ("memory", "out_of_range")),
        ("frequency 0x7fffffff", ["frequency_hertz"], ("frequency", "sentinel")),
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
        ("dcmi_get_device_utilization_rate", "utilization_ratio"),
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

"""NPUs: the double of libdcmi.so, loaded by the code that loads the real one, and what its numbers mean."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ascend_support import HEALTHY
from rankbeat_exporter.model.accelerator import Accelerator, Answer, RawChip
from rankbeat_exporter.parsing import dcmi as meaning

UTILIZATIONS = ["utilization_ratio", "utilization_withheld"]


def test_two_chips_are_read_in_base_units(read_npus):
    first, second = read_npus()

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
def test_a_number_that_means_nothing_is_absent_and_named_and_the_rest_stays(read_npus, setting, lost, failure):
    (first, failures), (second, quiet) = read_npus(f"0/0 {setting}\n")

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
def test_values_of_one_chip_are_its_own(read_npus, setting, figure, number):
    (first, _), (second, _) = read_npus(f"1/0 {setting}\n")

    assert second.figures[figure] == number
    assert first.figures == HEALTHY


def test_more_than_ten_error_codes_are_all_kept(read_npus):
    codes = " ".join(hex(0x80E01800 + number) for number in range(40))

    (first, _), _ = read_npus(f"0/0 errors {codes}\n")

    assert first.error_codes == tuple(0x80E01800 + number for number in range(40))


def test_error_codes_that_could_not_be_read_are_unknown_not_none(read_npus):
    (first, failures), _ = read_npus("0/0 return dcmi_get_device_errorcode_v2 -8009\n")

    assert first.error_codes is None
    assert failures == (("errors", "-8009"),)


def test_a_chip_without_a_physical_id_bears_a_name_that_is_no_id(read_npus):
    (first, _), _ = read_npus("return dcmi_get_device_phyid_from_logicid -8255\n")

    assert first.device == "card0-chip0"


@pytest.mark.parametrize("values", [(), ("text",), (None,)])
def test_an_answer_of_another_shape_is_malformed_not_a_crash(values):
    chip = RawChip(0, 0, {"temperature": Answer(0, values)})

    reading, failures = meaning.accelerator(chip)

    assert reading.figures == {}
    assert failures == (("temperature", "malformed"),)


def test_a_board_with_ddr_shows_it_and_one_without_does_not(read_npus):
    figures = read_npus("ddr_size 14000\nddr_available 4000\n")[0][0].figures

    assert (figures["ddr_size_bytes"], figures["ddr_used_bytes"]) == (14000.0 * 2**20, 10000.0 * 2**20)
    assert not [figure for figure in read_npus()[0][0].figures if "ddr" in figure]


def test_more_ddr_available_than_there_is_gives_no_use(read_npus):
    (first, failures), _ = read_npus("0/0 ddr_size 100\n0/0 ddr_available 101\n")

    assert "ddr_used_bytes" not in first.figures
    assert failures == (("ddr", "out_of_range"),)


def test_a_310p_shows_its_cards_power_once_and_no_power_of_a_chip(read_npus):
    found = read_npus(
        "chips 2\nchip_name 310P3\nhbm_size 0\nddr_size 44280\nddr_available 42000\n0/-1 card_power 722\n"
    )

    assert [(one.card, one.card_power_watts) for one, _ in found] == [(0, 72.2), (0, 72.2), (1, 120.0), (1, 120.0)]
    assert not [one for one, _ in found if "power_watts" in one.figures]
    assert {failure.call for _, failures in found for failure in failures} == {"memory"}


def test_codes_of_more_than_32_bits_and_more_than_ten_keep_all_their_digits():
    codes = (0x110001024, 0x200001002, *(0x80E01800 + number for number in range(20)))
    chip = RawChip(0, 0, {"errors": Answer(0, codes)})

    assert meaning.accelerator(chip)[0].error_codes == tuple(sorted(codes))


def test_an_answer_of_an_earlier_collection_is_shown_and_not_counted_again():
    chip = RawChip(0, 0, {"voltage": Answer(0, (88,)), "power": Answer(-8255)}, repeated=("voltage", "power"))

    reading, failures = meaning.accelerator(chip)

    assert (reading.figures["voltage_volts"], failures) == (0.88, ())

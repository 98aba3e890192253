"""Which NPUs there are: cards and chips, libraries of both generations, and what an older one lacks."""

from __future__ import annotations

import time

import pytest

from ascend_support import HEALTHY
from rankbeat_exporter.errors import CannotMeasure
from rankbeat_exporter.sources import dcmi, dcmi_places


def test_card_numbers_need_not_be_contiguous_and_the_mcu_is_no_chip(read_npus):
    found = read_npus("cards 2 7 5\nchips 2\n")

    assert [(one.device, one.card, one.chip) for one, _ in found] == [
        ("0", 2, 0), ("1", 2, 1), ("2", 7, 0), ("3", 7, 1), ("4", 5, 0), ("5", 5, 1)
    ]  # fmt: skip


def test_what_a_card_lists_beside_its_npus_is_no_accelerator(read_npus):
    assert [(one.card, one.chip) for one, _ in read_npus("chips 2\n0/1 type 1\n1/1 type 2\n")] == [(0, 0), (1, 0)]


def test_a_chip_whose_type_cannot_be_read_stays_in_the_inventory(read_npus):
    assert len(read_npus("return dcmi_get_device_type -8012\n")) == 2


def test_no_card_is_no_chip_and_no_fault(read_npus):
    assert read_npus("cards\n") == []


@pytest.mark.parametrize(
    ("symbol", "figure"),
    [
        ("dcmi_get_device_power_info", "power_watts"),
        ("dcmi_get_device_hbm_info", "memory_size_bytes"),
        ("dcmi_get_device_voltage", "voltage_volts"),
        ("dcmi_get_device_resource_info", "processes"),
    ],
)
def test_an_older_library_without_a_function_lacks_that_metric_only(read_npus, doubles, tmp_path, symbol, figure):
    doubles.build_dcmi(tmp_path, without=(symbol,))

    (first, failures), _ = read_npus(root=tmp_path)

    assert figure not in first.figures
    assert first.figures["temperature_celsius"] == 42.0
    assert [failure.code for failure in failures] == ["-99998"]


def test_an_older_library_lists_cards_and_chips_by_its_older_functions(read_npus, doubles, tmp_path):
    doubles.build_dcmi(tmp_path, without=("dcmi_get_card_list", "dcmi_get_device_id_in_card"))

    assert [one.device for one, _ in read_npus("cards 0 1\nchips 2\n", root=tmp_path)] == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("return dcmi_init -8005\n", "InitFailed"),
        ("return dcmi_get_card_list -8005\n", "InventoryFailed"),
        ("return dcmi_get_device_id_in_card -8007\n", "InventoryFailed"),
    ],
)
def test_without_an_inventory_nothing_is_claimed(read_npus, text, reason):
    with pytest.raises(CannotMeasure, match=reason):
        read_npus(text)


def recorded(script, tmp_path, library, text=""):
    """The calls of one collection."""
    calls = tmp_path / "calls"
    calls.write_text("")
    script(f"record {calls}\n{text}")
    library.chips()
    return calls.read_text().splitlines()


def test_how_many_chips_a_card_has_is_asked_again_after_a_while_and_as_soon_as_a_chip_fails(
    driver_root, script, tmp_path, monkeypatch
):
    monkeypatch.setenv("DCMI_DOUBLE_SCRIPT", str(script.path))
    seconds = [0.0]
    library = dcmi.Dcmi(dcmi_places.library_paths(driver_root), now=lambda: seconds[0])

    def asked(text=""):
        calls = recorded(script, tmp_path, library, text)
        return [call for call in calls if call.startswith("dcmi_get_device_id_in_card")]

    library.chips()
    well, failing, after = asked(), asked("1/0 return dcmi_get_device_frequency -8008\n"), asked()
    seconds[0] = dcmi.NUMBERS_SECONDS

    assert (well, failing, after) == ([], [], ["dcmi_get_device_id_in_card 1/-1"])
    assert asked() == ["dcmi_get_device_id_in_card 0/-1", "dcmi_get_device_id_in_card 1/-1"]


def test_a_chip_that_fell_off_its_card_is_listed_no_more_one_collection_after_its_calls_fail(
    driver_root, script, monkeypatch
):
    monkeypatch.setenv("DCMI_DOUBLE_SCRIPT", str(script.path))
    script("chips 2\n")
    library = dcmi.Dcmi(dcmi_places.library_paths(driver_root))
    before = [len(library.chips()) for _ in range(2)]
    script("chips 1\n")

    assert [*before, len(library.chips()), len(library.chips())] == [4, 4, 4, 2]


def test_no_library_is_said_and_so_is_a_file_that_is_none(tmp_path):
    with pytest.raises(CannotMeasure, match="LibraryNotFound"):
        dcmi.Dcmi((tmp_path / "libdcmi.so",))

    (tmp_path / "libdcmi.so").write_text("no library")
    with pytest.raises(CannotMeasure, match="LibraryUnloadable"):
        dcmi.Dcmi((tmp_path / "libdcmi.so",))


def test_boards_of_the_second_generation_are_read_by_its_functions(read_npus, doubles, tmp_path):
    doubles.build_dcmi(tmp_path, symbols="dcmiv2_*")

    found = read_npus(
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


def test_a_library_of_the_second_generation_that_lacks_a_function_lacks_that_metric_only(read_npus, doubles, tmp_path):
    doubles.build_dcmi(tmp_path, symbols="dcmiv2_*", without=("dcmiv2_get_device_voltage",))

    (first, failures), _ = read_npus(root=tmp_path)

    assert set(HEALTHY) - set(first.figures) == {"voltage_volts"}
    assert failures == (("voltage", "-99998"),)


def test_no_generation_that_starts_is_said(doubles, tmp_path, script, monkeypatch):
    monkeypatch.setenv("DCMI_DOUBLE_SCRIPT", str(script.path))
    script("return dcmiv2_init -8005\n")

    with pytest.raises(CannotMeasure, match="InitFailed: dcmi_init answered -99998, dcmiv2_init -8005"):
        dcmi.Dcmi((doubles.build_dcmi(tmp_path, symbols="dcmiv2_*"),))


@pytest.mark.parametrize(("code", "calls"), [(-8006, 3), (-8012, 3), (-8017, 3), (-8020, 3), (-8005, 1), (-8255, 1)])
def test_calls_that_ask_for_patience_are_tried_again_a_few_times(read_npus, script, code, calls):
    """Counted by how long they take: 0.1 s each."""
    read_npus("")
    begin = time.monotonic()
    _, failures = read_npus(f"0/0 return dcmi_get_device_voltage {code}\n0/0 latency dcmi_get_device_voltage 100\n")[0]

    assert calls * 0.1 <= time.monotonic() - begin < calls * 0.1 + 0.2
    assert failures == (("voltage", str(code)),)

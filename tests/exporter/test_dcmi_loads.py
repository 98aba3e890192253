"""Loads of an NPU: AI Core, vector, cube and the whole chip, by one call for all or by one for each."""

from __future__ import annotations

from collections import Counter

import pytest

ALL_LOADS, ONE_LOAD = "dcmi_get_device_multi_utilization_rate", "dcmi_get_device_utilization_rate"
LOADS = "utilization 40\nvector_utilization 7\ncube_utilization 61\noverall_utilization 93\n"


def loads(reading):
    """In the order of LOADS; None where there is none."""
    figures = ("utilization_ratio", "vector_utilization_ratio", "cube_utilization_ratio", "overall_utilization_ratio")
    return tuple(reading.figures.get(figure) for figure in figures)


@pytest.mark.parametrize(
    ("given", "withheld", "shown"),
    [
        ("utilization 0\nvector_utilization 0\noverall_utilization 0\n", 0.0, True),
        ("utilization 0\nvector_utilization 0\noverall_utilization 87\n", 1.0, False),
        ("utilization 0\nvector_utilization 3\noverall_utilization 87\n", 0.0, True),
        ("utilization 5\nvector_utilization 0\noverall_utilization 5\n", 0.0, True),
    ],
    ids=["idle", "profiled", "vector only", "at work"],
)
def test_zeros_of_ai_core_and_vector_that_the_whole_chips_load_contradicts_are_marked_and_absent(
    read_npus, given, withheld, shown
):
    """While the vendor's profiler is on they read 0 without a meaning."""
    figures = read_npus(given)[0][0].figures

    assert figures["utilization_withheld"] == withheld
    assert ("utilization_ratio" in figures, "vector_utilization_ratio" in figures) == (shown, shown)


@pytest.fixture
def calls(tmp_path):
    """The double's record of calls; calls.setting goes into its script."""
    record = tmp_path / "calls.txt"

    def made():
        """How often each function was called for the first chip."""
        lines = map(str.split, record.read_text().splitlines())
        return Counter(function for function, chip in lines if chip == "0/0")

    made.setting = f"record {record}\n"
    return made


def test_all_loads_come_by_one_call(read_npus, calls):
    (reading, failures), _ = read_npus(calls.setting + LOADS)

    assert (loads(reading), failures) == ((0.4, 0.07, 0.61, 0.93), ())
    assert (calls()[ALL_LOADS], calls()[ONE_LOAD]) == (1, 0)


@pytest.mark.parametrize("code", [-8255, -8001], ids=["not supported", "invalid parameter"])
def test_a_chip_without_that_call_is_asked_for_each_load_and_the_cubes_is_absent_on_910b(read_npus, calls, code):
    (reading, failures), (other, _) = read_npus(f"{calls.setting}{LOADS}0/0 return {ALL_LOADS} {code}\n")

    assert (loads(reading), failures) == ((0.4, 0.07, None, 0.93), (("cube_utilization", "-8255"),))
    assert calls()[ONE_LOAD] == 4
    assert loads(other) == (0.4, 0.07, 0.61, 0.93)


def test_a_library_without_that_call_is_asked_for_each_load(read_npus, doubles, tmp_path):
    doubles.build_dcmi(tmp_path, without=(ALL_LOADS,))

    (reading, failures), _ = read_npus(LOADS, tmp_path)

    assert (loads(reading), failures) == ((0.4, 0.07, None, 0.93), (("cube_utilization", "-8255"),))


def test_a_chip_that_lacks_the_call_is_not_asked_for_it_again_until_a_chip_comes_or_goes(npu_library, script, calls):
    script(f"{calls.setting}return {ALL_LOADS} -8255\n")
    npu_library.chips()
    npu_library.chips()
    asked = calls()[ALL_LOADS]

    script(f"{calls.setting}cards 0\nreturn {ALL_LOADS} -8255\n")
    npu_library.chips()

    assert (asked, calls()[ALL_LOADS]) == (1, 2)


def test_a_call_for_all_loads_that_fails_is_a_failure_of_each(read_npus, calls):
    """Not a reason to ask one by one: what is wrong with the chip is to be seen."""
    (reading, failures), _ = read_npus(f"{calls.setting}0/0 return {ALL_LOADS} -8005\n")

    assert loads(reading) == (None, None, None, None)
    assert failures == tuple(
        (call, "-8005") for call in ("utilization", "vector_utilization", "cube_utilization", "overall_utilization")
    )
    assert calls()[ONE_LOAD] == 0


def test_a_library_that_tells_no_load_shows_none(read_npus, doubles, tmp_path):
    doubles.build_dcmi(tmp_path, without=(ALL_LOADS, ONE_LOAD))

    (reading, failures), _ = read_npus(root=tmp_path)

    assert loads(reading) == (None, None, None, None)
    assert {code for _, code in failures} == {"-99998"}

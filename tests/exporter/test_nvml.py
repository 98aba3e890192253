"""GPUs: the double of libnvidia-ml.so.1, loaded by the real pynvml in the vendor child, and what its numbers mean."""

from __future__ import annotations

import ctypes
import math
import os
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankbeat_exporter.collectors.devices import DevicesCollector
from rankbeat_exporter.collectors.devices_series import DevicesSeries
from rankbeat_exporter.model.accelerator import (
    CODE_HUNG,
    VENDOR_NVIDIA,
    Accelerator,
    Answer,
    Event,
    RawChip,
    Snapshot,
)
from rankbeat_exporter.parsing import nvml as meaning
from rankbeat_exporter.sources import nvml_calls, nvml_places, vendor_child

REPOSITORY = Path(__file__).parents[2]
NOWHERE = Path("/nonexistent")
HEALTHY = {
    "utilization_ratio": 0.87,
    "memory_busy_ratio": 0.41,
    "memory_size_bytes": 85520809984.0,
    "memory_used_bytes": 43536875520.0,
    "memory_reserved_bytes": 587202560.0,
    "memory_temperature_celsius": 55.0,
    "memory_frequency_hertz": 2.619e9,
    "temperature_celsius": 61.0,
    "power_watts": 412.5,
    "power_limit_watts": 700.0,
    "energy_joules_total": 987654.321,
    "frequency_hertz": 1.98e9,
    "frequency_max_hertz": 1.98e9,
    "lost": 0.0,
    "reset_required": 0.0,
    "ecc_enabled": 1.0,
    "row_remap_pending": 0.0,
    "row_remap_failure": 0.0,
    "retired_pages_pending": 0.0,
    "pcie_link_generation": 5.0,
    "pcie_link_generation_max": 5.0,
    "pcie_link_width": 16.0,
    "pcie_link_width_max": 16.0,
    "pcie_replays_total": 0.0,
    "pcie_transmit_bytes_total": 9e7,
    "pcie_receive_bytes_total": 8e7,
    "nvlink_transmit_bytes_total": 7516192768.0,
    "nvlink_receive_bytes_total": 7516193792.0,
    "mig_enabled": 0.0,
    "processes": 0.0,
    "process_memory_bytes": 0.0,
    "xid_errors_total": 0.0,
}
NO_THROTTLE = dict.fromkeys(meaning.THROTTLE_REASONS.values(), 0.0)
HEALTHY_PARTS = {
    "throttled": NO_THROTTLE,
    "throttled_seconds_total": dict.fromkeys(("power", "thermal", "sync_boost", "board_limit", "reliability"), 0.0),
    "ecc_errors_total": {"corrected": 0.0, "uncorrected": 0.0},
    "ecc_lifetime_errors_total": {"corrected": 0.0, "uncorrected": 0.0},
    "remapped_rows_total": {"correctable": 0.0, "uncorrectable": 0.0},
    "nvlink_up": {str(link): 1.0 for link in range(18)},
    "nvlink_errors_total": {"replay": 0.0, "recovery": 0.0, "crc": 0.0},
}


class Gpus:
    """A vendor child over the double, and the double's script."""

    def __init__(self, library, script_path):
        self._path = script_path
        roots = vendor_child.DriverRoots(NOWHERE, library.parent)
        start = partial(vendor_child.start_child, VENDOR_NVIDIA, roots, 0.5)
        self.child = vendor_child.VendorChild(start, 10.0, VENDOR_NVIDIA)
        self.script("")

    def script(self, text):
        fresh = self._path.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(self._path)

    def snapshot(self, text=""):
        """What the library answers under the script."""
        self.script(text)
        return self.child.snapshot()

    def read(self, text=""):
        """(accelerator, failures) of each GPU and instance under the script."""
        snapshot = self.snapshot(text)
        assert snapshot.reason == "", snapshot.detail
        return [meaning.accelerator(chip) for chip in snapshot.chips]


@pytest.fixture(scope="module")
def start_gpus(doubles, tmp_path_factory):
    """Starts Gpus over a library that lacks the symbols named; all end with the module."""
    started, libraries = [], {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(str(REPOSITORY / part) for part in ("node_exporter", "agent")))

        def start(*without):
            folder = tmp_path_factory.mktemp("nvml")
            patch.setenv("NVML_DOUBLE_SCRIPT", str(folder / "script.txt"))
            if without not in libraries:
                libraries[without] = doubles.build_nvml(folder, without)
            started.append(Gpus(libraries[without], folder / "script.txt"))
            started[-1].snapshot()  # the child takes the environment as it is now
            return started[-1]

        yield start
    for one in started:
        one.child.close()


@pytest.fixture(scope="module")
def gpus(start_gpus):
    return start_gpus()


def test_structures_lie_in_memory_as_pynvml_lays_them(doubles, tmp_path):
    for (structure, field), number in doubles.layouts(tmp_path, doubles.NVML).items():
        layout = getattr(pynvml, structure)
        found = ctypes.sizeof(layout) if field == "*" else getattr(layout, field).offset
        assert found == number, (structure, field)


def test_two_gpus_are_read_in_base_units(gpus):
    first, second = gpus.read()

    assert first == (
        Accelerator(
            device="0",
            uuid="GPU-d0b1e000-0000-0000-0000-000000000000",
            model="NVIDIA H100 80GB HBM3",
            pci_address="0000:1b:00.0",
            card=0,
            chip=0,
            figures=HEALTHY,
            error_codes=None,
            parts=HEALTHY_PARTS,
        ),
        (),
    )
    assert (second[0].device, second[0].uuid[-2:], second[0].pci_address) == ("1", "10", "0000:1c:00.0")


def test_no_gpu_is_no_chip_and_no_fault(gpus):
    assert gpus.read("gpus 0\n") == []


def test_a_gpu_that_is_listed_no_more_is_no_chip(gpus):
    assert [one.device for one, _ in gpus.read("gpus 1\n")] == ["0"]


@pytest.mark.parametrize(
    ("setting", "figure", "number"),
    [
        ("utilization 0", "utilization_ratio", 0.0),
        ("power 93210", "power_watts", 93.21),
        ("temperature -3", "temperature_celsius", -3.0),
        ("retired_pending 1", "retired_pages_pending", 1.0),
        ("remap_failure 1", "row_remap_failure", 1.0),
        ("remap_pending 1", "row_remap_pending", 1.0),
        ("ecc 0", "ecc_enabled", 0.0),
        ("pcie_width 4", "pcie_link_width", 4.0),
        ("pcie_generation 1", "pcie_link_generation", 1.0),
        ("pcie_replays 12", "pcie_replays_total", 12.0),
        ("field_138 1", "nvlink_transmit_bytes_total", 1024.0),
        ("field_198 18446744073709551000", "pcie_receive_bytes_total", None),
        ("processes 11:1024 12:2048", "processes", 2.0),
        ("processes 11:1024 12:2048", "process_memory_bytes", 3072.0),
    ],
)
def test_values_in_base_units(gpus, setting, figure, number):
    (first, _), (second, _) = gpus.read(f"gpu0 {setting}\n")

    assert first.figures.get(figure) == number
    assert second.figures == HEALTHY


@pytest.mark.parametrize(
    ("setting", "figure", "part", "number"),
    [
        ("throttle 0x40", "throttled", "hardware_thermal", 1.0),
        ("throttle 0x4", "throttled", "software_power_cap", 1.0),
        ("throttle 0x4", "throttled", "hardware_thermal", 0.0),
        ("throttle 0x1000", "throttled", "0x1000", 1.0),
        ("violation_1 2500000000", "throttled_seconds_total", "thermal", 2.5),
        ("ecc_volatile_corrected 3", "ecc_errors_total", "corrected", 3.0),
        ("ecc_lifetime_uncorrected 7", "ecc_lifetime_errors_total", "uncorrected", 7.0),
        ("remapped_uncorrectable 2", "remapped_rows_total", "uncorrectable", 2.0),
        ("link_down 5", "nvlink_up", "5", 0.0),
        ("link_down 5", "nvlink_up", "4", 1.0),
        ("link_errors_0 2", "nvlink_errors_total", "replay", 36.0),
    ],
)
def test_values_of_figures_with_a_label(gpus, setting, figure, part, number):
    assert gpus.read(f"gpu0 {setting}\n")[0][0].parts[figure][part] == number


def test_a_gpu_that_idles_is_not_throttled(gpus):
    assert gpus.read("gpu0 throttle 0x1\n")[0][0].parts["throttled"] == NO_THROTTLE


@pytest.mark.parametrize(
    ("setting", "lost", "failure"),
    [
        ("return nvmlDeviceGetUtilizationRates 3", ["utilization_ratio", "memory_busy_ratio"], ("utilization", "3")),
        (
            "utilization 9223372036854775807\ngpu0 memory_utilization 9",
            ["utilization_ratio"],
            ("utilization", "sentinel"),
        ),
        ("memory_utilization 101", ["memory_busy_ratio"], ("utilization", "out_of_range")),
        ("power 4294967295", ["power_watts"], ("power", "sentinel")),
        ("energy 18446744073709551615", ["energy_joules_total"], ("energy", "sentinel")),
        ("return nvmlDeviceGetPowerUsage 4", ["power_watts"], ("power", "4")),
        ("field_82 unsupported", ["memory_temperature_celsius"], ("memory_temperature", "3")),
        ("field_82 0", ["memory_temperature_celsius"], ("memory_temperature", "out_of_range")),
        ("memory_used 90000000000", ["memory_used_bytes"], ("memory", "out_of_range")),
        ("processes 11:1024 12:-", ["process_memory_bytes"], ("processes", "sentinel")),
        ("return nvmlDeviceGetMigMode 3", ["mig_enabled"], ("mig_mode", "3")),
        ("throttle 0xFFFFFFFFFFFFFFFF", [], ("throttle", "sentinel")),
        ("return nvmlDeviceGetTotalEnergyConsumption 999", ["energy_joules_total"], ("energy", "999")),
    ],
)
def test_a_number_that_means_nothing_is_absent_and_named_and_the_rest_stays(gpus, setting, lost, failure):
    text = f"gpu0 {setting}\n" + ("gpu0 memory_utilization 41\n" if "memory_utilization 9" in setting else "")

    (first, failures), (second, quiet) = gpus.read(text)

    expected = {name: number for name, number in HEALTHY.items() if name not in lost}
    if "processes" in setting:
        expected["processes"] = 2.0
    assert first.figures == expected
    assert failures == (failure,)
    assert (second.figures, quiet) == (HEALTHY, ())


def test_a_gpu_without_nvlink_has_no_link_and_no_down_link(gpus):
    first, failures = gpus.read("links 0\nfield_138 unsupported\n")[0]

    assert "nvlink_up" not in first.parts
    assert "nvlink_errors_total" not in first.parts
    assert {failure.call for failure in failures} == {"nvlink_states", "nvlink_kibibytes"}


def test_memory_of_a_part_that_shares_it_with_the_cpu_is_absent(gpus):
    """GB10: XuehaiPan/nvitop pull 208, wookayin/gpustat pull 179."""
    first, _ = gpus.read("return nvmlDeviceGetMemoryInfo 3\nreturn nvmlDeviceGetMemoryInfo_v2 3\n")[0]

    assert first.figures == {
        name: number
        for name, number in HEALTHY.items()
        if name not in {"memory_size_bytes", "memory_used_bytes", "memory_reserved_bytes"}
    }


def test_where_pcie_bytes_are_not_counted_their_throughput_is_measured(gpus):
    first, failures = gpus.read("field_197 unsupported\ngpu0 pcie_tx 2000\n")[0]

    assert first.figures["pcie_transmit_bytes_per_second"] == 2e6
    assert first.figures["pcie_receive_bytes_per_second"] == 1.5e6
    assert "pcie_transmit_bytes_total" not in first.figures
    assert failures == (("pcie_bytes", "3"),)


def test_a_lost_gpu_keeps_its_name_says_that_it_is_lost_and_hides_no_other(start_gpus):
    """dcgm-exporter issues 164 and 348: figures froze, or stopped for all."""
    gpus = start_gpus()
    gpus.read()

    (first, _), (second, failures) = gpus.read("gpu1 lost\n")

    assert first.figures == HEALTHY
    assert (second.uuid, second.model) == ("GPU-d0b1e000-0000-0000-0000-000000000010", "NVIDIA H100 80GB HBM3")
    assert second.figures == {"lost": 1.0, "xid_errors_total": 0.0}
    assert second.parts == {}
    assert failures == (("utilization", "15"),)


def test_a_gpu_that_was_lost_before_it_was_asked_is_listed_without_a_name(start_gpus):
    gpus = start_gpus()
    gpus.child.close()

    first, failures = gpus.read("gpu0 lost\n")[0]

    assert (first.device, first.uuid, first.figures) == ("0", "", {"lost": 1.0})
    assert failures == (("handle", "15"),)


def test_a_gpu_that_needs_a_reset_says_so(gpus):
    first, _ = gpus.read("gpu0 return nvmlDeviceGetUtilizationRates 16\n")[0]

    assert (first.figures["lost"], first.figures["reset_required"]) == (0.0, 1.0)


def test_mig_instances_are_listed_beside_their_gpu_and_holes_are_none(gpus):
    """A divided GPU has no utilization, dcgm-exporter issue 430."""
    found = gpus.read(
        "gpus 1\ngpu0 mig 1\ngpu0 instances 0 3\ngpu0 return nvmlDeviceGetUtilizationRates 3\n"
        "gpu0:3 memory_total 10737418240\ngpu0:3 memory_used 1073741824\ngpu0:3 memory_reserved 0\n"
        "gpu0:3 processes 11:1024\n"
    )

    (gpu, failures), (_, _), (instance, quiet) = found
    assert [(one.device, one.instance_of, one.chip) for one, _ in found] == [
        ("0", "", 0),
        ("0:0", "0", 1),
        ("0:3", "0", 4),
    ]
    assert (gpu.figures["mig_enabled"], failures) == (1.0, (("utilization", "3"),))
    assert (instance.uuid[:4], instance.model, quiet) == ("MIG-", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", ())
    assert instance.figures == {
        "memory_size_bytes": 10737418240.0,
        "memory_used_bytes": 1073741824.0,
        "memory_reserved_bytes": 0.0,
        "processes": 1.0,
        "process_memory_bytes": 1024.0,
    }


def test_an_instance_that_cannot_be_reached_is_a_failure_of_its_gpu(gpus):
    (gpu, failures), _ = gpus.read("gpu0 mig 1\ngpu0 instances 0\ngpu0 return nvmlDeviceGetMigDeviceHandleByIndex 4\n")

    assert gpu.device == "0"
    assert failures == (("mig_handle", "4"),)


def test_a_library_that_lacks_functions_gives_the_rest(start_gpus):
    """An old driver: one call fails as an NVMLError, processes as NVMLLibraryMismatchError, some have an older name."""
    gpus = start_gpus(
        "nvmlDeviceGetTemperatureV",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetRemappedRows",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetFieldValues",
    )

    first, failures = gpus.read("gpu0 throttle 0x8\n")[0]

    assert {(failure.call, failure.code) for failure in failures} == {
        ("remapped_rows", "13"),
        ("processes", "13"),
        ("memory_reserved", "13"),
        ("memory_temperature", "13"),
        ("pcie_bytes", "13"),
        ("nvlink_kibibytes", "13"),
    }
    assert first.figures["temperature_celsius"] == 61.0
    assert first.parts["throttled"]["hardware_slowdown"] == 1.0
    assert "processes" not in first.figures


@pytest.mark.parametrize(
    ("without", "reason"), [("nvmlInitWithFlags", "InitFailed"), ("nvmlDeviceGetCount_v2", "InventoryFailed")]
)
def test_a_library_too_old_to_be_read_at_all_says_so(start_gpus, without, reason):
    snapshot = start_gpus(without).snapshot()

    assert (snapshot.reason, snapshot.chips, snapshot.vendor) == (reason, (), "nvidia")
    assert "13" in snapshot.detail


def test_without_a_library_there_is_a_reason_and_one_that_comes_later_is_found(doubles, tmp_path, start_gpus):
    """This machine must have no library of its own."""
    if nvml_places.is_present(None):
        pytest.skip("this machine has NVIDIA's driver")
    gpus = start_gpus()
    gpus.child.close()
    start = partial(vendor_child.start_child, VENDOR_NVIDIA, vendor_child.DriverRoots(NOWHERE, tmp_path))
    child = vendor_child.VendorChild(start, 10.0, VENDOR_NVIDIA)

    before = child.snapshot()
    doubles.build_nvml(tmp_path)
    after = child.snapshot()
    child.close()

    assert (before.reason, after.reason, after.restarts) == ("LibraryNotFound", "", 0)


def test_a_driver_that_was_exchanged_is_opened_anew(gpus):
    before = gpus.snapshot("return nvmlDeviceGetCount_v2 18\n")
    after = gpus.snapshot()

    assert (before.reason, before.detail) == ("InventoryFailed", "nvmlDeviceGetCount answered 18")
    assert (after.reason, len(after.chips), after.restarts) == ("", 2, before.restarts)


def test_a_call_that_hangs_is_named_and_left_out_and_the_other_gpus_are_read_again(start_gpus):
    gpus = start_gpus()

    begin = time.monotonic()
    hung = gpus.snapshot("gpu1 hang nvmlDeviceGetPowerUsage\n")
    took = time.monotonic() - begin
    (first, _), (second, failures) = gpus.read("gpu1 hang nvmlDeviceGetPowerUsage\n")

    assert (hung.reason, hung.hung) == ("DriverHung", "power 1")
    assert took < 2.0
    assert first.figures == HEALTHY
    assert second.figures == {name: number for name, number in HEALTHY.items() if name != "power_watts"}
    assert failures == (("power", str(CODE_HUNG)),)


def test_calls_that_take_their_time_are_waited_for(gpus):
    assert gpus.read("latency * 2\n")[0][0].figures == HEALTHY


def test_what_the_library_prints_does_not_get_into_the_answer(gpus):
    assert len(gpus.read('print {"reason": "printed"}\n')) == 2


def events(gpus, text, count, eventually):
    """The events of a snapshot once there are so many."""
    gpus.script(text)

    def enough():
        found = gpus.child.snapshot().events
        return found if sum(one.count for one in found) >= count else None

    return eventually(enough)


def test_each_xid_counts_also_the_same_one_again_and_has_its_time(start_gpus, eventually):
    """dcgm-exporter issue 500: a gauge of the last XID cannot show the second of a kind."""
    gpus = start_gpus()
    gpus.child.close()
    gpus.snapshot("gpu0 xids 13\n")  # older than the child

    begin = time.time()
    one = events(gpus, "gpu0 xids 13 31\n", 1, eventually)
    two = events(gpus, "gpu0 xids 13 31 31\ngpu1 xids 79\n", 3, eventually)
    end = time.time()

    assert [(event.device, event.code, event.count) for event in one] == [("0", 31, 1)]
    assert [(event.device, event.code, event.count) for event in two] == [("0", 31, 2), ("1", 79, 1)]
    assert all(begin <= event.last_seconds <= end for event in two)
    assert (two[1].uuid, two[1].model) == ("GPU-d0b1e000-0000-0000-0000-000000000010", "NVIDIA H100 80GB HBM3")


def test_xids_of_a_gpu_that_fell_off_the_bus_stay_counted_over_a_new_child(start_gpus, eventually):
    gpus = start_gpus()
    events(gpus, "gpu1 xids 79\n", 1, eventually)

    gpus.snapshot("gpus 1\nhang nvmlDeviceGetCount_v2\n")
    gpus.script("gpus 1\n")
    after = eventually(lambda: (found := gpus.child.snapshot()) and not found.reason and found)

    assert after.restarts == 1
    assert [(event.device, event.code, event.count) for event in after.events] == [("1", 79, 1)]


def test_an_xid_that_ends_the_inventory_is_told_after_it(start_gpus, eventually):
    gpus = start_gpus()
    gpus.script("gpu1 xids 79\nreturn nvmlDeviceGetCount_v2 999\n")
    time.sleep(0.3)  # the driver tells it within 10 ms, while nobody asks

    assert gpus.child.snapshot().reason == "InventoryFailed"
    assert [(one.device, one.code, one.count) for one in events(gpus, "gpu1 xids 79\n", 1, eventually)] == [
        ("1", 79, 1)
    ]


def test_without_events_there_is_no_count_of_xids(start_gpus):
    gpus = start_gpus()
    gpus.child.close()

    first, failures = gpus.read("return nvmlDeviceRegisterEvents 3\n")[0]

    assert "xid_errors_total" not in first.figures
    assert failures == (("xid_watch", "3"),)


def test_a_gpus_xids_are_its_own():
    gpu, _ = meaning.accelerator(
        RawChip(0, 0, {"uuid": Answer(0, ("GPU-a",)), "utilization": Answer(0, (1, 1)), "xid_watch": Answer(0)})
    )
    found = (
        Event("0", "GPU-a", "", 31, 2, 1.0),
        Event("0", "GPU-a", "", 79, 1, 1.0),
        Event("1", "GPU-b", "", 31, 5, 1.0),
    )

    assert meaning.with_xids(gpu, found).figures["xid_errors_total"] == 3.0


@pytest.mark.parametrize("values", [(), ("87",), ("87", "41")])
def test_an_answer_of_another_shape_is_no_number(values):
    gpu, failures = meaning.accelerator(RawChip(0, 0, {"utilization": Answer(0, values)}))

    assert "utilization_ratio" not in gpu.figures
    assert failures == (("utilization", "malformed"),)


def test_only_vendors_whose_driver_is_here_are_asked(driver_root, tmp_path, doubles):
    if nvml_places.is_present(None):
        pytest.skip("this machine has NVIDIA's driver")
    nvidia = doubles.build_nvml(tmp_path / "nvidia/usr/lib/x86_64-linux-gnu").parents[3]
    roots = vendor_child.DriverRoots

    assert vendor_child.present_vendors(roots(NOWHERE)) == ()
    assert vendor_child.present_vendors(roots(driver_root)) == ("huawei",)
    assert vendor_child.present_vendors(roots(NOWHERE, nvidia)) == ("nvidia",)
    assert vendor_child.present_vendors(roots(driver_root, nvidia)) == ("huawei", "nvidia")


def test_a_node_with_both_vendors_is_read_at_once_and_one_without_costs_no_child(
    driver_root, tmp_path, doubles, monkeypatch
):
    if nvml_places.is_present(None):
        pytest.skip("this machine has NVIDIA's driver")
    monkeypatch.delenv("NVML_DOUBLE_SCRIPT", raising=False)  # that of start_gpus, which may hold a hang
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(str(REPOSITORY / part) for part in ("node_exporter", "agent")))
    doubles.build_nvml(tmp_path / "lib64")
    both = vendor_child.VendorChildren(vendor_child.DriverRoots(driver_root, tmp_path), (), 10.0)
    none = vendor_child.VendorChildren(vendor_child.DriverRoots(NOWHERE), (), 10.0)

    found = both.snapshots()
    both.close()

    assert [(one.vendor, one.reason, len(one.chips)) for one in found] == [("huawei", "", 2), ("nvidia", "", 2)]
    assert none.snapshots() == (Snapshot("LibraryNotFound", "no vendor's driver is here", vendor=""),)


def test_a_child_that_is_closed_ends_by_itself(start_gpus):
    """dcgm-exporter issues 84 and 96: GPUs froze whose users were killed."""
    gpus = start_gpus()
    process = gpus.child._child

    gpus.child.close()

    assert process.returncode == 0


NAMES = [call.name for call in (*nvml_calls.IDENTITY_CALLS, *nvml_calls.GPU_CALLS)] + ["handle", "xid_watch"]
VALUES = st.lists(st.integers(-1, 200) | st.integers(-(2**63), 2**64) | st.text(max_size=9), max_size=20).map(tuple)
ANSWERS = st.dictionaries(
    st.sampled_from(NAMES), st.builds(Answer, st.sampled_from([0, 0, 0, 3, 13, 15, 16, 999, CODE_HUNG]), VALUES)
)


@given(ANSWERS, st.integers(0, 7))
def test_whatever_the_library_answers_no_number_is_invented(answers, place):
    gpu, failures = meaning.accelerator(RawChip(0, place, answers))

    parts = [number for one in gpu.parts.values() for number in one.values()]
    assert all(math.isfinite(number) and number >= 0 for number in parts)
    assert all(number >= 0 or name == "temperature_celsius" for name, number in gpu.figures.items())
    assert all(number <= 1 for name, number in gpu.figures.items() if name.endswith("_ratio"))
    assert {call for call, one in answers.items() if one.code} <= {failure.call for failure in failures}
    if not any(one.code == 0 for one in answers.values()):
        assert gpu.figures.keys() <= {"lost", "reset_required"}


class Clock:
    """Time that does not pass: (wall, monotonic)."""

    def __call__(self):
        return 1796018231.25, 100.0


def test_the_scrape_of_a_gpu_node(start_gpus, eventually):
    """GPU 0 is throttled by its heat and had an XID, GPU 1 is lost. To accept a change: UPDATE_GOLDEN=1."""
    gpus = start_gpus()
    gpus.read()
    text = "gpu0 throttle 0x40\ngpu0 clock 1200\ngpu0 xids 31 31\ngpu1 lost\n"
    found = events(gpus, text, 2, eventually)
    snapshot = replace(gpus.child.snapshot(), events=tuple(replace(one, last_seconds=1796018230.5) for one in found))
    collector = DevicesCollector(lambda: (snapshot,), 21.0, Clock())

    collector.collect()

    golden = Path(__file__).parent / "golden/devices-nvidia.txt"
    lines = [
        f"{one.metric.name}{{{','.join(map('='.join, zip(one.metric.labels, values, strict=True)))}}} {number:g}"
        for one in DevicesSeries("n1", collector.view).collect()
        for values, number in one.rows
    ]
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text("\n".join(lines) + "\n")
    assert lines == golden.read_text().splitlines()


def test_gpus_are_served_beside_a_hang_and_with_their_xids(program, doubles, tmp_path, get, free_port, eventually):
    socket, script = tmp_path / "vendor.sock", tmp_path / "script.txt"
    doubles.build_nvml(tmp_path / "lib64")
    script.write_text("")
    vendor = ("vendor", "--vendor", "nvidia", "--nvidia-driver-root", str(tmp_path), "--socket", str(socket))
    serving = ("devices", "--socket", str(socket), "--port", str(free_port), "--interval", "200ms", "--node", "n1")

    def holds(text):
        return lambda: text in (get(free_port, "/metrics") or "")

    with (
        program(*serving),
        program(*vendor, "--deadline", "1s", environment={"NVML_DOUBLE_SCRIPT": str(script)}),
    ):
        eventually(holds('rankbeat_node_accelerators{node="n1",vendor="nvidia"} 2.0'))

        script.write_text("gpu1 xids 79\ngpu1 hang nvmlDeviceGetPowerUsage\n")
        eventually(holds('rankbeat_node_accelerator_call_failures_total{call="power",code="-99997",node="n1"'))

        text = get(free_port, "/metrics")
    assert 'vendor="nvidia",xid="79"} 1.0' in text
    assert 'rankbeat_node_accelerators{node="n1",vendor="nvidia"} 2.0' in text

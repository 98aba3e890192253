"""GPUs that are lost, libraries that lack something or hang, nodes of one vendor, of two and of none."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

import pytest

from gpu_support import HEALTHY, NOWHERE
from rankbeat_exporter.model.accelerator import CODE_HUNG, VENDOR_NVIDIA, Snapshot
from rankbeat_exporter.sources import driver_roots, nvml_places, vendor_supervisor

REPOSITORY = Path(__file__).parents[2]


def test_a_lost_gpu_keeps_its_name_says_that_it_is_lost_and_hides_no_other(start_gpus, eventually):
    """dcgm-exporter issues 164 and 348: figures froze, or stopped for all."""
    gpus = start_gpus()
    gpus.read()

    def read_once_the_wait_for_its_xids_failed():
        found = gpus.read("gpu1 lost\n")
        return found if dict(found[1][1]).get("xid_watch") else None

    (first, _), (second, failures) = eventually(read_once_the_wait_for_its_xids_failed)

    assert first.figures == HEALTHY
    assert (second.uuid, second.model) == ("GPU-d0b1e000-0000-0000-0000-000000000010", "NVIDIA H100 80GB HBM3")
    assert second.figures == {"lost": 1.0}
    assert second.parts == {}
    assert failures == (("utilization", "15"), ("xid_watch", "15"))


def test_a_gpu_that_was_lost_before_it_was_asked_is_listed_without_a_name(start_gpus):
    gpus = start_gpus()
    gpus.child.close()

    first, failures = gpus.read("gpu0 lost\n")[0]

    assert (first.device, first.uuid, first.figures) == ("0", "", {"lost": 1.0})
    assert failures == (("handle", "15"),)


def test_a_gpu_that_needs_a_reset_says_so(gpus):
    first, _ = gpus.read("gpu0 return nvmlDeviceGetUtilizationRates 16\n")[0]

    assert (first.figures["lost"], first.figures["reset_required"]) == (0.0, 1.0)


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
    start = partial(vendor_supervisor.start_child, VENDOR_NVIDIA, driver_roots.DriverRoots(NOWHERE, tmp_path))
    child = vendor_supervisor.VendorChild(start, 10.0, VENDOR_NVIDIA)

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


def test_only_vendors_whose_driver_is_here_are_asked(driver_root, tmp_path, doubles):
    if nvml_places.is_present(None):
        pytest.skip("this machine has NVIDIA's driver")
    nvidia = doubles.build_nvml(tmp_path / "nvidia/usr/lib/x86_64-linux-gnu").parents[3]
    roots = driver_roots.DriverRoots

    assert driver_roots.present_vendors(roots(NOWHERE)) == ()
    assert driver_roots.present_vendors(roots(driver_root)) == ("huawei",)
    assert driver_roots.present_vendors(roots(NOWHERE, nvidia)) == ("nvidia",)
    assert driver_roots.present_vendors(roots(driver_root, nvidia)) == ("huawei", "nvidia")


def test_a_node_with_both_vendors_is_read_at_once_and_one_without_costs_no_child(
    driver_root, tmp_path, doubles, monkeypatch
):
    if nvml_places.is_present(None):
        pytest.skip("this machine has NVIDIA's driver")
    monkeypatch.delenv("NVML_DOUBLE_SCRIPT", raising=False)  # that of start_gpus, which may hold a hang
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(str(REPOSITORY / part) for part in ("node_exporter", "agent")))
    doubles.build_nvml(tmp_path / "lib64")
    both = vendor_supervisor.VendorChildren(driver_roots.DriverRoots(driver_root, tmp_path), (), 10.0)
    none = vendor_supervisor.VendorChildren(driver_roots.DriverRoots(NOWHERE), (), 10.0)

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

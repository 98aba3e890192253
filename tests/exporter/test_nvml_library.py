"""What holds of any libnvidia-ml.so.1: of the double always, and of the machine's own where it has NVIDIA's driver.

On a machine with GPUs `pytest tests/exporter/test_nvml_library.py` says whether claims that only the double showed hold
(docs/unverified.md); it reads and changes nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from functools import partial
from pathlib import Path

import pynvml
import pytest

from rankbeat_contract import metrics
from rankbeat_exporter.model.accelerator import VENDOR_NVIDIA
from rankbeat_exporter.parsing import nvml as meaning
from rankbeat_exporter.sources import driver_roots, nvml_places, vendor_supervisor

REPOSITORY = Path(__file__).parents[2]
DEADLINE_SECONDS = 4.0
CODES = {value for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_")}
RANGES = {
    "utilization_ratio": (0, 1),
    "memory_busy_ratio": (0, 1),
    "memory_size_bytes": (2**30, 2**40),
    "memory_used_bytes": (0, 2**40),
    "memory_reserved_bytes": (0, 2**36),
    "memory_temperature_celsius": (1, 125),
    "memory_frequency_hertz": (1e8, 2e10),
    "temperature_celsius": (1, 125),
    "power_watts": (1, 3000),
    "power_limit_watts": (10, 3000),
    "frequency_hertz": (1e8, 1e10),
    "frequency_max_hertz": (5e8, 1e10),
    "lost": (0, 0),
    "pcie_link_generation": (1, 9),
    "pcie_link_width": (1, 32),
}


@pytest.fixture(scope="module", params=["double", "host"])
def readings(request, doubles, tmp_path_factory):
    """Two readings of the library, a second apart, and how long the second took."""
    if request.param == "host" and not nvml_places.is_present(None):
        pytest.skip("this machine has no driver of NVIDIA's")
    folder = doubles.build_nvml(tmp_path_factory.mktemp("nvml")).parent if request.param == "double" else None
    roots = driver_roots.DriverRoots(Path("/nonexistent"), folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(str(REPOSITORY / part) for part in ("node_exporter", "agent")))
        patch.delenv("NVML_DOUBLE_SCRIPT", raising=False)
        start = partial(vendor_supervisor.start_child, VENDOR_NVIDIA, roots, DEADLINE_SECONDS / 2)
        child = vendor_supervisor.VendorChild(start, DEADLINE_SECONDS, VENDOR_NVIDIA)
        first = child.snapshot()
        time.sleep(1.0 if request.param == "host" else 0.01)
        begin = time.monotonic()
        second = child.snapshot()
        took_seconds = time.monotonic() - begin
        child.close()
    assert (first.reason, second.reason) == ("", ""), (first.detail, second.detail)
    return [[meaning.accelerator(chip) for chip in one.chips] for one in (first, second)], took_seconds


def test_every_device_has_an_identity_of_its_own(readings):
    (first, _), _ = readings

    assert first
    assert len({one.uuid for one, _ in first}) == len({one.device for one, _ in first}) == len(first)
    for one, _ in first:
        assert re.fullmatch(r"(GPU|MIG)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", one.uuid)
        assert one.model
        if not one.instance_of:
            assert re.fullmatch(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", one.pci_address)


def test_figures_are_those_of_the_schema_and_in_base_units(readings):
    (first, _), _ = readings

    for one, _ in first:
        assert one.figures.keys() <= metrics.ACCELERATOR_FIGURES.keys()
        assert one.parts.keys() <= metrics.ACCELERATOR_PARTS.keys()
        outside = {
            name: number
            for name, number in one.figures.items()
            if name in RANGES and not RANGES[name][0] <= number <= RANGES[name][1]
        }
        assert outside == {}
        if "memory_size_bytes" in one.figures:
            assert one.figures["memory_used_bytes"] <= one.figures["memory_size_bytes"]


def test_counters_do_not_go_back(readings):
    (first, second), _ = readings

    for (before, _), (after, _) in zip(first, second, strict=True):
        assert before.uuid == after.uuid
        for name, number in before.figures.items():
            assert not name.endswith("_total") or after.figures[name] >= number, name
        for name, parts in before.parts.items():
            for part, number in parts.items():
                assert not name.endswith("_total") or after.parts[name][part] >= number, (name, part)


def test_a_call_that_failed_gave_one_of_the_librarys_codes_or_a_number_that_means_nothing(readings):
    (first, _), _ = readings

    words = {meaning.SENTINEL, meaning.OUT_OF_RANGE}
    assert {failure.code for _, failures in first for failure in failures} <= words | set(map(str, CODES))


def test_a_collection_takes_less_than_half_of_its_deadline(readings):
    _, took_seconds = readings

    assert took_seconds < DEADLINE_SECONDS / 2


def test_what_does_not_change_is_what_nvidia_smi_says(readings, request):
    if "host" not in request.node.name:
        pytest.skip("the double has no nvidia-smi")
    if shutil.which("nvidia-smi") is None:
        pytest.skip("this machine has no nvidia-smi")
    (first, _), _ = readings
    query = "--query-gpu=uuid,index,name,memory.total,enforced.power.limit,clocks.max.sm,pcie.link.width.max"

    printed = subprocess.run(
        ["nvidia-smi", query, "--format=csv,noheader,nounits"], check=True, capture_output=True, text=True, timeout=60
    ).stdout

    ours = {one.uuid: one for one, _ in first}
    for line in printed.splitlines():
        uuid, index, name, mebibytes, watts, megahertz, lanes = map(str.strip, line.split(","))
        one = ours[uuid]
        assert (one.device, one.model) == (index, name)
        for text, figure, unit in (
            (mebibytes, "memory_size_bytes", 2**20),
            (watts, "power_limit_watts", 1),
            (megahertz, "frequency_max_hertz", 10**6),
            (lanes, "pcie_link_width_max", 1),
        ):
            if text.startswith("["):  # [N/A]
                assert figure not in one.figures
            else:
                assert one.figures[figure] == pytest.approx(float(text) * unit, rel=0.001)

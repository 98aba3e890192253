"""GPUs: the double of libnvidia-ml.so.1, loaded by the real pynvml in the vendor child, and what its numbers mean."""

from __future__ import annotations

import ctypes
import math

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_support import HEALTHY, HEALTHY_PARTS, NO_THROTTLE
from rankbeat_exporter.model.accelerator import CODE_HUNG, Accelerator, Answer, RawChip
from rankbeat_exporter.parsing import nvml as meaning
from rankbeat_exporter.sources import nvml_calls


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


@pytest.mark.parametrize("values", [(), ("87",), ("87", "41")])
def test_an_answer_of_another_shape_is_no_number(values):
    gpu, failures = meaning.accelerator(RawChip(0, 0, {"utilization": Answer(0, values)}))

    assert "utilization_ratio" not in gpu.figures
    assert failures == (("utilization", "malformed"),)


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

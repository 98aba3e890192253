"""GPUs of the double of libnvidia-ml.so.1, and what a healthy one reads."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from rankbeat_exporter.model.accelerator import VENDOR_NVIDIA
from rankbeat_exporter.parsing import nvml as meaning
from rankbeat_exporter.sources import driver_roots, vendor_supervisor

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
        roots = driver_roots.DriverRoots(NOWHERE, library.parent)
        start = partial(vendor_supervisor.start_child, VENDOR_NVIDIA, roots, 0.5)
        self.child = vendor_supervisor.VendorChild(start, 10.0, VENDOR_NVIDIA)
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


def events(gpus, text, count, eventually):
    """The events of a snapshot once there are so many."""
    gpus.script(text)

    def enough():
        found = gpus.child.snapshot().events
        return found if sum(one.count for one in found) >= count else None

    return eventually(enough)

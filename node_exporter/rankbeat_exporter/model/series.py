"""Names of the exporter's series beyond those that other programs read (rankbeat_contract.names)."""

from __future__ import annotations

from typing import NamedTuple

from rankbeat_contract import names


class Figure(NamedTuple):
    """One figure of an accelerator: key in Accelerator.figures and end of the series' name, and its HELP text."""

    name: str
    text: str


ACCELERATOR_FIGURES = (
    Figure("health_level", "Health by the vendor's library: 0 healthy, 1 minor, 2 major, 3 critical alarm."),
    Figure(
        "utilization_ratio",
        "Share of time the compute cores (NPU: AI Core) were busy; reads 0 while the vendor's profiler is on.",
    ),
    Figure("memory_size_bytes", "High-bandwidth memory of the device."),
    Figure("memory_used_bytes", "High-bandwidth memory in use, the driver's own share included."),
    Figure("memory_bandwidth_utilization_ratio", "Share of the high-bandwidth memory's bandwidth in use."),
    Figure("memory_temperature_celsius", "Temperature of the high-bandwidth memory."),
    Figure("memory_frequency_hertz", "Frequency of the high-bandwidth memory."),
    Figure("temperature_celsius", "Temperature of the chip."),
    Figure("power_watts", "Power drawn by the chip."),
    Figure("frequency_hertz", "Present frequency of the compute cores (NPU: AI Core)."),
    Figure("frequency_max_hertz", "Rated frequency of the compute cores (NPU: AI Core)."),
)
ACCELERATORS = "rankbeat_node_accelerators"
ACCELERATOR_INFO = names.NODE_ACCELERATOR_PREFIX + "info"
ACCELERATOR_ERROR = names.NODE_ACCELERATOR_PREFIX + "error"
ACCELERATOR_ERRORS = names.NODE_ACCELERATOR_PREFIX + "errors"
ACCELERATOR_CALL_FAILURES = names.NODE_ACCELERATOR_PREFIX + "call_failures"
ACCELERATOR_DRIVER_RESTARTS = names.NODE_ACCELERATOR_PREFIX + "driver_restarts"

COLLECTOR_FAILURE = "rankbeat_node_collector_failure"
COLLECTOR_DURATION = "rankbeat_node_collector_duration_seconds"
COLLECTOR_LAST_COLLECT = "rankbeat_node_collector_last_collect_timestamp_seconds"

KERNEL_SYNCHRONISED = "rankbeat_node_clock_kernel_synchronised"
KERNEL_MAX_ERROR = "rankbeat_node_clock_kernel_max_error_seconds"
KERNEL_ESTIMATED_ERROR = "rankbeat_node_clock_kernel_estimated_error_seconds"
KERNEL_OFFSET = "rankbeat_node_clock_kernel_offset_seconds"
SERVER_OFFSET = "rankbeat_node_clock_server_offset_seconds"
SERVER_DELAY = "rankbeat_node_clock_server_delay_seconds"
SERVER_STRATUM = "rankbeat_node_clock_server_stratum"
SERVER_VALID = "rankbeat_node_clock_server_valid"

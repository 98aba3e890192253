"""Of a node's accelerators, the same names for every vendor."""

from functools import partial

from rankbeat_contract import names
from rankbeat_contract.metrics import family

_devices = partial(family.metric, family.DEVICES, ("node", "vendor"))
_accelerator = partial(
    family.metric, family.DEVICES, ("node", "vendor", "device", "uuid", "model", "namespace", "pod", "container")
)

ACCELERATORS = _devices(
    "rankbeat_node_accelerators", "Accelerators that the vendor's library lists, MIG instances not counted."
)
ACCELERATOR_INFO = _accelerator(
    names.NODE_ACCELERATOR_PREFIX + "info",
    "1 for each accelerator, with its places: PCI address, the vendor's card and chip numbers.",
    "pci_address",
    "card",
    "chip",
)
ACCELERATOR_FIGURES = {
    figure: _accelerator(names.NODE_ACCELERATOR_PREFIX + figure, text)
    for figure, text in (
        ("health_level", "Health by the vendor's library: 0 healthy, 1 minor, 2 major, 3 critical alarm."),
        ("utilization_ratio", "Share of time the compute cores (NPU: AI Core) were busy."),
        ("vector_utilization_ratio", "Share of time an NPU's vector cores were busy."),
        ("cube_utilization_ratio", "Share of time an NPU's cube units were busy."),
        ("overall_utilization_ratio", "Share of time anything on an NPU was busy."),
        (
            "utilization_withheld",
            "1 while AI Core and vector read 0 though the NPU works, as under a profiler: then both are absent.",
        ),
        ("memory_size_bytes", "High-bandwidth memory of the device."),
        ("memory_used_bytes", "High-bandwidth memory in use, the driver's own share included."),
        ("memory_reserved_bytes", "Of it, what driver and firmware keep for themselves."),
        ("memory_busy_ratio", "Share of time that memory was read or written (NVIDIA); no share of the bandwidth."),
        ("memory_bandwidth_utilization_ratio", "Share of the high-bandwidth memory's bandwidth in use."),
        ("memory_temperature_celsius", "Temperature of the high-bandwidth memory."),
        ("memory_frequency_hertz", "Frequency of the high-bandwidth memory."),
        ("ddr_size_bytes", "DDR memory of an NPU that has some."),
        ("ddr_used_bytes", "DDR memory in use."),
        ("temperature_celsius", "Temperature of the chip."),
        ("power_watts", "Power drawn by the chip."),
        ("power_limit_watts", "Power above which the driver lowers the clocks."),
        ("energy_joules_total", "Energy drawn since the driver was loaded."),
        ("frequency_hertz", "Present frequency of the compute cores (NPU: AI Core)."),
        ("vector_frequency_hertz", "Present frequency of an NPU's vector cores."),
        ("voltage_volts", "Voltage of an NPU."),
        ("frequency_max_hertz", "Rated frequency of the compute cores (NPU: AI Core)."),
        ("lost", "1 where the driver says that the device fell off the bus, 0 where it answers."),
        ("reset_required", "1 where the driver says that the device must be reset, else 0."),
        ("ecc_enabled", "1 where error correction is on."),
        ("row_remap_pending", "1 where memory rows are remapped at the next reset."),
        ("row_remap_failure", "1 where a memory row could not be remapped: the device is to be replaced."),
        ("retired_pages_pending", "1 where memory pages are retired at the next reset."),
        ("pcie_link_generation", "Generation of the PCIe link now; it drops while the device idles."),
        ("pcie_link_generation_max", "Generation that device and slot can do."),
        ("pcie_link_width", "Lanes of the PCIe link now."),
        ("pcie_link_width_max", "Lanes that device and slot have."),
        ("pcie_replays_total", "Packets sent again over PCIe."),
        ("pcie_transmit_bytes_total", "Bytes sent over PCIe."),
        ("pcie_receive_bytes_total", "Bytes received over PCIe."),
        ("pcie_transmit_bytes_per_second", "PCIe throughput in a short while (GPU 20 ms, NPU 100 ms), no counter."),
        ("pcie_receive_bytes_per_second", "PCIe throughput in a short while (GPU 20 ms, NPU 100 ms), no counter."),
        ("nvlink_transmit_bytes_total", "Bytes of payload sent over all NVLinks."),
        ("nvlink_receive_bytes_total", "Bytes of payload received over all NVLinks."),
        ("mig_enabled", "1 where the GPU is divided in MIG instances."),
        ("processes", "Processes that compute on the device."),
        ("process_memory_bytes", "Device memory of these processes; absent where the driver does not say it of each."),
        ("xid_errors_total", "XID errors since the vendor part started; absent where they cannot be watched."),
    )
}
"""What is measured of an accelerator, by its key in the exporter's Accelerator.figures."""
ACCELERATOR_PARTS = {
    figure: _accelerator(names.NODE_ACCELERATOR_PREFIX + figure, text, label)
    for figure, label, text in (
        ("throttled", "reason", "1 for each reason why the clocks are held down now, 0 for the others."),
        ("throttled_seconds_total", "reason", "Time for which the clocks were held down, by reason."),
        ("ecc_errors_total", "kind", "Memory errors since the driver was loaded: corrected, uncorrected."),
        ("ecc_lifetime_errors_total", "kind", "Memory errors in the device's life: corrected, uncorrected."),
        ("remapped_rows_total", "kind", "Memory rows remapped in the device's life: correctable, uncorrectable."),
        ("isolated_pages", "kind", "Memory pages taken out of use, by the errors they had: corrected, uncorrected."),
        ("ddr_ecc_errors_total", "kind", "As ecc_errors_total, of DDR memory."),
        ("ddr_ecc_lifetime_errors_total", "kind", "As ecc_lifetime_errors_total, of DDR memory."),
        ("ddr_isolated_pages", "kind", "As isolated_pages, of DDR memory."),
        ("nvlink_up", "link", "Whether the NVLink is up."),
        ("nvlink_errors_total", "kind", "Errors of all NVLinks that are up: replay, recovery, crc."),
    )
}
"""Likewise where a figure has one more label, by its key in Accelerator.parts."""
ACCELERATOR_ROWS = {
    figure: _accelerator(names.NODE_ACCELERATOR_PREFIX + figure, text, *labels)
    for figure, labels, text in (
        (
            "network_healthy",
            ("status",),
            "Whether the NPU's network probe succeeds, with its state; init counts as healthy.",
        ),
        ("link_up", ("port",), "Whether the NPU's network link is up."),
        ("link_speed_bytes_per_second", ("port",), "Speed of the link."),
        ("link_changes_total", ("port", "to"), "Times the link went up or down."),
        (
            "network_bytes_total",
            ("port", "direction"),
            "Bytes on the link; direction is transmit or receive, here and below.",
        ),
        ("network_packets_total", ("port", "direction"), "Packets on the link."),
        ("network_pause_packets_total", ("port", "direction"), "Pause frames."),
        ("network_pfc_packets_total", ("port", "direction"), "Priority flow control frames."),
        ("network_bad_packets_total", ("port", "direction"), "Bad packets."),
        ("network_bad_bytes_total", ("port", "direction"), "Bytes of bad packets."),
        (
            "network_errors_total",
            ("port", "error"),
            "frame_check, retransmit, unexpected_ack, out_of_order, verification, queue_pair.",
        ),
        ("roce_packets_total", ("port", "direction"), "RoCE packets."),
        ("roce_error_packets_total", ("port", "direction"), "RoCE packets with errors."),
        ("roce_congestion_packets_total", ("port", "direction"), "RoCE congestion notifications."),
        ("roce_ecn_packets_total", ("port",), "RoCE packets marked by congestion on their way."),
        ("hccs_flits_total", ("port", "direction"), "Flits between NPUs of the node."),
        ("hccs_crc_errors_total", ("port",), "Checksum errors between NPUs."),
        ("hccs_retries_total", ("port",), "Flits sent again between NPUs."),
        ("hccs_bytes_per_second", ("port", "direction"), "Throughput between NPUs in 100 ms."),
        (
            "ub_link_up",
            ("udie", "port", "lanes"),
            "Whether a UB port of a 950 card has its link, over full, partial or none of its lanes.",
        ),
        ("ub_flits_total", ("udie", "port", "direction"), "Flits of packets over a UB port of a 950."),
        (
            "ub_errors_total",
            ("udie", "port", "direction", "error"),
            "Packets of a UB port with an error: unknown, drop, error, check, length; receive also route.",
        ),
        ("ub_retries_total", ("udie", "port", "kind"), "Retries of a UB port's link: requested, answered."),
        ("ub_crc_errors_total", ("udie", "port"), "Checksum errors of a UB port."),
        ("pcie_errors_total", ("error",), "transmit, receive, link_crc, end_to_end_crc."),
        (
            "pcie_transaction_bytes_per_second",
            ("direction", "transaction", "statistic"),
            "PCIe throughput in 100 ms by kind (posted, non_posted, completion): min, max, average.",
        ),
        ("optical_present", ("port",), "Whether the optical module is there."),
        ("optical_temperature_celsius", ("port",), "Temperature of the optical module."),
        ("optical_voltage_volts", ("port",), "Supply of the optical module."),
        ("optical_power_watts", ("port", "direction", "lane"), "Light sent and received."),
        ("optical_bias_amperes", ("port", "lane"), "Current of the laser."),
        (
            "process_memory_by_pid_bytes",
            ("pid",),
            "Device memory of a process; the host's process id where it can be seen.",
        ),
    )
}
"""Likewise where a figure has several, by its key in Accelerator.rows."""
ACCELERATOR_CARD_POWER = _devices(
    names.NODE_ACCELERATOR_PREFIX + "card_power_watts",
    "Power of a card whose NPUs have no meter of their own (310P), once a card.",
    "card",
)
ACCELERATOR_SOURCE = _devices(
    names.NODE_ACCELERATOR_PREFIX + "source",
    "1 for how the devices are read: library, or tool where the library cannot be had.",
    "source",
)
ACCELERATOR_DRIVER_UNKILLABLE = _devices(
    names.NODE_ACCELERATOR_PREFIX + "driver_unkillable",
    "Processes that hang in the driver so that SIGKILL does not end them; while there is one, no other is started.",
)
ACCELERATOR_XID_ERRORS = _accelerator(
    names.NODE_ACCELERATOR_PREFIX + "xid_code_errors_total",
    "XID errors by code since the vendor part started, of devices that are gone too.",
    "xid",
)
ACCELERATOR_XID_TIMESTAMP = _accelerator(
    names.NODE_ACCELERATOR_PREFIX + "xid_code_last_timestamp_seconds",
    "When the last XID error with the code came, by this node's clock.",
    "xid",
)
ACCELERATOR_ERRORS = _accelerator(
    names.NODE_ACCELERATOR_PREFIX + "errors",
    "Number of error codes that the device reports; 0 is none, absent is unknown.",
)
ACCELERATOR_ERROR = _accelerator(
    names.NODE_ACCELERATOR_PREFIX + "error",
    "1 for each error code that the device reports, in hex as the vendor's fault tables print it.",
    "code",
)
ACCELERATOR_CALL_FAILURES = _devices(
    names.NODE_ACCELERATOR_PREFIX + "call_failures_total",
    "Calls of the vendor's library without a usable answer, with the library's code or ours.",
    "call",
    "code",
)
ACCELERATOR_HOLDER = _devices(
    names.NODE_ACCELERATOR_HOLDER,
    "1 for each device and the pod that holds it, by the source believed; local_rank: its place among the pod's.",
    "device",
    "namespace",
    "pod",
    "container",
    "local_rank",
    "source",
)
ACCELERATOR_HOLDER_CONFLICTS = _devices(
    names.NODE_ACCELERATOR_PREFIX + "holder_conflicts_total",
    "Times that sources began to contradict each other on who holds what, by kind (docs/devices.md).",
    "kind",
)
ACCELERATOR_DRIVER_RESTARTS = _devices(
    names.NODE_ACCELERATOR_PREFIX + "driver_restarts_total",
    "Times the process that calls the vendor's library was replaced, because it hung or died.",
)

"""Every metric that a program serves: name, kind, labels, HELP text. docs/metrics.md is made from this table.

Names that other programs read stand in rankbeat_contract.names. The agent never imports this module, and it does not
travel with it (packing.place).
"""

from functools import partial
from typing import NamedTuple, Tuple

from rankbeat_contract import names

GAUGE = "gauge"
COUNTER = "counter"
HISTOGRAM = "histogram"

RANKS = "collector: ranks"
COLLECTOR = "collector: itself"
PODS = "collector: pods with outputs"
OUTPUTS = "collector: outputs beside a job"
CLOCK = "clock"
DEVICES = "devices"
EXPORTERS = "clock and devices: themselves"
JOBS = "aggregator: jobs"
AGGREGATOR = "aggregator: itself"
OPERATOR = "operator"
WEBHOOK = "webhook"
PROGRAMS = (RANKS, COLLECTOR, PODS, OUTPUTS, CLOCK, DEVICES, EXPORTERS, JOBS, AGGREGATOR, OPERATOR, WEBHOOK)
"""Who serves a metric, and what it speaks of."""


class Metric(NamedTuple):
    """One family on a program's /metrics."""

    name: str
    """As Prometheus stores it: counters end in _total. The unit is in it."""
    kind: str
    """GAUGE, COUNTER or HISTOGRAM."""
    labels: Tuple[str, ...]
    help: str
    program: str
    """One of PROGRAMS."""


JOB_LABELS = ("namespace", "monitor", "job_uid")
"""The first labels of every metric of JOBS."""


def _metric(program: str, labels: Tuple[str, ...], name: str, text: str, *more_labels: str) -> Metric:
    """A gauge, or a counter where the name says so."""
    kind = COUNTER if name.endswith("_total") else GAUGE
    return Metric(name, kind, (*labels, *more_labels), text, program)


_rank = partial(_metric, RANKS, ("namespace", "monitor", "rank", "node"))
_collector = partial(_metric, COLLECTOR, ("node",))
_pod = partial(_metric, PODS, ("namespace", "monitor", "pod", "node"))
_output = partial(_metric, OUTPUTS, ("namespace", "pod"))
_clock = partial(_metric, CLOCK, ("node",))
_devices = partial(_metric, DEVICES, ("node", "vendor"))
_accelerator = partial(_metric, DEVICES, ("node", "vendor", "device", "uuid", "model", "namespace", "pod", "container"))
_exporter = partial(_metric, EXPORTERS, ("node", "collector"))
_job = partial(_metric, JOBS, JOB_LABELS)
_aggregator = partial(_metric, AGGREGATOR, ())
_operator = partial(_metric, OPERATOR, ())
_webhook = partial(_metric, WEBHOOK, ())

RANK_INFO = _rank(names.RANK_INFO, "Where a rank runs; always 1.", "pod", "job", "job_uid", "local_rank", "world_size")
RANK_TIER = _rank(names.RANK_TIER, "1 for how the rank is seen: callback, heartbeat, perf_file or log_tail.", "tier")
RANK_STEP = _rank(names.RANK_STEP, "Last finished global step.")
RANK_STEP_INTERVAL = _rank(names.RANK_STEP_INTERVAL, "From the end of one step to the end of the next, last step.")
RANK_GAP = _rank(names.RANK_GAP, "From the end of one step to the begin of the next, last step.")
RANK_IN_STEP = _rank(names.RANK_IN_STEP, "From the begin to the end of the last step; mirrors the gap in other ranks.")
RANK_PHASE = _rank(names.RANK_PHASE, "1 for the phase that the rank is in.", "phase")
RANK_LAST_STEP_TIMESTAMP = _rank(names.RANK_LAST_STEP_TIMESTAMP, "When the last step finished, by this node's clock.")
RANK_LOSS = _rank(names.RANK_LOSS, "Last sampled loss, where this rank holds a valid one.")
RANK_LOSS_IS_FINITE = _rank(
    names.RANK_LOSS_IS_FINITE, "1 if the last sampled loss is a number, 0 if it is NaN or infinite."
)
RANK_CPU_SECONDS = _rank(names.RANK_CPU_SECONDS, "CPU time of the training process.")
RANK_RESIDENT_MEMORY = _rank(names.RANK_RESIDENT_MEMORY, "Resident memory of the training process.")
RANK_PERPLEXITY = _rank(names.RANK_PERPLEXITY, "e to the last sampled loss; on request.")
RANK_LEARNING_RATE = _rank(
    names.RANK_LEARNING_RATE,
    "Learning rate of the last parameter group, rarely sampled; absent where reading it costs.",
)
RANK_LOSS_SCALE = _rank(names.RANK_LOSS_SCALE, "Loss scale, where the job's outputs hold one (MindFormers).")
RANK_GRAD_NORM = _rank(names.RANK_GRAD_NORM, "Global norm of the gradients, where the job computes it or a tap does.")
RANK_OVERFLOW_STEPS = _rank(
    names.RANK_OVERFLOW_STEPS, "Steps whose gradients overflowed, where the job's outputs say so; of a sink, its last."
)
RANK_SKIPPED_STEPS = _rank(
    names.RANK_SKIPPED_STEPS,
    "Steps that the optimizer left out, for an overflow or for the job's own limit of the norm.",
)
RANK_SAMPLES_PER_STEP = _rank(
    names.RANK_SAMPLES_PER_STEP, "Samples of the whole job in one step: the same on all ranks, never a sum over them."
)
RANK_DEVICE_MEMORY_ALLOCATED = _rank(
    names.RANK_DEVICE_MEMORY_ALLOCATED, "Device memory that tensors hold, by MindSpore's allocator; absent on CPU."
)
RANK_DEVICE_MEMORY_PEAK = _rank(names.RANK_DEVICE_MEMORY_PEAK, "The most that they held since the start.")
RANK_DEVICE_MEMORY_RESERVED = _rank(names.RANK_DEVICE_MEMORY_RESERVED, "Device memory that the pool has taken.")
RANK_DEVICE_MEMORY_LIMIT = _rank(
    names.RANK_DEVICE_MEMORY_LIMIT, "What the pool may take: the device's memory, or less where the job says so."
)
RANK_CHECKPOINT_DURATION = _rank(
    names.RANK_CHECKPOINT_DURATION, "Synchronous part of the last save_checkpoint, for which training waited."
)
RANK_CHECKPOINT_STEP = _rank(names.RANK_CHECKPOINT_STEP, "Step that the last checkpoint holds.")
RANK_EVALUATION = _rank(names.RANK_EVALUATION, "Result of the last evaluation, by the job's name of it.", "metric")
RANK_USER_VALUE = _rank(
    names.RANK_USER_VALUE, "Last value that the job gave to rankbeat.log() or a monitor of its own computed.", "name"
)
RANK_LAYER_VALUE = _rank(
    names.RANK_LAYER_VALUE,
    "Last value by layer: mean, min and max over its parameters or heads.",
    "name",
    "layer",
    "stat",
)
RANK_BASELINE_LOSS = _rank(names.RANK_BASELINE_LOSS, "Loss over the first 100 sampled steps: mean and stddev.", "stat")
RANK_BASELINE_STEP_INTERVAL = _rank(
    names.RANK_BASELINE_STEP_INTERVAL, "Step interval over the first 100 steps: mean and stddev.", "stat"
)
RANK_LATE_CONFIGURATION = _rank(
    names.RANK_LATE_CONFIGURATION, "Changes of the sampling that this rank read after the step from which they hold."
)
RANK_FILTERS_REFUSED = _rank(
    names.RANK_FILTERS_REFUSED, "Filters in spec.metrics that are no expression; their metrics are not filtered."
)
RANK_TAPS_REFUSED = _rank(
    names.RANK_TAPS_REFUSED, "Signals that are asked for and cannot be tapped in this process; its log says why."
)
RANK_UNRESOLVED_PATHS = _rank(
    names.RANK_UNRESOLVED_PATHS, "Paths in spec.attention.cells that no cell of the network fits."
)
RANK_RECORDS_LOST = _rank(names.RANK_RECORDS_LOST, "Records overwritten before they were read.")
RANK_AGENT_ERRORS = _rank(names.RANK_AGENT_ERRORS, "Errors that the agent swallowed.")
RANK_VALUES_REFUSED = _rank(
    names.RANK_VALUES_REFUSED, "Names and numbers that did not fit the ring: the 129th name, a number that is none."
)

COLLECTOR_POLLS = _collector("rankbeat_collector_polls_total", "Polls of this node's rings.")
COLLECTOR_POLL_SECONDS = _collector("rankbeat_collector_last_poll_seconds", "How long the last poll took.")
COLLECTOR_ROOT_READABLE = _collector(
    "rankbeat_collector_kubelet_root_readable", "1 if the kubelet's folder of pods can be opened."
)
COLLECTOR_PODS_KNOWN = _collector("rankbeat_collector_pods_known", "1 if the API has said which pods are here.")
COLLECTOR_PODS = _collector("rankbeat_collector_pods", "Injected pods on this node.")
COLLECTOR_RINGS = _collector("rankbeat_collector_rings", "Rings read by the last poll.")
COLLECTOR_REFUSED = _collector(
    "rankbeat_collector_refused_total", "Files and folders not read, each poll anew.", "reason"
)
COLLECTOR_RECORDS_LOST = _collector(
    "rankbeat_collector_records_lost_total", "Records overwritten before they were read, all ranks."
)
COLLECTOR_RANK_CONFLICTS = _collector(
    "rankbeat_collector_rank_conflicts_total", "Living ranks hidden by a later claim of the same rank."
)
COLLECTOR_PUSHES = _collector("rankbeat_collector_pushes_total", "Reports to the aggregator.", "result")
COLLECTOR_ROWS_DROPPED = _collector(
    "rankbeat_collector_report_rows_dropped_total", "Steps and scalars that did not fit in a report."
)
COLLECTOR_LAST_PUSH = _collector(
    "rankbeat_collector_last_push_timestamp_seconds", "When the aggregator last accepted a report."
)
COLLECTOR_ERRORS = _collector("rankbeat_collector_errors_total", "Unexpected errors of the collector itself.", "loop")

POD_OUTPUT_TROUBLE = _pod(
    "rankbeat_pod_output_trouble",
    "1 for what the outputs of the collector beside a job suffer from (docs/outputs.md), 0 for what they do not.",
    "reason",
)
POD_OUTPUT_ROWS = _pod("rankbeat_pod_output_rows_total", "Rows that it wrote.")
POD_OUTPUT_ROWS_DROPPED = _pod("rankbeat_pod_output_rows_dropped_total", "Rows that it could not write.")
POD_OUTPUT_RECORDS_LOST = _pod("rankbeat_pod_output_records_lost_total", "Records overwritten before it had read them.")
POD_OUTPUT_ENTRIES_LOST = _pod(
    "rankbeat_pod_output_entries_lost_total",
    "Entries of side files (runs, histograms, images, dumps) that were overwritten unread or found no room.",
)

OUTPUT_ROWS = _output("rankbeat_output_rows_total", "Rows written.", "output")
OUTPUT_ROWS_DROPPED = _output("rankbeat_output_rows_dropped_total", "Rows that could not be written.", "output")
OUTPUT_ERRORS = _output(
    "rankbeat_output_errors_total",
    "Writes that failed: full, io, unwritable or vanished; training goes on, they are tried again.",
    "output",
    "reason",
)
OUTPUT_FAILING = _output("rankbeat_output_failing", "Places of an output that cannot be written now.", "output")
OUTPUT_FILES_DELETED = _output(
    "rankbeat_output_files_deleted_total", "Files deleted because of their age or their total size.", "output"
)
OUTPUT_SETTINGS_VALID = _output("rankbeat_output_settings_valid", "0 while monitor.json's outputs cannot be followed.")
OUTPUT_AUDIT_ERRORS = _output("rankbeat_output_audit_errors_total", "Entries that the audit log could not take.")
OUTPUT_RECORDS_LOST = _output("rankbeat_output_records_lost_total", "Records overwritten before they were read.")
OUTPUT_ENTRIES_LOST = _output(
    "rankbeat_output_entries_lost_total",
    "Entries of side files (runs, histograms, images, dumps) that were overwritten unread or found no room.",
)
MONITOR_DISABLED = _output(
    "rankbeat_monitor_disabled", "1 for a custom monitor that raised an exception and runs no longer.", "name", "error"
)

CLOCK_TRUSTED = _clock(names.NODE_CLOCK_TRUSTED, "Whether this node's clock is trusted, with the reason.", "reason")
CLOCK_OFFSET = _clock(names.NODE_CLOCK_OFFSET, "The reference's clock minus this node's.")
CLOCK_ERROR_BOUND = _clock(names.NODE_CLOCK_ERROR_BOUND, "Largest error of the offset that the evidence admits.")
CLOCK_KERNEL_SYNCHRONISED = _clock(
    "rankbeat_node_clock_kernel_synchronised", "Whether the kernel holds its clock for synchronised (adjtimex)."
)
CLOCK_KERNEL_MAX_ERROR = _clock("rankbeat_node_clock_kernel_max_error_seconds", "The kernel's maximum error.")
CLOCK_KERNEL_ESTIMATED_ERROR = _clock(
    "rankbeat_node_clock_kernel_estimated_error_seconds", "The kernel's estimated error."
)
CLOCK_KERNEL_OFFSET = _clock("rankbeat_node_clock_kernel_offset_seconds", "What the kernel still has to slew.")
CLOCK_SERVERS = _clock(
    "rankbeat_node_clock_servers", "Configured NTP servers; 0: only what this node itself says of its clock is judged."
)
CLOCK_CHRONY_SYNCHRONISED = _clock(
    "rankbeat_node_clock_chrony_synchronised", "Whether the node's chronyd has a reference, with the reason.", "reason"
)
CLOCK_CHRONY_OFFSET = _clock(
    "rankbeat_node_clock_chrony_offset_seconds", "True time minus the clock's, as chrony says."
)
CLOCK_CHRONY_ERROR_BOUND = _clock(
    "rankbeat_node_clock_chrony_error_bound_seconds", "chrony's root dispersion and half its root delay."
)
CLOCK_CHRONY_STRATUM = _clock("rankbeat_node_clock_chrony_stratum", "Stratum of the node's chronyd.")
CLOCK_SERVER_VALID = _clock(
    "rankbeat_node_clock_server_valid",
    "Whether the server's time takes part in the quorum, with the reason.",
    "server",
    "reason",
)
CLOCK_SERVER_OFFSET = _clock(
    "rankbeat_node_clock_server_offset_seconds", "The server's clock minus this node's.", "server"
)
CLOCK_SERVER_DELAY = _clock("rankbeat_node_clock_server_delay_seconds", "Round trip to the server.", "server")
CLOCK_SERVER_STRATUM = _clock("rankbeat_node_clock_server_stratum", "The server's stratum.", "server")

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
    "Processes that hang in the driver so that SIGKILL does not end them; while there is one, nothing is read.",
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

EXPORTER_SUCCESS = _exporter(
    names.NODE_COLLECTOR_SUCCESS, "Whether the collector could measure; its series are absent where it could not."
)
EXPORTER_FAILURE = _exporter(
    "rankbeat_node_collector_failure", "1 while the collector cannot measure, with the reason.", "reason"
)
EXPORTER_DURATION = _exporter("rankbeat_node_collector_duration_seconds", "How long the last collection took.")
EXPORTER_LAST_COLLECT = _exporter(
    "rankbeat_node_collector_last_collect_timestamp_seconds", "When the last collection ended, by this node's clock."
)
EXPORTER_SERIES_FAILURES = _exporter(
    "rankbeat_node_collector_series_failures_total",
    "Scrapes that the collector's series had to be left out of, for a fault of the exporter.",
)
EXPORTER_CONFIGURATION_FOLLOWED = _metric(
    EXPORTERS,
    ("node",),
    "rankbeat_node_exporter_configuration_followed",
    "1 if the newest configuration file is in force, 0 if it is refused and the one before goes on.",
)
EXPORTER_CONFIGURATION_LOADED = _metric(
    EXPORTERS,
    ("node",),
    "rankbeat_node_exporter_configuration_loaded_timestamp_seconds",
    "When the configuration in force was put there.",
)
EXPORTER_CONFIGURATION_REFUSED = _metric(
    EXPORTERS,
    ("node",),
    "rankbeat_node_exporter_configuration_refused_total",
    "Configuration files that could not be followed.",
)

JOB_INFO = _job(names.JOB_INFO, "A job that reports speak of.", "job", "experiment")
JOB_OUTPUTS_TROUBLED = _job(
    names.JOB_OUTPUTS_TROUBLED, "Pods whose outputs suffer from this (docs/outputs.md).", "reason"
)
JOB_TAPS_REFUSED = _job(
    names.JOB_TAPS_REFUSED, "Signals that are asked for and cannot be tapped, the most on any rank."
)
JOB_PAUSED = _job(names.JOB_PAUSED, "1 while the monitor is paused: incidents are known, levels are 0.")
JOB_ATTEMPT = _job(names.JOB_ATTEMPT, "Attempt, from 1, as far as this aggregator saw.")
JOB_RANKS_EXPECTED = _job(names.JOB_RANKS_EXPECTED, "Ranks that should report.")
JOB_RANKS_REPORTING = _job(names.JOB_RANKS_REPORTING, "Ranks that report, or came to their end.")
JOB_STEP_MIN = _job(names.JOB_STEP_MIN, "Smallest last finished step of a rank.")
JOB_STEP_MAX = _job(names.JOB_STEP_MAX, "Largest last finished step of a rank.")
JOB_STEP_INTERVAL = _job(names.JOB_STEP_INTERVAL, "Median step interval of the newest steps.")
JOB_SAMPLES_PER_SECOND = _job(
    names.JOB_SAMPLES_PER_SECOND, "Samples of the whole job per second, while steps are made: global batch by interval."
)
JOB_STALL_SECONDS = _job(names.JOB_STALL_SECONDS, "How long the job was seen without progress.")
JOB_LOSS = _job(names.JOB_LOSS, "Newest loss of the lowest rank that holds a valid one.")
JOB_LOSS_IS_FINITE = _job(names.JOB_LOSS_IS_FINITE, "0 where that loss is not finite.")
JOB_PHASE = _job(names.JOB_PHASE, "Ranks in a phase.", "phase")
JOB_LIMIT_SECONDS = _job(names.JOB_LIMIT_SECONDS, "Limits in force.", "limit")
JOB_INCIDENT_LEVEL = _job(
    names.JOB_INCIDENT_LEVEL, "0 healthy, 1 warning, 2 critical; absent while the kind cannot be judged.", "kind"
)
JOB_INCIDENT_STARTED = _job(names.JOB_INCIDENT_STARTED, "When the trouble began.", "kind")
JOB_SUSPECT = _job(
    names.JOB_SUSPECT, "1 for each rank that an open incident names.", "kind", "rank", "node", "pod", "evidence"
)

AGGREGATOR_REPORTS = _aggregator("rankbeat_aggregator_reports_total", "Reports received, by result.", "result")
AGGREGATOR_REPORTS_WITHOUT_NODE = _aggregator(
    "rankbeat_aggregator_reports_without_node_claim_total", "Reports whose token names no node."
)
AGGREGATOR_EVALUATIONS = _aggregator("rankbeat_aggregator_evaluations_total", "Times that all jobs were judged.")
AGGREGATOR_EVALUATION_SECONDS = _aggregator("rankbeat_aggregator_evaluation_seconds_total", "Time spent judging.")
AGGREGATOR_EVALUATION_TIMESTAMP = _aggregator(
    "rankbeat_aggregator_evaluation_timestamp_seconds", "When all jobs were judged last."
)
AGGREGATOR_JOBS = _aggregator("rankbeat_aggregator_jobs", "Jobs known.")
AGGREGATOR_RANKS = _aggregator("rankbeat_aggregator_ranks", "Rank processes of the newest attempts.")
AGGREGATOR_NODES = _aggregator("rankbeat_aggregator_nodes", "Nodes that reported in the last ten minutes.")
AGGREGATOR_NODES_SILENT = _aggregator("rankbeat_aggregator_nodes_silent", "Nodes among them whose reports stopped.")
AGGREGATOR_NODE_REPORT_AGE = _aggregator(
    "rankbeat_aggregator_node_report_age_seconds", "Age of a silent node's last report.", "node"
)
AGGREGATOR_MONITORS_AGE = _aggregator(
    "rankbeat_aggregator_monitors_age_seconds", "Since the API server last spoke of monitors."
)

OPERATOR_RECONCILES = _operator(
    "rankbeat_operator_reconciles_total", "Reconciles by what they were about and how they ended.", "scope", "result"
)
OPERATOR_API_REQUESTS = _operator(
    "rankbeat_operator_api_requests_total", "Requests to the API server, watches not counted.", "method"
)
OPERATOR_MONITORS = _operator("rankbeat_operator_monitors", "TrainingMonitors known.")
OPERATOR_AGGREGATOR_REACHABLE = _operator(
    "rankbeat_operator_aggregator_reachable", "1 if the aggregator gave its verdicts when last asked."
)
OPERATOR_FLEET_VALID = _operator("rankbeat_operator_fleet_valid", "1 if the install's values can be followed.")
OPERATOR_HEALTHY = _operator("rankbeat_operator_healthy", "1 while the operator is at work; /healthz says why not.")

WEBHOOK_INJECTIONS = _webhook(
    "rankbeat_webhook_injections_total",
    "Pods by what became of them; result is injected, skipped, untouched or failed.",
    "result",
    "reason",
)
WEBHOOK_REQUEST_SECONDS = Metric(
    "rankbeat_webhook_request_seconds", HISTOGRAM, (), "Time from the request to the answer.", WEBHOOK
)
WEBHOOK_WAITING = _webhook(
    "rankbeat_webhook_waiting",
    "1 while this replica is not ready for want of this; 0 for good once it was ready.",
    "what",
)
WEBHOOK_CACHE_AGE = _webhook(
    "rankbeat_webhook_cache_age_seconds", "Time since the API server last answered for this cache.", "cache"
)
WEBHOOK_CACHE_STALE = _webhook(
    "rankbeat_webhook_cache_stale", "1 where the age is over a minute: decisions go on.", "cache"
)

TABLE = (
    *(value for value in tuple(globals().values()) if isinstance(value, Metric)),
    *ACCELERATOR_FIGURES.values(),
    *ACCELERATOR_PARTS.values(),
    *ACCELERATOR_ROWS.values(),
)
"""All of them."""

"""Of the collector: of a node, of pods with outputs, and of one beside a job."""

from functools import partial

from rankbeat_contract.metrics import family

_collector = partial(family.metric, family.COLLECTOR, ("node",))
_pod = partial(family.metric, family.PODS, ("namespace", "monitor", "pod", "node"))
_output = partial(family.metric, family.OUTPUTS, ("namespace", "pod"))

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

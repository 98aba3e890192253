"""Of aggregator, operator and webhook themselves."""

from functools import partial

from rankbeat_contract.metrics import family

_aggregator = partial(family.metric, family.AGGREGATOR, ())
_operator = partial(family.metric, family.OPERATOR, ())
_webhook = partial(family.metric, family.WEBHOOK, ())

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
WEBHOOK_REQUEST_SECONDS = family.Metric(
    "rankbeat_webhook_request_seconds", family.HISTOGRAM, (), "Time from the request to the answer.", family.WEBHOOK
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

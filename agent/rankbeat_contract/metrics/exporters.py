"""Of the two exporters, of clock and of devices, themselves."""

from functools import partial

from rankbeat_contract import names
from rankbeat_contract.metrics import family

_exporter = partial(family.metric, family.EXPORTERS, ("node", "collector"))

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
EXPORTER_CONFIGURATION_FOLLOWED = family.metric(
    family.EXPORTERS,
    ("node",),
    "rankbeat_node_exporter_configuration_followed",
    "1 if the newest configuration file is in force, 0 if it is refused and the one before goes on.",
)
EXPORTER_CONFIGURATION_LOADED = family.metric(
    family.EXPORTERS,
    ("node",),
    "rankbeat_node_exporter_configuration_loaded_timestamp_seconds",
    "When the configuration in force was put there.",
)
EXPORTER_CONFIGURATION_REFUSED = family.metric(
    family.EXPORTERS,
    ("node",),
    "rankbeat_node_exporter_configuration_refused_total",
    "Configuration files that could not be followed.",
)

"""A family of metrics: what every program's table is made of."""

from typing import NamedTuple, Tuple

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


def metric(program: str, labels: Tuple[str, ...], name: str, text: str, *more_labels: str) -> Metric:
    """A gauge, or a counter where the name says so."""
    kind = COUNTER if name.endswith("_total") else GAUGE
    return Metric(name, kind, (*labels, *more_labels), text, program)

"""The aggregator's series: what is known, absent where it is not."""

import math
from collections.abc import Iterable, Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from rankbeat_aggregator.detect import hang, loss
from rankbeat_aggregator.model.verdict import HANG, RANK_MISSING
from rankbeat_aggregator.server.monitors import Watch
from rankbeat_aggregator.server.service import Judged, Service
from rankbeat_contract import names

PREFIX = "rankbeat_aggregator_"
"""What the program says of itself."""
MOST_SILENT = 64
"""Silent nodes that have a series of their own."""

_JOB = names.JOB_LABELS
_KINDS = names.INCIDENT_KINDS


class Metrics(Collector):
    """Collects from a service at scrape time."""

    def __init__(self, service: Service, monitors: Watch) -> None:
        self._service = service
        self._monitors = monitors

    def collect(self) -> Iterable[Metric]:
        yield from _job_families(self._service.judged)
        yield from _own_families(self._service, self._monitors)


def _label_values(judged: Judged) -> tuple[str, str, str]:
    key = judged.job.key
    return key.namespace, key.monitor, key.job_uid


def _job_families(judged: tuple[Judged, ...]) -> Iterator[Metric]:
    families = _Families()
    for one in judged:
        _add_job(families, one)
        _add_verdict(families, one)
    yield from families.made.values()


class _Families:
    """Gauge families, made when the first sample comes."""

    def __init__(self) -> None:
        self.made: dict[str, GaugeMetricFamily] = {}

    def add(self, name: str, one: Judged, value: float | None, **labels: str) -> None:
        """Adds a sample, none where the value is not known."""
        if value is None:
            return
        if name not in self.made:
            self.made[name] = GaugeMetricFamily(name, _HELP[name], labels=(*_JOB, *labels))
        self.made[name].add_metric((*_label_values(one), *labels.values()), value)


def _add_job(families: _Families, one: Judged) -> None:
    view = one.view
    families.add(names.JOB_INFO, one, 1, job=one.job.name, experiment=one.settings.experiment)
    families.add(names.JOB_PAUSED, one, float(one.settings.paused))
    if not view.members:
        return
    steps = [member.finished[1] for member in view.ranked if member.finished[1] >= 0]
    families.add(names.JOB_ATTEMPT, one, view.attempt)
    families.add(names.JOB_RANKS_EXPECTED, one, view.expected if view.ranked else None)
    families.add(names.JOB_RANKS_REPORTING, one, len(view.reporting) if view.ranked else None)
    families.add(names.JOB_STEP_MIN, one, min(steps, default=None))
    families.add(names.JOB_STEP_MAX, one, max(steps, default=None))
    families.add(names.JOB_STEP_INTERVAL, one, view.median_interval_seconds)
    families.add(names.JOB_STALL_SECONDS, one, hang.stall_seconds(view))
    value = loss.job_loss(view)
    families.add(names.JOB_LOSS, one, value)
    families.add(names.JOB_LOSS_IS_FINITE, one, None if value is None else float(math.isfinite(value)))
    for phase, count in sorted(view.phases.items()):
        families.add(names.JOB_PHASE, one, count, phase=phase)


def _add_verdict(families: _Families, one: Judged) -> None:
    verdict, limits = one.verdict, one.settings.limits
    hang_limit = limits.hang_seconds if verdict.hang_limit_seconds is None else verdict.hang_limit_seconds
    families.add(names.JOB_LIMIT_SECONDS, one, hang_limit, limit=HANG)
    families.add(names.JOB_LIMIT_SECONDS, one, limits.rank_missing_seconds, limit=RANK_MISSING)
    for kind in _KINDS:
        families.add(names.JOB_INCIDENT_LEVEL, one, verdict.level(kind), kind=kind)
    for incident in verdict.incidents:
        if incident.level:
            families.add(names.JOB_INCIDENT_STARTED, one, incident.started_wall, kind=incident.kind)
        for suspect in incident.suspects:
            families.add(
                names.JOB_SUSPECT,
                one,
                1,
                kind=incident.kind,
                rank="" if suspect.rank is None else str(suspect.rank),
                node=suspect.node,
                pod=suspect.pod,
                evidence=incident.evidence,
            )


def _own_families(service: Service, monitors: Watch) -> Iterator[Metric]:
    counts, now = service.counts, service.clock.mono()
    silent = [node for node in service.fleet.nodes.values() if node.is_silent(now)]
    reports = CounterMetricFamily(PREFIX + "reports", "Reports received, by result.", labels=("result",))
    for result, count in sorted(counts.reports.items()):
        reports.add_metric((result,), count)
    yield reports
    yield _counter("reports_without_node_claim", "Reports whose token names no node.", counts.without_node_claim)
    yield _counter("evaluations", "Times that all jobs were judged.", counts.evaluations)
    yield _counter("evaluation_seconds", "Time spent judging.", counts.evaluation_seconds)
    if counts.evaluation_wall is not None:
        yield _gauge("evaluation_timestamp_seconds", "When all jobs were judged last.", counts.evaluation_wall)
    yield _gauge("jobs", "Jobs known.", len(service.fleet.jobs))
    yield _gauge(
        "ranks", "Rank processes of the newest attempts.", sum(len(one.view.members) for one in service.judged)
    )
    yield _gauge("nodes", "Nodes that reported in the last ten minutes.", len(service.fleet.nodes))
    yield _gauge("nodes_silent", "Nodes among them whose reports stopped.", len(silent))
    ages = GaugeMetricFamily(
        PREFIX + "node_report_age_seconds", "Age of a silent node's last report.", labels=("node",)
    )
    for node in sorted(silent, key=lambda node: node.received)[:MOST_SILENT]:
        ages.add_metric((node.name,), now - node.received)
    yield ages
    age = monitors.age_seconds()
    if age is not None:
        yield _gauge("monitors_age_seconds", "Since the API server last spoke of monitors.", age)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(PREFIX + name, text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(PREFIX + name, text, value=value)


_HELP = {
    names.JOB_INFO: "A job that reports speak of.",
    names.JOB_PAUSED: "1 while the monitor is paused: incidents are known, levels are 0.",
    names.JOB_ATTEMPT: "Attempt, from 1, as far as this aggregator saw.",
    names.JOB_RANKS_EXPECTED: "Ranks that should report.",
    names.JOB_RANKS_REPORTING: "Ranks that report, or came to their end.",
    names.JOB_STEP_MIN: "Smallest last finished step of a rank.",
    names.JOB_STEP_MAX: "Largest last finished step of a rank.",
    names.JOB_STEP_INTERVAL: "Median step interval of the newest steps.",
    names.JOB_STALL_SECONDS: "How long the job was seen without progress.",
    names.JOB_LOSS: "Newest loss of the lowest rank that holds a valid one.",
    names.JOB_LOSS_IS_FINITE: "0 where that loss is not finite.",
    names.JOB_PHASE: "Ranks in a phase.",
    names.JOB_LIMIT_SECONDS: "Limits in force.",
    names.JOB_INCIDENT_LEVEL: "0 healthy, 1 warning, 2 critical; absent while the kind cannot be judged.",
    names.JOB_INCIDENT_STARTED: "When the trouble began.",
    names.JOB_SUSPECT: "1 for each rank that an open incident names.",
}

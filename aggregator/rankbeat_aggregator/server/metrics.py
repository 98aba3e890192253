"""The aggregator's series: what is known, absent where it is not."""

import math
from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from rankbeat_aggregator.detect import hang, loss
from rankbeat_aggregator.model.verdict import HANG, RANK_MISSING
from rankbeat_aggregator.server.monitors import Watch
from rankbeat_aggregator.server.service import Judged, Service
from rankbeat_contract import metrics, names
from rankbeat_contract import outputs as contract
from rankbeat_contract.metrics import Metric

Family = CounterMetricFamily | GaugeMetricFamily

MOST_SILENT = 64
"""Silent nodes that have a series of their own."""


class Metrics(Collector):
    """Collects from a service at scrape time."""

    def __init__(self, service: Service, monitors: Watch) -> None:
        self._service = service
        self._monitors = monitors

    def collect(self) -> Iterable[Family]:
        yield from _job_families(self._service.judged)
        yield from _own_families(self._service, self._monitors)


def _label_values(judged: Judged) -> tuple[str, str, str]:
    key = judged.job.key
    return key.namespace, key.monitor, key.job_uid


def _job_families(judged: tuple[Judged, ...]) -> Iterator[Family]:
    families = _Families()
    for one in judged:
        _add_job(families, one)
        _add_verdict(families, one)
    yield from families.made.values()


class _Families:
    """Gauge families, made when the first sample comes."""

    def __init__(self) -> None:
        self.made: dict[str, GaugeMetricFamily] = {}

    def add(self, metric: Metric, one: Judged, value: float | None, **labels: str) -> None:
        """Adds a sample, none where the value is not known.

        Raises: KeyError if a label that the table has is not given.
        """
        if value is None:
            return
        if metric.name not in self.made:
            self.made[metric.name] = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
        more = (labels[name] for name in metric.labels[len(metrics.JOB_LABELS) :])
        self.made[metric.name].add_metric((*_label_values(one), *more), value)


def _add_job(families: _Families, one: Judged) -> None:
    view = one.view
    families.add(metrics.JOB_INFO, one, 1, job=one.job.name, experiment=one.settings.experiment)
    families.add(metrics.JOB_PAUSED, one, float(one.settings.paused))
    running = [pod.report.outputs for pod in view.pods_with_outputs if pod.report.phase == "Running"]
    for reason in contract.TROUBLES if running else ():
        count = sum(1 for outputs in running if outputs is not None and reason in outputs.troubles)
        families.add(metrics.JOB_OUTPUTS_TROUBLED, one, count, reason=reason)
    if not view.members:
        return
    steps = [member.finished[1] for member in view.ranked if member.finished[1] >= 0]
    families.add(metrics.JOB_ATTEMPT, one, view.attempt)
    families.add(metrics.JOB_RANKS_EXPECTED, one, view.expected if view.ranked else None)
    families.add(metrics.JOB_RANKS_REPORTING, one, len(view.reporting) if view.ranked else None)
    families.add(metrics.JOB_STEP_MIN, one, min(steps, default=None))
    families.add(metrics.JOB_STEP_MAX, one, max(steps, default=None))
    families.add(metrics.JOB_STEP_INTERVAL, one, view.median_interval_seconds)
    families.add(metrics.JOB_SAMPLES_PER_SECOND, one, view.samples_per_second)
    families.add(metrics.JOB_STALL_SECONDS, one, hang.stall_seconds(view))
    value = loss.job_loss(view)
    families.add(metrics.JOB_LOSS, one, value)
    taps = [member.snapshot.taps.refused for member in view.members if member.snapshot.taps is not None]
    families.add(metrics.JOB_TAPS_REFUSED, one, max(taps, default=None))
    families.add(metrics.JOB_LOSS_IS_FINITE, one, None if value is None else float(math.isfinite(value)))
    for phase, count in sorted(view.phases.items()):
        families.add(metrics.JOB_PHASE, one, count, phase=phase)


def _add_verdict(families: _Families, one: Judged) -> None:
    verdict, limits = one.verdict, one.settings.limits
    hang_limit = limits.hang_seconds if verdict.hang_limit_seconds is None else verdict.hang_limit_seconds
    families.add(metrics.JOB_LIMIT_SECONDS, one, hang_limit, limit=HANG)
    families.add(metrics.JOB_LIMIT_SECONDS, one, limits.rank_missing_seconds, limit=RANK_MISSING)
    for kind in names.INCIDENT_KINDS:
        families.add(metrics.JOB_INCIDENT_LEVEL, one, verdict.level(kind), kind=kind)
    for incident in verdict.incidents:
        if incident.level:
            families.add(metrics.JOB_INCIDENT_STARTED, one, incident.started_wall, kind=incident.kind)
        for suspect in incident.suspects:
            families.add(
                metrics.JOB_SUSPECT,
                one,
                1,
                kind=incident.kind,
                rank="" if suspect.rank is None else str(suspect.rank),
                node=suspect.node,
                pod=suspect.pod,
                evidence=incident.evidence,
            )


def _own_families(service: Service, monitors: Watch) -> Iterator[Family]:
    counts, now = service.counts, service.clock.mono()
    silent = [node for node in service.fleet.nodes.values() if node.is_silent(now)]
    yield _by_label(metrics.AGGREGATOR_REPORTS, sorted(counts.reports.items()))
    yield _single(metrics.AGGREGATOR_REPORTS_WITHOUT_NODE, counts.without_node_claim)
    yield _single(metrics.AGGREGATOR_EVALUATIONS, counts.evaluations)
    yield _single(metrics.AGGREGATOR_EVALUATION_SECONDS, counts.evaluation_seconds)
    if counts.evaluation_wall is not None:
        yield _single(metrics.AGGREGATOR_EVALUATION_TIMESTAMP, counts.evaluation_wall)
    yield _single(metrics.AGGREGATOR_JOBS, len(service.fleet.jobs))
    yield _single(metrics.AGGREGATOR_RANKS, sum(len(one.view.members) for one in service.judged))
    yield _single(metrics.AGGREGATOR_NODES, len(service.fleet.nodes))
    yield _single(metrics.AGGREGATOR_NODES_SILENT, len(silent))
    longest = sorted(silent, key=lambda node: node.received)[:MOST_SILENT]
    yield _by_label(metrics.AGGREGATOR_NODE_REPORT_AGE, [(node.name, now - node.received) for node in longest])
    age = monitors.age_seconds()
    if age is not None:
        yield _single(metrics.AGGREGATOR_MONITORS_AGE, age)


def _family(metric: Metric, rows: Iterable[tuple[tuple[str, ...], float]]) -> Family:
    kind = CounterMetricFamily if metric.kind == metrics.COUNTER else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    for labels, value in rows:
        family.add_metric(labels, value)
    return family


def _single(metric: Metric, value: float) -> Family:
    return _family(metric, [((), value)])


def _by_label(metric: Metric, rows: Iterable[tuple[str, float]]) -> Family:
    return _family(metric, [((label,), value) for label, value in rows])

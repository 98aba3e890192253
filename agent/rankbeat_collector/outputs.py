"""What one poll gives to Prometheus."""

from dataclasses import dataclass, field
from typing import Callable, Dict, Iterable, Iterator, Mapping, Optional, Sequence, Tuple, Union

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from rankbeat_collector.model import ranks, series
from rankbeat_collector.model.ranks import Poll, Rank
from rankbeat_contract import metrics
from rankbeat_contract import outputs as contract
from rankbeat_contract.metrics import Metric

Family = Union[CounterMetricFamily, GaugeMetricFamily]

_RANK_FAMILIES = (
    metrics.RANK_STEP,
    metrics.RANK_STEP_INTERVAL,
    metrics.RANK_GAP,
    metrics.RANK_IN_STEP,
    metrics.RANK_LAST_STEP_TIMESTAMP,
    metrics.RANK_LOSS,
    metrics.RANK_LOSS_IS_FINITE,
    metrics.RANK_CPU_SECONDS,
    metrics.RANK_RESIDENT_MEMORY,
    metrics.RANK_PERPLEXITY,
    metrics.RANK_LEARNING_RATE,
    metrics.RANK_LOSS_SCALE,
    metrics.RANK_GRAD_NORM,
    metrics.RANK_OVERFLOW_STEPS,
    metrics.RANK_SKIPPED_STEPS,
    metrics.RANK_SAMPLES_PER_STEP,
    metrics.RANK_DEVICE_MEMORY_ALLOCATED,
    metrics.RANK_DEVICE_MEMORY_PEAK,
    metrics.RANK_DEVICE_MEMORY_RESERVED,
    metrics.RANK_DEVICE_MEMORY_LIMIT,
    metrics.RANK_CHECKPOINT_DURATION,
    metrics.RANK_CHECKPOINT_STEP,
    metrics.RANK_LATE_CONFIGURATION,
    metrics.RANK_FILTERS_REFUSED,
    metrics.RANK_TAPS_REFUSED,
    metrics.RANK_UNRESOLVED_PATHS,
    metrics.RANK_RECORDS_LOST,
    metrics.RANK_AGENT_ERRORS,
    metrics.RANK_VALUES_REFUSED,
)

_LABELLED_FAMILIES = (
    metrics.RANK_EVALUATION,
    metrics.RANK_USER_VALUE,
    metrics.RANK_LAYER_VALUE,
    metrics.RANK_BASELINE_LOSS,
    metrics.RANK_BASELINE_STEP_INTERVAL,
)
"""Families with labels of their own."""

PUSH_RESULTS = ("accepted", "rejected", "failed")
LOOPS = ("poll", "pods", "push")


@dataclass
class Counts:
    """What the loops count about themselves. Each field has one writer."""

    pushes: Dict[str, int] = field(default_factory=lambda: dict.fromkeys(PUSH_RESULTS, 0))
    rows_dropped: int = 0
    last_push_wall: Optional[float] = None
    errors: Dict[str, int] = field(default_factory=lambda: dict.fromkeys(LOOPS, 0))
    """Unexpected errors, by loop."""


class PollCollector(Collector):
    """Families of the last poll; a rank's series vanish gone_seconds after its ring."""

    def __init__(self, node: str, latest: Callable[[], Optional[Poll]], counts: Counts, gone_seconds: float) -> None:
        self._node = node
        self._latest = latest
        self._counts = counts
        self._gone_seconds = gone_seconds

    def describe(self) -> Iterable[Family]:
        return ()

    def collect(self) -> Iterator[Family]:
        poll = self._latest()
        if poll is not None:
            yield from self._rank_families(poll)
            yield from _pod_families(poll, self._node)
            yield from _poll_families(poll, self._node)
        yield from _loop_families(self._counts, self._node)

    def _rank_families(self, poll: Poll) -> Iterator[Family]:
        shown = series.shown(poll.ranks, poll.mono_ns, self._gone_seconds)
        values = [
            (rank, series.labels(rank, self._node), series.values(rank, poll.wall_ns - poll.mono_ns)) for rank in shown
        ]
        for metric in _RANK_FAMILIES:
            of_ranks = _family(metric, [(labels, known.get(metric.name)) for _, labels, known in values])
            if of_ranks.samples:
                yield of_ranks
        yield from _labelled_families(shown, self._node)
        yield from _info_families(shown, self._node)


def _labelled_families(shown: Sequence[Rank], node: str) -> Iterator[Family]:
    rows = [(series.labels(rank, node), each) for rank in shown for each in series.labelled(rank)]
    for metric in _LABELLED_FAMILIES:
        found = [((*labels, *each.labels), each.value) for labels, each in rows if each.name == metric.name]
        if found:
            yield _family(metric, found)


def _info_families(shown: Sequence[Rank], node: str) -> Iterator[Family]:
    if shown:
        yield _family(metrics.RANK_PHASE, [((*series.labels(rank, node), rank.phase), 1.0) for rank in shown])
        seen = [((*series.labels(rank, node), rank.tier, rank.timing), 1.0) for rank in shown]
        yield _family(metrics.RANK_TIER, seen)
        yield _family(metrics.RANK_INFO, [(series.info_labels(rank, node), 1.0) for rank in shown])


def _pod_families(poll: Poll, node: str) -> Iterator[Family]:
    """Of the pods whose own collector says what became of their outputs."""
    found = [
        ((each.pod.namespace, each.pod.monitor, each.pod.name, node), each.outputs)
        for each in poll.pods
        if each.outputs is not None
    ]
    if not found:
        return
    troubles = [
        ((*labels, reason), float(reason in said.troubles)) for labels, said in found for reason in contract.TROUBLES
    ]
    yield _family(metrics.POD_OUTPUT_TROUBLE, troubles)
    yield _family(metrics.POD_OUTPUT_ROWS, [(labels, said.rows_written) for labels, said in found])
    yield _family(metrics.POD_OUTPUT_ROWS_DROPPED, [(labels, said.rows_dropped) for labels, said in found])
    yield _family(metrics.POD_OUTPUT_RECORDS_LOST, [(labels, said.records_lost) for labels, said in found])
    yield _family(metrics.POD_OUTPUT_ENTRIES_LOST, [(labels, said.entries_lost) for labels, said in found])


def _poll_families(poll: Poll, node: str) -> Iterator[Family]:
    totals = poll.totals
    yield _of_node(metrics.COLLECTOR_POLLS, node, totals.polls)
    yield _of_node(metrics.COLLECTOR_POLL_SECONDS, node, poll.seconds)
    yield _of_node(metrics.COLLECTOR_ROOT_READABLE, node, float(poll.is_readable))
    yield _of_node(metrics.COLLECTOR_PODS_KNOWN, node, float(poll.has_pods))
    if poll.has_pods:
        yield _of_node(metrics.COLLECTOR_PODS, node, len(poll.pods))
    there = sum(1 for rank in poll.ranks if rank.gone_mono_ns is None and not rank.lower_tier)
    yield _of_node(metrics.COLLECTOR_RINGS, node, there)
    yield _by_label(metrics.COLLECTOR_REFUSED, node, {**dict.fromkeys(ranks.REASONS, 0), **dict(totals.refused)})
    yield _of_node(metrics.COLLECTOR_RECORDS_LOST, node, totals.records_lost)
    yield _of_node(metrics.COLLECTOR_RANK_CONFLICTS, node, totals.conflicts)


def _loop_families(counts: Counts, node: str) -> Iterator[Family]:
    yield _by_label(metrics.COLLECTOR_PUSHES, node, counts.pushes)
    yield _of_node(metrics.COLLECTOR_ROWS_DROPPED, node, counts.rows_dropped)
    if counts.last_push_wall is not None:
        yield _of_node(metrics.COLLECTOR_LAST_PUSH, node, counts.last_push_wall)
    yield _by_label(metrics.COLLECTOR_ERRORS, node, counts.errors)


def _family(metric: Metric, rows: Iterable[Tuple[Tuple[str, ...], Optional[float]]]) -> Family:
    """The rows whose value is known."""
    kind = CounterMetricFamily if metric.kind == metrics.COUNTER else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    for labels, value in rows:
        if value is not None:
            family.add_metric(labels, value)
    return family


def _of_node(metric: Metric, node: str, value: float) -> Family:
    return _family(metric, [((node,), value)])


def _by_label(metric: Metric, node: str, values: Mapping[str, int]) -> Family:
    return _family(metric, [((node, value), count) for value, count in sorted(values.items())])

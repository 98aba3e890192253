"""What one poll gives to Prometheus."""

from dataclasses import dataclass, field
from typing import Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple, Type, Union

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from rankbeat_collector.model import ranks, series
from rankbeat_collector.model.ranks import Poll, Rank
from rankbeat_contract import names

Family = Union[CounterMetricFamily, GaugeMetricFamily]

_RANK_FAMILIES: Tuple[Tuple[str, Type[Family], str], ...] = (
    (names.RANK_STEP, GaugeMetricFamily, "Last finished global step."),
    (names.RANK_STEP_INTERVAL, GaugeMetricFamily, "From the end of one step to the end of the next, last step."),
    (names.RANK_GAP, GaugeMetricFamily, "From the end of one step to the begin of the next, last step."),
    (
        names.RANK_IN_STEP,
        GaugeMetricFamily,
        "From the begin to the end of the last step; mirrors the gap in other ranks.",
    ),
    (names.RANK_LAST_STEP_TIMESTAMP, GaugeMetricFamily, "When the last step finished, by this node's clock."),
    (names.RANK_LOSS, GaugeMetricFamily, "Last sampled loss, where this rank holds a valid one."),
    (
        names.RANK_LOSS_IS_FINITE,
        GaugeMetricFamily,
        "1 if the last sampled loss is a number, 0 if it is NaN or infinite.",
    ),
    (names.RANK_CPU_SECONDS, CounterMetricFamily, "CPU time of the training process."),
    (names.RANK_RESIDENT_MEMORY, GaugeMetricFamily, "Resident memory of the training process."),
    (names.RANK_RECORDS_LOST, CounterMetricFamily, "Records overwritten before they were read."),
    (names.RANK_AGENT_ERRORS, CounterMetricFamily, "Errors that the agent swallowed."),
)

POLLS = "rankbeat_collector_polls_total"
POLL_SECONDS = "rankbeat_collector_last_poll_seconds"
PODS = "rankbeat_collector_pods"
PODS_KNOWN = "rankbeat_collector_pods_known"
RINGS = "rankbeat_collector_rings"
REFUSED = "rankbeat_collector_refused_total"
RECORDS_LOST = "rankbeat_collector_records_lost_total"
RANK_CONFLICTS = "rankbeat_collector_rank_conflicts_total"
ROOT_READABLE = "rankbeat_collector_kubelet_root_readable"
PUSHES = "rankbeat_collector_pushes_total"
ROWS_DROPPED = "rankbeat_collector_report_rows_dropped_total"
LAST_PUSH = "rankbeat_collector_last_push_timestamp_seconds"
ERRORS = "rankbeat_collector_errors_total"

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
            yield from _poll_families(poll, self._node)
        yield from _loop_families(self._counts, self._node)

    def _rank_families(self, poll: Poll) -> Iterator[Family]:
        shown = series.shown(poll.ranks, poll.mono_ns, self._gone_seconds)
        values = [
            (rank, series.labels(rank, self._node), series.values(rank, poll.wall_ns - poll.mono_ns)) for rank in shown
        ]
        for name, family, documentation in _RANK_FAMILIES:
            of_ranks = family(name, documentation, labels=names.RANK_LABELS)
            for _, labels, known in values:
                if name in known:
                    of_ranks.add_metric(labels, known[name])
            if of_ranks.samples:
                yield of_ranks
        yield from _info_families(shown, self._node)


def _info_families(shown: Iterable[Rank], node: str) -> Iterator[Family]:
    phases = GaugeMetricFamily(
        names.RANK_PHASE, "1 for the phase that the rank is in.", labels=(*names.RANK_LABELS, "phase")
    )
    info = GaugeMetricFamily(names.RANK_INFO, "Where a rank runs; always 1.", labels=names.RANK_INFO_LABELS)
    for rank in shown:
        phases.add_metric((*series.labels(rank, node), rank.phase), 1.0)
        info.add_metric(series.info_labels(rank, node), 1.0)
    if info.samples:
        yield phases
        yield info


def _poll_families(poll: Poll, node: str) -> Iterator[Family]:
    totals = poll.totals
    there = sum(1 for rank in poll.ranks if rank.gone_mono_ns is None)
    yield _counter(POLLS, "Polls of this node's rings.", node, totals.polls)
    yield _gauge(POLL_SECONDS, "How long the last poll took.", node, poll.seconds)
    yield _gauge(ROOT_READABLE, "1 if the kubelet's folder of pods can be opened.", node, float(poll.is_readable))
    yield _gauge(PODS_KNOWN, "1 if the API has said which pods are here.", node, float(poll.has_pods))
    if poll.has_pods:
        yield _gauge(PODS, "Injected pods on this node.", node, len(poll.pods))
    yield _gauge(RINGS, "Rings read by the last poll.", node, there)
    refused = {**dict.fromkeys(ranks.REASONS, 0), **dict(totals.refused)}
    yield _by_label(REFUSED, "Files and folders not read, each poll anew.", node, "reason", refused)
    yield _counter(RECORDS_LOST, "Records overwritten before they were read, all ranks.", node, totals.records_lost)
    yield _counter(RANK_CONFLICTS, "Living ranks hidden by a later claim of the same rank.", node, totals.conflicts)


def _loop_families(counts: Counts, node: str) -> Iterator[Family]:
    yield _by_label(PUSHES, "Reports to the aggregator.", node, "result", counts.pushes)
    yield _counter(ROWS_DROPPED, "Steps and scalars that did not fit in a report.", node, counts.rows_dropped)
    if counts.last_push_wall is not None:
        yield _gauge(LAST_PUSH, "When the aggregator last accepted a report.", node, counts.last_push_wall)
    yield _by_label(ERRORS, "Unexpected errors of the collector itself.", node, "loop", counts.errors)


def _gauge(name: str, documentation: str, node: str, value: float) -> Family:
    family = GaugeMetricFamily(name, documentation, labels=("node",))
    family.add_metric((node,), value)
    return family


def _counter(name: str, documentation: str, node: str, value: float) -> Family:
    family = CounterMetricFamily(name, documentation, labels=("node",))
    family.add_metric((node,), value)
    return family


def _by_label(name: str, documentation: str, node: str, label: str, values: Mapping[str, int]) -> Family:
    family = CounterMetricFamily(name, documentation, labels=("node", label))
    rows: List[Tuple[str, int]] = sorted(values.items())
    for value, count in rows:
        family.add_metric((node, value), count)
    return family

"""What the outputs give to Prometheus."""

from typing import Iterable, Iterator, Optional, Protocol, Tuple, Union

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from rankbeat_collector.files.writing import Writing
from rankbeat_contract import metrics
from rankbeat_contract.metrics import Metric

Family = Union[CounterMetricFamily, GaugeMetricFamily]
Row = Tuple[Tuple[str, ...], float]


class Present(Protocol):
    """The outputs that are written now."""

    writing: Optional[Writing]
    is_valid: bool
    records_lost: int
    entries_lost: int


class OutputsCollector(Collector):
    """Families of the present outputs."""

    def __init__(self, labels: Tuple[str, str], present: Present) -> None:
        """labels: namespace and pod."""
        self._labels = labels
        self._present = present

    def describe(self) -> Iterable[Family]:
        return ()

    def collect(self) -> Iterator[Family]:
        writing = self._present.writing
        yield self._family(metrics.OUTPUT_SETTINGS_VALID, [((), float(self._present.is_valid))])
        yield self._family(metrics.OUTPUT_RECORDS_LOST, [((), self._present.records_lost)])
        yield self._family(metrics.OUTPUT_ENTRIES_LOST, [((), self._present.entries_lost)])
        if writing is None:
            return
        counts = writing.counts()
        yield self._family(metrics.OUTPUT_ROWS, [((name,), each.written) for name, each in counts])
        yield self._family(metrics.OUTPUT_ROWS_DROPPED, [((name,), each.dropped) for name, each in counts])
        troubles = [((name, reason), count) for name, each in counts for reason, count in sorted(each.troubles.items())]
        yield self._family(metrics.OUTPUT_ERRORS, troubles)
        yield self._family(metrics.OUTPUT_FAILING, [((name,), len(each.failing)) for name, each in counts])
        yield self._family(metrics.OUTPUT_FILES_DELETED, [((name,), each.deleted) for name, each in counts])
        yield self._family(metrics.OUTPUT_AUDIT_ERRORS, [((), writing.audit_errors)])
        yield self._family(metrics.MONITOR_DISABLED, [(each, 1.0) for each in writing.monitors.disabled.items()])

    def _family(self, metric: Metric, rows: Iterable[Row]) -> Family:
        kind = CounterMetricFamily if metric.kind == metrics.COUNTER else GaugeMetricFamily
        family = kind(metric.name, metric.help, labels=metric.labels)
        for labels, value in rows:
            family.add_metric((*self._labels, *labels), value)
        return family

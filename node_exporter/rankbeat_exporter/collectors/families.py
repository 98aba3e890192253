"""How a collection shows as series, for every collector alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily, Metric

from rankbeat_contract import names
from rankbeat_exporter.model import series

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rankbeat_exporter.model.collection import Collection


def gauge(
    name: str, text: str, labels: Iterable[str], rows: Iterable[tuple[tuple[str, ...], float | None]]
) -> GaugeMetricFamily:
    """A gauge of the rows whose value is known."""
    family = GaugeMetricFamily(name, text, labels=tuple(labels))
    for values, number in rows:
        if number is not None:
            family.add_metric(values, number)
    return family


def collection_families(node: str, collections: tuple[Collection, ...]) -> Iterable[Metric]:
    """Success, failure's reason, duration and last-collect timestamp of each collector."""
    labels = ("node", "collector")
    rows = tuple(((node, one.collector), one) for one in collections)
    yield gauge(
        names.NODE_COLLECTOR_SUCCESS,
        "Whether the collector could measure; its series are absent where it could not.",
        labels,
        ((key, 0.0 if one.reason else 1.0) for key, one in rows),
    )
    yield gauge(
        series.COLLECTOR_FAILURE,
        "1 while the collector cannot measure, with the reason.",
        (*labels, "reason"),
        (((*key, one.reason), 1.0) for key, one in rows if one.reason),
    )
    yield gauge(
        series.COLLECTOR_DURATION,
        "How long the last collection took.",
        labels,
        ((key, one.duration_seconds) for key, one in rows),
    )
    yield gauge(
        series.COLLECTOR_LAST_COLLECT,
        "When the last collection ended, by this node's clock.",
        labels,
        ((key, one.finished_wall) for key, one in rows),
    )

"""How a collection shows as series, for every collector alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rankbeat_contract import metrics

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rankbeat_contract.metrics import Metric
    from rankbeat_exporter.model.collection import Collection


class Family(NamedTuple):
    """A metric and its rows: the values of metric.labels, and the number."""

    metric: Metric
    rows: tuple[tuple[tuple[str, ...], float], ...]


def family(metric: Metric, rows: Iterable[tuple[tuple[str, ...], float | None]]) -> Family:
    """The rows whose value is known."""
    return Family(metric, tuple((values, number) for values, number in rows if number is not None))


def collection_families(node: str, collections: tuple[Collection, ...]) -> Iterable[Family]:
    """Success, failure's reason, duration and last-collect timestamp of each collector."""
    rows = tuple(((node, one.collector), one) for one in collections)
    yield family(metrics.EXPORTER_SUCCESS, ((key, 0.0 if one.reason else 1.0) for key, one in rows))
    yield family(metrics.EXPORTER_FAILURE, (((*key, one.reason), 1.0) for key, one in rows if one.reason))
    yield family(metrics.EXPORTER_DURATION, ((key, one.duration_seconds) for key, one in rows))
    yield family(metrics.EXPORTER_LAST_COLLECT, ((key, one.finished_wall) for key, one in rows))

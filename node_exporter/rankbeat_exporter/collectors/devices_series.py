"""The accelerators' series: one schema for every vendor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.registry import Collector

from rankbeat_contract import metrics
from rankbeat_exporter.collectors.families import collection_families, family
from rankbeat_exporter.model.accelerator import VENDOR_HUAWEI, Accelerator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rankbeat_exporter.collectors.devices import DevicesView
    from rankbeat_exporter.collectors.families import Family


class DevicesSeries(Collector):
    """Families of a view, for a registry of prometheus_client."""

    def __init__(self, node: str, view: Callable[[], DevicesView]) -> None:
        self._node = node
        self._view = view

    def collect(self) -> Iterable[Family]:
        view = self._view()
        vendor = (self._node, VENDOR_HUAWEI)
        if view.accelerators is not None:
            yield family(metrics.ACCELERATORS, [(vendor, float(len(view.accelerators)))])
            yield from _accelerator_families(tuple((self._labels(one), one) for one in view.accelerators))
        failures = (((*vendor, *failure), float(number)) for failure, number in view.failures)
        yield family(metrics.ACCELERATOR_CALL_FAILURES, failures)
        if view.restarts is not None:
            yield family(metrics.ACCELERATOR_DRIVER_RESTARTS, [(vendor, float(view.restarts))])
        yield from collection_families(self._node, view.collections)

    def _labels(self, one: Accelerator) -> tuple[str, ...]:
        """Those of every metric of an accelerator; namespace, pod and container are empty: nothing is joined."""
        return (self._node, VENDOR_HUAWEI, one.device, one.uuid, one.model, "", "", "")


def _accelerator_families(rows: tuple[tuple[tuple[str, ...], Accelerator], ...]) -> Iterable[Family]:
    yield family(
        metrics.ACCELERATOR_INFO,
        [((*key, one.pci_address, str(one.card), str(one.chip)), 1.0) for key, one in rows],
    )
    for figure, metric in metrics.ACCELERATOR_FIGURES.items():
        yield family(metric, [(key, one.figures.get(figure)) for key, one in rows])
    yield family(
        metrics.ACCELERATOR_ERRORS,
        [(key, None if one.error_codes is None else float(len(one.error_codes))) for key, one in rows],
    )
    yield family(
        metrics.ACCELERATOR_ERROR,
        [((*key, f"{code:08X}"), 1.0) for key, one in rows for code in one.error_codes or ()],
    )

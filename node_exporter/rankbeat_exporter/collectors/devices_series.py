"""The accelerators' series: one schema for every vendor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from rankbeat_contract import names
from rankbeat_exporter.collectors.families import collection_families, gauge
from rankbeat_exporter.model import series
from rankbeat_exporter.model.accelerator import VENDOR_HUAWEI, Accelerator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rankbeat_exporter.collectors.devices import DevicesView


class DevicesSeries(Collector):
    """Families of a view, for a registry of prometheus_client."""

    def __init__(self, node: str, view: Callable[[], DevicesView]) -> None:
        self._node = node
        self._view = view

    def collect(self) -> Iterable[Metric]:
        view = self._view()
        vendor = (self._node, VENDOR_HUAWEI)
        if view.accelerators is not None:
            count = float(len(view.accelerators))
            yield gauge(
                series.ACCELERATORS,
                "Accelerators that the vendor's library lists.",
                ("node", "vendor"),
                [(vendor, count)],
            )
            yield from self._accelerator_families(tuple((self._labels(one), one) for one in view.accelerators))
        calls = CounterMetricFamily(
            series.ACCELERATOR_CALL_FAILURES,
            "Calls of the vendor's library without a usable answer, with the library's code or ours.",
            labels=("node", "vendor", "call", "code"),
        )
        for failure, number in view.failures:
            calls.add_metric((*vendor, *failure), number)
        yield calls
        if view.restarts is not None:
            restarts = CounterMetricFamily(
                series.ACCELERATOR_DRIVER_RESTARTS,
                "Times the process that calls the vendor's library was replaced, because it hung or died.",
                labels=("node", "vendor"),
            )
            restarts.add_metric(vendor, view.restarts)
            yield restarts
        yield from collection_families(self._node, view.collections)

    def _labels(self, one: Accelerator) -> tuple[str, ...]:
        """In the order of names.NODE_ACCELERATOR_LABELS; namespace, pod and container are empty: nothing is joined."""
        return (self._node, VENDOR_HUAWEI, one.device, one.uuid, one.model, "", "", "")

    def _accelerator_families(self, rows: tuple[tuple[tuple[str, ...], Accelerator], ...]) -> Iterable[Metric]:
        labels = names.NODE_ACCELERATOR_LABELS
        yield gauge(
            series.ACCELERATOR_INFO,
            "1 for each accelerator, with its places: PCI address, the vendor's card and chip numbers.",
            (*labels, "pci_address", "card", "chip"),
            [((*key, one.pci_address, str(one.card), str(one.chip)), 1.0) for key, one in rows],
        )
        for figure in series.ACCELERATOR_FIGURES:
            name = names.NODE_ACCELERATOR_PREFIX + figure.name
            yield gauge(name, figure.text, labels, [(key, one.figures.get(figure.name)) for key, one in rows])
        yield gauge(
            series.ACCELERATOR_ERRORS,
            "Number of error codes that the device reports; 0 is none, absent is unknown.",
            labels,
            [(key, None if one.error_codes is None else float(len(one.error_codes))) for key, one in rows],
        )
        yield gauge(
            series.ACCELERATOR_ERROR,
            "1 for each error code that the device reports, in hex as the vendor's fault tables print it.",
            (*labels, "code"),
            [((*key, f"{code:08X}"), 1.0) for key, one in rows for code in one.error_codes or ()],
        )

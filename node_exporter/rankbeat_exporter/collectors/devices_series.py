"""The accelerators' series: one schema for every vendor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankbeat_contract import metrics
from rankbeat_exporter.collectors.families import collection_families, family
from rankbeat_exporter.model.assignment import Holder
from rankbeat_exporter.model.pods import PodsView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rankbeat_exporter.collectors.devices import DevicesView, VendorView
    from rankbeat_exporter.collectors.families import Family
    from rankbeat_exporter.model.accelerator import Accelerator, Event

    Holders = dict[tuple[str, str], Holder]

NO_PODS = PodsView()
NOBODY = Holder("", "", "")


class DevicesSeries:
    """Families of a view."""

    def __init__(
        self, node: str, view: Callable[[], DevicesView], pods: Callable[[], PodsView] = lambda: NO_PODS
    ) -> None:
        self._node = node
        self._view = view
        self._pods = pods

    def collect(self) -> Iterable[Family]:
        view, pods = self._view(), self._pods()
        holders = pods.assignment.holders()
        vendors = tuple(((self._node, one.vendor), one) for one in view.vendors)
        known = tuple((key, one.accelerators) for key, one in vendors if one.accelerators is not None)
        if known:
            yield family(metrics.ACCELERATORS, ((key, _devices(accelerators)) for key, accelerators in known))
            yield from _accelerator_families(
                tuple((self._labels(key[1], one, holders), one) for key, accelerators in known for one in accelerators)
            )
        yield from _event_families(
            tuple((self._labels(key[1], one, holders), one) for key, v in vendors for one in v.events)
        )
        failures = (((*key, *failure), float(number)) for key, one in vendors for failure, number in one.failures)
        yield family(metrics.ACCELERATOR_CALL_FAILURES, failures)
        if vendors:
            yield family(metrics.ACCELERATOR_DRIVER_RESTARTS, ((key, float(one.restarts)) for key, one in vendors))
            yield family(metrics.ACCELERATOR_DRIVER_UNKILLABLE, ((key, float(one.unkillable)) for key, one in vendors))
        yield family(metrics.ACCELERATOR_SOURCE, (((*key, one.source), 1.0) for key, one in vendors if one.source))
        yield from _card_families(vendors)
        yield from _pods_families(self._node, pods)
        yield from collection_families(self._node, (*view.collections, *pods.collections))

    def _labels(self, vendor: str, one: Accelerator | Event, holders: Holders) -> tuple[str, ...]:
        """Those of every metric of an accelerator; namespace, pod and container are empty while no one pod holds it."""
        return (self._node, vendor, one.device, one.uuid, one.model, *holders.get((vendor, one.device), NOBODY))


def _card_families(vendors: tuple[tuple[tuple[str, str], VendorView], ...]) -> Iterable[Family]:
    """Power that chips share, once a card: the sum over devices and cards is the node's."""
    powers = {
        (*key, str(chip.card)): chip.card_power_watts
        for key, one in vendors
        for chip in one.accelerators or ()
        if chip.card_power_watts is not None
    }
    if powers:
        yield family(metrics.ACCELERATOR_CARD_POWER, powers.items())


def _devices(accelerators: tuple[Accelerator, ...]) -> float:
    """A MIG instance is a part of a device, not one more."""
    return float(sum(not one.instance_of for one in accelerators))


def _accelerator_families(rows: tuple[tuple[tuple[str, ...], Accelerator], ...]) -> Iterable[Family]:
    yield family(
        metrics.ACCELERATOR_INFO,
        [((*key, one.pci_address, str(one.card), str(one.chip)), 1.0) for key, one in rows],
    )
    for figure, metric in metrics.ACCELERATOR_FIGURES.items():
        known = [(key, one.figures[figure]) for key, one in rows if figure in one.figures]
        if known:
            yield family(metric, known)
    for figure, metric in metrics.ACCELERATOR_PARTS.items():
        parts = [((*key, part), number) for key, one in rows for part, number in one.parts.get(figure, {}).items()]
        if parts:
            yield family(metric, parts)
    for figure, metric in metrics.ACCELERATOR_ROWS.items():
        numbers = [((*key, *more), number) for key, one in rows for more, number in one.rows.get(figure, {}).items()]
        if numbers:
            yield family(metric, numbers)
    yield family(
        metrics.ACCELERATOR_ERRORS,
        [(key, None if one.error_codes is None else float(len(one.error_codes))) for key, one in rows],
    )
    yield family(
        metrics.ACCELERATOR_ERROR,
        [((*key, f"{code:08X}"), 1.0) for key, one in rows for code in one.error_codes or ()],
    )


def _event_families(rows: tuple[tuple[tuple[str, ...], Event], ...]) -> Iterable[Family]:
    """XIDs outlive the device that had them: one that fell off the bus is listed no more."""
    if rows:
        yield family(metrics.ACCELERATOR_XID_ERRORS, (((*key, str(one.code)), float(one.count)) for key, one in rows))
        yield family(
            metrics.ACCELERATOR_XID_TIMESTAMP, (((*key, str(one.code)), one.last_seconds) for key, one in rows)
        )


def _pods_families(node: str, pods: PodsView) -> Iterable[Family]:
    """Who holds what by which source, and the conflicts; nothing where no pods are asked for."""
    if not pods.collections:
        return
    yield family(
        metrics.ACCELERATOR_HOLDER,
        [
            ((node, one.vendor, one.device, *one.holder, str(one.local_rank), one.source), 1.0)
            for one in pods.assignment.held
        ],
    )
    yield family(metrics.ACCELERATOR_HOLDER_CONFLICTS, [((node, *key), float(count)) for key, count in pods.conflicts])

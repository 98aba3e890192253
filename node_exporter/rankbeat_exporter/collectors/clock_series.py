"""The clock's series."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankbeat_contract import metrics
from rankbeat_exporter.collectors.families import collection_families, family

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rankbeat_exporter.collectors.clock import ClockView
    from rankbeat_exporter.collectors.families import Family
    from rankbeat_exporter.model.clock import ChronyClock, KernelClock, ServerVerdict


class ClockSeries:
    """Families of a view."""

    def __init__(self, node: str, view: Callable[[], ClockView]) -> None:
        self._node = node
        self._view = view

    def collect(self) -> Iterable[Family]:
        view = self._view()
        verdict = view.verdict
        key = (self._node,)
        yield family(metrics.CLOCK_TRUSTED, [((self._node, verdict.reason), float(verdict.is_trusted))])
        yield family(metrics.CLOCK_OFFSET, [(key, verdict.offset_seconds)])
        yield family(metrics.CLOCK_ERROR_BOUND, [(key, verdict.error_bound_seconds)])
        yield family(metrics.CLOCK_SERVERS, [(key, float(view.servers))])
        yield from _kernel_families(self._node, view.kernel)
        yield from _chrony_families(self._node, view.chrony)
        yield from _server_families(self._node, verdict.servers)
        yield from collection_families(self._node, view.collections)


def _kernel_families(node: str, kernel: KernelClock | None) -> Iterable[Family]:
    if kernel is None:
        return
    for metric, number in (
        (metrics.CLOCK_KERNEL_SYNCHRONISED, float(kernel.is_synchronised)),
        (metrics.CLOCK_KERNEL_MAX_ERROR, kernel.max_error_seconds),
        (metrics.CLOCK_KERNEL_ESTIMATED_ERROR, kernel.estimated_error_seconds),
        (metrics.CLOCK_KERNEL_OFFSET, kernel.offset_seconds),
    ):
        yield family(metric, [((node,), number)])


def _chrony_families(node: str, chrony: ChronyClock | None) -> Iterable[Family]:
    if chrony is None:
        return
    key = (node,)
    yield family(metrics.CLOCK_CHRONY_SYNCHRONISED, [((node, chrony.reason or "Valid"), float(not chrony.reason))])
    if chrony.reason:
        return
    yield family(metrics.CLOCK_CHRONY_OFFSET, [(key, chrony.offset_seconds)])
    yield family(metrics.CLOCK_CHRONY_ERROR_BOUND, [(key, chrony.error_bound_seconds)])
    yield family(metrics.CLOCK_CHRONY_STRATUM, [(key, float(chrony.stratum))])


def _server_families(node: str, servers: tuple[ServerVerdict, ...]) -> Iterable[Family]:
    if not servers:
        return
    yield family(metrics.CLOCK_SERVER_VALID, [((node, one.server, one.reason), float(one.is_valid)) for one in servers])
    heard = [((node, one.server), one.sample) for one in servers if one.sample is not None]
    yield family(metrics.CLOCK_SERVER_OFFSET, [(key, one.offset_seconds) for key, one in heard])
    yield family(metrics.CLOCK_SERVER_DELAY, [(key, one.delay_seconds) for key, one in heard])
    yield family(metrics.CLOCK_SERVER_STRATUM, [(key, float(one.stratum)) for key, one in heard])

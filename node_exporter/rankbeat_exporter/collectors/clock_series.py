"""The clock's series."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.registry import Collector

from rankbeat_contract import names
from rankbeat_exporter.collectors.families import collection_families, gauge
from rankbeat_exporter.model import series

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client.core import Metric

    from rankbeat_exporter.collectors.clock import ClockView
    from rankbeat_exporter.model.clock import KernelClock, ServerVerdict


class ClockSeries(Collector):
    """Families of a view, for a registry of prometheus_client."""

    def __init__(self, node: str, view: Callable[[], ClockView]) -> None:
        self._node = node
        self._view = view

    def collect(self) -> Iterable[Metric]:
        view = self._view()
        verdict = view.verdict
        key = (self._node,)
        yield gauge(
            names.NODE_CLOCK_TRUSTED,
            "Whether this node's clock is trusted, with the reason.",
            ("node", "reason"),
            [((self._node, verdict.reason), float(verdict.is_trusted))],
        )
        yield gauge(
            names.NODE_CLOCK_OFFSET,
            "The reference's clock minus this node's.",
            ("node",),
            [(key, verdict.offset_seconds)],
        )
        yield gauge(
            names.NODE_CLOCK_ERROR_BOUND,
            "Largest error of the offset that the evidence admits.",
            ("node",),
            [(key, verdict.error_bound_seconds)],
        )
        yield from _kernel_families(self._node, view.kernel)
        yield from _server_families(self._node, verdict.servers)
        yield from collection_families(self._node, view.collections)


def _kernel_families(node: str, kernel: KernelClock | None) -> Iterable[Metric]:
    if kernel is None:
        return
    for name, text, number in (
        (
            series.KERNEL_SYNCHRONISED,
            "Whether the kernel holds its clock for synchronised (adjtimex).",
            float(kernel.is_synchronised),
        ),
        (series.KERNEL_MAX_ERROR, "The kernel's maximum error.", kernel.max_error_seconds),
        (series.KERNEL_ESTIMATED_ERROR, "The kernel's estimated error.", kernel.estimated_error_seconds),
        (series.KERNEL_OFFSET, "What the kernel still has to slew.", kernel.offset_seconds),
    ):
        yield gauge(name, text, ("node",), [((node,), number)])


def _server_families(node: str, servers: tuple[ServerVerdict, ...]) -> Iterable[Metric]:
    if not servers:
        return
    labels = ("node", "server")
    yield gauge(
        series.SERVER_VALID,
        "Whether the server's time takes part in the quorum, with the reason.",
        (*labels, "reason"),
        [((node, one.server, one.reason), float(one.is_valid)) for one in servers],
    )
    heard = [((node, one.server), one.sample) for one in servers if one.sample is not None]
    yield gauge(
        series.SERVER_OFFSET,
        "The server's clock minus this node's.",
        labels,
        [(key, one.offset_seconds) for key, one in heard],
    )
    yield gauge(
        series.SERVER_DELAY, "Round trip to the server.", labels, [(key, one.delay_seconds) for key, one in heard]
    )
    yield gauge(
        series.SERVER_STRATUM, "The server's stratum.", labels, [(key, float(one.stratum)) for key, one in heard]
    )

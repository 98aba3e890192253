"""The parts of an exporter: a loop that collects, what it shows, what else it serves, and how it ends."""
# ruff: noqa: PLC0415 - a program loads only what it runs

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rankbeat_exporter.collectors.loop import Loop
from rankbeat_exporter.errors import InvalidConfiguration
from rankbeat_exporter.model.pods import PodsView
from rankbeat_exporter.server.exposition import Source
from rankbeat_serving import server as http

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rankbeat_exporter.collectors.devices import DevicesView
    from rankbeat_exporter.collectors.families import Family
    from rankbeat_exporter.model.accelerator import Snapshot
    from rankbeat_exporter.model.assignment import Known
    from rankbeat_exporter.model.configuration import ClockSection, DevicesSection
    from rankbeat_serving.server import Page

CLOCK = "clock"
DEVICES = "devices"
FRESH_ROUNDS = 3
SLACK_SECONDS = 2.0
"""Over the deadline of a collection: killing a child, and the way through the vendor part's socket."""


class Part(NamedTuple):
    """pages: for neighbours on the loopback. close ends what outlives the loop, after the loop's last collection.

    is_stuck: some of it cannot be ended now.
    """

    loop: Loop
    source: Source
    pages: Mapping[str, Page]
    close: Callable[[], None]
    is_stuck: Callable[[], bool] = lambda: False


def clock_part(node: str, section: ClockSection) -> Part:
    """Rounds over NTP servers, the kernel and chronyd.

    Raises: InvalidConfiguration.
    """
    from rankbeat_exporter.collectors.clock import ClockCollector, LocalSources
    from rankbeat_exporter.collectors.clock_series import ClockSeries
    from rankbeat_exporter.model.clock import ClockLimits, clock_object
    from rankbeat_exporter.sources import adjtimex, chrony, sntp

    interval = section.round_interval_seconds
    pace = sntp.pace(interval)
    fresh = FRESH_ROUNDS * interval + pace.total_seconds
    try:
        servers = tuple(sntp.SntpServer(server, pace) for server in dict.fromkeys(section.servers))
        chronyd = chrony.Chronyd(section.chrony) if section.chrony else None
    except ValueError as error:
        raise InvalidConfiguration("clock.servers or clock.chrony", str(error)) from error
    local = LocalSources(adjtimex.timex, chronyd.tracking if chronyd else None)
    limits = ClockLimits(section.offset_limit_seconds, section.error_limit_seconds, fresh)
    collector = ClockCollector(servers, limits, local)
    return Part(
        Loop(CLOCK, collector.collect, interval, fresh),
        Source(CLOCK, collector.view, lambda view: ClockSeries(node, lambda: view).collect()),
        {"/v1/clock": http.json_page(lambda: clock_object(collector.view().verdict))},
        lambda: None,
    )


def devices_part(node: str, section: DevicesSection) -> Part:
    """Accelerators, by the vendor part's socket or by children of this process."""
    from rankbeat_exporter.collectors.devices import DevicesCollector
    from rankbeat_exporter.collectors.devices_series import DevicesSeries

    interval = section.interval_seconds
    timeout = section.deadline_seconds + SLACK_SECONDS
    vendors = _vendors(section, timeout)
    fresh = FRESH_ROUNDS * interval + timeout
    collector = DevicesCollector(vendors.snapshots, fresh)
    pods = pods_join(node, section, collector.known, fresh) if section.pod_resources else NO_JOIN

    def families(views: tuple[DevicesView, PodsView]) -> Iterable[Family]:
        yield from DevicesSeries(node, lambda: views[0], lambda: views[1]).collect()
        if section.npu_exporter_names:
            from rankbeat_exporter.collectors.npu_exporter_series import npu_exporter_families

            yield from npu_exporter_families(*views)

    shown = Source(DEVICES, lambda: (collector.view(), pods.view()), families, fresh)

    def collect() -> None:
        collector.collect()
        try:
            pods.collect()
        finally:
            shown.refresh()

    def end() -> None:
        pods.close()
        vendors.close()

    return Part(Loop(DEVICES, collect, interval, fresh), shown, {}, end, vendors.is_stuck)


class _Vendors(NamedTuple):
    """What gives the vendors' answers, what ends it, and whether it can be ended now."""

    snapshots: Callable[[], tuple[Snapshot, ...]]
    close: Callable[[], None]
    is_stuck: Callable[[], bool]


def _vendors(section: DevicesSection, timeout_seconds: float) -> _Vendors:
    if section.socket:
        from rankbeat_exporter.parsing.vendor import Reader
        from rankbeat_exporter.sources import vendor_socket

        snapshots = partial(vendor_socket.snapshots, Path(section.socket), timeout_seconds, Reader())
        return _Vendors(snapshots, lambda: None, lambda: False)
    from rankbeat_exporter.sources import vendor_supervisor
    from rankbeat_exporter.sources.driver_roots import DriverRoots

    nvidia = Path(section.nvidia_driver_root) if section.nvidia_driver_root else None
    roots = DriverRoots(Path(section.npu_driver_root), nvidia)
    children = vendor_supervisor.VendorChildren(roots, section.vendors, section.deadline_seconds)
    return _Vendors(children.snapshots, children.close, children.is_stuck)


class PodsJoin(NamedTuple):
    """Which pod holds which device: collected after the devices, in the same round."""

    collect: Callable[[], None]
    view: Callable[[], PodsView]
    close: Callable[[], None]


NO_JOIN = PodsJoin(lambda: None, PodsView, lambda: None)


def pods_join(node: str, section: DevicesSection, known: Callable[[], tuple[Known, ...]], fresh: float) -> PodsJoin:
    """Asks the kubelet, and the API server in a thread of its own.

    Raises: InvalidConfiguration outside a cluster.
    """
    from rankbeat_exporter.collectors.pods import PodsCollector, Sources
    from rankbeat_exporter.sources import api_pods, api_server, api_slices, pod_resources

    server = api_server.in_cluster()
    if server is None:
        raise InvalidConfiguration("devices.pod_resources", "needs the API server: outside a cluster leave it out")
    kubelet = pod_resources.Kubelet(Path(section.pod_resources))
    watcher = api_pods.NodePods(server, node)
    slices = api_slices.ResourceSlices(server, node)
    sources = Sources(known, kubelet.allotments, watcher.pods, slices.published, npu_resources=section.npu_resources)
    if section.rank_tables:
        sources = sources._replace(rank_tables=api_pods.RankTables(server).of)
    collector = PodsCollector(sources, fresh)
    watcher.start()

    def close() -> None:
        watcher.stop()
        kubelet.close()

    return PodsJoin(collector.collect, collector.view, close)

"""The whole text of both scrapes. To accept a change: UPDATE_GOLDEN=1 pytest tests/exporter/test_scrape.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rankbeat_exporter.collectors.clock import ClockCollector, LocalSources
from rankbeat_exporter.collectors.clock_series import ClockSeries
from rankbeat_exporter.collectors.devices import DevicesCollector
from rankbeat_exporter.collectors.devices_series import DevicesSeries
from rankbeat_exporter.errors import CannotMeasure, InvalidPacket
from rankbeat_exporter.model.accelerator import Snapshot
from rankbeat_exporter.model.clock import ClockLimits, Sample
from rankbeat_exporter.parsing.chrony import Tracking
from rankbeat_exporter.parsing.kernel import Timex
from rankbeat_exporter.server.exposition import Exposition, Source
from rankbeat_exporter.sources import dcmi, dcmi_places

GOLDEN = Path(__file__).parent / "golden"
A_TRACKING = Tracking(0xC0000201, 3, 0, 1796018200.0, 0.00015, 0.002, 0.0005)


class Clock:
    """Time as the test says: (wall, monotonic)."""

    def __init__(self):
        self.seconds = 0.0
        self.stepped = 0.0

    def __call__(self):
        return 1796018231.25 + self.seconds + self.stepped, 100.0 + self.seconds


class Scripted:
    """A server that gives a sample or a fault."""

    def __init__(self, server, outcome):
        self.server = server
        self.outcome = outcome

    def best_sample(self):
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def a_clock(now=None):
    servers = (
        Scripted("ntp1.example", Sample(0.0001, 0.0004, 0.001, 2, "192.0.2.1 123")),
        Scripted("ntp2.example", Sample(0.0002, 0.0005, 0.002, 3, "192.0.2.2 123")),
        Scripted("ntp3.example:1123", Sample(-0.2, 0.0004, 0.001, 2, "192.0.2.3 1123")),
        Scripted("ntp4.example", InvalidPacket("Unsynchronised")),
        Scripted("ntp5.example", Sample(0.0002, 0.0005, 0.003, 3, "192.0.2.5 123")),
    )
    local = LocalSources(lambda: Timex(0, 0x2000, 1500, 9000, 20), lambda: A_TRACKING)
    return ClockCollector(servers, ClockLimits(), local, now or Clock())


def scrape(series):
    exposition = Exposition()
    exposition.put(Source("tested", object, lambda _: series.collect()))
    status, content_type, body = exposition.page()
    assert status == 200
    assert content_type.startswith("text/plain")
    return body.decode()


def matches_golden(text, name):
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    return text == path.read_text()


def samples(text):
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_the_clocks_scrape():
    collector = a_clock()
    collector.collect()

    assert matches_golden(scrape(ClockSeries("n1", collector.view)), "clock.txt")


def test_the_devices_scrape(driver_root, script, monkeypatch):
    """Chip 1 is throttled and has two error codes; its temperature cannot be read, its power call is not supported."""
    monkeypatch.setenv("DCMI_DOUBLE_SCRIPT", str(script.path))
    script(
        "utilization 93\n1/0 frequency 800\n1/0 errors 0x80E01801 0x80DE1801\n1/0 health 2\n"
        "1/0 temperature 0x7fff\n1/0 return dcmi_get_device_power_info -8255\n"
    )
    chips = dcmi.Dcmi(dcmi_places.library_paths(driver_root)).chips()
    collector = DevicesCollector(lambda: (Snapshot("", chips=chips, restarts=1),), 21.0, Clock())
    collector.collect()

    assert matches_golden(scrape(DevicesSeries("n1", collector.view)), "devices.txt")


def test_before_the_first_round_the_clock_is_not_trusted_and_nothing_else_is_claimed():
    assert samples(scrape(ClockSeries("n1", a_clock().view))) == [
        'rankbeat_node_clock_trusted{node="n1",reason="Starting"} 0.0',
        'rankbeat_node_clock_servers{node="n1"} 5.0',
    ]


def test_rounds_that_stop_end_trust_and_figures():
    now = Clock()
    collector = a_clock(now)
    collector.collect()
    now.seconds = 108.5

    text = scrape(ClockSeries("n1", collector.view))

    assert 'rankbeat_node_clock_trusted{node="n1",reason="Stale"} 0.0' in text
    assert "rankbeat_node_clock_offset_seconds{" not in text
    assert "rankbeat_node_clock_kernel_synchronised{" not in text


@pytest.mark.parametrize(
    ("step", "reason", "offset"),
    [(0.0005, "Quorum", 0.0001), (0.3, "OffsetTooLarge", -0.2999), (-9.0, "OffsetTooLarge", 9.0001)],
)
def test_a_clock_set_between_rounds_is_off_at_once(step, reason, offset):
    now = Clock()
    collector = a_clock(now)
    collector.collect()

    now.stepped = step

    view = collector.view()
    assert (view.verdict.reason, view.verdict.offset_seconds) == (reason, pytest.approx(offset, abs=1e-6))
    assert (view.kernel is None) == (reason != "Quorum")


def test_a_server_that_fell_silent_before_a_step_is_not_quoted_as_if_it_had_seen_it():
    now = Clock()
    server = Scripted("ntp1.example", Sample(0.0001, 0.0004, 0.001, 2, "192.0.2.1 123"))
    collector = ClockCollector((server,), ClockLimits(), LocalSources(lambda: Timex(5, 0x40, 0, 0, 0)), now)
    collector.collect()

    now.stepped = 0.3
    server.outcome = CannotMeasure("Timeout")
    collector.collect()

    assert collector.view().verdict.reason == "OffsetTooLarge"


def a_devices_scrape(*outcomes, later=0.0):
    """The scrape after one collection for each outcome, a snapshot or a fault."""
    now = Clock()
    rest = iter(outcomes)

    def snapshots():
        outcome = next(rest)
        if isinstance(outcome, Exception):
            raise outcome
        return (outcome,)

    collector = DevicesCollector(snapshots, 21.0, now)
    for _ in outcomes:
        collector.collect()
    now.seconds += later
    return scrape(DevicesSeries("n1", collector.view))


def test_a_library_that_lists_no_chip_counts_zero():
    assert samples(a_devices_scrape(Snapshot(""))) == [
        'rankbeat_node_accelerators{node="n1",vendor="huawei"} 0.0',
        'rankbeat_node_accelerator_driver_restarts_total{node="n1",vendor="huawei"} 0.0',
        'rankbeat_node_accelerator_driver_unkillable{node="n1",vendor="huawei"} 0.0',
        'rankbeat_node_accelerator_source{node="n1",source="library",vendor="huawei"} 1.0',
        'rankbeat_node_collector_success{collector="accelerators",node="n1"} 1.0',
        'rankbeat_node_collector_duration_seconds{collector="accelerators",node="n1"} 0.0',
        'rankbeat_node_collector_last_collect_timestamp_seconds{collector="accelerators",node="n1"} 1.79601823125e+09',
    ]


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (Snapshot("LibraryNotFound"), "LibraryNotFound"),
        (Snapshot("DriverHung"), "DriverHung"),
        (CannotMeasure("SocketUnavailable"), "SocketUnavailable"),
    ],
)
def test_what_cannot_be_measured_is_absent_with_a_reason_not_zero(outcome, reason):
    text = a_devices_scrape(Snapshot(""), outcome)

    assert "rankbeat_node_accelerators{" not in text
    assert 'rankbeat_node_collector_success{collector="accelerators",node="n1"} 0.0' in text
    assert f'rankbeat_node_collector_failure{{collector="accelerators",node="n1",reason="{reason}"}} 1.0' in text


def test_a_reading_that_is_too_old_is_absent():
    text = a_devices_scrape(Snapshot(""), later=21.5)

    assert "rankbeat_node_accelerators{" not in text
    assert 'reason="Stale"} 1.0' in text


def test_a_collection_that_hangs_leaves_the_figures_for_its_time_and_then_only_that_they_are_stale():
    now = Clock()
    collector = DevicesCollector(lambda: (Snapshot(""),), 21.0, now)
    series = DevicesSeries("n1", collector.view)
    source = Source("devices", collector.view, lambda _: series.collect(), 21.0, lambda: now()[1])
    exposition = Exposition()
    exposition.put(source)
    collector.collect()
    source.refresh()

    now.seconds = 21.0
    before = exposition.page()[2].decode()
    now.seconds = 21.01
    after = exposition.page()[2].decode()

    assert 'rankbeat_node_accelerators{node="n1",vendor="huawei"} 0.0' in before
    assert "rankbeat_node_accelerators{" not in after
    assert 'reason="Stale"} 1.0' in after

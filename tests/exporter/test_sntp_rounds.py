"""Rounds over several servers: agreement, freshness, and quiet for those that ask for it."""

from __future__ import annotations

import time

import pytest

from rankbeat_exporter.collectors.clock import ClockCollector, LocalSources
from rankbeat_exporter.errors import CannotMeasure, InvalidPacket
from rankbeat_exporter.model.clock import ClockLimits
from rankbeat_exporter.parsing.kernel import Timex
from rankbeat_exporter.sources import sntp
from rankbeat_exporter.sources.resolver import Resolver
from sntp_support import PATIENT, SHORT, addresses


def a_collector(*servers, pace=PATIENT, now=None):
    return ClockCollector(
        tuple(sntp.SntpServer(server, pace) for server in servers),
        ClockLimits(),
        LocalSources(lambda: Timex(5, 0x40, 0, 16000000, 16000000)),
        now or (lambda: (time.time(), time.monotonic())),
    )


def reasons(collector):
    return [one.reason for one in collector.view().verdict.servers]


def test_two_good_servers_outvote_one_that_is_200_milliseconds_off_and_name_it(liar, a_packet):
    wrong = liar(lambda question, now: [a_packet(question, now=now + 0.2)])
    collector = a_collector(liar().address, wrong.address, liar().address)

    collector.collect()

    assert collector.view().verdict.reason == "Quorum"
    assert reasons(collector) == ["Valid", "Disagrees", "Valid"]


def test_a_majority_that_is_200_milliseconds_away_means_that_we_are_off(liar, a_packet):
    ahead = [liar(lambda question, now: [a_packet(question, now=now + 0.2)]) for _ in range(2)]
    collector = a_collector(*(server.address for server in ahead), liar().address)

    collector.collect()

    verdict = collector.view().verdict
    assert (verdict.is_trusted, verdict.reason) == (False, "OffsetTooLarge")
    assert verdict.offset_seconds == pytest.approx(0.2, abs=0.05)


def test_silence_leaves_the_last_sample_while_it_is_fresh(liar, a_packet):
    is_up = [True]
    server = liar(lambda question, now: [a_packet(question, now=now)] if is_up[0] else [])
    later = [0.0]
    now = lambda: (1e9 + later[0], 100 + later[0])  # noqa: E731
    collector = a_collector(server.address, pace=SHORT, now=now)
    collector.collect()
    is_up[0] = False

    found = []
    for later[0] in (107.0, 109.0):
        collector.collect()
        found.append((collector.view().verdict.reason, reasons(collector)))

    assert found == [("Quorum", ["Valid"]), ("Unreachable", ["Timeout"])]


def test_an_answer_that_must_not_be_believed_ends_trust_at_once(liar, a_packet):
    stratum = [2]
    server = liar(lambda question, now: [a_packet(question, now=now, stratum=stratum[0])])
    collector = a_collector(server.address)
    collector.collect()

    stratum[0] = 16
    collector.collect()

    assert collector.view().verdict.reason == "NoQuorum"
    assert reasons(collector) == ["Unsynchronised"]


DENY, RATE, RSTR, INIT = (int.from_bytes(code, "big") for code in (b"DENY", b"RATE", b"RSTR", b"INIT"))


@pytest.mark.parametrize(("code", "reason"), [(DENY, "KissDENY"), (RATE, "KissRATE"), (RSTR, "KissRSTR")])
def test_a_server_that_asks_for_quiet_is_left_alone_for_rounds_and_says_why(liar, code, reason):
    server = liar(stratum=0, ref_id=code)
    collector = a_collector(server.address)

    for _ in range(3):
        collector.collect()

    assert server.questions == 1
    assert reasons(collector) == [reason]


def test_a_server_that_is_only_starting_is_asked_again(liar):
    server = liar(stratum=0, ref_id=INIT, leap=3)
    collector = a_collector(server.address)

    for _ in range(3):
        collector.collect()

    assert server.questions == 3
    assert reasons(collector) == ["KissINIT"]


def test_a_kiss_quiets_one_address_not_its_neighbours(liar):
    denying, good = liar(stratum=0, ref_id=DENY), liar()
    pool = (*addresses(denying, "127.0.0.1"), *addresses(good, "127.0.0.1"))
    asked = sntp.SntpServer("pool.example", PATIENT, Resolver(lambda host, port: pool))

    found = {asked.best_sample().address for _ in range(3)}

    assert found == {f"127.0.0.1 {good.port}"}
    assert denying.questions == 1


def test_samples_before_rate_count_and_the_server_has_its_quiet(liar, a_packet):
    """RATE says nothing against the time of a server."""
    server = liar(
        lambda question, now: [
            a_packet(question, now=now, **({"stratum": 0, "ref_id": RATE} if server.questions > 2 else {}))
        ]
    )
    collector = a_collector(server.address)

    for _ in range(3):
        collector.collect()

    assert server.questions == 3
    assert collector.view().verdict.reason == "Quorum"


def test_a_server_is_asked_again_when_its_quiet_is_over_and_for_longer_at_the_next_kiss(liar):
    server = liar(stratum=0, ref_id=RATE)
    asked = sntp.SntpServer(server.address, PATIENT._replace(interval_seconds=0.01))
    begin = time.monotonic()

    while server.questions < 4:
        with pytest.raises(InvalidPacket, match="KissRATE"):
            asked.best_sample()
        time.sleep(0.001)

    assert time.monotonic() - begin >= 0.04 + 0.08 + 0.16


def test_the_default_pace_keeps_to_what_servers_allow_one_client():
    """ntpd's `discard`: 2 s between questions, 8 s on average; chrony's `ratelimit interval 3`: 8 s on average."""
    pace = sntp.Pace()

    assert pace.spacing_seconds >= 2
    assert pace.interval_seconds / pace.samples >= 8
    assert pace.total_seconds < pace.interval_seconds


def test_a_kernel_that_may_not_be_asked_is_absent_and_said_to_be(liar):
    def refused():
        raise CannotMeasure("NotPermitted")

    collector = ClockCollector((), ClockLimits(), LocalSources(refused))

    collector.collect()

    view = collector.view()
    assert view.kernel is None
    assert view.verdict.reason == "NoServers"
    assert [(one.collector, one.reason) for one in view.collections] == [("kernel_clock", "NotPermitted")]

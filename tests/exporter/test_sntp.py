"""SNTP against scripted servers on the loopback: each lies in one way."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from rankbeat_exporter.collectors.clock import ClockCollector, LocalSources
from rankbeat_exporter.errors import CannotMeasure, InvalidPacket
from rankbeat_exporter.model.clock import ClockLimits
from rankbeat_exporter.parsing.kernel import Timex
from rankbeat_exporter.sources import sntp
from rankbeat_exporter.sources.resolver import Address, Resolver

PATIENT = sntp.Pace(samples=4, spacing_seconds=0.005, timeout_seconds=3.0, total_seconds=10.0)
SHORT = sntp.Pace(samples=1, spacing_seconds=0.0, timeout_seconds=0.2, total_seconds=1.0)
"""For servers from which nothing good is to come."""


def reason(server, pace=PATIENT):
    """The fault of a round, or None where it gave a sample."""
    try:
        sntp.SntpServer(server, pace).best_sample()
    except (InvalidPacket, CannotMeasure) as error:
        return error.reason
    return None


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        (None, {}),
        ("OriginMismatch", {"origin": b"\1" * 8}),
        ("KissRATE", {"stratum": 0, "ref_id": 0x52415445}),
        ("KissDENY", {"stratum": 0, "ref_id": 0x44454E59}),
        ("Unsynchronised", {"stratum": 0, "ref_id": 0}),
        ("Unsynchronised", {"stratum": 16}),
        ("Unsynchronised", {"leap": 3}),
        ("BadMode", {"mode": 5}),
        ("NoTransmitTime", {"transmit": 0}),
        ("StaleReference", {"reference": 1.0}),
        ("RootDistance", {"root_dispersion": 2.0}),
    ],
)
def test_a_server_is_judged_by_what_it_answers(liar, expected, changes):
    assert reason(liar(**changes).address, SHORT if expected == "OriginMismatch" else PATIENT) == expected


def test_a_server_that_claims_to_have_held_the_question_for_longer_than_it_was_away_is_refused(liar, a_packet):
    server = liar(lambda question, now: [a_packet(question, receive=now - 0.3, transmit=now)])

    assert reason(server.address) == "NegativeDelay"


def test_a_silent_server_costs_one_timeout_not_four(liar):
    server = liar(lambda question, now: [])

    assert reason(server.address, SHORT._replace(samples=4)) == "Timeout"

    assert server.questions == 1


def test_an_answer_after_the_timeout_is_no_answer(liar, a_packet):
    assert reason(liar(lambda question, now: [0.4, a_packet(question, now=now)]).address, SHORT) == "Timeout"


def test_a_closed_port_is_refused_at_once(free_port):
    assert reason(f"127.0.0.1:{free_port}") == "Refused"


def test_packets_from_elsewhere_are_not_even_seen(liar, a_packet):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        server = liar(lambda question, now: [(stranger, a_packet(question, now=now + 9)), a_packet(question, now=now)])

        sample = sntp.SntpServer(server.address, PATIENT).best_sample()

    assert abs(sample.offset_seconds) < 1


def test_strays_from_the_right_address_neither_answer_nor_extend_the_wait(liar, a_packet):
    """ntplib's client starts its time-out anew at each stray packet."""
    server = liar(lambda question, now: [a_packet(origin=b"\7" * 8), 0.05] * 20)
    begin = time.monotonic()

    assert reason(server.address, SHORT) == "OriginMismatch"

    assert time.monotonic() - begin < 0.9


def test_the_answer_after_a_stray_and_a_short_packet_counts(liar, a_packet):
    server = liar(lambda question, now: [a_packet(origin=b"\7" * 8), b"short", a_packet(question, now=now)])

    assert reason(server.address) is None


def test_the_sample_with_the_smallest_delay_is_the_best(liar, a_packet):
    turns = iter([0.4, 0.0, 0.3, 0.5])
    server = liar(lambda question, now: [next(turns), a_packet(question, now=now)])

    sample = sntp.SntpServer(server.address, PATIENT).best_sample()

    assert sample.delay_seconds < 0.3
    assert server.questions == 4


def test_a_server_that_is_ahead_shows_its_offset(liar, a_packet):
    server = liar(lambda question, now: [a_packet(question, now=now + 0.2)])

    sample = sntp.SntpServer(server.address, PATIENT).best_sample()

    assert sample.offset_seconds == pytest.approx(0.2, abs=sample.error_bound_seconds)


def test_each_question_bears_another_origin(liar, a_packet):
    seen = []
    server = liar(lambda question, now: [seen.append(question[40:48]) or a_packet(question, now=now)])

    sntp.SntpServer(server.address, PATIENT).best_sample()

    assert len(set(seen)) == 4


@pytest.mark.parametrize(
    ("wall", "monotonic", "is_step"),
    [(0.010, 0.010, False), (0.0105, 0.010, False), (0.210, 0.010, True), (-3600.0, 0.010, True)],
)
def test_a_clock_set_during_the_query_spoils_the_sample(wall, monotonic, is_step):
    if is_step:
        with pytest.raises(CannotMeasure, match="ClockStepped"):
            sntp.check_step(wall, monotonic)
    else:
        sntp.check_step(wall, monotonic)


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("ntp.example", ("ntp.example", 123)),
        ("ntp.example:1123", ("ntp.example", 1123)),
        ("192.0.2.1", ("192.0.2.1", 123)),
        ("[2001:db8::1]:1123", ("2001:db8::1", 1123)),
        ("[2001:db8::1]", ("2001:db8::1", 123)),
        ("2001:db8::1", ("2001:db8::1", 123)),
    ],
)
def test_the_port_is_123_by_number_where_none_is_given(server, expected):
    """C1: ntplib asks for the service "ntp", which slim images cannot resolve."""
    assert sntp.host_port(server) == expected


@pytest.mark.parametrize("server", ["", ":123", "host:0", "host:65536", "host:ntp", "[]:123"])
def test_what_is_no_server_is_refused_at_start(server):
    with pytest.raises(ValueError, match="no server"):
        sntp.host_port(server)


def test_a_name_that_nobody_knows_is_unresolved():
    assert reason("no-such-host.invalid") == "Unresolved"


def addresses(server, *hosts):
    return tuple(Address(socket.AF_INET, (host, server.port)) for host in hosts)


def test_a_resolver_that_hangs_is_left_alone_after_the_deadline():
    """getaddrinfo has no time-out."""
    released = threading.Event()
    calls = []

    def hang(host, port):
        calls.append((host, port))
        released.wait()
        return ()

    resolver = Resolver(hang)

    for _ in range(3):
        with pytest.raises(CannotMeasure, match="Unresolved"):
            resolver.addresses("slow.example", 123, 0.02)

    assert calls == [("slow.example", 123)]
    released.set()


def test_a_round_that_waits_for_the_dns_ends_at_its_deadline():
    released = threading.Event()
    server = sntp.SntpServer("slow.example", SHORT, Resolver(lambda host, port: released.wait() and ()))
    begin = time.monotonic()

    with pytest.raises(CannotMeasure, match="Unresolved"):
        server.best_sample()

    assert time.monotonic() - begin < SHORT.total_seconds
    released.set()


def test_all_addresses_of_a_name_are_tried_within_the_deadline(liar):
    server = liar()
    resolver = Resolver(lambda host, port: addresses(server, "127.9.9.9", "127.0.0.1"))

    sample = sntp.SntpServer("two.example", PATIENT, resolver).best_sample()

    assert sample.address == f"127.0.0.1 {server.port}"


def test_silent_addresses_cost_no_more_than_the_deadline(liar):
    silent = liar(lambda question, now: [])
    resolver = Resolver(lambda host, port: addresses(silent, "127.0.0.1") * 50)
    pace = SHORT._replace(timeout_seconds=0.1, total_seconds=0.5)
    begin = time.monotonic()

    with pytest.raises(CannotMeasure, match="Timeout"):
        sntp.SntpServer("many.example", pace, resolver).best_sample()

    assert time.monotonic() - begin < 0.8


def test_addresses_that_answer_are_not_looked_up_at_each_round(liar):
    server = liar()
    calls = []
    resolver = Resolver(lambda host, port: calls.append(host) or addresses(server, "127.0.0.1"))
    asked = sntp.SntpServer("one.example", PATIENT, resolver)

    for _ in range(3):
        asked.best_sample()

    assert calls == ["one.example"]


def test_a_name_whose_addresses_are_silent_is_looked_up_again(liar):
    """The server moved: chronyd and ntpd had to be restarted for that for years."""
    old, new = liar(lambda question, now: []), liar()
    answers = iter([addresses(old, "127.0.0.1"), addresses(new, "127.0.0.1")])
    asked = sntp.SntpServer("moving.example", SHORT, Resolver(lambda host, port: next(answers)))

    with pytest.raises(CannotMeasure, match="Timeout"):
        asked.best_sample()

    assert asked.best_sample().address == f"127.0.0.1 {new.port}"


def test_a_dns_that_fails_takes_no_server_away_that_answers(liar):
    server = liar()
    answers = [addresses(server, "127.0.0.1")]

    def lookup(host, port):
        if not answers:
            raise OSError("Temporary failure in name resolution")
        return answers.pop()

    asked = sntp.SntpServer("one.example", PATIENT, Resolver(lookup, kept_seconds=0.0))

    assert [asked.best_sample().stratum for _ in range(3)] == [2, 2, 2]


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

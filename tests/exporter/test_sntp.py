"""SNTP against scripted servers on the loopback: each lies in one way."""

from __future__ import annotations

import socket
import time

import pytest

from rankbeat_exporter.errors import CannotMeasure
from rankbeat_exporter.sources import sntp
from sntp_support import PATIENT, SHORT, reason


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

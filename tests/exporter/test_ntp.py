"""Which NTP answers are believed. C-numbers: public reports in docs/sources.md, NTP."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankbeat_exporter.errors import InvalidPacket
from rankbeat_exporter.parsing import ntp

COOKIE = bytes(range(1, 9))
QUESTION = ntp.question(COOKIE)
NOW = 1796018231.25
YEAR_2036 = 2**32 - 2208988800
"""Unix time at which the NTP era ends."""


def an_exchange(sent_unix=NOW, elapsed_seconds=0.010, cookie=COOKIE):
    return ntp.Exchange(cookie, sent_unix, elapsed_seconds, "192.0.2.1 123")


def verdict(answer, exchange=None):
    try:
        return ntp.sample(answer, exchange or an_exchange())
    except InvalidPacket as error:
        return error.reason


def test_a_question_is_a_client_packet_with_a_random_transmit_timestamp():
    assert len(QUESTION) == 48
    assert QUESTION[0] == 4 << 3 | 3
    assert QUESTION[40:] == COOKIE


def test_a_good_answer_gives_offset_delay_and_a_bound_that_holds_the_servers_own_error(a_packet):
    answer = a_packet(QUESTION, now=NOW + 0.105, root_delay=0.02, root_dispersion=0.003)

    sample = verdict(answer)

    assert sample.offset_seconds == pytest.approx(0.1, abs=2e-6)
    assert sample.delay_seconds == pytest.approx(0.01, abs=2e-6)
    assert sample.error_bound_seconds == pytest.approx(0.005 + 0.01 + 0.003, abs=2e-5)
    assert (sample.stratum, sample.address) == (2, "192.0.2.1 123")


def test_an_answer_of_chronyd_with_local_stratum_is_believed():
    """Captured from chronyd 4.3, 2026-11-30."""
    answer = bytes.fromhex(
        "240500e700000000000000007f7f0101eeb794a13bddc4159a11d417930bc01aeeb794a3187425cdeeb794a3187b99a8"
    )
    exchange = ntp.Exchange(bytes.fromhex("9a11d417930bc01a"), 1796019747.0954258, 0.00039386749, "127.0.0.2 123")

    sample = verdict(answer, exchange)

    assert sample.stratum == 5
    assert abs(sample.offset_seconds) < 0.0002
    assert 0 < sample.delay_seconds < 0.0004


def test_an_answer_of_chronyd_without_a_source_is_unsynchronised():
    """Captured from chronyd 4.3, 2026-11-30: leap 3, stratum 0, no code, sane times; C2 saw a "perfect" offset."""
    answer = bytes.fromhex(
        "e40000e70001000000010000000000000000000000000000222ac70522e3a1dfeeb794a318a1f63beeb794a318a78d00"
    )
    exchange = ntp.Exchange(bytes.fromhex("222ac70522e3a1df"), 1796019747.096187, 0.0002093, "127.0.0.3 123")

    assert verdict(answer, exchange) == "Unsynchronised"


@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        pytest.param("OriginMismatch", {"origin": b"\0" * 8}, id="origin of another question"),
        pytest.param("BadMode", {"mode": 3}, id="client"),
        pytest.param("BadMode", {"mode": 5}, id="broadcast"),
        pytest.param("BadMode", {"mode": 6}, id="control"),
        pytest.param("BadVersion", {"version": 0}, id="version 0"),
        pytest.param("BadVersion", {"version": 7}, id="version 7"),
        pytest.param("Unsynchronised", {"leap": 3}, id="C2 leap 3"),
        pytest.param("Unsynchronised", {"stratum": 16}, id="C5 stratum 16"),
        pytest.param("Unsynchronised", {"stratum": 255}, id="stratum 255"),
        pytest.param("Unsynchronised", {"stratum": 0, "ref_id": 0}, id="stratum 0 without a code"),
        pytest.param("KissRATE", {"stratum": 0, "ref_id": 0x52415445}, id="C4 kiss RATE"),
        pytest.param("KissDENY", {"stratum": 0, "ref_id": 0x44454E59, "leap": 3}, id="kiss DENY with leap 3"),
        pytest.param("KissINIT", {"stratum": 0, "ref_id": 0x494E4954, "leap": 3}, id="C2 kiss INIT"),
        pytest.param("KissOther", {"stratum": 0, "ref_id": 0xFF00FF00}, id="kiss of unknown code"),
        pytest.param("NoTransmitTime", {"transmit": 0}, id="no transmit time"),
        pytest.param("NoTransmitTime", {"receive": 0}, id="no receive time"),
        pytest.param("StaleReference", {"reference": 0}, id="never synchronised"),
        pytest.param("StaleReference", {"reference": NOW - 90_000}, id="a day without a reference"),
        pytest.param("FutureReference", {"reference": NOW + 100}, id="reference in the future"),
        pytest.param(
            "NegativeDelay", {"receive": NOW - 0.1, "transmit": NOW + 0.1}, id="more time there than passed here"
        ),
        pytest.param("NegativeDelay", {"receive": NOW + 0.1, "transmit": NOW}, id="sent before it was received"),
        pytest.param("RootDistance", {"root_delay": 3.2}, id="root delay"),
        pytest.param("RootDistance", {"root_dispersion": 1.6}, id="root dispersion"),
    ],
)
def test_an_answer_that_breaks_a_rule_is_refused_by_its_name(a_packet, reason, changes):
    assert verdict(a_packet(QUESTION, now=NOW, **changes)) == reason


def test_a_stranger_cannot_make_us_leave_a_server_alone(a_packet):
    kiss = a_packet(b"\0" * 48, now=NOW, stratum=0, ref_id=0x44454E59)

    assert verdict(kiss) == "OriginMismatch"


@pytest.mark.parametrize("size", [0, 1, 47])
def test_a_short_packet_is_refused(a_packet, size):
    assert verdict(a_packet(QUESTION, now=NOW)[:size]) == "Short"


def test_extension_fields_after_the_header_are_ignored(a_packet):
    assert verdict(a_packet(QUESTION, now=NOW) + b"\x01\x04\0\x1c" + b"\0" * 24).stratum == 2


@pytest.mark.parametrize(("leap", "expected"), [(0, False), (1, True), (2, True)])
def test_an_announced_leap_second_is_no_fault_and_told(a_packet, leap, expected):
    assert verdict(a_packet(QUESTION, now=NOW, leap=leap)).leap_is_announced is expected


def test_an_offset_of_exactly_zero_is_an_offset(a_packet):
    """C10: a check took 0.0 for failure on a perfect LAN."""
    sample = verdict(a_packet(QUESTION, now=NOW), an_exchange(elapsed_seconds=0.0))

    assert (sample.offset_seconds, sample.delay_seconds) == (0.0, 0.0)
    assert sample.error_bound_seconds > 0


def test_a_rounding_below_zero_counts_as_no_delay(a_packet):
    sample = verdict(a_packet(QUESTION, now=NOW), an_exchange(elapsed_seconds=-4e-7))

    assert sample.delay_seconds == 0


@pytest.mark.parametrize(
    "sent", [YEAR_2036 - 0.004, YEAR_2036 - 3600, YEAR_2036 + 0.001, YEAR_2036 + 3600, YEAR_2036 + 1e9]
)
def test_the_end_of_the_ntp_era_in_2036_is_no_offset(a_packet, sent):
    answer = a_packet(QUESTION, now=sent + 0.105, reference=sent - 10)

    assert verdict(answer, an_exchange(sent)).offset_seconds == pytest.approx(0.1, abs=1e-5)


@pytest.mark.parametrize(
    ("reason", "kisses", "seconds"),
    [
        ("KissRATE", 1, 64.0),
        ("KissRATE", 2, 128.0),
        ("KissRATE", 5, 1024.0),
        ("KissRATE", 500, 1024.0),
        ("KissDENY", 1, 3600.0),
        ("KissDENY", 3, 14400.0),
        ("KissDENY", 9, 86400.0),
        ("KissRSTR", 1, 3600.0),
        ("KissINIT", 1, 0.0),
        ("Unsynchronised", 1, 0.0),
    ],
)
def test_a_server_that_asks_for_quiet_gets_it(reason, kisses, seconds):
    assert ntp.back_off_seconds(reason, kisses, 16.0) == seconds


@given(st.binary(max_size=200))
def test_noise_is_never_a_sample(noise):
    assert isinstance(verdict(noise), str)


@given(
    st.binary(min_size=24, max_size=24),
    st.binary(min_size=16, max_size=16),
    st.floats(0, 4e9),
    st.floats(0, 2),
)
def test_whatever_bears_our_origin_is_refused_or_gives_a_finite_sample_within_the_limits(head, tail, sent, elapsed):
    found = verdict(head + COOKIE + tail, an_exchange(sent, elapsed))

    if not isinstance(found, str):
        assert all(map(math.isfinite, (found.offset_seconds, found.delay_seconds, found.error_bound_seconds)))
        assert 0 <= found.delay_seconds <= elapsed + 1e-3
        assert 1 <= found.stratum <= 15
        assert 0 < found.error_bound_seconds <= ntp.ROOT_DISTANCE_LIMIT_SECONDS + 1.1


@given(st.integers(0, 47), st.integers(0, 255))
def test_one_wrong_byte_gives_no_value_that_the_packet_does_not_hold(position, byte):
    seconds = int(NOW) + 2208988800
    head = struct.pack("!BBBbIIIII", 0x24, 2, 6, -20, 64, 64, 0x0A000001, seconds - 10, 0)
    good = head + COOKIE + struct.pack("!IIII", seconds, 1 << 30, seconds, 1 << 30)
    bad = good[:position] + bytes([byte]) + good[position + 1 :]

    found = verdict(bad)

    if not isinstance(found, str) and bad[32:48] == good[32:48]:
        assert found.offset_seconds == pytest.approx(verdict(good).offset_seconds, abs=1e-9)

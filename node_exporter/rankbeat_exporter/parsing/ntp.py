"""An NTP server's answer: whether it may be believed, and what it says.

Rules are RFC 5905's (packet sanity, kiss codes, root distance); limits are ntpd's. The public reports behind each rule
are the cases C1 to C11 of docs/sources.md, NTP, repeated in tests/exporter/test_ntp.py.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import ntplib

from rankbeat_exporter.errors import InvalidPacket
from rankbeat_exporter.model.clock import Sample

PACKET_BYTES = 48
ERA_SECONDS = 2**32
ROOT_DISTANCE_LIMIT_SECONDS = 1.5
"""ntpd's MAXDIST."""
REFERENCE_AGE_LIMIT_SECONDS = 86400.0
"""A server that has heard of no reference for a day has drifted by seconds at the usual 15 ppm."""
REFERENCE_FUTURE_LIMIT_SECONDS = 1.0
RESOLUTION_SECONDS = 1e-6
"""Doubles of seconds since 1900 step by 0.5 us: a delay this little below zero is rounding."""
PHI = 15e-6
"""RFC 5905: how fast a sample's error grows, seconds per second."""
KISSES = frozenset({"RATE", "DENY", "RSTR", "INIT", "STEP"})
UNSYNCHRONISED = "Unsynchronised"
ORIGIN_MISMATCH = "OriginMismatch"
BACK_OFF_ROUNDS_MIN, BACK_OFF_ROUNDS_MAX = 4, 64
DENIED_SECONDS, DENIED_SECONDS_MAX = 3600.0, 86400.0


class Exchange(NamedTuple):
    """What we know of one question: cookie stood in its transmit timestamp, sent_unix is our clock at sending.

    elapsed_seconds: from sending to arrival, by the monotonic clock, so that a step of our clock stays out of it.
    """

    cookie: bytes
    sent_unix: float
    elapsed_seconds: float
    address: str


def question(cookie: bytes) -> bytes:
    """A client's packet whose transmit timestamp is the cookie: 64 random bits, which nobody off the path can guess."""
    packet: bytes = ntplib.NTPPacket(version=4, mode=3).to_data()
    return packet[:40] + cookie


def sample(answer: bytes, exchange: Exchange) -> Sample:
    """What the server says about our clock.

    Raises: InvalidPacket with the first rule that the answer breaks.
    """
    stats = _decoded(answer, exchange)
    _check_identity(stats, answer, exchange.cookie)
    _check_server(stats)
    _check_times(stats)
    delay = float(stats.delay)
    if delay < -RESOLUTION_SECONDS or stats.tx_timestamp < stats.recv_timestamp - RESOLUTION_SECONDS:
        raise InvalidPacket("NegativeDelay", f"round trip of {delay:.6f} s")
    delay = max(delay, 0.0)
    bound = delay / 2 + stats.root_delay / 2 + stats.root_dispersion
    if bound > ROOT_DISTANCE_LIMIT_SECONDS:
        raise InvalidPacket("RootDistance", f"{bound:.3f} s from the reference")
    bound += min(math.ldexp(1.0, stats.precision), 1.0) + RESOLUTION_SECONDS
    return Sample(float(stats.offset), delay, bound, stats.stratum, exchange.address, stats.leap in {1, 2})


def _decoded(answer: bytes, exchange: Exchange) -> ntplib.NTPStats:
    """The packet with our own times put in, and the server's times moved into our NTP era (2036)."""
    if len(answer) < PACKET_BYTES:
        raise InvalidPacket("Short", f"{len(answer)} bytes")
    stats = ntplib.NTPStats()
    try:
        stats.from_data(answer)
    except ntplib.NTPException as error:
        raise InvalidPacket("Short", str(error)) from error
    stats.orig_timestamp = ntplib.system_to_ntp_time(exchange.sent_unix)
    stats.dest_timestamp = stats.orig_timestamp + exchange.elapsed_seconds
    for name in ("recv_timestamp", "tx_timestamp", "ref_timestamp"):
        value = getattr(stats, name)
        if value:
            setattr(stats, name, _in_era_of(value, stats.orig_timestamp))
    return stats


def _in_era_of(timestamp: float, near: float) -> float:
    return timestamp + round((near - timestamp) / ERA_SECONDS) * ERA_SECONDS


def _check_identity(stats: ntplib.NTPStats, answer: bytes, cookie: bytes) -> None:
    """First of all, so that a stranger's kiss of death is not obeyed."""
    if answer[24:32] != cookie:
        raise InvalidPacket(ORIGIN_MISMATCH, "answers another question")
    if stats.mode != 4:
        raise InvalidPacket("BadMode", f"mode {stats.mode}")
    if not 1 <= stats.version <= 4:
        raise InvalidPacket("BadVersion", f"version {stats.version}")


def _check_server(stats: ntplib.NTPStats) -> None:
    if stats.stratum == 0:
        # chronyd without a source answers leap 3, stratum 0 and no code at all.
        raise InvalidPacket(kiss_reason(stats.ref_id) if stats.ref_id else UNSYNCHRONISED, "stratum 0")
    if stats.leap == 3 or stats.stratum >= 16:
        raise InvalidPacket(UNSYNCHRONISED, f"leap {stats.leap}, stratum {stats.stratum}")


def _check_times(stats: ntplib.NTPStats) -> None:
    if not stats.tx_timestamp or not stats.recv_timestamp:
        raise InvalidPacket("NoTransmitTime", "time zero")
    if not stats.ref_timestamp:
        raise InvalidPacket("StaleReference", "never synchronised")
    age = stats.tx_timestamp - stats.ref_timestamp
    if age > REFERENCE_AGE_LIMIT_SECONDS:
        raise InvalidPacket("StaleReference", f"reference {age:.0f} s old")
    if age < -REFERENCE_FUTURE_LIMIT_SECONDS:
        raise InvalidPacket("FutureReference", f"reference {-age:.1f} s ahead")


def kiss_reason(ref_id: int) -> str:
    """The kiss code as a reason: Kiss and its four letters where it is a known one, else KissOther."""
    code = ref_id.to_bytes(4, "big").decode("ascii", "replace")
    return f"Kiss{code}" if code in KISSES else "KissOther"


def back_off_seconds(reason: str, kisses: int, interval_seconds: float) -> float:
    """How long to leave a server alone after its kisses-th kiss in a row; 0 where the reason asks for none.

    RATE: 4 rounds, up to 64; DENY and RSTR, which end an association (RFC 5905 section 7.4): an hour, up to a day, in
    case the server's access list was mended. Doubled at each.
    """
    doublings = float(1 << max(min(kisses, 16) - 1, 0))
    if reason in {"KissDENY", "KissRSTR"}:
        return min(DENIED_SECONDS * doublings, DENIED_SECONDS_MAX)
    if reason == "KissRATE":
        return min(BACK_OFF_ROUNDS_MIN * doublings, BACK_OFF_ROUNDS_MAX) * interval_seconds
    return 0.0

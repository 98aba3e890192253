"""chronyd's command protocol, version 6, as far as one report: tracking.

The layout is that of chrony's candm.h, the same in chrony 3.0 to 4.x; checked against chronyd 4.3 and chronyc's own
figures (tests/exporter/test_chrony.py).
"""

from __future__ import annotations

import math
import struct
from typing import NamedTuple

from rankbeat_exporter.errors import CannotMeasure
from rankbeat_exporter.model.clock import ChronyClock
from rankbeat_exporter.parsing.ntp import REFERENCE_AGE_LIMIT_SECONDS

PROTOCOL_VERSION, REQUEST, REPLY = 6, 1, 2
REQ_TRACKING, RPY_TRACKING = 33, 5
_REQUEST = struct.Struct("!BBxxHHIxxxxxxxx")
"""Version, packet type, command, attempt, sequence."""
_REPLY = struct.Struct("!BBxxHHHxxxxxxIxxxxxxxx")
"""Version, packet type, command, reply, status, sequence."""
_TRACKING = struct.Struct("!I20xHHIII9I")
"""Reference id, (its address), stratum, leap, reference time in three words, and nine floats of chrony's own."""
REPLY_BYTES = _REPLY.size + _TRACKING.size
STATUS_FAULTS = {2: "NotPermitted", 10: "NotPermitted", 18: "BadReply", 19: "BadReply"}
"""STT_UNAUTH, STT_NOHOSTACCESS, STT_BADPKTVERSION, STT_BADPKTLENGTH."""
LOCAL_REFERENCE_ID = 0x7F7F0101
LEAP_UNSYNCHRONISED = 3
NO_HIGH_SECONDS = 0x7FFFFFFF

UNSYNCHRONISED, LOCAL_REFERENCE, STALE_REFERENCE = "Unsynchronised", "LocalReference", "StaleReference"


class Tracking(NamedTuple):
    """The fields of the report that we use, in seconds; correction is true time minus the clock's."""

    reference_id: int
    stratum: int
    leap: int
    reference_unix: float
    correction_seconds: float
    root_delay_seconds: float
    root_dispersion_seconds: float


def tracking_request(sequence: int) -> bytes:
    """The question, as long as its answer: chronyd ignores a shorter one, lest it be made to amplify."""
    return _REQUEST.pack(PROTOCOL_VERSION, REQUEST, REQ_TRACKING, 0, sequence).ljust(REPLY_BYTES, b"\0")


def is_reply(packet: bytes, sequence: int) -> bool:
    """Whether the packet answers the question with this sequence number, well or badly."""
    if len(packet) < _REPLY.size:
        return False
    _, kind, command, _, _, answered = _REPLY.unpack_from(packet)
    return (kind, command, answered) == (REPLY, REQ_TRACKING, sequence)


def tracking(packet: bytes) -> Tracking:
    """The report in a reply.

    Raises: CannotMeasure(NotPermitted | BadReply).
    """
    version, _, _, reply, status, _ = _REPLY.unpack_from(packet)
    if status:
        raise CannotMeasure(STATUS_FAULTS.get(status, "BadReply"), f"chronyd answers status {status}")
    if version != PROTOCOL_VERSION or reply != RPY_TRACKING or len(packet) < REPLY_BYTES:
        raise CannotMeasure("BadReply", f"version {version}, reply {reply}, {len(packet)} bytes")
    identity, stratum, leap, high, low, nanoseconds, *floats = _TRACKING.unpack_from(packet, _REPLY.size)
    numbers = tuple(map(chrony_float, floats))
    seconds = (0 if high == NO_HIGH_SECONDS else high << 32) + low
    return Tracking(identity, stratum, leap, seconds + nanoseconds / 1e9, numbers[0], numbers[6], numbers[7])


def chrony_float(word: int) -> float:
    """chrony's 32-bit float: 7 bits of exponent, 25 of coefficient, both two's complement, no infinities."""
    exponent, coefficient = word >> 25, word & 0x1FFFFFF
    exponent -= 128 if exponent >= 64 else 0
    coefficient -= 1 << 25 if coefficient >= 1 << 24 else 0
    return math.ldexp(coefficient, exponent - 25)


def chrony_clock(report: Tracking, now_unix: float) -> ChronyClock:
    """What the report says of the clock.

    The bound is the one of chronyc's manual page: root dispersion, which grows until the next update, and half the root
    delay. `local stratum N` makes a chronyd without a source look synchronised; its reference id tells.
    """
    age = now_unix + report.correction_seconds - report.reference_unix
    bound = report.root_delay_seconds / 2 + report.root_dispersion_seconds
    reason = ""
    if report.leap == LEAP_UNSYNCHRONISED or not 0 < report.stratum < 16:
        reason = UNSYNCHRONISED
    elif report.reference_id == LOCAL_REFERENCE_ID:
        reason = LOCAL_REFERENCE
    elif not 0 <= bound < math.inf or age > REFERENCE_AGE_LIMIT_SECONDS:
        reason = STALE_REFERENCE
    return ChronyClock(reason, report.correction_seconds, bound, report.stratum, report.leap in {1, 2})

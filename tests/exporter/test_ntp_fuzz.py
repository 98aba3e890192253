"""10,000 mutated answers: none makes the parser fall, none makes it say what the packet does not hold."""

from __future__ import annotations

import random
import struct
from fractions import Fraction

from rankbeat_exporter.errors import InvalidPacket
from rankbeat_exporter.parsing import ntp

COOKIE = bytes(range(1, 9))
QUESTION = ntp.question(COOKIE)
NOW = 1796018231.25
EPOCH = 2208988800
ERA = 2**32
EXCHANGE = ntp.Exchange(COOKIE, NOW, 0.010, "192.0.2.1 123")
PACKETS = 10_000


def flipped(answer, rng):
    """One to four bits."""
    changed = bytearray(answer)
    for _ in range(rng.randint(1, 4)):
        position = rng.randrange(len(changed))
        changed[position] ^= 1 << rng.randrange(8)
    return bytes(changed)


def overwritten(answer, rng):
    """A field, or what may be two halves of fields, by noise, zeros or ones."""
    begin, size = rng.randrange(len(answer)), rng.choice((1, 2, 4, 8))
    filling = rng.choice((rng.randbytes(size), b"\0" * size, b"\xff" * size))
    return (answer[:begin] + filling + answer[begin + size :])[: len(answer)]


def cut(answer, rng):
    return answer[: rng.randrange(len(answer) + 1)]


def lengthened(answer, rng):
    return answer + rng.randbytes(rng.randrange(1, 400))


def swapped(answer, rng):
    """Two of the four timestamps change places."""
    one, other = rng.sample((16, 24, 32, 40), 2)
    changed = bytearray(answer)
    changed[one : one + 8], changed[other : other + 8] = answer[other : other + 8], answer[one : one + 8]
    return bytes(changed)


def moved(answer, rng):
    """Receive and transmit by the same amount, up to years: still an answer, of another time."""
    by = rng.randrange(-(2 ** rng.randrange(1, 60)), 2 ** rng.randrange(1, 60))
    times = ((int.from_bytes(answer[at : at + 8], "big") + by) % 2**64 for at in (32, 40))
    return answer[:32] + b"".join(time.to_bytes(8, "big") for time in times)


MUTATIONS = (flipped, overwritten, cut, lengthened, swapped, moved)


def held(answer):
    """Offset, delay and bound that the packet holds, in exact numbers; None where a rule forbids to believe it."""
    if len(answer) < 48:
        return None
    first, stratum, _, precision, root_delay, dispersion = struct.unpack("!BBBbII", answer[:12])
    reference, receive, transmit = (int.from_bytes(answer[at : at + 8], "big") for at in (16, 32, 40))
    well_formed = answer[24:32] == COOKIE and first & 7 == 4 and 1 <= first >> 3 & 7 <= 4
    if not well_formed or first >> 6 == 3 or not 1 <= stratum <= 15 or 0 in (reference, receive, transmit):
        return None
    sent = Fraction(NOW) + EPOCH
    reference, receive, transmit = (unrolled(Fraction(time, ERA), sent) for time in (reference, receive, transmit))
    delay = Fraction(EXCHANGE.elapsed_seconds) - (transmit - receive)
    offset = (receive - sent + transmit - (sent + Fraction(EXCHANGE.elapsed_seconds))) / 2
    bound = max(delay, 0) / 2 + Fraction(root_delay, 2**17) + Fraction(dispersion, 2**16)
    age, rounding = transmit - reference, Fraction(2, 10**6)
    if delay < -rounding or transmit < receive - rounding or bound > Fraction(3, 2) + rounding:
        return None
    if not -1 - rounding <= age <= 86400 + rounding:
        return None
    return offset, delay, bound + min(Fraction(2) ** precision, 1)


def unrolled(time, near):
    """The time of the era that is nearest to now."""
    return time + round((near - time) / ERA) * ERA


def test_no_mutated_packet_is_a_crash_or_an_invented_value(a_packet):
    rng = random.Random(5905)
    good = a_packet(QUESTION, now=NOW + 0.105, root_delay=0.02, root_dispersion=0.003)
    believed = 0

    for _ in range(PACKETS):
        answer = rng.choice(MUTATIONS)(good, rng)
        for _ in range(rng.choice((0, 0, 1))):
            answer = rng.choice(MUTATIONS)(answer, rng) if answer else answer
        try:
            sample = ntp.sample(answer, EXCHANGE)
        except InvalidPacket:
            continue
        exact = held(answer)
        assert exact is not None, answer.hex()
        offset, delay, bound = exact
        assert abs(Fraction(sample.offset_seconds) - offset) < 2e-6, answer.hex()
        assert abs(Fraction(sample.delay_seconds) - max(delay, 0)) < 2e-6, answer.hex()
        assert 0 <= Fraction(sample.error_bound_seconds) - bound < 4e-6, answer.hex()
        assert (sample.stratum, sample.address) == (answer[1], EXCHANGE.address)
        believed += 1

    assert PACKETS // 10 < believed < PACKETS * 9 // 10

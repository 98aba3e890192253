"""What adjtimex(2) answers, in seconds."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from rankbeat_exporter.model.clock import KernelClock
from rankbeat_exporter.parsing.ntp import PHI

STA_UNSYNC = 0x0040
STA_CLOCKERR = 0x1000
STA_NANO = 0x2000
TIME_INS, TIME_DEL, TIME_OOP, TIME_WAIT = 1, 2, 3, 4
TIME_ERROR = 5
MAX_PHASE_SECONDS = 0.5
"""The kernel clamps its offset to this (MAXPHASE, kernel/time/ntp.c).

Larger is no offset: on KVM it reads 2^32 ns for a moment (prometheus/node_exporter issue 3764).
"""

MAX_FREQUENCY = 500e-6
"""By how much the kernel lets its maximum error grow, seconds per second, until the next word of a time service.

second_overflow() of kernel/time/ntp.c: MAXFREQ, 500 us at each second.
"""
GROWTH_SLACK_SECONDS = 0.001
"""The growth comes once a second: two answers may be one such step more apart than the time between them says."""


class Timex(NamedTuple):
    """Fields of struct timex that we use; state is the call's result. offset in us (ns: STA_NANO), errors in us."""

    state: int
    status: int
    offset: int
    max_error: int
    estimated_error: int


def kernel_clock(timex: Timex) -> KernelClock:
    """The kernel's view; STA_UNSYNC is not synchronised, also where chrony merely lacks rtcsync."""
    offset = timex.offset / (1e9 if timex.status & STA_NANO else 1e6)
    return KernelClock(
        is_synchronised=timex.state != TIME_ERROR and not timex.status & (STA_UNSYNC | STA_CLOCKERR),
        max_error_seconds=timex.max_error / 1e6,
        estimated_error_seconds=timex.estimated_error / 1e6,
        offset_seconds=offset if abs(offset) <= MAX_PHASE_SECONDS else None,
        error_bound_seconds=timex.max_error / 1e6,
        leap_is_announced=timex.state in {TIME_INS, TIME_DEL, TIME_OOP, TIME_WAIT},
    )


def with_history(now: KernelClock, before: KernelClock | None, elapsed_seconds: float) -> KernelClock:
    """What the kernel says now, with the bound that its answer of elapsed_seconds ago proves, where that is smaller.

    The kernel's own maximum error grows by 500 ppm, so that a service that speaks once in 1,024 s (chrony and ntpd at
    their longest) leaves 0.5 s on a clock that is right to a millisecond. A clock that is disciplined drifts by 15 ppm
    at most (RFC 5905): what it was off by before, and that. Nothing is taken over from a kernel that was not
    synchronised, nor where the service has since named a larger error than growth explains.
    """
    if before is None or not (before.is_synchronised and now.is_synchronised):
        return now
    if now.max_error_seconds > before.max_error_seconds + MAX_FREQUENCY * elapsed_seconds + GROWTH_SLACK_SECONDS:
        return now
    proven = before.error_bound_seconds + PHI * elapsed_seconds
    return replace(now, error_bound_seconds=min(now.error_bound_seconds, proven))

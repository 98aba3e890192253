"""What adjtimex(2) answers, in seconds."""

from __future__ import annotations

from typing import NamedTuple

from rankbeat_exporter.model.clock import KernelClock

STA_UNSYNC = 0x0040
STA_CLOCKERR = 0x1000
STA_NANO = 0x2000
TIME_ERROR = 5
MAX_PHASE_SECONDS = 0.5
"""The kernel clamps its offset to this (MAXPHASE, kernel/time/ntp.c).

Larger is no offset: on KVM it reads 2^32 ns for a moment (prometheus/node_exporter issue 3764).
"""


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
    )

"""What adjtimex(2) says."""

from __future__ import annotations

import time

import pytest

from rankbeat_exporter.model.clock import KernelClock
from rankbeat_exporter.parsing.kernel import Timex, kernel_clock
from rankbeat_exporter.sources import adjtimex

STA_PLL, STA_UNSYNC, STA_CLOCKERR, STA_NANO = 0x1, 0x40, 0x1000, 0x2000


@pytest.mark.parametrize(
    ("timex", "expected"),
    [
        pytest.param(
            Timex(0, STA_PLL | STA_NANO, 1500, 9000, 20), KernelClock(True, 0.009, 2e-5, 1.5e-6), id="nanoseconds"
        ),
        pytest.param(Timex(0, STA_PLL, 1500, 9000, 20), KernelClock(True, 0.009, 2e-5, 0.0015), id="microseconds"),
        pytest.param(
            Timex(5, STA_UNSYNC, 0, 16000000, 16000000), KernelClock(False, 16.0, 16.0, 0.0), id="nobody disciplines it"
        ),
        pytest.param(
            Timex(0, STA_UNSYNC, 0, 9000, 20), KernelClock(False, 0.009, 2e-5, 0.0), id="C7 chrony without rtcsync"
        ),
        pytest.param(Timex(0, STA_CLOCKERR, 0, 9000, 20), KernelClock(False, 0.009, 2e-5, 0.0), id="clock error"),
        pytest.param(
            Timex(1, STA_NANO, -3, 9000, 20), KernelClock(True, 0.009, 2e-5, -3e-9), id="leap second announced"
        ),
        pytest.param(Timex(0, STA_NANO, 2**32, 9000, 20), KernelClock(True, 0.009, 2e-5, None), id="C8 2^32 ns"),
        pytest.param(Timex(0, STA_NANO, -(2**32), 9000, 20), KernelClock(True, 0.009, 2e-5, None), id="C8 negative"),
    ],
)
def test_the_kernels_numbers_become_seconds_or_nothing(timex, expected):
    assert kernel_clock(timex) == expected


def test_the_real_call_reads_without_setting_anything():
    before = time.clock_gettime(time.CLOCK_REALTIME) - time.monotonic()

    found = adjtimex.timex()

    assert 0 <= found.state <= 5
    assert found.max_error >= 0
    assert time.clock_gettime(time.CLOCK_REALTIME) - time.monotonic() == pytest.approx(before, abs=0.05)

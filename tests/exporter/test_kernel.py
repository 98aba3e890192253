"""What adjtimex(2) says."""

from __future__ import annotations

import time

import pytest

from rankbeat_exporter.model.clock import KernelClock
from rankbeat_exporter.parsing.kernel import Timex, kernel_clock, with_history
from rankbeat_exporter.sources import adjtimex

STA_PLL, STA_UNSYNC, STA_CLOCKERR, STA_NANO = 0x1, 0x40, 0x1000, 0x2000


def a_kernel(*, is_synchronised=True, max_error=0.009, bound=None, **changes):
    figures = {"offset_seconds": 0.0, "error_bound_seconds": max_error if bound is None else bound} | changes
    return KernelClock(is_synchronised, max_error, 2e-5, **figures)


@pytest.mark.parametrize(
    ("timex", "expected"),
    [
        pytest.param(Timex(0, STA_PLL | STA_NANO, 1500, 9000, 20), a_kernel(offset_seconds=1.5e-6), id="nanoseconds"),
        pytest.param(Timex(0, STA_PLL, 1500, 9000, 20), a_kernel(offset_seconds=0.0015), id="microseconds"),
        pytest.param(
            Timex(5, STA_UNSYNC, 0, 16000000, 16000000),
            KernelClock(False, 16.0, 16.0, 0.0, 16.0),
            id="nobody disciplines it",
        ),
        pytest.param(
            Timex(0, STA_UNSYNC, 0, 9000, 20), a_kernel(is_synchronised=False), id="C7 chrony without rtcsync"
        ),
        pytest.param(Timex(0, STA_CLOCKERR, 0, 9000, 20), a_kernel(is_synchronised=False), id="clock error"),
        pytest.param(
            Timex(1, STA_NANO, -3, 9000, 20),
            a_kernel(offset_seconds=-3e-9, leap_is_announced=True),
            id="leap second announced",
        ),
        pytest.param(Timex(0, STA_NANO, 2**32, 9000, 20), a_kernel(offset_seconds=None), id="C8 2^32 ns"),
        pytest.param(Timex(0, STA_NANO, -(2**32), 9000, 20), a_kernel(offset_seconds=None), id="C8 negative"),
    ],
)
def test_the_kernels_numbers_become_seconds_or_nothing(timex, expected):
    assert kernel_clock(timex) == expected


@pytest.mark.parametrize(
    ("before", "now", "bound"),
    [
        pytest.param(None, a_kernel(max_error=0.3), 0.3, id="the first answer stands for itself"),
        pytest.param(a_kernel(max_error=0.002), a_kernel(max_error=0.052), 0.0035, id="nobody spoke since: 15 ppm"),
        pytest.param(a_kernel(max_error=0.002), a_kernel(max_error=0.001), 0.001, id="the service spoke since"),
        pytest.param(
            a_kernel(max_error=0.3, bound=0.01),
            a_kernel(max_error=0.35),
            0.0115,
            id="a bound grows from round to round",
        ),
        pytest.param(a_kernel(max_error=0.002), a_kernel(max_error=0.0535), 0.0535, id="the service says: worse"),
        pytest.param(
            a_kernel(is_synchronised=False, max_error=0.002),
            a_kernel(max_error=0.03),
            0.03,
            id="before, nobody disciplined it",
        ),
        pytest.param(
            a_kernel(max_error=0.002), a_kernel(is_synchronised=False, max_error=0.03), 0.03, id="now, nobody does"
        ),
    ],
)
def test_the_kernels_error_grows_by_what_a_disciplined_clock_drifts_not_by_500_ppm(before, now, bound):
    """100 s between the answers. A chronyd that polls each 1,024 s would else leave a good clock at 0.5 s."""
    found = with_history(now, before, 100.0)

    assert found.error_bound_seconds == pytest.approx(bound)
    assert found.max_error_seconds == now.max_error_seconds


def test_the_real_call_reads_without_setting_anything():
    before = time.clock_gettime(time.CLOCK_REALTIME) - time.monotonic()

    found = adjtimex.timex()

    assert 0 <= found.state <= 5
    assert found.max_error >= 0
    assert time.clock_gettime(time.CLOCK_REALTIME) - time.monotonic() == pytest.approx(before, abs=0.05)

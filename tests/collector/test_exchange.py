"""Clocks: arithmetic of the exchange, and what a report repeats of the local clock service."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankbeat_collector.model import exchange


@given(st.floats(-1e6, 1e6), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_the_offset_is_off_by_half_of_the_delay_at_most(offset: float, out: float, inside: float, back: float) -> None:
    sent = 1_796_000_000.0
    answer = {"received_wall": sent + out + offset, "sent_wall": sent + out + inside + offset}

    made = exchange.exchange(sent, answer, sent + out + inside + back)

    assert made is not None
    assert made.delay_seconds == pytest.approx(out + back, abs=1e-5)
    assert abs(made.offset_seconds - offset) <= made.delay_seconds / 2 + 1e-5


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"received_wall": 1.0},
        {"received_wall": "1", "sent_wall": 2.0},
        {"received_wall": float("nan"), "sent_wall": 1},
    ],
    ids=["empty", "half", "text", "nan"],
)
def test_an_answer_without_two_times_is_no_exchange(answer: dict[str, object]) -> None:
    assert exchange.exchange(1.0, answer, 2.0) is None


def test_the_clock_is_repeated_with_the_fields_of_a_report_only() -> None:
    said = {
        "trusted": True,
        "reason": "Quorum",
        "source": "sntp",
        "offset_seconds": 0.0001,
        "error_bound_seconds": float("inf"),
        "servers": ["secret.example"],
    }

    assert exchange.clock(said) == {
        "trusted": True,
        "reason": "Quorum",
        "source": "sntp",
        "offset_seconds": 0.0001,
        "error_bound_seconds": None,
    }


@pytest.mark.parametrize("said", [None, [], {}, {"trusted": "yes"}], ids=["none", "list", "empty", "text"])
def test_what_is_no_clock_is_none(said: object) -> None:
    assert exchange.clock(said) is None


def test_failures_lengthen_the_pause_to_four_intervals_at_most() -> None:
    pauses = [exchange.delay_seconds(5.0, failures, 1.0) for failures in range(6)]

    assert pauses == [5.0, 5.0, 10.0, 20.0, 20.0, 20.0]
    assert exchange.delay_seconds(5.0, 3, 0.0) == 10.0

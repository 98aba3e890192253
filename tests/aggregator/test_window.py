"""Folding: the same reports give the same state, in whatever order and however often they come."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aggregator_builders import KEY, WALL, Judge, a_pod, a_rank, a_report
from rankbeat_aggregator.model import report as reports
from rankbeat_aggregator.model.report import Report
from rankbeat_aggregator.window import fleet as fleets
from rankbeat_aggregator.window import job as jobs
from rankbeat_aggregator.window import steps
from rankbeat_aggregator.window import view as views
from rankbeat_aggregator.window.fleet import Fleet, Receipt

Sent = tuple[float, dict[str, Any]]
"""When a report arrived, and its body."""


def a_history() -> list[Sent]:
    """Two nodes, two attempts, a push every five seconds, a ring-less pod, a loss that breaks."""
    sent: list[Sent] = []
    for tick in range(12):
        for node in (0, 1):
            at = 5.0 * tick + node * 0.7
            attempt, begun = (0, 0.0) if tick < 6 else (1, 31.0)
            rank = a_rank(
                node,
                run=f"run-{attempt}-{node}",
                claimed_age_seconds=at - begun + 10.0 - node,
                step=10 * tick,
                alive=tick != 5,
                steps=[[10 * tick + i, 0.02 * i, 0.001, 0.019] for i in range(-5, 5) if 10 * tick + i >= 0],
                scalars=[[10 * tick, "loss", math.nan if tick == 3 else 2.0 / (tick + 1)]],
            )
            pods = [a_pod(rank), a_pod(a_rank(2), rings=0, deleting=tick > 9)]
            body = a_report(
                f"n{node}",
                [rank],
                pods,
                sent_wall=WALL + at,
                exchange={"offset_seconds": 0.0015, "delay_seconds": 0.004},
            )
            sent.append((at, body))
    return sent


HISTORY = [(at, reports.parse(body)) for at, body in a_history()]


def folded(sent: list[tuple[float, Report]]) -> Fleet:
    fleet = Fleet(started=-100.0)
    for at, report in sent:
        fleets.fold(fleet, report, Receipt(at, WALL + at))
    return fleet


def state(fleet: Fleet) -> str:
    """All of it, as text: NaN equals itself there, and keys have an order."""
    job = fleet.jobs[KEY]
    processes = [(run, repr(one), one.rows.tobytes()) for run, one in sorted(job.processes.items())]
    return repr((sorted(fleet.nodes.items()), processes, sorted(job.pods.items()), job.first_seen, job.last_seen))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.permutations(range(len(HISTORY))), st.lists(st.integers(0, len(HISTORY) - 1), max_size=10))
def test_any_order_and_any_repetition_of_reports_give_the_same_state(order: list[int], again: list[int]):
    expected = folded(HISTORY)

    fleet = folded([HISTORY[index] for index in (*order, *again)])

    assert state(fleet) == state(expected)
    assert views.view(fleet, fleet.jobs[KEY], 60.0) == views.view(expected, expected.jobs[KEY], 60.0)


def test_a_newer_process_of_a_rank_starts_the_next_attempt_and_older_ones_no_longer_count():
    judge = Judge().hears(0, a_rank(0), a_rank(1))

    judge.hears(50, a_rank(0, run="b0", claimed_age_seconds=3.0))
    assert (judge.view(50).attempt, [m.process.run for m in judge.view(50).members]) == (2, ["b0"])

    judge.hears(51, a_rank(1, run="b1", claimed_age_seconds=3.5))
    assert (judge.view(51).attempt, [m.process.run for m in judge.view(51).members]) == (2, ["b0", "b1"])


def test_a_late_joiner_belongs_to_the_attempt():
    judge = Judge().hears(0, a_rank(0)).hears(20, a_rank(1, claimed_age_seconds=2.0))

    assert (judge.view(20).attempt, len(judge.view(20).members)) == (1, 2)


def test_the_world_is_the_newest_processs():
    judge = (
        Judge().hears(0, a_rank(0, world_size=4)).hears(50, a_rank(0, run="b0", claimed_age_seconds=1.0, world_size=2))
    )

    assert judge.view(50).world_size == 2


def test_a_report_that_was_under_way_is_dated_back_but_never_by_more_than_the_round_trip():
    for delay, expected in ((0.0, 9.99), (0.3, 9.69), (2.0, 9.49)):
        judge = Judge().hears(
            10, a_rank(0), sent_wall=WALL + 9.5, exchange={"offset_seconds": 0.0, "delay_seconds": delay}
        )

        assert judge.view(10).members[0].progress == pytest.approx(expected)


def test_without_an_exchange_a_report_is_dated_at_its_receipt():
    judge = Judge().hears(10, a_rank(0), sent_wall=WALL - 999.0, exchange=None)

    assert judge.view(10).members[0].progress == pytest.approx(9.99)


def test_steps_of_ranks_are_aligned_by_segment_and_step():
    judge = Judge()
    judge.hears(0, a_rank(0, steps=[[1, 0.1, 0.0, 0.1], [2, 0.2, 0.0, 0.2]]))
    judge.hears(0, a_rank(1, steps=[[2, 0.3, 0.0, 0.3], [3, None, 0.0, None]]))

    window = steps.aligned([member.process for member in judge.view(0).members])

    assert window.ranks == (0, 1)
    np.testing.assert_array_equal(window.keys, [[1, 1], [1, 2], [1, 3]])
    np.testing.assert_array_equal(window.interval_seconds, [[0.1, 0.2, math.nan], [math.nan, 0.3, math.nan]])
    assert steps.median_interval_seconds(window) == pytest.approx(0.2)


def test_samples_per_second_are_one_figure_of_the_job_never_a_sum_over_ranks():
    judge = Judge().hears(
        0, *(a_rank(rank, scalars=[[7, "samples_per_step", 512.0], [9, "samples_per_step", 256.0]]) for rank in (0, 1))
    )

    assert judge.view(0).samples_per_second == pytest.approx(256 / 0.02)


def test_samples_per_second_are_unknown_while_no_rank_trains_or_ranks_do_not_agree():
    said = [[7, "samples_per_step", 512.0]]
    paused = Judge().hears(0, a_rank(0, scalars=said, phase="eval"), a_rank(1, phase="eval"))
    divided = Judge().hears(0, a_rank(0, scalars=said), a_rank(1, scalars=[[7, "samples_per_step", 64.0]]))
    silent = Judge().hears(0, a_rank(0), a_rank(1))

    assert [judge.view(0).samples_per_second for judge in (paused, divided, silent)] == [None, None, None]


def test_the_window_is_bounded():
    judge = Judge()
    for tick in range(50):
        rows = [[tick * 256 + i, 0.01, 0.0, 0.01] for i in range(256)]
        judge.hears(tick, a_rank(0, steps=rows, claimed_age_seconds=100.0 + tick))

    process = judge.view(50).members[0].process

    assert process.rows.shape == (64, 4)
    assert process.rows.base is None
    assert steps.aligned([process]).keys[-1].tolist() == [1.0, 50 * 256 - 1]
    assert steps.aligned([process]).interval_seconds.shape == (1, 32)


def test_jobs_are_forgotten_ten_minutes_after_their_last_report():
    judge = Judge().hears(0, a_rank(0))

    fleets.forget(judge.fleet, 600.0)
    assert list(judge.fleet.jobs) == [KEY]

    fleets.forget(judge.fleet, 600.1)
    assert judge.fleet.jobs == {}
    assert judge.fleet.nodes == {}


def test_attempts_before_the_last_two_are_dropped_but_still_counted():
    judge = Judge()
    for attempt in range(5):
        at = 1000.0 * attempt
        judge.hears(at, a_rank(0, run=f"a{attempt}", claimed_age_seconds=1.0))
        fleets.forget(judge.fleet, at + 1)

    job = judge.fleet.jobs[KEY]

    assert len(job.processes) <= 3
    assert jobs.attempts(job)[-1].number == 5


def test_a_transport_of_hours_moves_nothing_before_a_push():
    report = reports.parse(
        a_report("n0", [], sent_wall=WALL, exchange={"offset_seconds": 0.0, "delay_seconds": 3600.0})
    )

    assert fleets.transport_seconds(report, Receipt(0.0, WALL + 7200.0)) == 5.0

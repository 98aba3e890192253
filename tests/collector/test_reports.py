"""What goes to the aggregator."""

from __future__ import annotations

import json
import math
from typing import Any

import ring_support as support
from rankbeat_aggregator.model import report as aggregator
from rankbeat_collector.model import ranks, reports
from rankbeat_collector.model.exchange import Exchange
from rankbeat_collector.model.ranks import Numbers, PodRings, Rank, Scalar, Step

SENDER = reports.Sender("n1", 5.0)
POD = support.a_pod(started_wall=1_795_999_970.0)


def steps(*numbers: int) -> tuple[Step, ...]:
    return tuple(Step(number, 0.02, 0.001, 0.019, 1) for number in numbers)


def report(*found: Rank, **changes: object) -> reports.Report:
    return reports.report(SENDER, support.a_poll(*found), {}, is_late=False, **changes)  # type: ignore[arg-type]


def rows(made: reports.Report) -> list[tuple[object, object]]:
    bodies = json.loads(json.dumps(made.body["ranks"]))
    return [([row[0] for row in body["steps"]], body["records_lost"]) for body in bodies]


def test_a_report_says_everything_of_the_interface() -> None:
    state = support.a_state(
        step=512,
        step_mono_ns=9_990_000_000,
        entered_step=513,
        entered_mono_ns=9_992_000_000,
        updated_mono_ns=9_992_000_000,
        longest_interval_ns=120_000_000,
        total_steps=4000,
    )
    rank = support.a_rank(
        POD, state=state, steps=steps(511, 512), steps_read=2, scalars=(Scalar(500, "loss", 2.31),), scalars_read=1
    )
    poll = support.a_poll(rank, pods=(PodRings(POD, 1, (("link", 1),)),))
    clock = {"trusted": True, "reason": "Quorum"}

    made = reports.report(SENDER._replace(exchange=Exchange(0.0003, 0.002), clock=clock), poll, {}, is_late=False)

    who = {"namespace": "team-a", "monitor": "llm", "job": "llm", "job_uid": "job-1", "pod": "llm-0"}
    assert json.loads(json.dumps(made.body)) == {
        "node": "n1",
        "sent_wall": 0.0,
        "interval_seconds": 5.0,
        "exchange": {"offset_seconds": 0.0003, "delay_seconds": 0.002},
        "clock": clock,
        "pods": [
            {
                **who,
                "pod_uid": "uid-llm-0",
                "deleting": False,
                "phase": "Running",
                "started_age_seconds": 40.0,
                "rings": 1,
                "has_agent": True,
                "refused": {"link": 1},
            }
        ],
        "ranks": [
            {
                **who,
                "pod_uid": "uid-llm-0",
                "run": "run0",
                "tier": "callback",
                "attempt": 0,
                "rank": 0,
                "local_rank": 0,
                "world_size": 2,
                "claimed_age_seconds": 9.0,
                "alive": True,
                "phase": "train",
                "phase_age_seconds": 8.0,
                "segment": 1,
                "step": 512,
                "step_age_seconds": 0.01,
                "entered_step": 513,
                "entered_age_seconds": 0.008,
                "updated_age_seconds": 0.008,
                "longest_interval_seconds": 0.12,
                "median_interval_seconds": 0.02,
                "timing": "synced",
                "total_steps": 4000,
                "steps": [[511, 0.02, 0.001, 0.019], [512, 0.02, 0.001, 0.019]],
                "scalars": [[500, "loss", 2.31]],
                "agent_on": True,
                "loss_valid": True,
                "records_lost": 0,
                "agent_errors": 0,
                "exception": "",
                "cpu_seconds": 12.5,
            }
        ],
    }


def test_what_a_rank_does_not_know_yet_is_null() -> None:
    state = support.a_state(rank=-1, world_size=-1, flags=0, cpu_seconds=float("nan"), exception="no class: secret")

    (body,) = report(support.a_rank(state=state, header=support.a_header(local_rank=-1))).body["ranks"]  # type: ignore[misc]

    unknown = {name for name, value in body.items() if value is None}  # type: ignore[has-type]
    assert unknown == {
        *("rank", "local_rank", "world_size", "step", "step_age_seconds", "entered_step", "entered_age_seconds"),
        *("longest_interval_seconds", "median_interval_seconds", "total_steps", "cpu_seconds", "timing"),
    }
    assert body["exception"] == ""  # type: ignore[has-type]


def test_a_moment_in_the_future_is_now() -> None:
    (body,) = report(support.a_rank(state=support.a_state(updated_mono_ns=1 << 63))).body["ranks"]  # type: ignore[misc]

    assert body["updated_age_seconds"] == 0.0  # type: ignore[has-type]


def test_an_accepted_report_leaves_only_what_is_new() -> None:
    first = report(support.a_rank(steps=steps(1, 2), steps_read=2))

    after = support.a_poll(support.a_rank(steps=steps(1, 2, 3), steps_read=3))
    second = reports.report(SENDER, after, first.sent, is_late=False)
    third = reports.report(SENDER, after, second.sent, is_late=False)

    assert (rows(first), rows(second), rows(third)) == ([([1, 2], 0)], [([3], 0)], [([], 0)])


def test_rows_that_fell_out_while_reports_failed_count_as_lost() -> None:
    first = report(support.a_rank(steps=steps(1), steps_read=1))

    kept = support.a_poll(support.a_rank(steps=steps(9, 10), steps_read=10, records_lost=4))
    late = reports.report(SENDER, kept, first.sent, is_late=True)
    later = reports.report(SENDER, kept, late.sent, is_late=False)

    assert (rows(late), late.dropped) == ([([9, 10], 4 + 7)], 7)
    assert rows(later) == [([], 4 + 7)]


def test_rows_beyond_the_limit_in_fair_weather_are_dropped_but_not_lost() -> None:
    made = report(support.a_rank(steps=steps(1, 2, 3), steps_read=3), max_rows=2)

    assert (rows(made), made.dropped) == ([([2, 3], 0)], 1)


def test_steps_of_an_earlier_train_call_are_not_reported_as_those_of_this_one() -> None:
    """Its steps may begin anew, and the aggregator refuses steps that do not ascend."""
    earlier = tuple(row._replace(segment=1) for row in steps(8, 9))
    now = tuple(row._replace(segment=2) for row in steps(1, 2))

    made = report(support.a_rank(state=support.a_state(segment=2), steps=(*earlier, *now), steps_read=4))

    assert (rows(made), made.dropped) == ([([1, 2], 0)], 0)


def test_a_rank_that_is_gone_is_reported_once_more() -> None:
    there = report(support.a_rank())
    gone = support.a_poll(support.a_rank(gone_mono_ns=9))

    once = reports.report(SENDER, gone, there.sent, is_late=False)
    twice = reports.report(SENDER, gone, once.sent, is_late=False)

    assert ([body["alive"] for body in once.body["ranks"]], twice.body["ranks"]) == ([True], [])  # type: ignore[attr-defined]


def test_what_is_no_longer_polled_is_forgotten() -> None:
    sent = report(support.a_rank()).sent

    assert reports.report(SENDER, support.a_poll(), sent, is_late=False).sent == {}


def test_a_node_full_of_hostile_pods_stays_below_what_the_aggregator_accepts() -> None:
    full: dict[str, Any] = {
        "steps": steps(*range(51)),
        "steps_read": 51,
        "scalars": (Scalar(1, "n" * 64, 1 / 3),) * 51,
        "scalars_read": 51,
    }
    hostile = [
        support.a_rank(support.a_pod(f"bad-{pod}"), file=f"{ring}.ring", **full)
        for pod in range(110)
        for ring in range(80)
    ]
    honest = support.a_rank(support.a_pod("zzz"))

    made = report(*hostile, honest)

    body = json.dumps(made.body, separators=(",", ":"))
    assert (len(body) < 8 << 20, len(made.body["ranks"]) <= 4096) == (True, True)  # type: ignore[arg-type]
    assert made.body["ranks"][-1]["pod"] == "zzz"  # type: ignore[index]


def test_the_aggregator_takes_every_rank_of_a_report() -> None:
    known = support.a_state(step=2, entered_step=3, step_mono_ns=5, entered_mono_ns=5, longest_interval_ns=1)
    full = support.a_rank(
        POD,
        state=known,
        steps=(Step(1, None, None, None, 1), *steps(2)),
        steps_read=2,
        scalars=(Scalar(2, "loss", float("nan")),),
        scalars_read=1,
    )
    fresh = support.a_rank(state=support.a_state(rank=-1, world_size=-1, phase=0, cpu_seconds=float("nan")))
    made = reports.report(
        SENDER._replace(
            exchange=Exchange(-0.1, 0.002), clock={"trusted": False, "reason": "", "error_bound_seconds": None}
        ),
        support.a_poll(full, fresh, pods=(PodRings(POD, 1, (("link", 1),)),)),
        {},
        is_late=False,
    )

    taken = aggregator.parse(json.loads(json.dumps({**made.body, "sent_wall": 1_796_000_010.0})))

    assert ([(rank.rank, rank.step) for rank in taken.ranks], taken.refused) == ([(0, 2), (None, None)], ())


def test_the_median_is_of_the_newest_steps_of_this_train_call() -> None:
    compiled = Step(1, None, None, None, 2)
    slow = tuple(Step(number, 9.0, 0.0, 0.0, 1) for number in range(5))

    assert (
        ranks.median_interval_seconds((*slow, compiled, *(row._replace(segment=2) for row in steps(2, 3))), 2) == 0.02
    )
    assert ranks.median_interval_seconds((*slow, compiled), 2) is None


def test_turns_are_what_the_aggregator_should_hear_at_once() -> None:
    done = support.a_state(phase=9)
    before = ranks.turns([support.a_rank(), support.a_rank(state=support.a_state(step=1))])

    assert len(before) == 1
    for turned in (
        support.a_rank(is_alive=False),
        support.a_rank(state=done),
        support.a_rank(gone_mono_ns=1),
        support.a_rank(state=support.a_state(rank=1)),
        support.a_rank(file="new.ring"),
    ):
        assert ranks.turns([turned]) - before


def test_a_rank_says_how_many_signals_it_could_not_tap_and_which_paths_fit_nothing() -> None:
    latest = {"taps_refused_total": Numbers(2.0), "unresolved_paths_total": Numbers(1.0)}
    layers = {("attention_cells", 0): Numbers(4.0), ("attention_cells", 1): Numbers(0.0), ("local_norm", 2): Numbers(0)}

    (tapped,) = report(support.a_rank(latest=latest, layers=layers)).body["ranks"]  # type: ignore[misc]
    (without,) = report(support.a_rank()).body["ranks"]  # type: ignore[misc]

    assert tapped["taps"] == {"refused": 2, "unresolved_paths": [1]}  # type: ignore[has-type]
    assert "taps" not in without  # type: ignore[has-type]


def test_taps_that_a_ring_forges_are_not_reported() -> None:
    for lie in (math.nan, -1.0, 1e9):
        (body,) = report(support.a_rank(latest={"taps_refused_total": Numbers(lie)})).body["ranks"]  # type: ignore[misc]

        assert "taps" not in body  # type: ignore[has-type]

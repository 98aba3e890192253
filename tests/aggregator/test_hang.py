"""When a job counts as stalled, and who is named."""

from typing import Any

import pytest

from aggregator_builders import TRUSTED, Judge, a_pod, a_rank, done, failed, not_arrived, stalled
from rankbeat_aggregator.model.verdict import Suspect
from rankbeat_contract.monitor import Limits


def test_a_job_that_makes_steps_is_healthy():
    judge = Judge().hears(0, a_rank(0), a_rank(1))

    verdict = judge.says(1)

    assert verdict.incidents == ()
    assert verdict.level("hang") == 0


@pytest.mark.parametrize(
    ("seconds", "level"), [(19.9, {}), (20.0, {"hang": 1}), (39.9, {"hang": 1}), (40.0, {"hang": 2})]
)
def test_without_corroboration_the_limit_warns_and_twice_the_limit_pages(seconds: float, level: dict[str, int]):
    judge = Judge().hears(0, stalled(0, seconds), stalled(1, seconds))

    assert judge.levels(0) == level


@pytest.mark.parametrize(("seconds", "level"), [(19.9, {}), (20.0, {"hang": 2})])
def test_a_rank_that_has_not_entered_the_others_step_pages_at_the_limit(seconds: float, level: dict[str, int]):
    judge = Judge().hears(0, stalled(0, seconds), not_arrived(1, seconds))

    assert judge.levels(0) == level


def test_the_ranks_that_did_not_arrive_are_named_with_numbers():
    judge = Judge(Limits(hang_seconds=8.0)).hears(0, stalled(0, 8.4), not_arrived(1, 8.4))

    hang = judge.incidents(0)["hang"]

    assert hang.evidence == "not_arrived"
    assert hang.suspects == (Suspect(1, "n1", "llm-1"),)
    assert hang.message == "rank 1 has not entered step 513, which 1 of 2 ranks are in, for 8.4 s (limit 8 s)"
    assert hang.started == pytest.approx(-8.4)


def test_with_all_ranks_inside_nobody_is_named_and_the_message_says_so():
    judge = Judge().hears(0, stalled(0, 45), stalled(1, 45))

    hang = judge.incidents(0)["hang"]

    assert (hang.evidence, hang.suspects) == ("none", ())
    assert hang.message == "all 2 ranks are inside step 513 for 45 s (limit 20 s) and nothing tells them apart"


def test_a_page_names_sixteen_ranks_at_most_and_counts_all():
    behind = [not_arrived(rank, 30, world_size=40) for rank in range(1, 40)]
    judge = Judge().hears(0, stalled(0, 30, world_size=40), *behind)

    hang = judge.incidents(0)["hang"]

    assert [suspect.rank for suspect in hang.suspects] == list(range(1, 17))
    assert "ranks 1, 2, 3, 4, 5, 6, 7, 8, ... (39 ranks) have not entered" in hang.message


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ({}, 20.0),
        ({"median_interval_seconds": 5.0}, 30.0),
        ({"longest_interval_seconds": 30.0}, 45.0),
        ({"phase": "callbacks"}, 600.0),
        ({"phase": "checkpoint"}, 1800.0),
        ({"phase": "build"}, 3600.0),
        ({"phase": "init_comm", "step": None, "entered_step": None}, 1800.0),
    ],
    ids=["default", "median", "longest", "callbacks", "checkpoint", "build", "init_comm"],
)
def test_the_limit_is_the_largest_among_the_phases_that_any_rank_is_in(given: dict[str, object], limit: float):
    both = {name: value for name, value in given.items() if name.endswith("_interval_seconds")}
    judge = Judge().hears(0, stalled(0, limit - 1, **both), stalled(1, limit - 1, **given))

    assert judge.says(0).hang_limit_seconds == limit
    assert judge.levels(0) == {}

    judge.hears(
        5,
        stalled(0, limit + 4, claimed_age_seconds=105.0, **both),
        stalled(1, limit + 4, claimed_age_seconds=105.0, **given),
    )

    assert "hang" in judge.levels(5)


def test_ten_minutes_of_compiling_are_healthy():
    compiling = {"phase": "build", "step": None, "entered_step": None, "step_age_seconds": None}
    judge = Judge().hears(0, stalled(0, 600, **compiling), stalled(1, 600, **compiling))

    assert judge.levels(0) == {}


def test_the_stall_is_measured_since_the_jobs_newest_progress():
    judge = Judge().hears(0, stalled(0, 100), stalled(1, 100, phase_age_seconds=5.0))

    assert judge.levels(0) == {}


def test_the_median_comes_from_the_aligned_steps_where_there_are_any():
    rows = [[step, 10.0, 0.0, 9.0] for step in range(500, 513)]
    judge = Judge().hears(0, stalled(0, 59, steps=rows), stalled(1, 59, steps=rows))

    assert judge.says(0).hang_limit_seconds == 60.0


def test_a_lost_push_is_no_stall():
    """Nine seconds without a report say nothing of progress, though the limit is eight."""
    judge = Judge(Limits(hang_seconds=8.0)).hears(0, a_rank(0), a_rank(1))

    assert judge.levels(9.9) == {}


def test_a_stall_counts_only_up_to_the_oldest_snapshot():
    judge = Judge(Limits(hang_seconds=8.0)).hears(0, stalled(1, 6)).hears(4, stalled(0, 10, claimed_age_seconds=104.0))

    assert judge.levels(4) == {}


def test_one_snapshot_from_inside_the_step_will_do_to_page_for_whom_it_waits():
    """Of thousands of nodes the slowest reports almost a push interval after the limit."""
    judge = Judge(Limits(hang_seconds=8.0)).hears(4, stalled(2, 4, world_size=3))
    judge.hears(8, stalled(0, 8, claimed_age_seconds=104.0), not_arrived(1, 8, claimed_age_seconds=104.0))

    hang = judge.incidents(8)["hang"]

    assert (hang.level, [one.rank for one in hang.suspects]) == (2, [1])


def test_who_is_behind_may_have_come_since_its_node_last_reported():
    judge = Judge(Limits(hang_seconds=8.0)).hears(4, not_arrived(2, 4, world_size=3))
    judge.hears(8, stalled(0, 8, claimed_age_seconds=104.0), not_arrived(1, 8, claimed_age_seconds=104.0))

    assert judge.levels(8) == {}


def test_ranks_behind_a_silent_node_are_never_suspects():
    judge = Judge().hears(0, not_arrived(1, 1.0)).hears(0, a_rank(0))
    for at in (5, 10, 15, 20, 25, 30):
        judge.hears(at, stalled(0, at, claimed_age_seconds=100.0 + at))

    hang = judge.incidents(30)["hang"]

    assert (hang.level, hang.evidence, hang.suspects) == (1, "none", ())
    assert hang.message.endswith("; node n1 has sent no report for 30 s, so that nothing is known of the ranks there")


def test_nothing_is_said_of_stalls_while_all_nodes_are_silent():
    judge = Judge().hears(0, a_rank(0), a_rank(1))

    assert judge.says(30).level("hang") is None


def test_a_hang_stays_open_until_a_new_step_is_finished():
    judge = Judge().hears(0, stalled(0, 30), not_arrived(1, 30))
    first = judge.incidents(0)["hang"]

    judge.hears(5, *(stalled(rank, 1, phase="checkpoint", claimed_age_seconds=105.0) for rank in (0, 1)))
    assert judge.incidents(5)["hang"] == first

    judge.hears(10, *(a_rank(rank, step=513, entered_step=514, claimed_age_seconds=110.0) for rank in (0, 1)))
    assert judge.levels(10) == {}


def test_the_earliest_evidence_stays():
    judge = Judge().hears(0, stalled(0, 30), not_arrived(1, 30))
    judge.says(0)

    judge.hears(5, not_arrived(0, 35, claimed_age_seconds=105.0), stalled(1, 35, claimed_age_seconds=105.0))

    assert judge.incidents(5)["hang"].suspects == (Suspect(1, "n1", "llm-1"),)


def test_evidence_that_comes_later_names_whom_nobody_named_before():
    judge = Judge().hears(0, stalled(0, 30), stalled(1, 30))
    assert judge.levels(0) == {"hang": 1}

    judge.hears(5, stalled(0, 35, claimed_age_seconds=105.0), failed(1, 1, claimed_age_seconds=105.0))
    hang = judge.incidents(5)["hang"]

    assert (hang.level, hang.evidence, hang.suspects) == (2, "process_dead", (Suspect(1, "n1", "llm-1"),))


def test_a_hang_that_ends_in_a_crash_is_one_incident():
    judge = Judge().hears(0, stalled(0, 30), not_arrived(1, 30))
    judge.says(0)

    judge.hears(5, failed(0, 1, claimed_age_seconds=105.0), failed(1, 0.5, claimed_age_seconds=105.0))
    incidents = judge.incidents(5)

    assert incidents.keys() == {"hang"}
    assert incidents["hang"].suspects == (Suspect(1, "n1", "llm-1"),)
    assert "; then rank 0 failed (RuntimeError) after step 512" in incidents["hang"].message


def test_a_restart_does_not_end_a_hang_before_its_first_step():
    judge = Judge().hears(0, stalled(0, 30), not_arrived(1, 30))
    judge.says(0)

    new = {"phase": "build", "step": None, "entered_step": None, "claimed_age_seconds": 2.0, "phase_age_seconds": 1.0}
    judge.hears(60, *(a_rank(rank, run=f"new-{rank}", **new) for rank in (0, 1)))
    assert judge.levels(60) == {"hang": 2}

    judge.hears(65, *(a_rank(rank, run=f"new-{rank}", step=1, claimed_age_seconds=7.0) for rank in (0, 1)))
    assert judge.levels(65) == {}
    assert judge.view(65).attempt == 2


def test_ranks_that_are_done_do_not_stall():
    judge = Judge().hears(0, done(0, 3600), done(1, 3600))

    assert judge.says(0).level("hang") is None
    assert judge.levels(0) == {}


def test_a_job_that_is_being_deleted_does_not_hang():
    rank = stalled(0, 30)
    judge = Judge().node(0, "n0", [rank], pods=[a_pod(rank, deleting=True)]).hears(0, not_arrived(1, 30))

    assert judge.levels(0) == {}


def test_a_rank_whose_pod_was_taken_away_explains_the_stall():
    rank = a_rank(1)
    judge = Judge().node(0, "n1", [rank], pods=[a_pod(rank, deleting=True)]).hears(0, a_rank(0))
    judge.says(0)
    judge.node(65, "n1", [], pods=[]).hears(65, stalled(0, 65, claimed_age_seconds=165.0))

    hang = judge.incidents(65)["hang"]

    assert (hang.level, hang.evidence, hang.suspects) == (2, "process_dead", (Suspect(1, "n1", "llm-1"),))


@pytest.mark.parametrize("step_seconds", [-3600.0, 3600.0, -20.0, 20.0])
def test_a_node_whose_wall_clock_is_set_stays_healthy(step_seconds: float):
    judge = Judge(Limits(hang_seconds=8.0)).hears(0, a_rank(0), a_rank(1))

    judge.hears(
        5,
        *(a_rank(rank, step=700, claimed_age_seconds=105.0) for rank in (0, 1)),
        sent_wall=1_796_000_005 + step_seconds,
    )

    assert judge.levels(5) == {}
    assert judge.view(5).active[0].progress == pytest.approx(4.99, abs=0.003)


def test_an_incident_ends_five_minutes_after_the_last_pod():
    judge = Judge().hears(0, stalled(0, 30), not_arrived(1, 30))
    judge.says(0)
    for at in range(5, 320, 5):
        judge.node(at, "n0", [], pods=[]).node(at, "n1", [], pods=[])
    assert judge.levels(299) == {"hang": 2}

    assert judge.levels(301) == {}


def test_an_untrusted_clock_does_not_touch_the_verdict():
    trusted, untrusted = (
        Judge().hears(0, stalled(0, 30), not_arrived(1, 30), clock={**TRUSTED, "trusted": trust})
        for trust in (True, False)
    )

    assert trusted.says(0) == untrusted.says(0)


OWN = {"tier": "heartbeat", "timing": "dispatch", "total_steps": None}
"""A loop of the job's own: nobody says when it ends, its phase stays `train`."""
ENDED = {**OWN, "entered_step": 512}


@pytest.mark.parametrize(
    ("ranks", "level"),
    [
        ((a_rank(0, **OWN), a_rank(1, **OWN)), {}),
        ((stalled(0, 19.9, **ENDED), stalled(1, 19.9, **ENDED)), {}),
        ((stalled(0, 20.0, **ENDED), stalled(1, 20.0, **ENDED)), {"hang": 1}),
        ((stalled(0, 3600.0, **ENDED), stalled(1, 3600.0, **ENDED)), {"hang": 1}),
        ((stalled(0, 3600.0, **OWN), stalled(1, 3600.0, **OWN)), {"hang": 1}),
        ((stalled(0, 20.0, **OWN), stalled(1, 20.0, **ENDED)), {"hang": 2}),
        ((stalled(0, 20.0, **ENDED), failed(1, 20.0, **ENDED)), {"hang": 2}),
        ((stalled(0, 40.0, **ENDED), stalled(1, 40.0)), {"hang": 2}),
    ],
    ids=[
        "steps",
        "before the limit",
        "all have left the last step",
        "for an hour",
        "all inside a step, which may compile",
        "one has not entered the step that the other is in",
        "a process has failed",
        "a rank with callbacks stalls too",
    ],
)
def test_a_loop_of_the_job_s_own_pages_only_with_corroboration(ranks: tuple[Any, Any], level: dict[str, int]):
    judge = Judge().hears(0, *({**one, "claimed_age_seconds": 4000.0} for one in ranks))

    assert judge.levels(0) == level


def test_such_a_warning_says_why_it_is_no_page_and_ends_with_the_processes():
    judge = Judge().hears(0, stalled(0, 60.0, **ENDED), stalled(1, 60.0, **ENDED))

    hang = judge.incidents(0)["hang"]
    judge.hears(5, *(done(rank, 1.0, **OWN, claimed_age_seconds=105.0) for rank in (0, 1)))

    assert hang.message == (
        "no rank makes progress for 60 s (limit 20 s): 2 in phase train, and nothing tells them apart;"
        " a loop of the job's own does not say when it ends, so that this alone is no page"
    )
    assert judge.levels(5) == {}

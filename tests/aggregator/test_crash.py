"""When a job counts as crashed, and who is named."""

import pytest

from aggregator_builders import TRUSTED, UNTRUSTED, Judge, a_pod, a_rank, done, failed, stalled
from rankbeat_aggregator.model.verdict import Suspect

KILLED = {"alive": False}
RANK_1 = Suspect(1, "n1", "llm-1")


def test_a_job_that_came_to_its_end_has_not_crashed():
    judge = Judge().hears(0, done(0), done(1))

    assert judge.levels(0) == {}
    assert judge.says(0).reason == ""


def test_a_process_that_fails_after_all_ranks_reached_the_end_is_a_teardown():
    """MindSpore, 1 of 23 finished runs: SIGSEGV in interpreter teardown (docs/sources.md, MindSpore)."""
    end = {"step": 4000, "entered_step": 4000, "phase": "between", "alive": False}
    judge = Judge().hears(0, done(0), stalled(1, 1, **end))

    verdict = judge.says(0)

    assert verdict.incidents == ()
    assert verdict.reason == "teardown"


def test_a_rank_that_fails_at_the_end_is_no_crash_while_others_still_write_their_checkpoint():
    end = {"step": 4000, "entered_step": 4000}
    judge = Judge().hears(0, a_rank(0, **end, phase="checkpoint"), stalled(1, 1, **end, phase="between", alive=False))

    assert judge.levels(0) == {}


def test_a_step_beyond_the_total_is_no_end_while_training_goes_on():
    judge = Judge().hears(0, a_rank(0, total_steps=100), stalled(1, 1, total_steps=100, alive=False))

    assert judge.levels(0) == {"crash": 2}


def test_a_rank_that_fails_pages_at_once_with_its_exception():
    judge = Judge().hears(0, a_rank(0), failed(1))

    crash = judge.incidents(0)["crash"]

    assert (crash.level, crash.evidence, crash.suspects) == (2, "process_dead", (RANK_1,))
    assert crash.message == "rank 1 failed (RuntimeError) after step 512, 1 of 2 ranks have ended"


def test_a_process_that_is_killed_leaves_no_exception():
    judge = Judge().hears(0, a_rank(0), stalled(1, 1, **KILLED))

    assert judge.incidents(0)["crash"].message == (
        "the process of rank 1 ended without an exception after step 512, 1 of 2 ranks have ended"
    )


def test_a_process_that_fails_before_it_knows_its_rank_is_named_by_its_pod():
    unknown = {"run": "run-u", "step": None, "entered_step": None, "world_size": None}
    judge = Judge().hears(0, failed(None, 1, **unknown))

    crash = judge.incidents(0)["crash"]

    assert crash.suspects == (Suspect(None, "n0", "llm-0"),)
    assert crash.message.startswith("a process of pod llm-0 failed (RuntimeError) before the first step")


@pytest.mark.parametrize("phase", ["train", "failed"])
def test_a_job_that_is_deleted_has_not_crashed(phase: str):
    ranks = [stalled(rank, 1, alive=False, phase=phase) for rank in (0, 1)]
    judge = Judge()
    for rank in ranks:
        judge.node(0, f"n{rank['rank']}", [rank], pods=[a_pod(rank, deleting=True)])

    assert judge.levels(0) == {}
    assert judge.levels(600) == {}


def test_peers_that_fail_while_the_jobs_pods_go_one_after_the_other_have_not_crashed():
    leaving, peer = stalled(0, 1, alive=False), failed(1)
    judge = Judge().node(0, "n0", [leaving], pods=[a_pod(leaving, deleting=True)]).hears(0, peer)
    assert judge.levels(0) == {}

    judge.node(5, "n1", [peer], pods=[a_pod(peer, deleting=True)])
    assert judge.levels(61) == {}


def test_peers_that_still_stand_dead_a_minute_after_one_pod_was_taken_away_have_crashed():
    leaving = stalled(0, 1, alive=False)
    judge = Judge().node(0, "n0", [leaving], pods=[a_pod(leaving, deleting=True)]).hears(0, failed(1))
    judge.node(60, "n0", [], pods=[]).hears(60, failed(1, 61, claimed_age_seconds=160.0))

    assert judge.levels(61) == {"crash": 2}


def test_a_ring_reported_once_more_after_its_pod_has_gone_is_no_crash():
    rank = a_rank(1)
    judge = Judge().hears(0, a_rank(0), rank)
    judge.node(5, "n1", [stalled(1, 4, alive=False, claimed_age_seconds=105.0)], pods=[])

    assert judge.levels(5) == {}


def test_on_one_node_the_earliest_failure_is_named():
    judge = Judge().node(0, "n0", [failed(0, 1.0), failed(1, 1.5)])

    assert [one.rank for one in judge.incidents(0)["crash"].suspects] == [1]


def test_ranks_that_the_launcher_killed_are_not_named_beside_the_exception():
    judge = Judge().node(0, "n0", [stalled(0, 1.6, **KILLED), failed(1, 1.5), stalled(2, 1.6, **KILLED)])

    assert [one.rank for one in judge.incidents(0)["crash"].suspects] == [1]


def test_a_lost_peers_exception_inside_the_step_does_not_hide_the_peer_that_was_killed():
    judge = Judge().node(0, "n0", [a_rank(0, alive=True), a_rank(1)])
    judge.node(5, "n0", [
        failed(0, 0.2, claimed_age_seconds=105.0, entered_step=513),
        stalled(1, 0.4, **KILLED, claimed_age_seconds=105.0, entered_step=513),
    ])  # fmt: skip

    crash = judge.incidents(5)["crash"]

    assert [one.rank for one in crash.suspects] == [0, 1]
    assert crash.message.endswith("; order unknown")


def test_between_nodes_clocks_with_bounds_order_the_failures():
    judge = Judge().hears(0, failed(0, 1.0), failed(1, 1.5))

    assert judge.incidents(0)["crash"].suspects == (RANK_1,)


@pytest.mark.parametrize(
    "clock", [UNTRUSTED, None, {**TRUSTED, "error_bound_seconds": 0.6}, {**TRUSTED, "error_bound_seconds": None}]
)
def test_between_nodes_without_such_clocks_all_that_may_be_first_are_named(clock: object):
    judge = Judge().hears(0, failed(0, 1.0), failed(1, 1.5), clock=clock)

    crash = judge.incidents(0)["crash"]

    assert [one.rank for one in crash.suspects] == [0, 1]
    assert "order" in crash.message
    assert "unknown" in crash.message


def test_an_earlier_failure_that_is_reported_a_little_later_replaces_the_victim():
    judge = Judge().hears(0, failed(0, 0.5)).hears(0, a_rank(1))
    assert judge.incidents(0)["crash"].suspects == (Suspect(0, "n0", "llm-0"),)

    judge.hears(3, failed(1, 5.0, claimed_age_seconds=103.0))

    assert judge.incidents(3)["crash"].suspects == (RANK_1,)


def test_a_crash_is_followed_by_no_hang_and_no_missing_rank():
    judge = Judge().hears(0, a_rank(0), failed(1))
    judge.says(0)
    judge.hears(200, stalled(0, 200, claimed_age_seconds=300.0), failed(1, 201, claimed_age_seconds=300.0))

    assert judge.levels(200) == {"crash": 2}


def test_a_crash_ends_with_the_first_step_of_the_next_attempt():
    judge = Judge().hears(0, failed(0), failed(1))
    judge.says(0)

    starting = {"phase": "init_comm", "step": None, "entered_step": None, "step_age_seconds": None}
    judge.hears(30, *(a_rank(r, run=f"b{r}", claimed_age_seconds=5.0, **starting) for r in (0, 1)))
    assert judge.levels(30) == {"crash": 2}

    judge.hears(35, *(a_rank(r, run=f"b{r}", claimed_age_seconds=10.0, step=3) for r in (0, 1)))
    assert judge.levels(35) == {}


def test_an_attempt_that_failed_before_its_ranks_were_known_is_over_when_the_next_begins():
    unknown = {"step": None, "entered_step": None, "world_size": None, "claimed_age_seconds": 10.0}
    judge = Judge().node(0, "n0", [failed(None, 1, run="u0", **unknown)])
    assert judge.levels(0) == {"crash": 2}

    judge.hears(30, *(a_rank(rank, claimed_age_seconds=20.0) for rank in (0, 1)))

    assert judge.levels(30) == {}
    assert judge.view(30).attempt == 2

"""When ranks count as missing."""

import pytest

from aggregator_builders import Judge, a_pod, a_rank, done, stalled
from rankbeat_aggregator.model.verdict import Suspect
from rankbeat_contract.monitor import Limits


def silent_second_node(until: float) -> Judge:
    """Rank 1's node reported last at 0, rank 0's goes on."""
    judge = Judge().hears(0, a_rank(1))
    at = 0.0
    while at <= until:
        judge.hears(at, a_rank(0, step=512 + int(at), claimed_age_seconds=100.0 + at))
        at += 5
    return judge


@pytest.mark.parametrize(("at", "levels"), [(10, {}), (55, {}), (65, {"rank_missing": 2})])
def test_a_rank_that_does_not_report_pages_after_the_limit(at: int, levels: dict[str, int]):
    assert silent_second_node(at).levels(at) == levels


def test_the_node_whose_reports_stopped_is_named():
    missing = silent_second_node(65).incidents(65)["rank_missing"]

    assert missing.suspects == (Suspect(1, "n1", "llm-1"),)
    assert missing.message == (
        "1 of 2 ranks have not reported for 65 s (limit 60 s): node n1 has sent no report for 65 s (rank 1)"
    )


def test_the_limit_is_the_monitors():
    judge = silent_second_node(25)
    judge.limits = Limits(rank_missing_seconds=25.0)

    assert judge.levels(25.1) == {"rank_missing": 2}


def test_a_collector_that_restarts_opens_nothing():
    judge = Judge().hears(0, a_rank(0), a_rank(1))
    for at in (5, 10, 15, 20, 25, 30, 35, 40):
        judge.hears(at, a_rank(0, step=512 + at, claimed_age_seconds=100.0 + at))
        assert judge.levels(at) == {}
    judge.node(41, "n1", [], pods=[])
    assert judge.levels(41) == {}

    judge.hears(46, a_rank(1, step=558, claimed_age_seconds=146.0))

    assert judge.levels(46) == {}
    assert len(judge.view(46).reporting) == 2


def test_ranks_that_report_again_end_it():
    judge = silent_second_node(65)
    judge.says(65)

    judge.hears(70, a_rank(1, step=582, claimed_age_seconds=170.0), a_rank(0, step=582, claimed_age_seconds=170.0))

    assert judge.levels(70) == {}


def test_a_job_whose_only_node_falls_silent_is_missing_not_healthy():
    judge = Judge().hears(0, a_rank(0, on="n0"), a_rank(1, on="n0"))

    verdict = judge.says(61)

    assert verdict.level("hang") is None
    assert verdict.level("rank_missing") == 2


def test_ranks_that_join_late_are_not_missing():
    """While any rank is still in init_comm, others may not have come."""
    judge = Judge().hears(0, a_rank(0, phase="init_comm", step=None, entered_step=None))

    assert judge.says(500).level("rank_missing") != 2
    assert judge.levels(500) == {}


def test_only_ranks_that_ever_claimed_a_ring_are_expected():
    """A world of two of which one pod is not injected."""
    judge = Judge().hears(0, a_rank(0)).hears(100, a_rank(0, claimed_age_seconds=200.0))

    assert judge.view(100).expected == 1
    assert judge.levels(100) == {}


def test_an_injected_pod_without_a_ring_is_listed_and_then_missing():
    ringless = a_pod(a_rank(1), rings=0)
    judge = Judge()
    for at in range(0, 70, 5):
        judge.hears(at, a_rank(0, step=512 + at, claimed_age_seconds=100.0 + at)).node(at, "n1", [], pods=[ringless])
        assert judge.levels(at) == ({"rank_missing": 2} if at >= 60 else {})

    missing = judge.incidents(65)["rank_missing"]

    assert [pod.report.pod for pod in judge.view(65).pods_without_ring] == ["llm-1"]
    assert missing.suspects == (Suspect(None, "n1", "llm-1"),)
    assert missing.message.endswith("pod llm-1 runs without a ring")


def test_ranks_that_are_done_are_not_missing():
    judge = Judge().hears(0, done(0), done(1))
    judge.node(100, "n0", [], pods=[]).node(100, "n1", [], pods=[])

    assert judge.levels(100) == {}


def test_a_new_aggregator_says_nothing_before_two_pushes_of_all_nodes():
    judge = Judge(started=0.0).hears(1, a_rank(0)).hears(2, a_rank(1))

    assert judge.says(9.9).judged == ()
    assert judge.says(10.0).level("rank_missing") == 0


def test_a_new_aggregator_pages_nobody_though_a_node_reports_a_little_later():
    judge = Judge(started=0.0)
    for at in range(1, 60, 5):
        judge.hears(at, a_rank(0, step=512 + at, claimed_age_seconds=100.0 + at))
        if at > 30:
            judge.hears(at, a_rank(1, step=512 + at, claimed_age_seconds=100.0 + at))
        assert judge.levels(at + 1) == {}


def test_a_job_that_was_deleted_is_not_missing():
    ranks = [a_rank(0, alive=False), a_rank(1, alive=False)]
    judge = Judge().hears(-5, a_rank(0, claimed_age_seconds=95.0), a_rank(1, claimed_age_seconds=95.0))
    for rank in ranks:
        judge.node(0, f"n{rank['rank']}", [rank], pods=[a_pod(rank, deleting=True)])
    for at in range(5, 200, 5):
        judge.node(at, "n0", [], pods=[]).node(at, "n1", [], pods=[])
        assert judge.levels(at) == {}


def test_a_rank_whose_agent_gave_up_is_neither_stalled_nor_missing():
    judge = Judge()
    for at in range(0, 200, 5):
        step, age = 512 + at, 100.0 + at
        judge.hears(at, a_rank(0, step=step, entered_step=step, claimed_age_seconds=age))
        judge.hears(at, stalled(1, at, agent_on=False, claimed_age_seconds=age))

    assert judge.levels(200) == {}

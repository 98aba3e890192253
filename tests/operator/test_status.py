"""The status as a whole: numbers, incidents, when it is written, and what is worth an event."""

from operator_builders import AGENT, JOB_UID, NOW, a_hang, a_job, a_monitor, a_verdict, seen
from rankbeat_operator.model.observed import Aggregator
from rankbeat_operator.plan import status
from rankbeat_operator.plan.conditions import Condition
from rankbeat_operator.plan.status import Notice


def reconciled(observed, **monitor):
    return status.reconciled(a_monitor(**monitor), observed).status


def without_conditions(whole):
    return {key: value for key, value in whole.items() if key != "conditions"}


def test_a_training_job_with_a_hang():
    whole = reconciled(seen(verdict=a_verdict(incidents=(a_hang(),))))

    assert without_conditions(whole) == {
        "observedGeneration": 1,
        "job": {"apiVersion": "batch/v1", "kind": "Job", "name": "llm", "uid": JOB_UID},
        "ranks": {"expected": 2, "reporting": 2, "summary": "2/2"},
        "step": 512,
        "totalSteps": 4000,
        "loss": "2.31",
        "phase": "train",
        "alerts": "hang",
        "incidents": [
            {
                "kind": "hang",
                "level": 2,
                "started": "2026-11-30T05:59:50Z",
                "evidence": "not_arrived",
                "message": "rank 1 has not entered step 513, which 1 of 2 ranks are in, for 8.4 s (limit 8 s)",
                "suspects": [{"rank": 1, "node": "n1", "pod": "llm-1-y"}],
            }
        ],
        "injection": {
            "agent": AGENT,
            "mode": "enabled",
            "reason": "",
            "message": "",
            "breaker": {"open": False, "reason": "", "since": None, "agent": AGENT, "reset": ""},
            "injectedPods": 2,
            "skippedPods": 0,
        },
    }


def test_what_is_not_known_is_absent():
    verdict = a_verdict(ranks_expected=None, ranks_reporting=0, step=None, total_steps=None, loss=None, phase="")

    whole = reconciled(seen(verdict=verdict))

    assert whole["ranks"] == {"reporting": 0, "summary": "0/?"}
    assert {"step", "totalSteps", "loss", "phase", "incidents"}.isdisjoint(whole)


def test_a_loss_that_is_not_finite_is_shown_as_it_is():
    assert reconciled(seen(verdict=a_verdict(loss=float("nan"))))["loss"] == "nan"


def test_without_the_aggregator_numbers_and_incidents_of_the_same_job_are_kept():
    before = reconciled(seen(verdict=a_verdict(incidents=(a_hang(),))))

    whole = reconciled(seen(verdict=None, aggregator=Aggregator("refused", NOW - 60)), status=before)

    kept = ("ranks", "step", "totalSteps", "loss", "phase", "alerts", "incidents")
    assert {key: whole[key] for key in kept} == {key: before[key] for key in kept}


def test_an_aggregator_that_answers_and_knows_of_no_incident_clears_it():
    before = reconciled(seen(verdict=a_verdict(incidents=(a_hang(),))))

    whole = reconciled(seen(verdict=None), status=before)

    assert (whole["step"], whole["alerts"], "incidents" in whole) == (512, "none", False)


def test_a_job_made_again_under_its_name_starts_without_numbers():
    before = reconciled(seen())

    whole = reconciled(seen(workload=a_job(uid="another"), verdict=None, pods=()), status=before)

    assert {"ranks", "step", "loss"}.isdisjoint(whole)


def test_a_second_look_at_the_same_changes_nothing():
    before = reconciled(seen())

    assert reconciled(seen(now=NOW + 30), status=before) == before
    assert status.reconciled(a_monitor(status=before), seen(now=NOW + 30)).notices == ()


def test_numbers_alone_are_written_now_and_then_and_everything_else_at_once():
    before = {"step": 1, "loss": "2", "alerts": "none"}
    numbers = {**before, "step": 2}
    more = {**numbers, "alerts": "hang"}

    assert not status.is_due(before, before, 1000)
    assert not status.is_due(before, numbers, 9)
    assert status.is_due(before, numbers, 10)
    assert status.is_due(before, more, 0)


def test_the_first_numbers_and_every_change_of_rank_counts_are_written_at_once():
    before = {"ranks": {"expected": 2, "reporting": 1, "summary": "1/2"}, "alerts": "none"}
    step = {**before, "step": 0}
    loss = {**step, "loss": "2.31"}
    all_ranks = {**loss, "ranks": {"expected": 2, "reporting": 2, "summary": "2/2"}}

    assert status.is_due(before, step, 0)
    assert status.is_due(step, loss, 0)
    assert status.is_due(loss, all_ranks, 0)
    assert status.is_due(loss, step, 0)


def test_only_what_got_worse_is_an_event():
    before = {
        "conditions": [
            {"type": "TargetFound", "status": "True", "reason": "Found"},
            {"type": "Injected", "status": "False", "reason": "NotOptedIn"},
            {"type": "Reporting", "status": "False", "reason": "RanksMissing"},
        ]
    }
    after = (
        Condition("TargetFound", "False", "JobNotFound", "there is no Job"),
        Condition("Injected", "False", "NotOptedIn", "nobody"),
        Condition("Reporting", "True", "AllRanks", "2 of 2"),
        Condition("AgentLoaded", "Unknown", "NoReports", "none"),
        Condition("Ready", "False", "JobNotFound", "there is no Job"),
        Condition("Healthy", "False", "TrainingHung", "rank 1"),
    )

    assert status.notices(before, after) == (Notice("JobNotFound", "there is no Job"), Notice("TrainingHung", "rank 1"))

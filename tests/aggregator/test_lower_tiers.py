"""Ranks that are seen without a ring: what is judged of them, and what is withheld."""

import pytest

from aggregator_builders import Judge, a_pod, a_rank, not_arrived, stalled
from rankbeat_aggregator.detect import loss
from rankbeat_aggregator.model.verdict import Suspect
from rankbeat_contract.monitor import Limits

PERF = {
    "tier": "perf_file",
    "entered_step": None,
    "entered_age_seconds": None,
    "timing": "dispatch",
    "world_size": None,
}
LOG = {**PERF, "tier": "log_tail", "scalars": [[512, "loss", 2.5]]}
SHORT = Limits(phase_seconds=(("callbacks", 60.0), ("checkpoint", 300.0), ("eval", 100.0)))


@pytest.mark.parametrize(("seconds", "level"), [(299.0, {}), (300.0, {"hang": 1}), (600.0, {"hang": 2})])
def test_silence_is_judged_by_the_longest_phase_that_the_tier_cannot_tell_from_training(
    seconds: float, level: dict[str, int]
):
    judge = Judge(SHORT).hears(0, stalled(0, seconds, **PERF), stalled(1, seconds, **PERF))

    assert judge.levels(0) == level


def test_a_rank_whose_entered_step_nobody_sees_is_no_late_comer():
    judge = Judge(SHORT).hears(0, stalled(0, 400), stalled(1, 400, **PERF), not_arrived(2, 400))

    assert judge.incidents(0)["hang"].suspects == (Suspect(2, "n2", "llm-2"),)


def test_unnamed_ranks_of_a_log_make_no_rank_missing_and_give_the_job_its_loss():
    judge = Judge().hears(0, a_rank(None, **LOG))
    seen = judge.view(1)

    assert (seen.expected, len(seen.reporting), seen.pods_without_ring) == (0, 0, ())
    assert loss.job_loss(seen) == 2.5
    assert judge.levels(1000) == {}


def test_a_loss_of_unnamed_ranks_that_is_not_finite_names_their_pod():
    broken = [[511, "loss", float("nan")], [512, "loss", float("nan")]]
    judge = Judge().hears(0, a_rank(None, **{**LOG, "scalars": broken}))

    nan_loss = judge.incidents(1)["nan_loss"]

    assert (nan_loss.level, nan_loss.suspects) == (2, (Suspect(None, "n0", "llm-0"),))
    assert "a process of pod llm-0" in nan_loss.message


def test_a_pod_without_the_agent_is_not_waited_for():
    """A pod that was skipped and that no lower tier shows either; its job's other ranks are all there."""
    rank, skipped = a_rank(0, on="n0"), a_rank(1)
    pods = [a_pod(rank), a_pod(skipped, rings=0, has_agent=False)]

    view = Judge().hears(0, rank, pods=pods).view(1)

    assert (view.expected, view.pods_without_ring) == (1, ())


def test_of_ranks_that_end_with_their_pods_none_is_called_the_first():
    ended = {**PERF, "alive": False, "phase": "failed"}
    judge = Judge().hears(0, stalled(0, 1.0, **ended, on="n"), stalled(1, 1.0, **ended, on="n"))

    crash = judge.incidents(0)["crash"]

    assert [suspect.rank for suspect in crash.suspects] == [0, 1]


@pytest.mark.parametrize("tier", [None, "callback", "later"])
def test_a_tier_that_is_absent_or_unknown_is_a_ring_s(tier: str | None):
    rank = {**a_rank(0), "tier": tier}

    assert Judge().hears(0, rank).view(1).members[0].snapshot.tier == "callback"


def test_losses_of_a_run_that_began_anew_replace_those_of_larger_steps():
    broken = [[511, "loss", float("nan")], [512, "loss", float("nan")]]
    judge = Judge().hears(0, a_rank(0, scalars=broken))
    later = {"segment": 2, "step": 400, "entered_step": 401, "claimed_age_seconds": 105.0}
    judge.hears(5, a_rank(0, **later, scalars=[[400, "loss", 2.5]]))

    assert loss.job_loss(judge.view(6)) == 2.5

"""When a loss that is not finite becomes an incident."""

import math

import pytest

from aggregator_builders import Judge, a_rank
from rankbeat_aggregator.detect import loss

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("scalars", "levels"),
    [
        ([], {}),
        ([[500, "loss", 2.3]], {}),
        ([[500, "loss", NAN], [510, "loss", 2.3]], {}),
        ([[500, "loss", NAN], [500, "skipped", 1.0]], {}),
        ([[500, "loss", 2.3], [510, "loss", NAN]], {"nan_loss": 1}),
        ([[500, "loss", 2.3], [510, "loss", INF]], {"nan_loss": 1}),
        ([[500, "loss", NAN], [510, "loss", NAN]], {"nan_loss": 2}),
        ([[500, "loss", NAN], [510, "loss", -INF], [520, "loss", NAN], [530, "loss", NAN]], {"nan_loss": 2}),
    ],
    ids=["no sample", "finite", "healed", "skipped", "one", "infinite", "two", "many"],
)
def test_one_sample_warns_and_two_in_a_row_page(scalars: list[object], levels: dict[str, int]):
    judge = Judge().hears(0, a_rank(0, scalars=scalars), a_rank(1))

    assert judge.levels(0) == levels


def test_a_rank_without_a_valid_loss_is_not_judged():
    """Pipeline stages that are not the last print -1 or nothing (torchtitan#547)."""
    judge = Judge().hears(0, a_rank(0, scalars=[[500, "loss", NAN]], loss_valid=False))

    assert judge.says(0).level("nan_loss") is None


def test_the_second_sample_may_come_in_a_later_report():
    judge = Judge().hears(0, a_rank(0, scalars=[[500, "loss", NAN]]), a_rank(1))
    assert judge.levels(0) == {"nan_loss": 1}

    judge.hears(5, a_rank(0, scalars=[[510, "loss", NAN]], claimed_age_seconds=105.0))

    nan = judge.incidents(5)["nan_loss"]
    assert nan.level == 2
    assert [one.rank for one in nan.suspects] == [0]
    assert nan.message == "the loss of rank 0 is nan at step 500, and at the samples after it"


def test_a_finite_loss_ends_it():
    judge = Judge().hears(0, a_rank(0, scalars=[[500, "loss", NAN], [510, "loss", NAN]]))
    judge.says(0)

    judge.hears(5, a_rank(0, scalars=[[520, "loss", 2.0]], claimed_age_seconds=105.0))

    assert judge.levels(5) == {}


def test_steps_alone_do_not_end_it():
    judge = Judge().hears(0, a_rank(0, scalars=[[500, "loss", NAN], [510, "loss", NAN]]))
    judge.says(0)

    judge.hears(5, a_rank(0, step=600, claimed_age_seconds=105.0))

    assert judge.levels(5) == {"nan_loss": 2}


def test_the_ranks_whose_loss_broke_first_are_named():
    judge = Judge().hears(0, a_rank(0, scalars=[[510, "loss", NAN]]), a_rank(1, scalars=[[500, "loss", NAN]]))

    assert [one.rank for one in judge.incidents(0)["nan_loss"].suspects] == [1]


def test_the_jobs_loss_is_that_of_the_lowest_rank_that_holds_one():
    judge = Judge().hears(0, a_rank(0, loss_valid=False), a_rank(1, scalars=[[500, "loss", 2.0], [510, "loss", 1.5]]))

    assert loss.job_loss(judge.view(0)) == 1.5

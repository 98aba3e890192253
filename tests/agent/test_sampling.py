"""Which steps are sampled."""

import pytest

from rankbeat_agent.hooks import sampling
from rankbeat_agent.hooks.sampling import Change, Sampling


def sampled(rule, after, until):
    steps = []
    while (after := rule.next_step(after)) <= until:
        steps.append(after)
    return steps


@pytest.mark.parametrize(
    ("wanted", "total_steps", "expected"),
    [
        pytest.param(Sampling(), 0, (1, 100), id="auto, length unknown: every step"),
        pytest.param(Sampling(), 40_000, (200, 100), id="auto: about 200 points a run"),
        pytest.param(Sampling(0, 5), 199, (1, 5), id="auto, a short run: every step"),
        pytest.param(Sampling(7, 0), 40_000, (7, 0), id="asked for"),
    ],
)
def test_the_interval_is_the_monitors_or_follows_from_the_length_of_the_run(wanted, total_steps, expected):
    assert wanted.settled(total_steps) == expected


def test_steps_are_sampled_where_the_multiple_changes_whoever_starts_where():
    assert sampled(Sampling(10, 0), 0, 40) == [10, 20, 30, 40]
    assert sampled(Sampling(10, 0), 17, 40) == [20, 30, 40]


def test_the_first_steps_are_all_sampled():
    assert sampled(Sampling(10, 4), 0, 30) == [1, 2, 3, 4, 10, 20, 30]


def test_a_sink_that_jumps_over_a_multiple_is_sampled_once():
    assert Sampling(10, 0).next_step(24) == 30


def test_a_change_holds_from_its_step_and_the_sampling_before_it_until_then():
    rule = sampling.rule(Sampling(5, 0), Change(23, Sampling(10, 0)), 0)

    assert sampled(rule, 0, 40) == [10, 20, 25, 30, 35, 40]


def test_ranks_that_read_a_change_at_different_steps_before_it_sample_the_same_ones():
    change = Change(23, Sampling(10, 0))
    early, late = (sampling.rule(Sampling(5, 0), change, 0) for _ in range(2))

    assert sampled(early, 3, 40)[-4:] == sampled(late, 21, 40) == [25, 30, 35, 40]


def test_a_rank_that_starts_after_a_change_knows_only_what_holds_now():
    assert sampled(sampling.rule(Sampling(5, 0), Change(23, Sampling(10, 0)), 0), 30, 45) == [35, 40, 45]


def test_the_sampling_before_a_change_may_be_auto_as_well():
    rule = sampling.rule(Sampling(5, 0), Change(30, Sampling(0, 0)), 2000)

    assert sampled(rule, 0, 40) == [10, 20, 30, 35, 40]

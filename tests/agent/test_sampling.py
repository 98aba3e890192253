"""Which steps are sampled."""

import pytest

from rankbeat_agent.hooks import sampling


def sampled(rule, after, until):
    steps = []
    while (after := rule.next_step(after)) <= until:
        steps.append(after)
    return steps


@pytest.mark.parametrize(
    ("text", "total_steps", "expected"),
    [
        pytest.param("", 0, (1, 100), id="no configuration, length unknown"),
        pytest.param("", 40_000, (200, 100), id="auto: about 200 points a run"),
        pytest.param('{"intervalSteps": 7, "denseFirstSteps": 0}', 40_000, (7, 0), id="asked for"),
        pytest.param('{"later": 1}', 199, (1, 100), id="a key that a newer operator knows"),
    ],
)
def test_the_interval_is_the_monitors_or_follows_from_the_length_of_the_run(text, total_steps, expected):
    assert sampling.sampling(text, total_steps) == expected


@pytest.mark.parametrize("text", ["{", "[]", '{"intervalSteps": -1}', '{"denseFirstSteps": true}'])
def test_what_is_no_configuration_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        sampling.sampling(text, 10)


def test_steps_are_sampled_where_the_multiple_changes_whoever_starts_where():
    assert sampled(sampling.Sampling(10, 0), 0, 40) == [10, 20, 30, 40]
    assert sampled(sampling.Sampling(10, 0), 17, 40) == [20, 30, 40]


def test_the_first_steps_are_all_sampled():
    assert sampled(sampling.Sampling(10, 4), 0, 30) == [1, 2, 3, 4, 10, 20, 30]


def test_a_sink_that_jumps_over_a_multiple_is_sampled_once():
    rule = sampling.Sampling(10, 0)

    assert rule.next_step(24) == 30

"""Intervals and filters of single metrics, and what follows a change of the configuration while a job runs."""

import json
import math

import pytest

import training_support as support
from signal_trainings import printed

pytestmark = support.TRAINS


def test_metrics_have_intervals_and_filters_of_their_own_and_a_bad_filter_is_said_once(trained):
    metrics = [
        {"name": "loss", "intervalSteps": 3},
        {"name": "perplexity", "filter": "value < 1 or value > 2"},
        {"name": "learning_rate", "filter": "value >"},
    ]
    monitor = {
        "sampling": {"intervalSteps": 5, "denseFirstSteps": 0},
        "signals": ["loss", "perplexity", "learningRate"],
        "metrics": metrics,
    }
    done, ring = trained("--steps", "12", monitor=monitor)

    losses = printed(done, "loss")
    expected = {step: math.exp(losses[step]) for step in (5, 10)}
    assert ring.scalars("loss") == {step: losses[step] for step in (3, 6, 9, 12)}
    assert ring.scalars("perplexity") == pytest.approx({s: v for s, v in expected.items() if v < 1 or v > 2})
    assert (list(ring.scalars("learning_rate")), ring.scalars("filters_refused")[1]) == ([5], 1.0)
    assert done.stderr.count("it is not filtered") == 1


def test_a_change_that_comes_in_time_holds_from_its_step(trained):
    monitor = {"sampling": {"intervalSteps": 10, "denseFirstSteps": 0}}
    options = ("--steps", "80", "--change-at", "12", "--change-in", "43", "--sleep", "0.1")
    _, ring = trained(*options, monitor=monitor)

    assert list(ring.scalars("loss")) == [10, 20, 30, 40, 50, 56, 63, 70, 77]
    assert ring.scalars("late_configuration_total") == {}


def test_a_change_that_comes_late_is_applied_at_once_and_counted(trained):
    monitor = {"sampling": {"intervalSteps": 1000, "denseFirstSteps": 0}}
    options = ("--steps", "60", "--change-at", "12", "--change-in", "1", "--sleep", "0.1")
    _, ring = trained(*options, monitor=monitor)

    sampled = list(ring.scalars("loss"))
    assert sampled == [step for step in range(14, 60, 7) if step >= sampled[0]]
    assert 14 < sampled[0] < 42
    assert set(ring.scalars("late_configuration_total").values()) == {1.0}


def test_numbers_that_come_at_no_sampled_step_follow_their_rules_too(trained):
    monitor = {
        "signals": ["loss", "memory", "evaluation"],
        "metrics": [
            {"name": "resident_memory_bytes", "filter": "value < 0"},
            {"name": "user_reward_2", "intervalSteps": 5},
            {"name": "user_loss", "filter": "value > 0"},
            {"name": "eval_mean_error", "filter": "value < 0"},
        ],
    }
    _, ring = trained("--steps", "12", "--log", "--eval", monitor=monitor)

    assert ring.scalars("user_reward_2") == {step: step / 2 for step in (1, 5, 10)}
    assert [ring.scalars(name) for name in ("resident_memory_bytes", "user_loss", "eval_mean_error")] == [{}, {}, {}]
    assert (set(ring.scalars("filters_refused").values()), ring.state.agent_errors) == ({0.0}, 0)


def test_an_evaluation_is_kept_whatever_interval_is_asked_for_and_that_is_said(trained):
    monitor = {"signals": ["loss", "evaluation"], "metrics": [{"name": "eval_mean_error", "intervalSteps": 1000}]}
    done, ring = trained("--steps", "12", "--fit", "--eval", monitor=monitor)

    kept = [record for record in ring.records if ring.names[record.name_id].name == "eval_mean_error"]
    assert [record.step for record in kept if record.kind == 2] == [12, 12]
    assert "metric eval_mean_error: its interval is not used" in done.stderr
    assert set(ring.scalars("filters_refused").values()) == {1.0}


def test_a_misspelt_metric_takes_no_name_of_the_ring_and_is_said_with_the_nearest(trained):
    monitor = {"signals": ["loss"], "metrics": [{"name": "losss", "intervalSteps": 6}]}
    done, ring = trained("--steps", "12", monitor=monitor)

    assert {name.name for name in ring.names} == {"loss", "filters_refused"}
    assert (list(ring.scalars("loss")), set(ring.scalars("filters_refused").values())) == (list(range(1, 13)), {1.0})
    assert done.stderr.count("metric losss: there is no metric 'losss', did you mean 'loss'?") == 1


def test_console_metric_rules_and_samples_follow_a_change_while_the_job_runs(trained):
    monitor = {"sampling": {"intervalSteps": 1, "denseFirstSteps": 0}}
    wanted = {
        "console": {"ranks": "all"},
        "samplesPerStep": 77,
        "metrics": [{"name": "loss", "intervalSteps": 10}],
    }
    options = ("--steps", "60", "--sleep", "0.1", "--change-at", "12", "--change-to", json.dumps(wanted))
    done, ring = trained(*options, monitor=monitor)

    lines = [line for line in done.stdout.splitlines() if line.startswith("rankbeat step=")]
    losses = [step for step in ring.scalars("loss") if step > 41]  # two seconds between looks at the file
    assert (losses, ring.state.agent_errors) == ([50, 60], 0)
    assert any(line.startswith("rankbeat step=50 loss=") for line in lines)
    assert list(ring.scalars("samples_per_step").values())[-1] == 77.0

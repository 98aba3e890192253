"""What a monitor's signals give from a real training."""

import math

import pytest

import training_support as support
from rankbeat_contract import side
from signal_trainings import entries, printed

pytestmark = support.TRAINS


def test_by_default_loss_rate_memory_and_samples_are_there_and_no_side_file(trained, tmp_path):
    done, ring = trained("--steps", "12")

    assert ring.scalars("loss") == printed(done, "loss")
    assert set(ring.scalars("samples_per_step").values()) == {4.0}
    assert min(ring.scalars("resident_memory_bytes").values()) > 1e8
    assert {name.name for name in ring.names} == {
        "loss",
        "learning_rate",
        "resident_memory_bytes",
        "samples_per_step",
    }
    assert (ring.state.agent_errors, list((tmp_path / "rings").glob("*.side"))) == (0, [])


@pytest.mark.parametrize("kind", ["constant", "list", "cosine", "groups"])
def test_the_learning_rate_is_the_one_that_the_step_used(trained, kind):
    done, ring = trained("--steps", "103", "--rate", kind, "--print-rate")

    used, seen = printed(done, "rate"), ring.scalars("learning_rate")
    # A schedule is a graph: not again before ten seconds have passed.
    assert list(seen) == ([1] if kind == "cosine" else [1, 51, 101])
    assert seen == pytest.approx({step: used[step] for step in seen})


def test_the_jobs_own_numbers_are_noted_at_their_step_and_never_taken_for_ours(trained):
    done, ring = trained("--steps", "12", "--log")

    # Logged while the step's callbacks run.
    assert ring.scalars("user_reward_2") == {step: step / 2 for step in range(1, 13)}
    assert set(ring.scalars("user_loss").values()) == {-1.0}
    assert ring.scalars("loss") == printed(done, "loss")


def test_a_job_that_says_too_many_names_loses_those_and_nothing_else(trained):
    done, ring = trained("--steps", "12", "--metrics", "50")

    assert len([name for name in ring.names if name.name.startswith("user_")]) == 32
    assert (ring.state.agent_errors, ring.scalars("loss")) == (1, printed(done, "loss"))


@pytest.mark.parametrize(
    ("how", "expected"),
    [("--fit", {"eval_mean_error", "eval_loss"}), ("--eval", {"eval_mean_error"})],
    ids=["inside fit", "after train"],
)
def test_an_evaluations_metrics_have_the_jobs_names_as_metric_names(trained, how, expected):
    _, ring = trained("--steps", "12", how)

    assert {name.name for name in ring.names if name.name.startswith("eval_")} == expected
    assert list(ring.scalars("eval_mean_error")) == [12]


def test_the_console_line_is_whole_and_says_what_was_sampled(trained):
    monitor = {"sampling": {"intervalSteps": 4, "denseFirstSteps": 0}, "console": {"ranks": "auto"}}
    done, ring = trained("--steps", "12", monitor=monitor)

    lines = [line for line in done.stdout.splitlines() if line.startswith("rankbeat ")]
    losses, (rate,) = ring.scalars("loss"), ring.scalars("learning_rate").values()
    assert lines == [
        f"rankbeat step=4 loss={losses[4]:.7g} learning_rate={rate:.7g}",
        f"rankbeat step=8 loss={losses[8]:.7g}",
        f"rankbeat step=12 loss={losses[12]:.7g}",
    ]
    # After what the job printed at that step, before what it printed at the next.
    order = [line.split()[1] for line in done.stdout.splitlines() if line.startswith(("rankbeat ", "step "))]
    assert order[3:6] == ["4", "step=4", "5"]


def test_the_console_is_silent_on_other_ranks_and_by_default(trained):
    done, _ = trained("--steps", "3", RANKBEAT_CONSOLE_RANKS="1,2")

    assert "rankbeat" not in done.stdout


def test_the_first_hundred_steps_are_the_baseline(trained):
    done, ring = trained("--steps", "130")

    losses = list(printed(done, "loss").values())[:100]
    (found,) = [
        record for record in ring.records if ring.names[record.name_id].name == "baseline_loss" and record.kind == 2
    ]
    mean = sum(losses) / 100
    assert found.value == pytest.approx(mean)
    assert found.value2 == pytest.approx(math.sqrt(sum((loss - mean) ** 2 for loss in losses) / 100))
    assert "baseline_step_interval_seconds" in {name.name for name in ring.names}


def test_the_run_describes_itself_without_its_secrets(trained, tmp_path):
    options = ("--steps", "3", "--api-key", "hunter2", "--rate", "list")
    trained(*options, monitor={"signals": ["loss", "run", "inputShapes"]})

    (run,) = entries(tmp_path, side.RUN)
    (shapes,) = entries(tmp_path, side.SHAPES)
    assert run["argv"][-6:] == ["--steps", "3", "--api-key", "***", "--rate", "list"]
    assert run["versions"]["mindspore"] == "2.10.0"
    assert run["optimizer"]["class"] == "Momentum"
    assert (run["optimizer"]["parameters"], run["optimizer"]["weights"]) == (4, 8 * 4 + 4 + 4 + 1)
    assert run["dataset"] == {"batches": 3, "local_batch": 4, "epochs": 1, "sink_mode": False}
    assert run["parallel"]["parallel_mode"] == "stand_alone"
    assert run["git_commit"] == head_of(support.REPO)
    assert "unread" not in run
    assert shapes["inputs"] == [{"shape": [4, 8], "dtype": "Float32"}, {"shape": [4, 1], "dtype": "Float32"}]


def head_of(repository):
    done = support.run(["git", "rev-parse", "HEAD"], {"PATH": "/usr/bin:/bin:/usr/local/bin"}, repository)
    return done.stdout.strip()

"""What a monitor's signals give from a real training."""

import json
import math
import re

import pytest

import training_support as support
from rankbeat_contract import side

JOB = support.REPO / "tests/agent/signals_job.py"

pytestmark = [
    pytest.mark.training,
    pytest.mark.skipif(
        not support.mindspore_python().exists(), reason="no MindSpore environment: run `make setup` first"
    ),
]


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    return support.pod_folder(tmp_path_factory.mktemp("pod") / "agent")


@pytest.fixture
def trained(tmp_path, agent):
    """A finished job and its ring; keywords are environment, `monitor` the configuration's content."""
    (tmp_path / "rings").mkdir()

    def run(*options, monitor=None, code=0, **more):
        if monitor is not None:
            (tmp_path / "monitor.json").write_text(json.dumps({"version": 2, **monitor}))
            more["RANKBEAT_CONFIG"] = str(tmp_path / "monitor.json")
        environment = support.environment(agent, tmp_path / "rings", **more)
        done = support.run([str(support.mindspore_python()), str(JOB), *options], environment, tmp_path)
        assert done.returncode == code, done.stderr[-2000:]
        (ring,) = support.read_rings(tmp_path / "rings")
        return done, ring

    return run


def printed(done, what):
    pattern = re.compile(rf"^step (\d+) {what} (\S+)$", re.MULTILINE)
    return {int(step): float(value) for step, value in pattern.findall(done.stdout)}


def entries(folder, kind):
    """Payloads of the side file's entries of this kind."""
    (path,) = (folder / "rings").glob("*.side")
    content = path.read_bytes()
    areas = side.areas(len(content))
    state = side.newest_state(content[side.STATE_OFFSET : side.INDEX_OFFSET])
    found = []
    for number in range(state.kept):
        start = areas[side.KEPT].slot_offset(number)
        slot = side.unpack_slot(content[start : start + side.SLOT_BYTES], number)
        if slot.kind == kind:
            found.append(json.loads(content[slot.offset : slot.offset + slot.length]))
    return found


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


def test_the_first_nan_is_dumped_with_the_steps_that_led_to_it(trained, tmp_path):
    monitor = {
        "sampling": {"intervalSteps": 1000, "denseFirstSteps": 0},
        "signals": ["loss", "learningRate", "forensics"],
    }
    done, _ = trained("--steps", "80", "--nan-from", "71", monitor=monitor)

    (dump,) = entries(tmp_path, side.DUMP)
    losses = printed(done, "loss")
    assert (dump["reason"], dump["step"], dump["rank"]) == ("nan_loss", 71, 0)
    assert dump["learning_rate"] == pytest.approx(0.01)
    assert [row["step"] for row in dump["steps"]] == list(range(22, 72))
    assert [row["loss"] for row in dump["steps"][:-1]] == [losses[step] for step in range(22, 71)]
    assert math.isnan(dump["steps"][-1]["loss"])
    assert all(row["interval_seconds"] > 0 for row in dump["steps"][1:])


def test_the_end_of_the_devices_memory_is_dumped_by_figures_and_class_alone(trained, tmp_path):
    trained("--steps", "9", "--out-of-memory-at", "5", monitor={"signals": ["memory", "forensics"]}, code=1)

    (dump,) = entries(tmp_path, side.DUMP)
    figures = dump.pop("resident_memory_bytes"), [row["step"] for row in dump.pop("steps")]
    assert dump == {"reason": "out_of_memory", "step": 5, "rank": 0, "exception": "RuntimeError"}
    assert figures[0] > 1e8
    (path,) = (tmp_path / "rings").glob("*.side")
    assert b"secret text" not in path.read_bytes()


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

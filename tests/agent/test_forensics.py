"""What is dumped of the first loss that is no number, and of the end of the device's memory."""

import math
from pathlib import Path

import pytest

import training_support as support
from rankbeat_contract import side
from signal_trainings import entries, printed

LOOP_JOB = Path(__file__).with_name("loop_job.py")

pytestmark = support.TRAINS


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


def test_a_loss_monitor_that_ends_training_on_a_nan_takes_no_dump_with_it(trained, tmp_path):
    monitor = {"signals": ["loss", "learningRate", "forensics"]}
    trained("--steps", "9", "--nan-from", "5", "--loss-monitor", monitor=monitor, code=1)

    (dump,) = entries(tmp_path, side.DUMP)
    assert (dump["reason"], dump["step"], dump["learning_rate"]) == ("nan_loss", 5, pytest.approx(0.01))
    assert [row["step"] for row in dump["steps"]] == [1, 2, 3, 4, 5]
    assert [math.isnan(row["loss"]) for row in dump["steps"]] == [False, False, False, False, True]


def test_the_first_step_may_be_the_one_that_is_no_number(trained, tmp_path):
    trained("--steps", "3", "--nan-from", "1", "--loss-monitor", monitor={"signals": ["forensics"]}, code=1)

    (dump,) = entries(tmp_path, side.DUMP)
    assert (dump["step"], len(dump["steps"])) == (1, 1)


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        # A schedule is a graph: as last sampled, and read once where it never was.
        pytest.param({"intervalSteps": 1, "denseFirstSteps": 0}, 1, id="sampled"),
        pytest.param({"intervalSteps": 1000, "denseFirstSteps": 0}, 41, id="never sampled"),
    ],
)
def test_a_rate_that_follows_a_schedule_is_in_the_dump_with_its_step(trained, tmp_path, sampling, expected):
    monitor = {"sampling": sampling, "signals": ["loss", "learningRate", "forensics"]}
    done, _ = trained("--steps", "45", "--rate", "cosine", "--print-rate", "--nan-from", "41", monitor=monitor)

    (dump,) = entries(tmp_path, side.DUMP)
    assert (dump["step"], dump["learning_rate_step"]) == (41, expected)
    assert dump["learning_rate"] == pytest.approx(printed(done, "rate")[expected])


def test_a_norm_that_is_tapped_is_in_the_dump_with_its_step(trained, tmp_path):
    monitor = {
        "sampling": {"intervalSteps": 4, "denseFirstSteps": 0},
        "signals": ["loss", "gradNorm", "forensics"],
    }
    _, ring = trained("--steps", "12", "--nan-from", "11", monitor=monitor)

    (dump,) = entries(tmp_path, side.DUMP)
    assert (dump["grad_norm"], dump["grad_norm_step"]) == (ring.scalars("grad_norm")[8], 8)


@pytest.mark.parametrize("style", ["full_in_step", "full_between"])
def test_the_end_of_the_devices_memory_in_a_loop_of_the_jobs_own_is_dumped_once(trained, tmp_path, style):
    options = (style, "--pynative", "--at", "5")
    trained(*options, monitor={"signals": ["memory", "forensics"]}, code=1, job=LOOP_JOB)

    (dump,) = entries(tmp_path, side.DUMP)
    assert (dump["reason"], dump["step"], dump["exception"]) == ("out_of_memory", 4, "RuntimeError")
    assert [row["step"] for row in dump["steps"]] == [1, 2, 3, 4]
    assert dump["resident_memory_bytes"] > 1e8


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param((), [4, 8, 12], id="nobody else reads"),
        pytest.param(("--loss-monitor",), list(range(1, 13)), id="the job's own monitor has read"),
    ],
)
def test_on_a_device_not_known_to_be_waited_for_only_sampled_steps_are_read_unless_the_job_does(
    trained, tmp_path, options, expected
):
    monitor = {"sampling": {"intervalSteps": 4, "denseFirstSteps": 0}, "signals": ["loss", "forensics"]}
    done, ring = trained("--steps", "12", "--pretend", "Ascend", *options, monitor=monitor)

    assert list(printed(done, "read")) == expected
    assert list(ring.scalars("loss")) == [4, 8, 12]
    assert {record.flags for record in ring.steps()} == {0}

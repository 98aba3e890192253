"""Losses as MindFormers' own monitor understands them, and what stands beside a loss in a step's outputs."""

import json

import pytest

import training_support as support
from rankbeat_agent.hooks import losses
from rankbeat_agent.hooks.losses import Meaning

JOB = support.REPO / "tests/agent/losses_job.py"


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    if not support.mindformers_python().exists():
        pytest.skip("no MindFormers environment: run `python3 dev/setup.py --only uv mindformers`")
    folder = tmp_path_factory.mktemp("losses")
    environment = support.environment(support.pod_folder(folder / "agent"), None)
    done = support.run([str(support.mindformers_python()), str(JOB)], environment, folder)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.training
def test_a_loss_is_divided_as_mflossmonitor_divides_it_in_every_combination(said):
    cases = [row for row in said if "ours" in row]

    assert len(cases) == 64
    # MindFormers divides a float32, we its float64: they differ where NumPy keeps the former, by its resolution.
    assert [row["ours"] for row in cases] == pytest.approx([row["theirs"] for row in cases], rel=2e-7)
    assert {tuple(row["divisors"]) for row in cases} >= {(), (4, 2, 8), (2,), (8,), (4,)}


@pytest.mark.training
def test_with_pipeline_stages_only_the_last_one_holds_a_valid_loss_and_with_zero_bubble_v_rank_0(said):
    assert [row for row in said if "valid" in row] == [
        {"stages": 1, "scheduler": "", "valid": list(range(8)), "first": 0},
        {"stages": 2, "scheduler": "1f1b", "valid": [4, 5, 6, 7], "first": 4},
        {"stages": 4, "scheduler": "1f1b", "valid": [6, 7], "first": 6},
        {"stages": 4, "scheduler": "zero_bubble_v", "valid": [0], "first": 0},
    ]


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        pytest.param(0.5, 0.5, id="a number"),
        pytest.param((0.25, "overflow"), 0.25, id="first of several outputs"),
        pytest.param((), None, id="no outputs"),
        pytest.param(None, None, id="a network without a result"),
    ],
)
def test_the_loss_is_the_first_output_or_absent(outputs, expected):
    assert losses.loss_of(outputs) == expected


def test_what_stands_beside_a_loss_is_named_and_what_the_job_does_not_compute_is_absent():
    assert dict(losses.figures((2.0, False, 1024.0, 1e-4, None))) == {"loss_scale": 1024.0, "learning_rate": 1e-4}
    assert dict(losses.figures((2.0, False, 1024.0))) == {"loss_scale": 1024.0}


@pytest.mark.parametrize(
    ("overflow", "norm", "limit", "expected"),
    [
        (False, 0.5, None, False),
        (True, 0.5, None, True),
        (False, 0.5, 1.0, False),
        (False, 1.0, 1.0, True),
        (False, float("nan"), 1.0, True),
        (False, None, 1.0, False),
    ],
)
def test_a_step_is_left_out_for_an_overflow_or_a_norm_at_the_jobs_own_limit(overflow, norm, limit, expected):
    assert losses.is_left_out((2.0, overflow, 1.0, 1e-4, norm), limit) is expected


class Dataset:
    """A dataset of batches of four, as MindSpore's answers."""

    def get_batch_size(self):
        return 4


@pytest.mark.parametrize(
    ("mode", "world_size", "meant", "asked", "expected"),
    [
        pytest.param("semi_auto_parallel", 8, Meaning(global_batch=64), 512, 512, id="the monitor says it"),
        pytest.param("semi_auto_parallel", 8, Meaning(global_batch=64), 0, 64, id="else MindFormers"),
        pytest.param("data_parallel", 8, Meaning(), 0, 32, id="else local batch times devices"),
        pytest.param("stand_alone", 1, Meaning(), 0, 4, id="one rank alone"),
        pytest.param("stand_alone", 8, Meaning(), 0, 0, id="ranks that each train alone: unknown"),
        pytest.param("semi_auto_parallel", 8, Meaning(), 0, 0, id="model parallel: unknown"),
    ],
)
def test_samples_of_a_step_are_one_figure_of_the_job_or_unknown(mode, world_size, meant, asked, expected):
    parameters = {"parallel_mode": mode, "train_dataset": Dataset()}

    assert losses.samples_per_step(parameters, meant, world_size, asked) == expected

"""The agent in real MindFormers: a tiny Llama on two ranks, and the PyNative trainer's callbacks."""

import re

import pytest

import training_support as support

JOB = support.REPO / "tests/agent/mindformers_job.py"
STEPS = 12
LINE = re.compile(
    r"step:\[ *(\d+)/.*?loss:\[ *([-\w.+]+)/.*?lr: ([-\w.+]+), overflow cond: (\w+), loss_scale: ([-\w.+]+), "
    r"global_norm: \[([-\w.+]+)\]"
)
"""MFLossMonitor's line: step, loss, learning rate, overflow, loss scale, global norm."""

pytestmark = support.TRAINS_MINDFORMERS


def environment(agent, rings, **more):
    python = support.mindformers_python()
    return support.environment(agent, rings, **{"PATH": f"{python.parent}:/usr/local/bin:/usr/bin:/bin", **more})


@pytest.fixture(scope="module")
def llama(tmp_path_factory, agent):
    """Two ranks under msrun: what the job's own monitor printed on each, and the rings."""
    folder = tmp_path_factory.mktemp("llama")
    (folder / "rings").mkdir()
    job = [str(JOB), "--distributed", "--steps", str(STEPS)]
    launched = support.msrun(2, job, environment(agent, folder / "rings"), folder, support.mindformers_python())
    lines = [LINE.findall(launched.logs[f"worker_{rank}.log"]) for rank in (0, 1)]
    assert [len(found) for found in lines] == [STEPS, STEPS], launched.output[-2000:]
    return lines, support.read_rings(folder / "rings")


def test_both_ranks_of_a_mindformers_job_are_seen_from_the_first_to_the_last_step(llama):
    _, rings = llama

    for rank, ring in enumerate(rings):
        assert (ring.state.rank, ring.state.world_size, ring.phase) == (rank, 2, "done")
        assert [record.step for record in ring.steps()] == list(range(1, STEPS + 1))
        assert (ring.state.agent_errors, ring.state.exception, ring.refused) == (0, "", 0)


def test_values_are_those_of_the_jobs_own_line_at_the_same_step(llama):
    lines, rings = llama

    for found, ring in zip(lines, rings, strict=True):
        printed = {int(step): (float(loss), float(norm)) for step, loss, _, _, _, norm in found}
        losses, norms = ring.scalars("loss"), ring.scalars("grad_norm")
        assert {step: (round(losses[step], 6), pytest.approx(norms[step], rel=1e-6)) for step in losses} == printed
        rates = {int(step): float(rate) for step, _, rate, *_ in found}
        assert ring.scalars("learning_rate") == pytest.approx(rates, rel=1e-5)


def test_the_checkpoints_that_mindformers_writes_are_noted_with_their_step(llama):
    _, rings = llama

    for ring in rings:
        assert {5, 10} <= set(ring.scalars("checkpoint_step").values())
        assert all(seconds > 0 for seconds in ring.scalars("checkpoint_duration_seconds").values())


PYNATIVE_JOB = support.REPO / "tests/agent/pynative_job.py"


def pynative(folder, agent, *arguments):
    """One finished process of the PyNative trainer, and its ring."""
    (folder / "rings").mkdir()
    command = [str(support.mindformers_python()), str(PYNATIVE_JOB), *arguments]
    done = support.run(command, environment(agent, folder / "rings"), folder)
    (ring,) = support.read_rings(folder / "rings")
    return done, ring


def test_the_pynative_trainer_is_seen_through_its_handler_and_its_own_store(tmp_path, agent):
    done, ring = pynative(tmp_path, agent, "--steps", "4", "--resumed", "6")

    assert (done.returncode, ring.phase, ring.state.total_steps, ring.state.agent_errors) == (0, "done", 10, 0)
    assert [(record.step, record.flags) for record in ring.steps()] == [(7, 0), (8, 0), (9, 0), (10, 0)]
    printed = dict(re.findall(r"^step (\d+) loss (\S+)$", done.stdout, re.MULTILINE))
    assert ring.scalars("loss") == {int(step): float(loss) for step, loss in printed.items()}
    assert ring.scalars("grad_norm") == dict.fromkeys(range(7, 11), 0.25)
    assert ring.scalars("learning_rate") == {step: 0.5 / step for step in range(7, 11)}
    assert set(ring.scalars("samples_per_step").values()) == {64.0}


def test_a_stage_without_the_loss_says_so_and_reports_none(tmp_path, agent):
    _, ring = pynative(tmp_path, agent, "--steps", "3", "--middle-stage")

    assert (len(ring.steps()), ring.scalars("loss"), ring.state.flags) == (3, {}, 2)


@pytest.mark.parametrize(
    ("options", "phase", "exception", "steps"),
    [
        pytest.param([], "failed", "LookupError", [(1, 1), (1, 2)], id="and ends the process"),
        pytest.param(
            ["--again"], "done", "", [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3)], id="is caught, and it trains again"
        ),
    ],
)
def test_an_exception_that_leaves_the_pynative_trainer(tmp_path, agent, options, phase, exception, steps):
    done, ring = pynative(tmp_path, agent, "--steps", "3", "--fail-at", "2", *options)

    assert (done.returncode, ring.phase, ring.state.exception) == (int(phase == "failed"), phase, exception)
    assert [(record.segment, record.step) for record in ring.steps()] == steps


def test_what_the_trainer_has_logged_of_a_step_is_noted_though_a_callback_then_ends_it(tmp_path, agent):
    done, ring = pynative(tmp_path, agent, "--steps", "3", "--fail-at", "2", "--fail-late")

    assert (done.returncode, ring.state.exception, ring.scalars("loss")) == (1, "LookupError", {1: 2.0, 2: 1.0})


def test_mindformers_own_checkpoint_functions_are_wrapped_before_its_trainers_import_them(tmp_path, agent):
    program = (
        "import mindformers.checkpoint as own, mindformers.checkpoint.checkpoint as inner\n"
        "from mindformers.core.callback import callback\n"
        "from mindformers.trainer import base_trainer\n"
        "wrapped = own.save_checkpoint, inner.load_checkpoint, inner.load_hf_checkpoint\n"
        "print([hasattr(each, '__wrapped__') for each in wrapped], callback.save_checkpoint is own.save_checkpoint,\n"
        "      base_trainer.load_checkpoint is inner.load_checkpoint)\n"
    )
    command = [str(support.mindformers_python()), "-c", program]

    done = support.run(command, environment(agent, tmp_path), tmp_path)

    assert done.stdout.splitlines()[-1:] == ["[True, True, True] True True"], done.stderr

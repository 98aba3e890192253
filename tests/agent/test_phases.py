"""What a job does beside training steps, and how its process ends, in real MindSpore."""

import re
from pathlib import Path

import pytest

import training_support as support

JOB = Path(__file__).with_name("phase_job.py")

pytestmark = support.TRAINS


def ran(folder, agent, case, **variables):
    """What one case said, and its ring."""
    (folder / "rings").mkdir()
    command = [str(support.mindspore_python()), str(JOB), case]
    done = support.run(command, support.environment(agent, folder / "rings", **variables), folder)
    return done, support.read_rings(folder / "rings")


def said(done):
    """(place, phase), repetitions left out."""
    return list(dict.fromkeys(re.findall(r"^([a-z ]+): ([a-z_]+)$", done.stdout, re.MULTILINE)))


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        pytest.param(
            "evaluate", [("metric", "eval"), ("between", "between"), ("after", "between")], id="Model.eval, twice"
        ),
        pytest.param(
            "predict", [("build", "build"), ("predict", "eval"), ("after", "between")], id="Model.build and predict"
        ),
        pytest.param(
            "checkpoint",
            [("save", "checkpoint"), ("load", "load"), ("no file", "between")],
            id="saving and loading, by two ways of import, and a load that fails",
        ),
    ],
)
def test_what_is_no_training_step_is_a_phase_of_its_own(tmp_path, agent, case, expected):
    done, (ring,) = ran(tmp_path, agent, case)

    assert said(done) == expected
    assert (done.returncode, ring.phase, ring.state.agent_errors) == (0, "done", 0)


def test_each_checkpoint_is_noted_with_what_it_cost_and_its_step(tmp_path, agent):
    _, (ring,) = ran(tmp_path, agent, "checkpoint")

    saved = [3.0, 4.0, 5.0, 6.0, 7.0, 8.0]  # in a callback, after training, and by ModelCheckpoint at each step
    assert list(ring.scalars("checkpoint_step").values()) == saved
    assert list(ring.scalars("checkpoint_duration_seconds")) == saved
    assert all(0 < seconds < 10 for seconds in ring.scalars("checkpoint_duration_seconds").values())


def test_mindspores_own_modules_and_users_all_find_the_same_wrapped_functions(tmp_path, agent):
    done, rings = ran(tmp_path, agent, "names")

    assert (done.stdout.split("\n")[:3], rings) == (["save {True}", "save 1", "load {True}"], [])


def test_a_rank_whose_exception_is_caught_is_recovering_until_it_trains_again(tmp_path, agent):
    done, (ring,) = ran(tmp_path, agent, "recover")

    expected = [("caught", "recovering"), ("metric", "eval"), ("evaluated", "recovering")]
    assert said(done) == [*expected, ("first step", "callbacks"), ("between", "between")]
    assert (ring.phase, ring.state.exception) == ("done", "")
    assert [(record.segment, record.step) for record in ring.steps()] == [
        (1, 1),
        (1, 2),
        (2, 3),
        (2, 4),
        (2, 5),
        (2, 6),
    ]


def test_mindspores_own_recovery_inside_train_is_recovering_and_starts_a_segment(tmp_path, agent):
    done, (ring,) = ran(tmp_path, agent, "fault_tolerance", MS_ENABLE_TFT="{UCE:1}")

    assert said(done) == [("repairing", "recovering"), ("between", "between")], done.stderr
    before, after = [(1, step) for step in range(1, 6)], [(2, step) for step in range(3, 9)]
    assert [(record.segment, record.step) for record in ring.steps()] == before + after
    assert (ring.phase, ring.state.exception, ring.state.total_steps) == ("done", "", 8)


@pytest.mark.parametrize(
    ("case", "code", "phase", "exception"),
    [
        pytest.param("give_up", 0, "done", "", id="a caught exception, then the end"),
        pytest.param("exit_after_failure", 1, "failed", "ZeroDivisionError", id="a caught exception, then sys.exit(1)"),
        pytest.param("exit_after_training", 1, "failed", "SystemExit", id="sys.exit with a text after training"),
        pytest.param("quit_after_training", 3, "failed", "SystemExit", id="exit of the site module"),
        pytest.param("raise_after_training", 1, "done", "", id="SystemExit of the job's own, which nobody is told of"),
        pytest.param("exit_well", 0, "done", "", id="sys.exit(0)"),
        pytest.param("exit_is_caught", 0, "done", "", id="sys.exit(1) that is caught, and it trains again"),
        pytest.param("leave_badly", 7, "failed", "SystemExit", id="os._exit(7)"),
        pytest.param("leave_well", 0, "done", "", id="os._exit(0)"),
    ],
)
def test_how_the_process_ends_is_what_the_ring_says(tmp_path, agent, case, code, phase, exception):
    done, (ring,) = ran(tmp_path, agent, case)

    assert (done.returncode, ring.phase, ring.state.exception) == (code, phase, exception)


def test_a_sink_of_many_steps_counts_them_all_and_its_time_is_divided_by_them(tmp_path, agent):
    done, (ring,) = ran(tmp_path, agent, "sink")

    assert (done.returncode, ring.state.agent_errors, ring.state.total_steps) == (0, 0, 60)
    assert [record.step for record in ring.steps()] == [20, 40, 60]
    assert list(ring.scalars("loss")) == [20, 40, 60]
    assert all(
        record.value * 20 * 1e9 < ring.state.updated_mono_ns - ring.header.claimed_mono_ns
        for record in ring.steps()[1:]
    )


@pytest.mark.parametrize("case", ["forked", "spawned"])
def test_dataset_workers_are_no_ranks_and_leave_the_ring_to_their_parent(tmp_path, agent, case):
    done, rings = ran(tmp_path, agent, case)

    assert set(done.stdout.splitlines()) == {"rows {1.0}"}, done.stderr
    assert [(ring.phase, len(ring.steps()), ring.refused) for ring in rings] == [("done", 8, 0)]

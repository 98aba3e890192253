"""Training loops that are the job's own, in real MindSpore: the heartbeat tier."""

from pathlib import Path

import pytest

import training_support as support

JOB = Path(__file__).with_name("loop_job.py")
HEARTBEAT = 8
STEPS = list(range(1, 9))

pytestmark = support.TRAINS


def looped(folder, agent, *arguments):
    """One finished process of the job, and its rings; without the agent where there is none."""
    rings = folder / "rings"
    rings.mkdir(exist_ok=True)
    command = [str(support.mindspore_python()), str(JOB), *arguments]
    done = support.run(command, support.environment(agent, rings), folder)
    return done, support.read_rings(rings)


@pytest.mark.parametrize("mode", [(), ("--pynative",)], ids=["graph", "pynative"])
@pytest.mark.parametrize("style", ["cell", "eager", "experimental"])
def test_each_call_of_the_optimizer_is_one_step_of_dispatch_time_and_no_value_is_read(tmp_path, agent, style, mode):
    done, (ring,) = looped(tmp_path, agent, style, *mode)

    assert (done.returncode, ring.phase, ring.state.agent_errors) == (0, "done", 0), done.stderr
    assert [(record.segment, record.step, record.flags) for record in ring.steps()] == [(1, step, 0) for step in STEPS]
    assert (ring.state.flags, ring.state.total_steps, ring.scalars("loss")) == (HEARTBEAT, 0, {})


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["cell"], id="cell, graph"),
        pytest.param(["cell", "--pynative"], id="cell, pynative"),
        pytest.param(["jit"], id="whole step compiled"),
        pytest.param(["jit", "--pynative", "--capture", "bytecode"], id="whole step compiled from bytecode"),
    ],
)
def test_losses_and_weights_are_the_same_to_the_last_bit_without_the_agent(tmp_path, agent, options):
    with_agent, _ = looped(tmp_path, agent, *options)
    without, _ = looped(tmp_path, None, *options)

    assert (with_agent.returncode, with_agent.stdout) == (0, without.stdout)


def test_a_step_that_is_compiled_with_its_optimizer_is_not_seen_and_claims_no_ring(tmp_path, agent):
    _, rings = looped(tmp_path, agent, "jit")

    assert rings == []


def test_of_two_optimizers_one_is_counted_and_the_other_once_the_first_rests(tmp_path, agent):
    _, (ring,) = looped(tmp_path, agent, "gan")

    assert [record.step for record in ring.steps()] == STEPS


def test_a_step_that_fails_and_is_caught_is_made_again_under_its_number(tmp_path, agent):
    done, (ring,) = looped(tmp_path, agent, "recover", "--at", "4")

    assert "caught ValueError" in done.stdout
    assert (ring.phase, [record.step for record in ring.steps()]) == ("done", STEPS)
    assert [record.step for record in ring.steps() if record.value != record.value] == [1, 4]


def test_model_train_and_a_loop_in_turn_are_segments_and_no_step_is_counted_twice(tmp_path, agent):
    _, (ring,) = looped(tmp_path, agent, "mixed")

    expected = [(1 + step // 8, 1 + step, 0 if step // 8 == 1 else 1) for step in range(24)]
    assert [(record.segment, record.step, record.flags) for record in ring.steps()] == expected
    assert ring.state.flags & HEARTBEAT == 0


def test_a_checkpoint_between_steps_is_no_time_in_train(tmp_path, agent):
    _, (ring,) = looped(tmp_path, agent, "save", "--at", "4")

    (duration,) = ring.scalars("checkpoint_duration_seconds").values()
    longest = max(record.value for record in ring.steps() if record.value == record.value)
    assert list(ring.scalars("checkpoint_step").values()) == [4.0]
    assert ring.state.longest_interval_ns < longest * 1e9
    assert 0 < duration < longest


def test_what_the_loop_logs_itself_is_noted_at_its_step(tmp_path, agent):
    done, (ring,) = looped(tmp_path, agent, "logs")

    assert (done.returncode, ring.state.agent_errors) == (0, 0)
    assert ring.scalars("user_reward") == {step: step / 2 for step in STEPS}
    assert ring.state.flags == HEARTBEAT

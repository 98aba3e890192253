"""The agent in real training processes: what is seen, and that nothing about the training changes."""

import os
import re
import subprocess
import time
from pathlib import Path

import pytest

import training_support as support

JOB = Path(__file__).with_name("job.py")
LOSS = re.compile(r"^step (\d+) loss (\S+)$", re.MULTILINE)

pytestmark = support.TRAINS


def losses_printed(output):
    return {int(step): float(loss) for step, loss in LOSS.findall(output)}


def trained(folder, agent, *arguments, **variables):
    """One finished process of the job, and its rings."""
    rings = folder / "rings"
    rings.mkdir(exist_ok=True)
    command = [str(support.mindspore_python()), str(JOB), *arguments]
    done = support.run(command, support.environment(agent, rings, **variables), folder)
    return done, support.read_rings(rings)


@pytest.fixture(scope="module", params=[(), ("--pynative",)], ids=["graph", "pynative"])
def two_ranks(request):
    """The command of a job of two ranks."""
    return [str(JOB), "--distributed", "--steps", "30", *request.param]


@pytest.fixture(scope="module")
def distributed(tmp_path_factory, agent, two_ranks):
    """Two ranks under msrun, with the agent."""
    folder = tmp_path_factory.mktemp("distributed")
    (folder / "rings").mkdir()
    launched = support.msrun(2, two_ranks, support.environment(agent, folder / "rings"), folder)
    return launched, support.read_rings(folder / "rings")


def test_exactly_the_two_ranks_claim_a_ring_neither_launcher_nor_scheduler(distributed):
    _, rings = distributed

    assert [(ring.state.rank, ring.state.world_size, ring.header.local_rank) for ring in rings] == [
        (0, 2, 0),
        (1, 2, 1),
    ]


def test_a_rank_reports_all_its_steps_and_the_losses_that_the_job_itself_prints(distributed):
    launched, rings = distributed

    for rank, ring in enumerate(rings):
        assert [record.step for record in ring.steps()] == list(range(1, 31))
        assert ring.scalars("loss") == losses_printed(launched.logs[f"worker_{rank}.log"])
        assert (ring.phase, ring.state.total_steps, ring.state.agent_errors, ring.refused) == ("done", 30, 0, 0)


def test_a_step_interval_is_gap_and_in_step_and_starts_with_the_second_step(distributed):
    _, rings = distributed

    first, *others = rings[0].steps()

    assert first.value != first.value
    assert first.value2 != first.value2
    assert [record.value for record in others] == pytest.approx([record.value2 + record.value3 for record in others])


def test_weights_and_output_are_the_same_as_without_the_agent(distributed, two_ranks, tmp_path):
    launched, _ = distributed

    plain = support.msrun(2, two_ranks, support.environment(None, None), tmp_path)

    def said(launch):
        return [re.findall(r"^(?:step|rank) .*$", launch.logs[f"worker_{rank}.log"], re.MULTILINE) for rank in (0, 1)]

    assert said(launched) == said(plain)
    assert not [name for name, text in launched.logs.items() if "rankbeat" in text]


def test_each_form_of_callbacks_is_seen_and_steps_go_on_where_the_optimizer_stands(tmp_path, agent):
    done, (ring,) = trained(
        tmp_path, agent, "--steps", "4", "--callbacks", "list", "positional", "single", "tuple", "none"
    )

    assert done.stderr == ""
    assert [(record.segment, record.step) for record in ring.steps()] == [
        (1 + step // 4, 1 + step) for step in range(20)
    ]
    assert (ring.state.rank, ring.state.world_size, ring.state.total_steps) == (0, 1, 20)  # where the last one ends


def test_evaluation_inside_fit_is_in_no_step_interval(tmp_path, agent):
    done, (ring,) = trained(tmp_path, agent, "--steps", "4", "--epochs", "2", "--callbacks", "fit")

    assert done.returncode == 0
    assert [record.step for record in ring.steps() if record.value != record.value] == [1, 5]
    assert (ring.phase, ring.state.total_steps) == ("done", 8)


def test_pynative_steps_are_synced_because_model_train_syncs_before_all_callbacks(tmp_path, agent):
    done, (ring,) = trained(tmp_path, agent, "--pynative", "--steps", "4")

    assert ring.scalars("loss") == losses_printed(done.stdout)
    assert {record.flags for record in ring.steps()} == {1}


def test_the_monitors_interval_decides_which_losses_are_sampled(tmp_path, agent):
    configuration = tmp_path / "monitor.json"
    configuration.write_text('{"sampling": {"intervalSteps": 5, "denseFirstSteps": 3}}')

    _, (ring,) = trained(tmp_path, agent, "--steps", "12", RANKBEAT_CONFIG=str(configuration))

    assert list(ring.scalars("loss")) == [1, 2, 3, 5, 10]


def test_a_configuration_that_is_none_is_counted_and_defaults_hold(tmp_path, agent):
    configuration = tmp_path / "monitor.json"
    configuration.write_text('{"sampling": {"intervalSteps": "often"}}')

    done, (ring,) = trained(tmp_path, agent, "--steps", "3", RANKBEAT_CONFIG=str(configuration))

    assert (done.returncode, ring.state.agent_errors, list(ring.scalars("loss"))) == (0, 1, [1, 2, 3])
    assert "intervalSteps is 'often', not a number of steps" in done.stderr


def test_a_crash_keeps_the_users_exception_and_hook_and_leaves_only_its_class(tmp_path, agent):
    done, (ring,) = trained(tmp_path, agent, "--steps", "9", "--case", "crash", "--at", "5", "--own-hook")

    assert (done.returncode, ring.phase, ring.state.exception) == (1, "failed", "ZeroDivisionError")
    assert "own hook saw ZeroDivisionError" in done.stdout
    assert ring.state.step == 5
    assert b"asked to crash" not in next((tmp_path / "rings").iterdir()).read_bytes()


def test_ranks_that_crash_under_msrun_say_so_though_init_forgets_earlier_hooks(tmp_path, agent):
    rings = tmp_path / "rings"
    rings.mkdir()
    job = [str(JOB), "--distributed", "--steps", "9", "--case", "crash", "--at", "5"]
    limit = time.monotonic() + support.LIMIT_SECONDS

    with support.running_msrun(2, job, support.environment(agent, rings), tmp_path):
        while time.monotonic() < limit:
            found = support.read_rings(rings)
            if [ring.phase for ring in found] == ["failed", "failed"]:
                break
            time.sleep(0.1)

    assert [(ring.state.rank, ring.state.exception) for ring in found] == [
        (0, "ZeroDivisionError"),
        (1, "ZeroDivisionError"),
    ]


def test_a_rank_that_leaves_training_by_sys_exit_with_a_code_has_failed(tmp_path, agent):
    done, (ring,) = trained(tmp_path, agent, "--steps", "9", "--case", "leave", "--at", "3")

    assert (done.returncode, ring.phase, ring.state.exception) == (3, "failed", "SystemExit")


def test_a_nan_loss_is_noted_even_where_loss_monitor_ends_training_for_it(tmp_path, agent):
    done, (ring,) = trained(tmp_path, agent, "--steps", "9", "--nan-from", "5", "--loss-monitor")

    losses = ring.scalars("loss")
    assert (done.returncode, ring.phase, ring.state.exception) == (1, "failed", "ValueError")
    assert list(losses) == [1, 2, 3, 4, 5]
    assert losses[5] != losses[5]


def test_a_killed_rank_frees_its_lock_and_its_last_state_stays(tmp_path, agent):
    rings = tmp_path / "rings"
    rings.mkdir()
    command = [str(support.mindspore_python()), str(JOB), "--steps", "9", "--case", "wait", "--at", "4"]
    with subprocess.Popen(
        command, env=support.environment(agent, rings), cwd=tmp_path, stdout=subprocess.DEVNULL
    ) as job:
        try:
            path = support.wait_for_ring(rings)
            limit = time.monotonic() + support.LIMIT_SECONDS
            while support.read_ring(path).state.step < 4 and time.monotonic() < limit:
                time.sleep(0.02)
            holder = support.lock_holder(path)
        finally:
            job.kill()

    ring = support.read_ring(path)
    assert (holder, support.lock_holder(path)) == (job.pid, 0)
    assert (ring.phase, ring.state.step, ring.state.entered_step) == ("callbacks", 4, 4)


@pytest.fixture
def full_tmpfs(tmp_path):
    """A real tmpfs that is too small for a ring."""
    folder = tmp_path / "rings"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("a tmpfs cannot be mounted here: needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_tmpfs_turns_the_agent_off_and_training_goes_on(full_tmpfs, tmp_path, agent):
    done, rings = trained(tmp_path, agent, "--steps", "4")

    assert (done.returncode, list(losses_printed(done.stdout)), rings) == (0, [1, 2, 3, 4], [])
    assert done.stderr == (
        f"rankbeat: no ring in {str(full_tmpfs)!r}: [Errno 28] No space left on device; this rank is not seen;"
        " training goes on\n"
    )
    assert list(full_tmpfs.iterdir()) == []


def test_ten_errors_of_its_own_turn_the_agent_off_and_the_ring_says_so(tmp_path, agent):
    done, (ring,) = trained(tmp_path, agent, "--steps", "20", "--case", "break_agent", "--at", "2")

    assert (done.returncode, len(losses_printed(done.stdout))) == (0, 20)
    assert (ring.state.agent_errors, ring.state.flags & 4) == (10, 4)
    assert len(done.stderr.splitlines()) == 2

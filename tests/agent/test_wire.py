"""A ring written by a real process of its own, read from outside."""

import contextlib
import random
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import training_support as support

PYTHON_39 = next(iter(Path.home().glob(".pyenv/versions/3.9.*/bin/python")), None)

CLAIMED = """
import os, sys, time
from rankbeat_agent.wire import writer
ring = writer.claim(sys.argv[1], 32768, 2, 1, time.time_ns())
"""


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    return support.pod_folder(tmp_path_factory.mktemp("pod") / "agent")


@contextlib.contextmanager
def writing(agent, rings, program, python=sys.executable, **variables):
    """A process that runs program (argument: the folder of rings) until the caller has seen enough."""
    command = [str(python), "-c", textwrap.dedent(program), str(rings)]
    env = {"PYTHONPATH": str(agent), **variables}
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def finished(agent, rings, program, python=sys.executable, **variables):
    with writing(agent, rings, program, python, **variables) as process:
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        return output


def test_a_ring_can_be_read_by_others_under_umask_077(agent, tmp_path):
    finished(agent, tmp_path, "import os; os.umask(0o077)" + CLAIMED)

    (path,) = tmp_path.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_ring_is_allocated_whole_and_names_its_process(agent, tmp_path):
    with writing(agent, tmp_path, CLAIMED + "print(os.getpid(), flush=True); sys.stdin.read()") as process:
        process.stdout.readline()

        (path,) = tmp_path.iterdir()
        ring = support.read_ring(path)
        assert path.stat().st_blocks * 512 >= 32768
        assert (ring.header.pid, ring.header.attempt, ring.header.local_rank) == (process.pid, 2, 1)
        assert (path.stem, ring.phase, ring.state.rank) == (ring.header.run_id, "init_comm", -1)
        assert support.lock_holder(path) == process.pid


def test_a_full_ring_goes_round_and_keeps_the_newest_records(agent, tmp_path):
    finished(agent, tmp_path, CLAIMED + "for n in range(1000): ring.note(1, 0, n, n, n, n, n)\nring.publish(1)")

    (ring,) = support.read_rings(tmp_path)
    assert ring.refused == 0
    assert [record.step for record in ring.records] == list(range(1000 - ring.header.capacity, 1000))


def test_a_forked_child_writes_nothing_and_the_parents_lock_stays(agent, tmp_path):
    program = """
        import os, sys
        from rankbeat_agent.hooks import rank
        os.environ["RANKBEAT_RING_DIR"] = sys.argv[1]
        rank.RANK.claim()
        if os.fork() == 0:
            rank.RANK.crashed("ChildError")
            sys.exit(0)
        os.wait()
        print("waited", flush=True)
        sys.stdin.read()
        """
    with writing(agent, tmp_path, program) as process:
        process.stdout.readline()

        (path,) = tmp_path.iterdir()
        ring = support.read_ring(path)
        assert (ring.phase, ring.state.exception, support.lock_holder(path)) == ("init_comm", "", process.pid)


@pytest.mark.parametrize(
    ("program", "phase", "exception"),
    [
        pytest.param("", "done", "", id="end of the script"),
        pytest.param("sys.exit(0)", "done", "", id="sys.exit"),
        pytest.param("raise KeyError('secret')", "failed", "KeyError", id="exception"),
        pytest.param("sys.excepthook = print; raise KeyError", "failed", "KeyError", id="hook that forgets ours"),
        pytest.param("os._exit(0)", "init_comm", "", id="no word"),
    ],
)
def test_how_the_process_ended_is_its_last_phase(agent, tmp_path, program, phase, exception):
    claimed = """
import os, sys
from rankbeat_agent.hooks import rank
os.environ["RANKBEAT_RING_DIR"] = sys.argv[1]
rank.RANK.claim()
rank.RANK.watch_exceptions()
"""
    with writing(agent, tmp_path, claimed + program) as process:
        process.communicate(timeout=60)

    (ring,) = support.read_rings(tmp_path)
    assert (ring.phase, ring.state.exception) == (phase, exception)


def test_killed_at_any_moment_each_record_is_whole_or_refused(agent, tmp_path):
    endless = """
        n = 0
        while True:
            ring.note(1, 0, n, n, n * 0.5, n * 0.25, n * 0.125)
            ring.mark_finished(n, n)
            ring.publish(n)
            n += 1
        """
    chance = random.Random(7)
    for attempt in range(8):
        rings = tmp_path / str(attempt)
        rings.mkdir()
        with writing(agent, rings, CLAIMED + textwrap.dedent(endless)) as process:
            support.wait_for_ring(rings)
            time.sleep(chance.uniform(0, 0.02))
            process.kill()
            process.wait()

        (ring,) = support.read_rings(rings)
        # The record before the last published state is complete; one that was being written is counted by no state.
        assert ring.refused <= 1
        assert ring.state.step_mono_ns - ring.state.step in (0, 1)  # the time is stored first
        for record in ring.records:
            n = record.sequence
            assert record[:7] == (1, n, n, n, n * 0.5, n * 0.25, n * 0.125)


@pytest.mark.skipif(PYTHON_39 is None, reason="no Python 3.9 under ~/.pyenv/versions")
def test_the_agent_runs_on_python_3_9(agent, tmp_path):
    imports = "import rankbeat_agent.hooks.communication, rankbeat_agent.hooks.model, rankbeat_contract.names\n"
    round_trip = "ring.note(2, ring.intern('loss'), 7, 1, 2.5, 0.0, 0.0)\nring.publish(1)\nprint(sys.version_info[:2])"

    output = finished(agent, tmp_path, imports + CLAIMED + round_trip, PYTHON_39)

    (ring,) = support.read_rings(tmp_path)
    assert (output, ring.scalars("loss")) == ("(3, 9)\n", {7: 2.5})
    assert [path.name for path in tmp_path.iterdir()] == [f"{ring.header.run_id}.ring"]

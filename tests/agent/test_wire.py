"""A ring written by a real process of its own, read from outside."""

import contextlib
import os
import random
import signal
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import ring_support as reading
import training_support as support
from rankbeat_contract import ring

PYTHON_39 = next(iter(Path.home().glob(".pyenv/versions/3.9.*/bin/python")), None)

CLAIMED = """
import os, sys, time
from rankbeat_agent.wire import records, writer
ring = writer.claim(sys.argv[1], 32768, 2, 1, time.time_ns())
"""


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
    finished(
        agent, tmp_path, CLAIMED + "for n in range(1000): records.note(ring, 1, 0, n, n, n, n, n)\nring.publish(1)"
    )

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
        pytest.param("exit(1)", "failed", "SystemExit", id="exit of the site module"),
        pytest.param("quit()", "done", "", id="quit of the site module"),
        pytest.param("raise KeyError('secret')", "failed", "KeyError", id="exception"),
        pytest.param("sys.excepthook = print; raise KeyError", "failed", "KeyError", id="hook that forgets ours"),
        pytest.param("os._exit(0)", "done", "", id="os._exit"),
        pytest.param("os.kill(os.getpid(), 9)", "init_comm", "", id="no word"),
    ],
)
def test_how_the_process_ended_is_its_last_phase(agent, tmp_path, program, phase, exception):
    claimed = """
import os, sys
from rankbeat_agent.hooks import endings, rank
os.environ["RANKBEAT_RING_DIR"] = sys.argv[1]
rank.RANK.claim()
endings.watch(rank.RANK)
"""
    with writing(agent, tmp_path, claimed + program) as process:
        process.communicate(timeout=60)

    (ring,) = support.read_rings(tmp_path)
    assert (ring.phase, ring.state.exception) == (phase, exception)


ENDLESS = """
ids = [records.intern(ring, f"name{n}") for n in range(100)]
n = 0
while True:
    records.note(ring, 2, ids[n % 100], n, n, n * 0.5, n * 0.25, n * 0.125, n % 7, n % 5)
    records.mark_entered(ring, n, n)
    records.mark_ended(ring, n, n, 3)
    if n % 3 == 0:
        ring.publish(n)
    n += 1
"""


def assert_whole(found):
    """Nothing of a ring that ENDLESS writes is a mixture; those since its last state overwrote the oldest."""
    assert found.refused <= 3
    assert [name.name for name in found.names] == [f"name{n}" for n in range(len(found.names))]
    assert found.state.step_mono_ns - found.state.step in (0, 1)  # the time is stored first
    assert found.state.entered_mono_ns - found.state.entered_step in (0, 1)
    for record in found.records:
        n = record.sequence
        expected = (2, n, n, n, n * 0.5, n * 0.25, n * 0.125, n % 100, 0, 0, n % 7, n % 5)
        assert record == expected


def test_killed_at_any_moment_each_record_is_whole_or_refused(agent, tmp_path):
    chance = random.Random(7)
    for attempt in range(10):
        rings = tmp_path / str(attempt)
        rings.mkdir()
        with writing(agent, rings, CLAIMED + ENDLESS) as process:
            support.wait_for_ring(rings)
            time.sleep(chance.uniform(0, 0.02))
            process.kill()
            process.wait()

        (ring,) = support.read_rings(rings)
        assert_whole(ring)


def test_stopped_at_any_instruction_what_is_in_memory_is_whole_or_refused(agent, tmp_path):
    """A process that is stopped leaves in shared memory what SIGKILL at that moment would leave."""
    chance = random.Random(11)
    seen = set()
    with writing(agent, tmp_path, CLAIMED + ENDLESS) as process:
        path = support.wait_for_ring(tmp_path)
        for _ in range(300):
            time.sleep(chance.uniform(0, 0.0005))
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
            ring = support.read_ring(path)
            process.send_signal(signal.SIGCONT)

            assert_whole(ring)
            seen.add(ring.state.written)

    assert len(seen) > 100


def test_a_reader_that_is_slower_than_the_writer_counts_what_it_lost(agent, tmp_path):
    folder = reading.ring_folder(tmp_path, reading.a_pod())
    poller = reading.a_poller(tmp_path, reading.a_pod())
    program = """
ring.rank, ring.world_size = 0, 1
ring.publish(1)
sys.stdin.readline()
for n in range(100_000):
    records.note(ring, 1, 0, n, n, n * 0.5, n * 0.25, n * 0.125)
    ring.publish(n)
"""
    with writing(agent, folder, CLAIMED + program) as process:
        support.wait_for_ring(folder)
        poller.poll()
        process.stdin.write("\n")
        process.stdin.flush()
        rows = {}
        while process.poll() is None:
            rows.update({row.step: row for row in poller.poll().ranks[0].steps})
            time.sleep(0.02)
    (rank,) = poller.poll().ranks

    assert rank.records_lost > 0
    assert rank.records_lost + rank.steps_read == rank.state.written == 100_000
    assert all(row.interval_seconds == n * 0.5 and row.in_step_seconds == n * 0.125 for n, row in rows.items())


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("records.note(ring, 2, 0, 2**70, 1, 1.0)", id="step beyond 64 bits"),
        pytest.param("records.note(ring, 2, 0, 1, 1, 10**400)", id="number beyond a double"),
        pytest.param("records.note(ring, 2, 0, 1, 1, 'much')", id="no number"),
        pytest.param("records.note(ring, 2, 0, 1, 1, None)", id="nothing"),
        pytest.param("records.note(ring, 2, 0, 1, 1, 1.0, layer=40000)", id="layer beyond 16 bits"),
        pytest.param("records.note(ring, 2, -1, 1, 1, 1.0)", id="name that is not interned"),
        pytest.param("records.mark_entered(ring, 2**70, 1)", id="begin of a step beyond 64 bits"),
        pytest.param("records.mark_ended(ring, 2**70, 1, 3)", id="end of a step beyond 64 bits"),
        pytest.param("records.mark_ended(ring, 'x', 1, 3)", id="end of a step that is no number"),
        pytest.param("records.intern(ring, 'l\u00f6ss')", id="name that is not ASCII"),
        pytest.param("records.intern(ring, 'x' * 65)", id="name of 65 letters"),
        pytest.param("records.intern(ring, '')", id="empty name"),
        pytest.param("records.intern(ring, None)", id="name that is no text"),
        pytest.param("[records.intern(ring, f'x{n}') for n in range(127)]", id="name too many"),
    ],
)
def test_what_does_not_fit_raises_nothing_and_is_counted(agent, tmp_path, program):
    before = "records.note(ring, 2, records.intern(ring, 'loss'), 5, 1, 2.5); records.intern(ring, 'second')\n"

    finished(agent, tmp_path, CLAIMED + before + program + "\nrecords.note(ring, 2, 0, 7, 1, 3.5)\nring.publish(1)")

    (ring,) = support.read_rings(tmp_path)
    assert (ring.state.refused, ring.scalars("loss")) == (1, {5: 2.5, 7: 3.5})


def test_a_state_with_fields_that_do_not_fit_says_the_nearest_that_do(agent, tmp_path):
    program = """
numbers = {name: n for n, name in enumerate(ring.__slots__, 30) if type(getattr(ring, name)) is int}
for name in numbers.keys() - {"sequence", "phase", "descriptor", "capacity"}:
    setattr(ring, name, numbers[name])
ring.exception, ring.cpu_seconds = b"ValueError", 1.5
ring.publish(2**60)
ring.total_steps, ring.rank, ring.segment, ring.exception = 10**12, None, -2**40, "no bytes"
ring.publish(2**60)
"""

    finished(agent, tmp_path, CLAIMED + program)

    (path,) = tmp_path.iterdir()
    slots = path.read_bytes()[ring.STATE_OFFSET : ring.MARKS_OFFSET]
    first, second = slots[: ring.STATE_BYTES], slots[ring.STATE_BYTES :]
    assert ring.newest_state(second)._replace(sequence=0) == ring.newest_state(first)._replace(
        sequence=0, total_steps=2**32 - 1, rank=0, segment=-(2**31), exception=""
    )


def test_a_name_is_interned_once_with_unit_and_type(agent, tmp_path):
    named = "[('a',), ('n', 'bytes', True), ('a',), ('n',)]"
    program = f"print([records.intern(ring, *each) for each in {named}]); ring.publish(1)"

    output = finished(agent, tmp_path, CLAIMED + program)

    (ring,) = support.read_rings(tmp_path)
    assert output == "[0, 1, 0, 1]\n"
    assert ring.names == (("a", "", False), ("n", "bytes", True))


def test_layer_head_and_spread_of_a_number_are_its_records(agent, tmp_path):
    program = "records.note(ring, 2, records.intern(ring, 'entropy'), 5, 9, 1.0, 0.5, 2.0, 3, 11); ring.publish(1)"

    finished(agent, tmp_path, CLAIMED + program)

    (ring,) = support.read_rings(tmp_path)
    (record,) = ring.records
    assert (record.value, record.value2, record.value3, record.layer, record.head) == (1.0, 0.5, 2.0, 3, 11)


def test_a_rank_that_trains_compiles_nothing_that_only_readers_or_rare_cases_need(agent, tmp_path):
    steps = "records.note(ring, 2, records.intern(ring, 'loss'), 5, 1, 2.5); records.mark_ended(ring, 6, 2, 3)\n"
    steps += "ring.enter_phase(4)"
    names = "print(sorted(name for name in sys.modules if name.startswith('rankbeat_') or name == 'typing'))"

    output = finished(agent, tmp_path, CLAIMED + steps + "\n" + names)

    expected = ["rankbeat_agent", *(f"rankbeat_agent.wire{part}" for part in ("", ".records", ".writer"))]
    assert output == f"{[*expected, 'rankbeat_contract', 'rankbeat_contract.ring']}\n"


def test_the_end_of_a_step_is_a_step_and_a_phase(agent, tmp_path):
    finished(agent, tmp_path, CLAIMED + "records.mark_entered(ring, 6, 2**40); records.mark_ended(ring, 7, 2**58, 4)")

    (ring,) = support.read_rings(tmp_path)
    state = ring.state
    assert (state.step, state.step_mono_ns, state.phase_since_mono_ns) == (7, 2**58, 2**58)
    assert (ring.phase, state.entered_step, state.entered_mono_ns) == ("callbacks", 6, 2**40)


@pytest.mark.skipif(PYTHON_39 is None, reason="no Python 3.9 under ~/.pyenv/versions")
def test_the_agent_runs_on_python_3_9(agent, tmp_path):
    imports = "import rankbeat_agent.wire.room, rankbeat_agent.wire.fitting, rankbeat_contract.names\n"
    imports += "from rankbeat_agent.wire import side\n"
    round_trip = """
records.note(ring, 2, records.intern(ring, 'loss'), 7, 1, 2.5, 0.0, 0.0)
ring.publish(1)
side.claim_side(sys.argv[1], ring.run_id, 65536).write(1, "run", 0, b"{}")
print(sys.version_info[:2])
"""

    output = finished(agent, tmp_path, imports + CLAIMED + round_trip, PYTHON_39)

    (ring,) = support.read_rings(tmp_path)
    assert (output, ring.scalars("loss")) == ("(3, 9)\n", {7: 2.5})
    assert {path.name for path in tmp_path.iterdir()} == {f"{ring.header.run_id}.{end}" for end in ("ring", "side")}

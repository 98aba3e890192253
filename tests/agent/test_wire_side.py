"""A side file written by a real process of its own, read from outside."""

import contextlib
import json
import os
import random
import signal
import stat
import subprocess
import sys
import time

import pytest

import side_support
import training_support as support
from rankbeat_contract import side

CLAIMED = """
import os, sys, time
from rankbeat_agent.wire import side as wire, writer
from rankbeat_contract import side
ring = writer.claim(sys.argv[1], 32768, 0, 0, time.time_ns())
file = wire.claim_side(sys.argv[1], ring.run_id, int(sys.argv[2]))
"""
SMALL = 64 << 10


@contextlib.contextmanager
def writing(agent, folder, program, file_bytes=SMALL):
    command = [sys.executable, "-c", CLAIMED + program, str(folder), str(file_bytes)]
    with subprocess.Popen(
        command, env={"PYTHONPATH": str(agent)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def finished(agent, folder, program, file_bytes=SMALL):
    """What the program printed, and the side file that it left."""
    with writing(agent, folder, program, file_bytes) as process:
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0
    (path,) = folder.glob("*.side")
    return output, side_support.read_side(path)


def test_what_is_written_is_read_with_its_kind_name_and_step(agent, tmp_path):
    program = """
file.write(side.RUN, "run", 0, b'{"argv": []}')
file.write(side.HISTOGRAM, "backbone.w", 7, side.pack_histogram(-1.0, 1.0, range(64)))
file.write(side.IMAGE, "attention", 8, side.pack_image((2, 1, 1), b"ab"))
"""
    _, found = finished(agent, tmp_path, program)

    expected = [
        (side.RUN, "run", 0, b'{"argv": []}'),
        (side.HISTOGRAM, "backbone.w", 7, side.pack_histogram(-1.0, 1.0, range(64))),
        (side.IMAGE, "attention", 8, side.pack_image((2, 1, 1), b"ab")),
    ]
    assert [(entry.kind, entry.name, entry.step, entry.payload) for entry in found.entries] == expected
    assert (found.refused, found.state.dropped) == (0, (0,) * side.KIND_SLOTS)


def test_it_lies_beside_its_ring_allocated_whole_and_can_be_read_under_umask_077(agent, tmp_path):
    with writing(agent, tmp_path, "print(flush=True); sys.stdin.read()") as process:
        process.stdout.readline()
        (ring,) = support.read_rings(tmp_path)

        path = tmp_path / f"{ring.header.run_id}.side"
        found = side_support.read_side(path)
        assert (path.stat().st_size, path.stat().st_blocks * 512 >= SMALL) == (SMALL, True)
        assert (found.header.run_id, found.header.pid) == (ring.header.run_id, process.pid)
    with writing(agent, tmp_path, "") as process:
        process.communicate(timeout=60)

    command = [sys.executable, "-c", "import os; os.umask(0o077)\n" + CLAIMED, str(tmp_path), str(SMALL)]
    subprocess.run(command, env={"PYTHONPATH": str(agent)}, check=True)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("*.side")} == {0o644}


def test_it_never_grows_and_says_what_it_dropped(agent, tmp_path):
    program = """
print([file.write(side.DUMP, "nan_loss", n, bytes(2000)) for n in range(10)])
print(file.write(side.IMAGE, "large", 1, bytes(1 << 20)))
print(file.write(side.HISTOGRAM, "still", 1, bytes(272)))
"""
    output, found = finished(agent, tmp_path, program)

    room = side.areas(SMALL)[side.KEPT].size // 2000
    assert output.splitlines() == [str([True] * room + [False] * (10 - room)), "False", "True"]
    assert found.state.dropped[side.DUMP] == 10 - room > 0
    assert found.state.dropped[side.IMAGE] == 1
    assert [entry.name for entry in found.entries] == ["nan_loss"] * room + ["still"]


def test_histograms_go_round_and_leave_the_run_where_it_is(agent, tmp_path):
    program = """
file.write(side.RUN, "run", 0, b"{}")
for n in range(1000):
    file.write(side.HISTOGRAM, "w", n, side.pack_histogram(n, n + 1, [n] * 64))
"""
    _, found = finished(agent, tmp_path, program)

    run, *histograms = found.entries
    steps = [entry.step for entry in histograms]
    assert run.payload == b"{}"
    assert steps == list(range(1000 - len(steps), 1000))
    assert all(
        side.unpack_histogram(entry.payload) == (n, n + 1, (n,) * 64)
        for n, entry in zip(steps, histograms, strict=True)
    )


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param("99, 'x', 0, b''", id="kind that there is not"),
        pytest.param("side.DUMP, 'x', 2**70, b''", id="step beyond 64 bits"),
        pytest.param("side.DUMP, 'x', 0, None", id="no payload"),
        pytest.param("side.DUMP, None, 0, b''", id="no name"),
    ],
)
def test_what_does_not_fit_raises_nothing_and_is_counted(agent, tmp_path, arguments):
    output, found = finished(agent, tmp_path, f"print(file.write({arguments}))")

    assert (output, sum(found.state.dropped), found.entries) == ("False\n", 1, ())


def test_a_forked_child_writes_nothing(agent, tmp_path):
    program = """
file.write(side.RUN, "run", 0, b"parent")
if os.fork() == 0:
    print(file.write(side.RUN, "run", 0, b"child"), flush=True)
    os._exit(0)
os.wait()
print(file.write(side.DUMP, "still", 0, b"parent"), flush=True)
"""
    output, found = finished(agent, tmp_path, program)

    assert (output, [entry.payload for entry in found.entries]) == ("False\nTrue\n", [b"parent", b"parent"])


ENDLESS = """
n = 0
while True:
    file.write(side.HISTOGRAM if n % 3 else side.IMAGE, f"w{n}", n, bytes([n % 251]) * (n * 37 % 900))
    n += 1
"""


def assert_whole(found):
    assert found.refused <= found.state.stream
    for entry in found.entries:
        n = entry.step
        assert (entry.number, entry.name, entry.payload) == (n, f"w{n}", bytes([n % 251]) * (n * 37 % 900))


def test_killed_at_any_moment_each_entry_is_whole_or_refused(agent, tmp_path):
    chance = random.Random(3)
    for attempt in range(8):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        with writing(agent, folder, ENDLESS) as process:
            support.wait_for_ring(folder)
            while not list(folder.glob("*.side")):
                time.sleep(0.001)
            time.sleep(chance.uniform(0, 0.02))
            process.kill()
            process.wait()

        (path,) = folder.glob("*.side")
        assert_whole(side_support.read_side(path))


def test_stopped_at_any_instruction_what_is_in_memory_is_whole_or_refused(agent, tmp_path):
    """A process that is stopped leaves in shared memory what SIGKILL at that moment would leave."""
    chance = random.Random(5)
    newest = []
    with writing(agent, tmp_path, ENDLESS) as process:
        while not list(tmp_path.glob("*.side")):
            time.sleep(0.001)
        (path,) = tmp_path.glob("*.side")
        for _ in range(200):
            time.sleep(chance.uniform(0, 0.0005))
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
            found = side_support.read_side(path)
            process.send_signal(signal.SIGCONT)

            assert_whole(found)
            if found.entries:
                newest.append(found.state.stream - 1 - found.entries[-1].number)

    assert len(newest) > 100
    assert set(newest) <= {0, 1}  # at most the entry that is being written is missing at the end


def test_a_size_that_is_not_possible_leaves_no_file(agent, tmp_path):
    program = f"""
try:
    wire.claim_side(sys.argv[1], "other", {side.MAX_BYTES + 1})
except ValueError as error:
    print(error)
"""
    output, _ = finished(agent, tmp_path, program)

    assert output.startswith("side file of")
    assert {path.suffix for path in tmp_path.iterdir()} == {".ring", ".side"}


def test_json_of_a_run_is_what_was_written(agent, tmp_path):
    program = "import json\nfile.write(side.RUN, 'run', 0, json.dumps({'optimizer': 'Momentum'}).encode())"

    _, found = finished(agent, tmp_path, program)

    assert json.loads(found.entries[0].payload) == {"optimizer": "Momentum"}

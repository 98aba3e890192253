"""Rings in a real tmpfs, as a pod's emptyDir in memory is one: full, shrinking, shared, used again."""

import contextlib
import os
import shutil
import subprocess
import sys

import pytest

import ring_support as reading
import training_support as support
from rankbeat_contract import ring

MIB = 1 << 20
POD = reading.a_pod()


@pytest.fixture
def volume(tmp_path):
    """Mounts a tmpfs of so many bytes where the collector looks for the pod's rings."""
    folder = reading.ring_folder(tmp_path, POD)

    def mounted(size):
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "rankbeat", folder]
        if subprocess.run(command, check=False).returncode:
            pytest.skip("cannot mount a tmpfs here")
        return folder

    yield mounted
    subprocess.run(["umount", "-l", folder], check=False, stderr=subprocess.DEVNULL)


CLAIM = """
import os, sys, time
from rankbeat_agent.wire import records, side, writer

def claim(local_rank=0, attempt=0, file_bytes=1 << 20, rank=None):
    ring = writer.claim(sys.argv[1], file_bytes, attempt, local_rank, time.time_ns())
    ring.rank, ring.world_size = local_rank if rank is None else rank, 64
    ring.publish(time.monotonic_ns())
    return ring

def wait():
    print("waiting", flush=True)
    return sys.stdin.readline()

"""
CLAIM_ENDLESS = (
    CLAIM
    + """
ring = claim()
wait()
for n in range(50_000):
    records.note(ring, 1, 0, n, n, n * 0.5, n * 0.25, n * 0.125)
    records.mark_ended(ring, n, n, 3)
    ring.publish(n)
"""
)


@contextlib.contextmanager
def writing(agent, folder, program):
    """A process that runs program and waits where it says so."""
    command = [sys.executable, "-c", program, str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env={"PYTHONPATH": str(agent)}, text=True, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def waits(process):
    assert process.stdout.readline() == "waiting\n", process.stderr.read()


def fill(folder):
    """Takes every byte that the volume still has."""
    with (folder / "other").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def test_in_a_full_volume_the_rank_trains_on_unseen_and_says_so_once(agent, volume):
    folder = volume(2 * MIB)
    fill(folder)
    program = """
import os, sys
from rankbeat_agent.hooks import rank
os.environ["RANKBEAT_RING_DIR"] = sys.argv[1]
rank.RANK.claim()
rank.RANK.claim()
print("trains on")
"""
    with writing(agent, folder, program) as process:
        output, error = process.communicate(timeout=60)

    assert (process.returncode, output, error.count("No space left on device")) == (0, "trains on\n", 1)
    assert [path.name for path in folder.iterdir()] == ["other"]


def test_a_volume_that_fills_up_later_takes_nothing_from_a_ring_that_is_there(agent, volume):
    folder = volume(2 * MIB)
    with writing(agent, folder, CLAIM_ENDLESS) as process:
        waits(process)
        fill(folder)
        process.communicate("\n", timeout=60)

    (found,) = support.read_rings(folder)
    assert (process.returncode, found.refused, found.state.step) == (0, 0, 49_999)
    assert all(record.value == record.step * 0.5 for record in found.records)


def test_a_volume_that_shrinks_takes_nothing_from_a_ring_that_is_there(agent, volume):
    """The kernel refuses a size below what is used; at what is used no page is left (mm/shmem.c, shmem_reconfigure)."""
    folder = volume(8 * MIB)
    with writing(agent, folder, CLAIM_ENDLESS) as process:
        waits(process)
        shrunk = [
            subprocess.run(["mount", "-o", f"remount,size={size}", folder], check=False, capture_output=True).returncode
            for size in (MIB, MIB // 2)
        ]
        process.communicate("\n", timeout=60)

    (found,) = support.read_rings(folder)
    assert [code == 0 for code in shrunk] == [True, False]
    assert shutil.disk_usage(folder).total == MIB
    assert (process.returncode, found.refused, found.state.step) == (0, 0, 49_999)


def test_a_side_file_leaves_a_quarter_of_the_volume_for_rings(agent, volume):
    folder = volume(4 * MIB)
    program = """
ring = claim()
print(side.claim_side(sys.argv[1], ring.run_id, 1 << 20).write(1, "run", 0, b"{}"))
try:
    side.claim_side(sys.argv[1], "b" * 24, 2 << 20)
except OSError as error:
    print(error)
"""
    with writing(agent, folder, CLAIM + program) as process:
        output, _ = process.communicate(timeout=60)

    assert output.startswith("True\n[Errno 28] no room for a side file of 2097152 bytes")
    assert sorted(path.suffix for path in folder.iterdir()) == [".ring", ".side"]


def test_sixty_four_local_ranks_share_a_volume_of_64_mib_and_one_poll_reads_them_all(agent, volume):
    folder = volume(64 * MIB)
    program = """
os.setpgid(0, 0)
ready, tell = os.pipe()
for local_rank in range(64):
    if os.fork() == 0:
        ring = claim(local_rank)
        for n in range(20_000):
            records.note(ring, 1, 0, n, n, n * 0.5, n * 0.25, n * 0.125)
        ring.publish(1)
        os.write(tell, b"x")
        time.sleep(600)
got = 0
while got < 64:
    got += len(os.read(ready, 64))
wait()
"""
    with writing(agent, folder, CLAIM + program) as process:
        waits(process)
        poller = reading.a_poller(folder.parents[4], POD)
        first, second = poller.poll(), poller.poll()
        os.killpg(process.pid, 9)
        process.wait()

    assert [rank.state.rank for rank in sorted(first.ranks, key=lambda rank: rank.state.rank)] == list(range(64))
    assert all(rank.is_alive and rank.state.written == 20_000 for rank in second.ranks)
    assert sum(rank.steps_read + rank.records_lost for rank in second.ranks) == 64 * 256
    assert first.pods[0].refused == second.pods[0].refused == ()
    assert second.seconds < 0.25


def test_after_a_restart_in_place_the_newest_claim_is_the_rank(agent, volume):
    folder = volume(8 * MIB)
    poller = reading.a_poller(folder.parents[4], POD)
    with writing(agent, folder, CLAIM + "ring = claim(); wait()") as process:
        waits(process)
        (before,) = poller.poll().ranks
        process.kill()
        process.wait()
    with writing(agent, folder, CLAIM + "ring = claim(); wait()") as process:
        waits(process)
        poll = poller.poll()

    (after,) = poll.ranks
    assert (before.is_alive, after.is_alive, poll.pods[0].rings) == (True, True, 2)
    assert before.header.run_id != after.header.run_id
    assert before.header.claimed_mono_ns < after.header.claimed_mono_ns


def test_restarts_in_a_full_volume_take_the_place_of_dead_ranks_and_never_of_living_ones(agent, volume):
    folder = volume(3 * MIB)
    runs = []
    with writing(agent, folder, CLAIM + "ring = claim(1); wait()") as neighbour:
        waits(neighbour)
        for _ in range(4):
            with writing(agent, folder, CLAIM + "ring = claim(0); print(ring.run_id, flush=True); wait()") as process:
                runs.append(process.stdout.readline().strip())
                waits(process)
        with (
            writing(agent, folder, CLAIM + "ring = claim(0); wait()") as process,
            writing(agent, folder, CLAIM + "ring = claim(0); wait()") as other,
        ):
            waits(process)
            waits(other)
            with writing(agent, folder, CLAIM + "claim(0)") as late:
                _, error = late.communicate(timeout=60)
            living = {path.stem for path in folder.iterdir()}

    assert len(set(runs)) == 4
    assert not living & set(runs[:3])
    assert len(living) == 3
    assert error.endswith("OSError: [Errno 28] No space left on device\n")


def test_what_a_process_killed_in_its_claim_left_is_deleted_when_the_volume_is_full(agent, volume):
    folder = volume(2 * MIB)
    old, new, users = folder / ("a" * 24), folder / ("b" * 24), folder / "checkpointofatrainingrun"
    for path, size in ((old, MIB), (new, MIB // 2), (users, 4096)):
        path.write_bytes(bytes(size))
    os.utime(old, (1, 1))
    os.utime(users, (1, 1))

    with writing(agent, folder, CLAIM + "ring = claim(); wait()") as process:
        waits(process)

    assert sorted(path.name for path in folder.iterdir() if path.suffix != ring.SUFFIX) == [new.name, users.name]


def test_two_jobs_in_one_pod_write_apart_and_the_newer_one_is_shown(agent, volume):
    folder = volume(16 * MIB)
    program = CLAIM + "rings = [claim(n, attempt=ATTEMPT) for n in range(2)]\n"
    program += "[records.note(ring, 1, 0, ATTEMPT * 100 + n, n, ATTEMPT, 0, 0) for n in range(50) for ring in rings]\n"
    program += "[ring.publish(1) for ring in rings]\nwait()"
    poller = reading.a_poller(folder.parents[4], POD)
    with writing(agent, folder, program.replace("ATTEMPT", "1")) as first:
        waits(first)
        with writing(agent, folder, program.replace("ATTEMPT", "2")) as second:
            waits(second)
            poll = poller.poll()
            rings = support.read_rings(folder)

    assert sorted((found.header.attempt, found.state.rank) for found in rings) == [(1, 0), (1, 1), (2, 0), (2, 1)]
    for found in rings:
        attempt = found.header.attempt
        rows = [(record.step, record.value) for record in found.records]
        assert rows == [(attempt * 100 + n, attempt) for n in range(50)]
    assert [(rank.state.rank, rank.header.attempt) for rank in poll.ranks] == [(0, 2), (1, 2)]
    assert poll.pods[0].rings == 4

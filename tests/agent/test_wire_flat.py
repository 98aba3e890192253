"""Over a million notes neither the training process nor its reader grows: two real processes, their resident memory."""

import json
import subprocess
import sys

import pytest

import training_support as support

ARENA = 256 << 10
"""What the allocator may take at once."""
KEPT_ROWS = 768 << 10
"""What a reader keeps fills up in the first few hundred polls (0.45 MiB, 2026-11-30), then stays."""
RSS = """
def rss():
    # Not the mapped files: they were allocated whole, their pages become resident as they are touched.
    status = open("/proc/self/status").read()
    return int(status.partition("RssAnon:")[2].split()[0]) << 10
"""
WRITER = (
    RSS
    + """
import json, sys, time, tracemalloc
from rankbeat_agent.wire import records, side as wire, writer
from rankbeat_contract import side
ring = writer.claim(sys.argv[1], 1 << 20, 0, 0, time.time_ns())
file = wire.claim_side(sys.argv[1], ring.run_id, 1 << 20)
ring.rank, ring.world_size = 0, 1
ring.publish(time.monotonic_ns())
ids = [records.intern(ring, f"name{n}") for n in range(100)]
payload = side.pack_histogram(0.0, 1.0, [1] * 64)

def write(first, count):
    for n in range(first, first + count):
        now = time.monotonic_ns()
        records.mark_entered(ring, n, now)
        records.mark_ended(ring, n, now, 4)
        records.note(ring, 1, 0, n, now, 0.5, 0.25, 0.125)
        if n % 5 == 0:
            records.note(ring, 2, ids[n % 100], n, now, n * 0.5)
            records.note(ring, 2, -1, n, now, 1.0)
            records.intern(ring, f"one too many {n}" * 9)
            ring.publish(now)
        if n % 500 == 0:
            file.write(side.HISTOGRAM, "w", n, payload)
            file.write(side.DUMP, "much", n, bytes(10_000))
            file.publish()

sys.stdin.readline()
write(0, 100_000)
before = rss()
write(100_000, 900_000)
grown = rss() - before
tracemalloc.start()
write(1_000_000, 5_000)
kept = tracemalloc.get_traced_memory()[0]
write(1_005_000, 20_000)
kept = tracemalloc.get_traced_memory()[0] - kept
ring.publish(time.monotonic_ns())
print(json.dumps({"grown": grown, "kept": kept, "refused": ring.refused}))
"""
)
READER = (
    RSS
    + """
import json, sys, time
from rankbeat_collector.model.pods import Pod
from rankbeat_collector.ring import polling
pod = Pod("team-a", "llm-0", "uid", "llm", "llm", "job-1", phase="Running")
entries = 0
def take(header, state, entry):
    global entries
    entries += 1
def observe(header, state, record, name):
    pass
source = polling.Source(sys.argv[1], lambda: (pod,), lambda pod: ())
poller = polling.Poller(source, polling.Observing(observe, take_entry=take))
polls, before, rank = 0, 0, poller.poll().ranks[0]
print("polling", flush=True)
while rank.is_alive:
    (rank,) = poller.poll().ranks
    polls += 1
    if not before and rank.state.written > 200_000:
        before = rss()
print(json.dumps({"grown": rss() - before, "polls": polls, "entries": entries, "lost": rank.records_lost,
                  "read": rank.steps_read + rank.scalars_read, "written": rank.state.written}))
"""
)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_million_steps_leave_the_memory_of_writer_and_reader_as_it_was(tmp_path):
    agent = support.pod_folder(tmp_path / "agent")
    rings = tmp_path / "rings"
    rings.mkdir()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", WRITER, rings], env={"PYTHONPATH": str(agent)}, **pipes) as writer:
        support.wait_for_ring(rings)
        with subprocess.Popen([sys.executable, "-c", READER, rings], **pipes) as reader:
            assert reader.stdout.readline() == "polling\n"
            written = json.loads(writer.communicate("\n", timeout=100)[0])
            read = json.loads(reader.communicate(timeout=20)[0])

    assert written["grown"] <= ARENA
    assert written["kept"] <= 4096
    assert read["grown"] <= KEPT_ROWS
    assert (read["polls"] > 30, read["entries"] > 100) == (True, True)
    assert read["read"] + read["lost"] == read["written"] == 1_025_000 * 6 // 5
    assert written["refused"] == 1_025_000 // 5 * 2

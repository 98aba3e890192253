"""What the collector reads of a ring, and what it counts as lost."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
from pathlib import Path

import pytest

import ring_support as support
from rankbeat_collector.model.ranks import Scalar, Step
from rankbeat_contract import ring


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "pods").mkdir()
    return tmp_path


def written(root: Path, capacity: int = 100) -> support.RingWriter:
    return support.RingWriter(support.ring_folder(root, support.a_pod()) / "run0.ring", capacity=capacity)


def test_a_poll_gives_the_rank_its_steps_and_its_scalars(root: Path) -> None:
    writer = written(root)
    writer.step(1, math.nan, math.nan, 0.5)
    writer.step(2)
    writer.scalar(2, "loss", 2.5)

    (rank,) = support.a_poller(root, support.a_pod()).poll().ranks

    assert rank.steps == (Step(1, None, None, 0.5, 1), Step(2, 0.02, 0.001, 0.019, 1))
    assert rank.scalars == (Scalar(2, "loss", 2.5),)
    assert (rank.state, rank.header, rank.loss, rank.records_lost) == (writer.latest, writer.header, 2.5, 0)


def test_each_record_is_read_once_however_many_polls(root: Path) -> None:
    writer = written(root)
    poller = support.a_poller(root, support.a_pod())
    for step in range(250):
        writer.step(step)
        if step % 30 == 0:
            poller.poll()

    (rank,) = poller.poll().ranks

    assert [row.step for row in rank.steps] == list(range(250))
    assert (rank.steps_read, rank.records_lost) == (250, 0)


def test_records_that_a_writer_overwrote_are_counted_as_lost(root: Path) -> None:
    writer = written(root, capacity=10)
    poller = support.a_poller(root, support.a_pod())
    writer.step(0)
    poller.poll()
    for step in range(1, 36):
        writer.step(step)

    poll = poller.poll()

    assert [row.step for row in poll.ranks[0].steps] == [0, *range(26, 36)]
    assert (poll.ranks[0].records_lost, poll.totals.records_lost) == (25, 25)


def test_a_ring_first_seen_late_lost_nothing(root: Path) -> None:
    writer = written(root, capacity=10)
    for step in range(35):
        writer.step(step)

    (rank,) = support.a_poller(root, support.a_pod()).poll().ranks

    assert [row.step for row in rank.steps] == list(range(25, 35))
    assert rank.records_lost == 0


def test_a_writer_that_laps_the_reader_all_the_time_gives_no_wrong_row(root: Path) -> None:
    writer = written(root, capacity=50)
    poller = support.a_poller(root, support.a_pod())
    poller.poll()
    stop = threading.Event()

    def write() -> None:
        step = 0
        while not stop.is_set():
            writer.step(step, step / 1000)
            step += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        polls = [poller.poll() for _ in range(100)]
    finally:
        stop.set()
        thread.join()
    rank = poller.poll().ranks[0]

    assert all(row.interval_seconds == pytest.approx(row.step / 1000) for poll in polls for row in poll.ranks[0].steps)
    assert rank.steps_read + rank.records_lost == writer.latest.written


def test_a_record_that_is_not_there_yet_is_read_at_the_next_poll(root: Path) -> None:
    writer = written(root)
    poller = support.a_poller(root, support.a_pod())
    writer.step(0)
    late = ring.Record(ring.KIND_STEP, 1, 1, 0, 0.5)
    writer.latest = writer.latest._replace(written=2)
    writer.state(step=1)

    before = poller.poll().ranks[0]
    writer.put(ring.pack_record(late), ring.record_offset(1, 100))
    after = poller.poll().ranks[0]

    assert ([row.step for row in before.steps], before.records_lost) == ([0], 0)
    assert ([row.step for row in after.steps], after.records_lost) == ([0, 1], 0)


def test_a_record_that_stays_torn_is_lost_once_and_those_behind_it_are_read(root: Path) -> None:
    writer = written(root)
    poller = support.a_poller(root, support.a_pod())
    for step in range(3):
        writer.step(step)
    writer.put(b"torn", ring.record_offset(1, 100) + 20)

    for _ in range(3):
        rank = poller.poll().ranks[0]

    assert ([row.step for row in rank.steps], rank.records_lost) == ([0, 2], 1)


def test_a_torn_state_leaves_the_one_before_it(root: Path) -> None:
    writer = written(root)
    writer.step(1)
    before = writer.latest
    writer.step(2)
    writer.put(b"torn", ring.state_offset(writer.latest.sequence) + 30)

    (rank,) = support.a_poller(root, support.a_pod()).poll().ranks

    assert rank.state == before


def test_a_ring_that_is_not_claimed_yet_is_neither_read_nor_refused(root: Path) -> None:
    folder = support.ring_folder(root, support.a_pod())
    (folder / "empty.ring").touch()
    (folder / "blank.ring").write_bytes(bytes(1 << 16))

    poll = support.a_poller(root, support.a_pod()).poll()

    assert (poll.ranks, poll.pods[0].refused) == ((), ())


def test_a_restart_in_place_replaces_the_rank(root: Path) -> None:
    folder = support.ring_folder(root, support.a_pod())
    support.RingWriter(folder / "aaa.ring")
    support.RingWriter(folder / "bbb.ring").state(rank=1)
    support.RingWriter(folder / "ccc.ring")

    poll = support.a_poller(root, support.a_pod()).poll()

    assert [(rank.state.rank, rank.header.run_id) for rank in poll.ranks] == [(1, "bbb"), (0, "ccc")]
    assert poll.pods[0].rings == 3


def test_a_ring_that_vanishes_is_kept_as_last_read_and_said_to_be_gone(root: Path) -> None:
    writer = written(root)
    writer.step(7)
    poller = support.a_poller(root, support.a_pod())
    poller.poll()
    writer.path.unlink()

    poll = poller.poll()

    assert [(rank.state.step, rank.gone_mono_ns) for rank in poll.ranks] == [(7, poll.mono_ns)]
    assert poll.pods[0].rings == 0


def test_a_pod_made_anew_under_the_same_file_name_starts_afresh(root: Path) -> None:
    writer = written(root)
    writer.step(7)
    poller = support.a_poller(root, support.a_pod())
    poller.poll()
    writer.path.unlink()
    written(root).step(1)

    there = [rank for rank in poller.poll().ranks if rank.gone_mono_ns is None]

    assert [[row.step for row in rank.steps] for rank in there] == [[1]]


def test_a_missing_root_is_said_and_no_crash(tmp_path: Path) -> None:
    poll = support.a_poller(tmp_path / "nowhere", support.a_pod()).poll()

    assert (poll.is_readable, poll.ranks) == (False, ())


def test_a_process_is_alive_while_it_holds_the_lock_and_dead_after_sigkill(root: Path) -> None:
    writer = written(root)
    poller = support.a_poller(root, support.a_pod())
    with support.a_living_process(writer.path) as holder:
        while_held = poller.poll().ranks[0].is_alive
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    after = poller.poll().ranks[0].is_alive

    assert (while_held, after) == (True, False)


def test_no_descriptor_of_a_pod_stays_open_after_a_poll(root: Path) -> None:
    written(root).close()
    (support.ring_folder(root, support.a_pod()) / "bad.ring").write_bytes(b"x" * 20_000)
    os.mkfifo(support.ring_folder(root, support.a_pod()) / "fifo.ring")

    support.a_poller(root, support.a_pod(), support.a_pod("other")).poll()

    targets = []
    for fd in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the listing's own
            targets.append(str(fd.readlink()))
    assert [target for target in targets if str(root) in target] == []


def test_a_rank_that_hangs_is_where_its_marks_say(root: Path) -> None:
    """The agent publishes a state a few times a second only; what it entered since stands in the marks alone."""
    writer = written(root)
    writer.step(7)
    poller = support.a_poller(root, support.a_pod())
    poller.poll()
    entered = writer.latest._replace(entered_step=8, entered_mono_ns=writer.latest.updated_mono_ns + 1_000_000)
    writer.put(ring.pack_marks(entered), ring.MARKS_OFFSET)

    (rank,) = poller.poll().ranks

    assert (rank.state.step, rank.state.entered_step) == (writer.latest.step, 8)

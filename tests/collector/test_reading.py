"""What the collector reads of a ring, and what it counts as lost."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ring_support as support
from rankbeat_collector.model.ranks import Rank, Scalar, Step
from rankbeat_collector.ring import polling
from rankbeat_contract import ring, side

if TYPE_CHECKING:
    from collections.abc import Callable


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


class SideWriter:
    """A side file beside a ring, written by pwrite in the agent's order: payload, slot, state."""

    def __init__(self, writer: support.RingWriter, file_bytes: int = side.MIN_BYTES, run_id: str = "run0") -> None:
        self.areas = side.areas(file_bytes)
        self.state = side.State()
        self._places = [0, 0]
        self._fd = os.open(writer.path.with_suffix(side.SUFFIX), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        os.posix_fallocate(self._fd, 0, file_bytes)
        self.put(side.pack_header(side.Header(file_bytes, 17, 1, run_id)), 0)
        self.publish()

    def put(self, part: bytes, offset: int) -> None:
        os.pwrite(self._fd, part, offset)

    def publish(self, **changes: object) -> None:
        self.state = self.state._replace(sequence=self.state.sequence + 1, **changes)  # type: ignore[arg-type]
        self.put(side.pack_state(self.state), side.state_offset(self.state.sequence))

    def slot(self, kind: int, payload: bytes, **changes: object) -> side.Slot:
        """Writes payload and slot of the next entry of its area; the state that counts it comes later."""
        which = side.area_of(kind)
        area, number = self.areas[which], self.state.written(which)
        begin = self._places[which] if self._places[which] + len(payload) <= area.size else 0
        self._places[which] = begin + (len(payload) + 7) // 8 * 8
        slot = side.Slot(kind, number, number, 5, area.data + begin, len(payload), zlib.crc32(payload), f"w{number}")
        slot = slot._replace(**changes)  # type: ignore[arg-type]
        self.put(payload, area.data + begin)
        self.put(side.pack_slot(slot), area.slot_offset(number))
        return slot

    def write(self, kind: int, payload: bytes, **changes: object) -> None:
        self.slot(kind, payload, **changes)
        counter = "stream" if side.area_of(kind) == side.STREAM else "kept"
        self.publish(**{counter: self.state.written(side.area_of(kind)) + 1})


class SidePoller:
    """A poller that is told of every entry of the side files."""

    def __init__(self, root: Path) -> None:
        self.payloads: list[bytes] = []
        source = polling.kubelet_source(str(root), lambda: (support.a_pod(),))
        self._poller = polling.Poller(source, polling.Observing(take_entry=self._take))

    def _take(self, header: ring.Header, state: ring.State, entry: side.Entry) -> None:
        assert (header.run_id, state.rank) == ("run0", 0)
        self.payloads.append(entry.payload)

    def poll(self) -> tuple[list[bytes], Rank, dict[str, int]]:
        """The new payloads, the rank, and what was refused."""
        self.payloads = []
        poll = self._poller.poll()
        return self.payloads, poll.ranks[0], dict(poll.pods[0].refused)


def test_each_entry_of_the_side_file_is_given_once(root: Path) -> None:
    file = SideWriter(written(root))
    poller = SidePoller(root)
    file.write(side.RUN, b"run")
    file.write(side.HISTOGRAM, b"first")

    before, _, _ = poller.poll()
    file.write(side.HISTOGRAM, b"second")
    after, rank, refused = poller.poll()

    assert (before, after, poller.poll()[0]) == ([b"run", b"first"], [b"second"], [])
    assert (rank.side_lost, rank.side_dropped, refused) == (0, {}, {})


def test_entries_that_the_writer_overwrote_are_counted_as_lost(root: Path) -> None:
    file = SideWriter(written(root))
    poller = SidePoller(root)
    poller.poll()
    for number in range(100):
        file.write(side.HISTOGRAM, number.to_bytes(2, "big") * 1000)
    area = file.areas[side.STREAM]

    payloads, rank, _ = poller.poll()

    assert payloads == [number.to_bytes(2, "big") * 1000 for number in range(100 - area.size // 2000, 100)]
    assert rank.side_lost == 100 - len(payloads)


def test_what_the_side_files_writer_dropped_is_said_by_kind(root: Path) -> None:
    file = SideWriter(written(root))
    file.publish(dropped=(0, 0, 0, 2, 1, 0, 0, 0))

    _, rank, _ = SidePoller(root).poll()

    assert rank.side_dropped == {"image": 2, "dump": 1}


def test_an_entry_that_is_not_there_yet_is_given_at_the_next_poll_and_torn_ones_are_lost_once(root: Path) -> None:
    file = SideWriter(written(root))
    poller = SidePoller(root)
    poller.poll()
    slot = file.slot(side.IMAGE, b"late")
    file.put(b"torn", slot.offset)
    file.publish(stream=1)
    polls = [poller.poll()[0]]
    file.put(b"late", slot.offset)
    polls.append(poller.poll()[0])
    file.put(b"torn", file.slot(side.IMAGE, b"gone").offset)
    file.publish(stream=2)
    file.write(side.IMAGE, b"next")

    polls += [poller.poll()[0] for _ in range(3)]
    _, rank, _ = poller.poll()

    assert polls == [[], [b"late"], [], [b"next"], []]
    assert rank.side_lost == 1


@pytest.mark.parametrize(
    "forge",
    [
        pytest.param(lambda file: file.write(side.HISTOGRAM, b"x", offset=0, length=1 << 30), id="beyond the file"),
        pytest.param(lambda file: file.write(side.RUN + 100, b"x"), id="no such kind"),
        pytest.param(lambda file: file.write(side.HISTOGRAM, b"x", name="a\nb"), id="name that is no line"),
        pytest.param(lambda file: file.write(side.HISTOGRAM, b"x", crc=0), id="another's checksum"),
    ],
)
def test_a_forged_entry_is_not_given_and_the_next_one_is(forge: Callable[[SideWriter], None], root: Path) -> None:
    file = SideWriter(written(root))
    poller = SidePoller(root)
    poller.poll()
    forge(file)
    for _ in range(5):
        file.write(side.HISTOGRAM, b"good")

    payloads, _, refused = poller.poll()
    _, rank, _ = poller.poll()

    assert (payloads, rank.side_lost, refused) == ([b"good"] * 5, 1, {})


def test_entries_that_all_point_to_the_same_bytes_are_not_read_again_and_again(root: Path) -> None:
    file = SideWriter(written(root), side.MAX_BYTES)
    payload = bytes(40 << 20)
    slot = file.slot(side.IMAGE, payload)
    slots = file.areas[side.STREAM].slots
    for number in range(200):
        file.put(side.pack_slot(slot._replace(number=number)), file.areas[side.STREAM].slot_offset(number))
    file.publish(stream=200)
    started = time.process_time()

    payloads, _, _ = SidePoller(root).poll()

    assert (len(payloads), slots > 200) == (1, True)
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        pytest.param(lambda path: path.write_bytes(b"\xa5" * side.MIN_BYTES), "header", id="noise"),
        pytest.param(lambda path: os.truncate(path, 200), "header", id="cut off"),
        pytest.param(lambda path: (path.unlink(), path.symlink_to("/etc/passwd")), "link", id="link"),
        pytest.param(lambda path: (path.unlink(), os.mkfifo(path)), "type", id="fifo"),
        pytest.param(lambda path: os.truncate(path, side.MAX_BYTES + 1), "size", id="too large"),
    ],
)
def test_a_side_file_that_cannot_be_read_is_refused_and_its_rank_is_seen(
    spoil: Callable[[Path], object], reason: str, root: Path
) -> None:
    writer = written(root)
    writer.step(3)
    SideWriter(writer)
    spoil(writer.path.with_suffix(side.SUFFIX))

    payloads, rank, refused = SidePoller(root).poll()

    assert (payloads, rank.state.step, refused) == ([], 3, {reason: 1})


def test_a_side_file_of_another_run_is_refused(root: Path) -> None:
    SideWriter(written(root), run_id="run1").write(side.RUN, b"run")

    assert SidePoller(root).poll()[2] == {"header": 1}


def test_side_files_are_not_opened_where_nobody_asked_for_them(root: Path) -> None:
    writer = written(root)
    os.mkfifo(writer.path.with_suffix(side.SUFFIX))

    poll = support.a_poller(root, support.a_pod()).poll()

    assert (len(poll.ranks), poll.pods[0].refused) == (1, ())

"""The vendor part: one child calls the library, whatever that does to it; snapshots travel over a unix socket."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import held_process
from rankbeat_exporter.errors import CannotMeasure, InvalidSnapshot
from rankbeat_exporter.model.accelerator import VENDORS, Answer, Event, RawChip, Snapshot
from rankbeat_exporter.parsing import vendor
from rankbeat_exporter.server.vendor import VendorServer
from rankbeat_exporter.sources import driver_roots, vendor_socket, vendor_supervisor
from rankbeat_exporter.sources.unkillable import Unkillable

ANSWERS = st.builds(Answer, st.integers(-100000, 0), st.lists(st.integers() | st.text(), max_size=5).map(tuple))
CHIPS = st.builds(
    RawChip, st.integers(0, 99), st.integers(0, 9), st.dictionaries(st.text(max_size=9), ANSWERS, max_size=4)
)
EVENTS = st.builds(
    Event,
    *[st.text(max_size=9)] * 3,
    st.integers(0, 999),
    st.integers(1, 9),
    st.floats(allow_nan=False, allow_infinity=False),
)
SNAPSHOTS = st.builds(
    Snapshot,
    st.text(max_size=9),
    st.text(max_size=9),
    st.lists(CHIPS, max_size=3).map(tuple),
    st.integers(0, 9),
    st.sampled_from(["", *VENDORS]),
    st.lists(EVENTS, max_size=3).map(tuple),
)


@given(SNAPSHOTS)
def test_a_snapshot_survives_the_wire(snapshot):
    assert vendor.Reader().snapshot(vendor.snapshot_bytes(snapshot)) == snapshot


@given(st.lists(SNAPSHOTS, min_size=1, max_size=3))
def test_snapshots_one_after_the_other_survive_the_wire_and_chips_are_passed_on_as_they_came(snapshots):
    writer = vendor.Writer()
    for snapshot in snapshots:
        for line in (writer.line(snapshot), writer.line(snapshot)):  # the second with nothing written anew
            came = vendor.Reader().snapshot(line)
            assert came == snapshot
            assert vendor.Reader().snapshot(vendor.snapshot_bytes(replace(came, restarts=7))) == replace(
                snapshot, restarts=7
            )


def test_an_answer_that_is_another_is_written_and_read_anew_and_one_that_is_the_same_is_not():
    writer, reader = vendor.Writer(), vendor.Reader()

    def came(answer):
        (chip,) = reader.snapshot(writer.line(Snapshot("", chips=(RawChip(0, 0, {"power": answer}),)))).chips
        return chip.answers["power"]

    given = [Answer(0, (1,)), Answer(0, (2,)), Answer(-8012), Answer(-8012)]
    found = [came(answer) for answer in given]
    assert found == given
    assert found[2] is found[3]


def test_chips_that_are_not_last_in_their_line_are_written_anew():
    lists = b'"events":[],"texts":[],"repeated_texts":[]'
    line = b'{"vendor":"huawei","reason":"","detail":"","chips":[],"restarts":0,%b}' % lists

    assert (
        vendor.Reader().snapshot(vendor.snapshot_bytes(replace(vendor.Reader().snapshot(line), restarts=3))).restarts
        == 3
    )


def test_an_answer_holds_one_snapshot_of_each_vendor():
    found = (Snapshot("", vendor="huawei"), Snapshot("LibraryNotFound", vendor="nvidia"))
    lines = [vendor.snapshot_bytes(one) for one in found]

    assert vendor.Reader().snapshots(b"".join(lines)) == found
    with pytest.raises(InvalidSnapshot):
        vendor.Reader().snapshots(lines[0] * 2)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"reason":1,"detail":"","chips":[],"restarts":0}',
        b'{"reason":"","detail":"","chips":{},"restarts":0}',
        b'{"reason":"","detail":"","chips":[],"restarts":true}',
        b'{"reason":"","detail":"","chips":[{"card":0,"device":0,"answers":{"a":[]}}],"restarts":0}',
        b'{"reason":"","detail":"","chips":[{"card":0,"device":0,"answers":{"a":[0,1.5]}}],"restarts":0}',
        b"[" * 100000,
        b" " * (vendor.MAX_BYTES + 1),
    ],
)
def test_what_is_no_snapshot_is_refused(line):
    with pytest.raises(InvalidSnapshot):
        vendor.Reader().snapshot(line)


@given(st.binary(max_size=300))
def test_noise_is_no_snapshot(noise):
    with pytest.raises(InvalidSnapshot):
        vendor.Reader().snapshot(noise)


@pytest.fixture
def child(driver_root, script, monkeypatch):
    """A VendorChild over the double."""
    monkeypatch.setenv("DCMI_DOUBLE_SCRIPT", str(script.path))
    parts = ("node_exporter", "agent")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(str(Path(__file__).parents[2] / part) for part in parts))
    made = []

    def make(root=driver_root, deadline_seconds=10.0, start=None, unkillable=None):
        starting = partial(vendor_supervisor.start_child, "huawei", driver_roots.DriverRoots(root))
        made.append(vendor_supervisor.VendorChild(start or starting, deadline_seconds, unkillable=unkillable))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_the_child_reads_all_chips_and_is_kept(child):
    asked = child()

    first, second = asked.snapshot(), asked.snapshot()

    assert (first.reason, len(first.chips), first.restarts) == ("", 2, 0)
    assert (second.chips, second.restarts) == (first.chips, 0)


def test_what_the_library_prints_does_not_get_into_the_answer(child, script):
    script('print {"reason": "printed"}\n')

    assert child().snapshot().reason == ""


def test_a_change_is_seen_at_the_next_request_a_vanished_chip_too(child, script):
    asked = child()
    before = asked.snapshot()

    script("cards 1\n1/0 temperature 77\n")
    after = asked.snapshot()

    assert [chip.card for chip in before.chips] == [0, 1]
    assert [(chip.card, chip.answers["temperature"]) for chip in after.chips] == [(1, (0, (77,)))]


def test_a_library_that_appears_later_is_found_without_a_restart(child, driver_root, tmp_path):
    asked = child(tmp_path)
    before = asked.snapshot()

    (tmp_path / "lib64").symlink_to(driver_root / "lib64")
    after = asked.snapshot()

    assert (before.reason, after.reason, after.restarts) == ("LibraryNotFound", "", 0)


def test_a_driver_that_hangs_costs_the_deadline_and_a_child_and_heals(child, script):
    asked = child(deadline_seconds=3.0)
    asked.snapshot()

    script("hang dcmi_get_device_health\n")
    begin = time.monotonic()
    hung = asked.snapshot()
    took = time.monotonic() - begin
    script("")
    healed = asked.snapshot()

    assert (hung.reason, hung.chips) == ("DriverHung", ())
    assert 3.0 <= took < 3.0 + vendor_supervisor.KILL_SECONDS
    assert (healed.reason, len(healed.chips), healed.restarts) == ("", 2, 1)


def test_a_child_that_dies_is_replaced_at_the_next_request(child):
    starts = []

    def start():
        command = [sys.executable, "-c", "import sys; sys.stdin.readline()"]
        starts.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        return starts[-1]

    asked = child(start=start)

    assert [asked.snapshot().reason for _ in range(2)] == ["ChildDied", "ChildDied"]
    assert len(starts) == 2
    assert asked.snapshot().restarts == 2


@pytest.fixture
def hold(tmp_path, eventually):
    """A child that SIGKILL does not end until it is released, and how it is."""

    def one(name):
        folder = tmp_path / name
        folder.mkdir()
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        made = subprocess.Popen(held_process.command(folder), **pipes)
        eventually((folder / "tracer").exists)
        return made, partial(held_process.release, folder)

    return one


def test_while_one_child_cannot_be_killed_no_other_is_started(child, hold, eventually):
    (first, release_first), (second, release_second) = hold("first"), hold("second")
    waiting = iter((first, second))
    unkillable = Unkillable()
    asked = child(deadline_seconds=0.05, start=lambda: next(waiting), unkillable=unkillable)

    found = [asked.snapshot() for _ in range(3)]
    release_first()
    eventually(lambda: not unkillable.left())
    after = asked.snapshot()
    release_second()

    assert [one.reason for one in found] == ["DriverHung", "ChildUnkillable", "ChildUnkillable"]
    assert [one.unkillable for one in found] == [1, 1, 1]
    assert (after.reason, after.restarts, list(waiting)) == ("DriverHung", 1, [])
    eventually(lambda: not unkillable.left())


def test_while_a_tool_cannot_be_killed_no_child_is_started_but_one_that_runs_is_asked(child, hold, eventually):
    tool, release = hold("tool")
    unkillable = Unkillable()
    running, waiting = child(unkillable=unkillable), child(start=lambda: pytest.fail("started"), unkillable=unkillable)
    running.snapshot()
    tool.kill()
    unkillable.note(tool, "tool")

    asked, barred = running.snapshot(), waiting.snapshot()
    release()

    assert (asked.reason, asked.unkillable) == ("", 1)
    assert (barred.reason, barred.unkillable) == ("ChildUnkillable", 1)
    eventually(lambda: not unkillable.left())


def environment_of(pid: int) -> list[bytes]:
    """A started process's environment; for a moment in exec the kernel shows none."""
    until = time.monotonic() + 5
    while not (found := Path(f"/proc/{pid}/environ").read_bytes()) and time.monotonic() < until:
        time.sleep(0.001)
    return found.split(b"\0")


def test_the_environment_leads_the_loader_to_the_librarys_neighbours(child, tmp_path, monkeypatch):
    made = vendor_supervisor.start_child("huawei", driver_roots.DriverRoots(tmp_path))

    environment = environment_of(made.pid)
    made.communicate()

    assert f"LD_LIBRARY_PATH={tmp_path}/lib64/driver:{tmp_path}/lib64/common:{tmp_path}/lib64".encode() in environment


@pytest.fixture
def served(tmp_path):
    """A VendorServer on a socket; snapshots come from served.give."""
    path = tmp_path / "vendor.sock"
    path.write_text("left over by a container that was killed")
    give = [lambda: Snapshot("LibraryNotFound")]

    def snapshots():
        return (give[0](),)

    server = VendorServer(path, snapshots)
    thread = threading.Thread(target=server.serve)
    thread.start()
    yield path, give
    server.stop()
    thread.join(5)
    assert not thread.is_alive()


def test_each_connection_gets_one_snapshot(served):
    path, give = served
    give[0] = lambda: Snapshot("", restarts=3)

    assert [vendor_socket.snapshots(path, 5.0, vendor.Reader())[0].restarts for _ in range(3)] == [3, 3, 3]


def test_only_owner_and_group_may_connect(served):
    assert stat.S_IMODE(served[0].stat().st_mode) == 0o660


def test_a_snapshot_that_fails_leaves_the_server_up(served):
    path, give = served
    give[0] = lambda: 1 / 0
    with pytest.raises(CannotMeasure, match="InvalidSnapshot"):
        vendor_socket.snapshots(path, 5.0, vendor.Reader())

    give[0] = lambda: Snapshot("")

    assert vendor_socket.snapshots(path, 5.0, vendor.Reader())[0].reason == ""


def test_a_server_that_is_not_there_or_does_not_answer_is_unavailable(served, tmp_path):
    path, give = served
    released = threading.Event()

    def late():
        released.wait(5)
        return Snapshot("")

    give[0] = late

    with pytest.raises(CannotMeasure, match="SocketUnavailable"):
        vendor_socket.snapshots(tmp_path / "none.sock", 5.0, vendor.Reader())
    with pytest.raises(CannotMeasure, match="SocketUnavailable"):
        vendor_socket.snapshots(path, 0.05, vendor.Reader())
    released.set()

"""A pod may put anything in its ring folder, at any moment. Nothing of it blocks, crashes, or costs much."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ring_support as support
from rankbeat_collector.ring import polling
from rankbeat_contract import ring

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rankbeat_collector.model.pods import Pod

POD = support.a_pod()


def fifo(folder: Path) -> None:
    os.mkfifo(folder / "x.ring")


def link(folder: Path) -> None:
    (folder.parent / "secret").write_bytes(b"secret")
    (folder / "x.ring").symlink_to(folder.parent / "secret")


def subfolder(folder: Path) -> None:
    (folder / "x.ring").mkdir()


def device(folder: Path) -> None:
    try:
        os.mknod(folder / "x.ring", 0o600 | 0o020000, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("needs CAP_MKNOD")


def too_large(folder: Path) -> None:
    with (folder / "x.ring").open("wb") as file:
        file.truncate(ring.MAX_BYTES + 1)


def too_small(folder: Path) -> None:
    (folder / "x.ring").write_bytes(ring.pack_header(support.a_header()))


def not_ascii(folder: Path) -> None:
    (folder / "r\u00e4nk.ring").touch()


def not_utf8(folder: Path) -> None:
    os.close(os.open(os.fsencode(folder) + b"/\xff.ring", os.O_CREAT))


def noise(folder: Path) -> None:
    (folder / "x.ring").write_bytes(b"\xa5" * 20_000)


def forged_capacity(folder: Path) -> None:
    support.RingWriter(folder / "x.ring", header=support.a_header(capacity=0xFFFFFFFF))


def no_capacity(folder: Path) -> None:
    support.RingWriter(folder / "x.ring", header=support.a_header(capacity=0))


def forged_run(folder: Path) -> None:
    support.RingWriter(folder / "x.ring", header=support.a_header(run_id='a"}\n# HELP'))


def forged_rank(folder: Path) -> None:
    support.RingWriter(folder / "x.ring").state(rank=2_000_000_000, world_size=-1)


def rank_beyond_the_world(folder: Path) -> None:
    support.RingWriter(folder / "x.ring").state(rank=2, world_size=2)


def forged_count(folder: Path) -> None:
    support.RingWriter(folder / "x.ring").state(written=(1 << 64) - 1)


def header_only(folder: Path) -> None:
    writer = support.RingWriter(folder / "x.ring")
    writer.put(bytes(2 * ring.STATE_BYTES), ring.STATE_OFFSET)


def forged_name(folder: Path) -> None:
    writer = support.RingWriter(folder / "x.ring")
    writer.put(ring.pack_name(ring.Name('loss"} 1\n')), ring.name_offset(0))
    writer.record(kind=ring.KIND_SCALAR, step=1, value=1.0, name_id=0)
    writer.state()


def many_files(folder: Path) -> None:
    for number in range(10_000):
        (folder / f"f{number}").touch()


def many_rings(folder: Path) -> None:
    for number in range(100):
        support.RingWriter(folder / f"r{number}.ring", capacity=1).close()


CASES: dict[Callable[[Path], None], dict[str, int]] = {
    fifo: {"type": 1},
    link: {"link": 1},
    subfolder: {"type": 1},
    device: {"type": 1},
    too_large: {"size": 1},
    too_small: {"header": 1},
    not_ascii: {"name": 1},
    not_utf8: {"name": 1},
    noise: {"header": 1},
    forged_capacity: {"capacity": 1},
    no_capacity: {"capacity": 1},
    forged_run: {"name": 1},
    forged_rank: {"rank": 1},
    rank_beyond_the_world: {"rank": 1},
    forged_count: {"state": 1},
    header_only: {"state": 1},
    forged_name: {"name": 1},
    many_files: {"too_many": 1},
    many_rings: {"too_many": 20},
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "pods").mkdir()
    return tmp_path


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_what_a_pod_forges_is_refused_by_reason_and_its_neighbour_is_read(
    make: Callable[[Path], None], root: Path
) -> None:
    make(support.ring_folder(root, POD))
    neighbour = support.a_pod("neighbour")
    support.RingWriter(support.ring_folder(root, neighbour) / "ok.ring").step(1)
    started = time.monotonic()

    poll = support.a_poller(root, POD, neighbour).poll()

    assert dict(poll.pods[0].refused) == CASES[make]
    assert [rank.state.step for rank in poll.ranks if rank.pod == neighbour] == [1]
    assert time.monotonic() - started < 1


@pytest.mark.parametrize("component", range(4), ids=["pod", "volumes", "plugin", "volume"])
def test_a_link_in_place_of_a_folder_is_not_followed(component: int, root: Path) -> None:
    elsewhere = support.ring_folder(root, support.a_pod("elsewhere"))
    support.RingWriter(elsewhere / "secret.ring")
    parts = polling.kubelet_folder(POD)
    parent = root.joinpath("pods", *parts[:component])
    parent.mkdir(parents=True, exist_ok=True)
    (parent / parts[component]).symlink_to(
        root.joinpath("pods", *polling.kubelet_folder(support.a_pod("elsewhere"))[: component + 1])
    )

    poll = support.a_poller(root, POD).poll()

    assert (poll.ranks, poll.pods[0].refused) == ((), (("folder", 1),))


def test_a_ring_truncated_between_polls_keeps_its_last_state_and_then_is_refused(root: Path) -> None:
    writer = support.RingWriter(support.ring_folder(root, POD) / "x.ring")
    writer.step(3)
    poller = support.a_poller(root, POD)
    poller.poll()
    os.truncate(writer.path, 200)

    poll = poller.poll()

    assert [(rank.state.step, rank.gone_mono_ns) for rank in poll.ranks] == [(3, poll.mono_ns)]
    assert poll.pods[0].refused == (("header", 1),)


def test_what_nobody_thought_of_in_one_pod_is_counted_and_its_neighbour_is_read(root: Path) -> None:
    neighbour = support.a_pod("neighbour")
    support.RingWriter(support.ring_folder(root, neighbour) / "ok.ring").step(1)

    def folder(pod: Pod) -> tuple[str, ...]:
        if pod == POD:
            raise RuntimeError("unexpected")
        return polling.kubelet_folder(pod)

    poll = polling.Poller(polling.Source(str(root / "pods"), lambda: (POD, neighbour), folder)).poll()

    assert poll.pods[0].refused == (("error", 1),)
    assert [rank.pod for rank in poll.ranks] == [neighbour]


def test_eighty_rings_that_are_full_at_every_poll_cost_less_than_a_second(root: Path) -> None:
    folder = support.ring_folder(root, POD)
    record = ring.pack_record(ring.Record(ring.KIND_STEP, 0, 1, 0, 0.5))
    for number in range(80):
        writer = support.RingWriter(folder / f"r{number}.ring", capacity=4000)
        writer.put(record * 4000, ring.RECORDS_OFFSET)
        writer.state(rank=number, world_size=80, written=1 << 39)
        writer.close()
    poller = support.a_poller(root, POD)

    poll = poller.poll()

    assert len(poll.ranks) == 80
    assert poll.seconds < 1


@pytest.fixture
def tmpfs(root: Path) -> Iterator[Path]:
    """The pod's volume as a real tmpfs of its own."""
    folder = support.ring_folder(root, POD)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "rankbeat", folder], check=False).returncode:
        pytest.skip("cannot mount a tmpfs here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=False)


def test_a_volume_can_be_unmounted_between_polls_and_its_ranks_are_gone(tmpfs: Path, root: Path) -> None:
    writer = support.RingWriter(tmpfs / "x.ring")
    writer.step(1)
    writer.close()
    poller = support.a_poller(root, POD)
    read = poller.poll()

    unmounted = subprocess.run(["umount", tmpfs], check=False).returncode
    poll = poller.poll()

    assert ([rank.state.step for rank in read.ranks], unmounted) == ([1], 0)
    assert [rank.gone_mono_ns for rank in poll.ranks] == [poll.mono_ns]


_SIZE = ring.RECORDS_OFFSET + 100 * ring.RECORD_BYTES


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, _SIZE - 1), st.binary(min_size=1, max_size=80)), min_size=1, max_size=8),
    st.one_of(st.none(), st.integers(0, _SIZE)),
)
def test_no_mutation_of_a_ring_crashes_the_poll_or_invents_a_row(
    tmp_path_factory: pytest.TempPathFactory, mutations: list[tuple[int, bytes]], size: int | None
) -> None:
    root = tmp_path_factory.mktemp("root")
    writer = support.RingWriter(support.ring_folder(root, POD) / "x.ring")
    for step in range(10):
        writer.step(step, step / 10)
        writer.scalar(step, "loss", step / 2)
    for offset, part in mutations:
        writer.put(part[: _SIZE - offset], offset)
    if size is not None:
        os.truncate(writer.path, size)
    writer.close()
    poller = support.a_poller(root, POD)

    polls = [poller.poll() for _ in range(2)]

    for rank in (rank for poll in polls for rank in poll.ranks):
        assert all(row.interval_seconds == pytest.approx(row.step / 10) for row in rank.steps)
        assert all(row.name == "loss" and row.value == row.step / 2 for row in rank.scalars)
        assert rank.header == writer.header

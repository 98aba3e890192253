"""What the collector reads of the step files that MindSpore writes when PERF_DUMP_CONFIG asks for them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ring_support
import tier_support as support
from rankbeat_collector.model.ranks import Step
from rankbeat_contract import ring

if TYPE_CHECKING:
    from rankbeat_collector.model.ranks import Poll, Rank
    from rankbeat_collector.tiers.polling import TieredPoller

POD = support.a_tier_pod()


@pytest.fixture
def node(tmp_path: Path) -> support.Node:
    return support.Node(tmp_path)


def polled(poller: TieredPoller) -> Poll:
    """The second of two polls: a rank shows from then on."""
    poller.poll()
    return poller.poll()


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def rows(rank: Rank) -> list[Step]:
    return list(rank.steps)


def test_a_step_file_gives_the_rank_and_its_steps(node: support.Node) -> None:
    (node.perf_folder(POD) / "perf_ms_17_1.log").write_text(support.perf_text(rank=5, steps=3))

    (rank,) = polled(node.poller(POD)).ranks

    assert rows(rank) == [
        Step(1, None, None, 1.0, 1),
        Step(2, 0.021, 0.001, 0.02, 1),
        Step(3, 0.021, 0.001, 0.02, 1),
    ]
    assert (rank.tier, rank.state.rank, rank.header.local_rank, rank.header.pid) == ("perf_file", 5, 1, 17)
    assert (rank.phase, rank.is_alive, rank.state.step, rank.state.entered_step) == ("train", True, 3, ring.UNKNOWN)
    assert not rank.state.flags & ring.TIMING_SYNCED


def test_a_volume_of_their_own_is_read_like_the_folder_beside_the_rings(node: support.Node) -> None:
    (node.perf_folder(POD, "rankbeat-perf", ".") / "perf_ms_17_0.log").write_text(support.perf_text(0, 1))
    (node.perf_folder(POD) / "perf_ms_18_1.log").write_text(support.perf_text(1, 1))

    found = polled(node.poller(POD)).ranks

    assert [rank.state.rank for rank in found] == [0, 1]


def test_a_file_without_a_finished_step_gives_no_rank_yet(node: support.Node) -> None:
    (node.perf_folder(POD) / "perf_ms_17_0.log").write_text(support.perf_text())

    assert polled(node.poller(POD)).ranks == ()


def test_a_pod_whose_monitor_does_not_ask_is_not_read(node: support.Node) -> None:
    pod = support.a_tier_pod(tiers=())
    (node.perf_folder(pod) / "perf_ms_17_0.log").write_text(support.perf_text(0, 3))

    assert polled(node.poller(pod)).ranks == ()


def test_a_pod_that_has_ever_had_a_ring_is_seen_by_its_rings_alone(node: support.Node) -> None:
    (node.perf_folder(POD) / "perf_ms_17_0.log").write_text(support.perf_text(0, 3))
    poller = node.poller(POD)
    writer = ring_support.RingWriter(ring_support.ring_folder(node.root, POD) / "run0.ring")
    writer.step(7)

    with_ring = polled(poller).ranks
    writer.path.unlink()
    without = polled(poller).ranks

    assert [(rank.tier, rank.state.step) for rank in with_ring] == [("callback", 7)]
    assert [(rank.tier, rank.gone_mono_ns is not None) for rank in without] == [("callback", True)]


def test_the_life_of_a_rank_stays_the_same_when_the_collector_starts_anew(node: support.Node) -> None:
    file = node.perf_folder(POD) / "perf_ms_17_0.log"
    file.write_text(support.perf_text(0, 3))
    before = polled(node.poller(POD)).ranks[0]
    file.write_text(support.perf_text(0, 9))

    after = polled(node.poller(POD)).ranks[0]

    assert after.header.run_id == before.header.run_id
    assert after.header.claimed_wall_ns == before.header.claimed_wall_ns == support.BEGUN_MS * 1_000_000
    assert (before.state.step, after.state.step) == (3, 9)


@pytest.mark.parametrize("is_same_inode", [True, False])
def test_the_next_train_call_begins_the_same_file_anew_and_is_another_life(
    node: support.Node, *, is_same_inode: bool
) -> None:
    file = node.perf_folder(POD) / "perf_ms_17_0.log"
    file.write_text(support.perf_text(0, 3))
    poller = node.poller(POD)
    (first,) = polled(poller).ranks
    if not is_same_inode:
        file.unlink()
    file.write_text(support.perf_text(0, 40, begun_ms=support.BEGUN_MS + 60_000))

    (second,) = polled(poller).ranks

    assert (first.state.step, second.state.step) == (3, 40)
    assert second.header.run_id != first.header.run_id
    assert second.header.claimed_mono_ns > first.header.claimed_mono_ns


def test_of_a_rank_that_was_started_again_the_newest_file_counts(node: support.Node) -> None:
    folder = node.perf_folder(POD)
    (folder / "perf_ms_17_0.log").write_text(support.perf_text(0, 30))
    (folder / "perf_ms_99_0.log").write_text(support.perf_text(0, 2, begun_ms=support.BEGUN_MS + 60_000))

    (rank,) = polled(node.poller(POD)).ranks

    assert (rank.header.pid, rank.state.step) == (99, 2)


@pytest.mark.parametrize(("phase", "seen"), [("Succeeded", "done"), ("Failed", "failed"), ("Running", "train")])
def test_the_end_of_the_pod_is_the_end_of_its_ranks(node: support.Node, phase: str, seen: str) -> None:
    pod = support.a_tier_pod(phase=phase)
    (node.perf_folder(pod) / "perf_ms_17_0.log").write_text(support.perf_text(0, 3))

    (rank,) = polled(node.poller(pod)).ranks

    assert (rank.phase, rank.is_alive) == (seen, phase == "Running")


def test_a_clock_that_was_set_back_leaves_durations_out_and_steps_in(node: support.Node) -> None:
    set_back, after = support.BEGUN_MS - 500, support.BEGUN_MS - 480
    text = f"STEPTIME:{support.BEGUN_MS + 1001},{set_back}\nSTEPTIME:{set_back + 1},{after}\n"
    (node.perf_folder(POD) / "perf_ms_17_0.log").write_text(support.perf_text(0, 1) + text)

    (rank,) = polled(node.poller(POD)).ranks

    assert rows(rank)[1:] == [Step(2, None, 0.001, None, 1), Step(3, 0.02, 0.001, 0.019, 1)]


def test_a_step_that_several_monitors_of_one_process_wrote_counts_once(node: support.Node) -> None:
    """MindSpore appends a monitor to the job's own list at each train() call, so the second call has two."""
    twice = "".join(line + line for line in support.perf_text(0, 3, step_ms=0).splitlines(keepends=True))
    (node.perf_folder(POD) / "perf_ms_17_0.log").write_text(twice)

    (rank,) = polled(node.poller(POD)).ranks

    assert [row.interval_seconds for row in rank.steps] == [None, 0.001, 0.001]


def test_lines_of_parallel_groups_are_passed_over_and_foreign_ones_counted(node: support.Node) -> None:
    header, _, steps = support.perf_text(0, 2).partition("STEPTIME")
    text = header + "PP:[0, 1]\ndp:[0]\ntp:[0, 1]\nnoise\nSTEPTIME:1\nSTEPTIME" + steps
    (node.perf_folder(POD) / "perf_ms_17_0.log").write_text(text)

    poll = polled(node.poller(POD))

    assert poll.ranks[0].state.step == 2
    assert dict(poll.totals.refused) == {"line": 2}


def test_steps_before_the_rank_is_known_are_refused(node: support.Node) -> None:
    (node.perf_folder(POD) / "perf_ms_17_0.log").write_text("STEPTIME:1,2\nGLOBAL RANKID:0\nSTEPTIME:3,4\n")

    poll = polled(node.poller(POD))

    assert (poll.ranks[0].state.step, dict(poll.totals.refused)) == (1, {"line": 1})


def link(folder: Path) -> None:
    (folder.parent / "secret").write_text(support.perf_text(0, 3))
    (folder / "perf_ms_1_0.log").symlink_to(folder.parent / "secret")


def fifo(folder: Path) -> None:
    os.mkfifo(folder / "perf_ms_1_0.log")


def subfolder(folder: Path) -> None:
    (folder / "perf_ms_1_0.log").mkdir()


def huge(folder: Path) -> None:
    with (folder / "perf_ms_1_0.log").open("wb") as file:
        file.truncate((4 << 30) + 1)


def endless_line(folder: Path) -> None:
    (folder / "perf_ms_1_0.log").write_bytes(b"S" * 200_000)


def noise(folder: Path) -> None:
    (folder / "perf_ms_1_0.log").write_bytes(bytes(range(256)) * 10)


def forged_rank(folder: Path) -> None:
    (folder / "perf_ms_1_0.log").write_text("GLOBAL RANKID:9999999\n")


def too_many(folder: Path) -> None:
    for index in range(300):
        (folder / f"perf_ms_{index}_0.log").touch()


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (link, "link"),
        (fifo, "type"),
        (subfolder, "type"),
        (huge, "size"),
        (endless_line, "line"),
        (noise, "line"),
        (forged_rank, "line"),
        (too_many, "too_many"),
    ],
)
def test_what_a_hostile_pod_puts_there_is_counted_and_the_others_are_read(
    node: support.Node, prepare: object, reason: str
) -> None:
    hostile = support.a_tier_pod(name="evil", uid="uid-evil")
    prepare(node.perf_folder(hostile))  # type: ignore[operator]
    (node.perf_folder(POD) / "perf_ms_17_0.log").write_text(support.perf_text(0, 3))

    poll = polled(node.poller(hostile, POD))

    assert [(rank.pod.name, rank.state.step) for rank in poll.ranks] == [("llm-0", 3)]
    assert [reason in dict(each.refused) or reason in dict(poll.totals.refused) for each in poll.pods] == [True, True]


def test_the_folder_of_step_files_may_be_no_link(node: support.Node) -> None:
    folder = node.perf_folder(POD)
    folder.rename(folder.parent / "elsewhere")
    folder.symlink_to(folder.parent / "elsewhere")
    (folder / "perf_ms_1_0.log").write_text(support.perf_text(0, 3))

    poll = polled(node.poller(POD))

    assert (poll.ranks, dict(poll.totals.refused)) == ((), {"link": 2})


def test_nothing_stays_open_between_polls(node: support.Node) -> None:
    (node.perf_folder(POD) / "perf_ms_17_0.log").write_text(support.perf_text(0, 3))
    (node.log_folder(POD) / "0.log").write_text(support.cri(support.graph_lines([1, 2])))
    poller = node.poller(POD)
    before = descriptors()

    polled(poller)

    assert descriptors() == before


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 2000), max_size=12), steps=st.integers(0, 40))
def test_however_the_writer_splits_its_writes_the_rows_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], steps: int
) -> None:
    text = support.perf_text(3, steps)
    node = support.Node(tmp_path_factory.mktemp("node"))
    file = node.perf_folder(POD) / "perf_ms_17_0.log"
    poller = node.poller(POD)
    for end in [*sorted(cut for cut in cuts if cut < len(text)), len(text)]:
        file.write_text(text[:end])
        poll = poller.poll()
    poll = poller.poll()

    whole = [Step(1, None, None, 1.0, 1), *(Step(index, 0.021, 0.001, 0.02, 1) for index in range(2, steps + 1))]
    assert [rows(rank) for rank in poll.ranks] == ([whole[:steps]] if steps else [])
    assert poll.totals.refused == ()

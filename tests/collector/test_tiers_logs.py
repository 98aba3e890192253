"""What the collector reads of pods' logs, and whose it takes it for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tier_support as support
from rankbeat_collector.model.ranks import Scalar, Step
from rankbeat_contract import ring

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rankbeat_collector.model.ranks import Poll
    from rankbeat_collector.tiers.polling import TieredPoller

POD = support.a_tier_pod(tiers=("logTail",))


@pytest.fixture
def node(tmp_path: Path) -> support.Node:
    return support.Node(tmp_path)


def polled(poller: TieredPoller) -> Poll:
    """The second of two polls: a rank shows from then on."""
    poller.poll()
    return poller.poll()


def written(node: support.Node, lines: Sequence[str], name: str = "0.log") -> Path:
    file = node.log_folder(POD) / name
    file.write_text(support.cri(lines))
    return file


def append(file: Path, text: str) -> None:
    with file.open("a") as opened:
        opened.write(text)


def started(*ranks: int, left_out: Sequence[int] = ()) -> list[str]:
    """What msrun prints of the workers that it starts."""
    lines = [
        f"Start worker process with rank id:{rank}, log file:msrun_log/worker_{rank}.log. "
        f"Environment variable [RANK_ID={rank}] is exported. Execute command: python train.py"
        for rank in ranks
    ]
    return [
        *lines,
        *(
            f"[WARNING] ME(1): The '--tail_worker_log' is:1, which doesn't contain this worker {rank}. So this worker "
            f"{rank}'s log will not be output to console. Reset '--tail_worker_log', if you want to"
            for rank in left_out
        ),
    ]


def test_loss_lines_give_steps_and_numbers(node: support.Node) -> None:
    written(node, [*started(0), *support.graph_lines([10, 20])])

    (rank,) = polled(node.poller(POD)).ranks

    assert list(rank.steps) == [Step(10, None, None, 0.3, 1), Step(20, 0.5, None, 0.3, 1)]
    assert rank.scalars[:4] == (
        Scalar(10, "loss", 2.5),
        Scalar(10, "learning_rate", 0.0001),
        Scalar(10, "grad_norm", 0.9),
        Scalar(10, "loss_scale", 1.0),
    )
    assert (rank.tier, rank.state.rank, rank.state.step, rank.state.total_steps) == ("log_tail", 0, 20, 1000)
    assert (rank.loss, rank.has_valid_loss, rank.phase) == (2.5, True, "train")
    assert rank.state.longest_interval_ns == 5_000_000_000


def test_lines_without_a_time_of_their_own_have_the_runtime_s(node: support.Node) -> None:
    written(node, [*started(0), "[Monitor] step: 1, loss: 3", "[Monitor] step: 5, loss: 2"])

    (rank,) = polled(node.poller(POD)).ranks

    assert list(rank.steps) == [Step(1, None, None, None, 1), Step(5, 0.25, None, None, 1)]


def test_a_step_that_overflowed_is_said_to_be_skipped(node: support.Node) -> None:
    line = support.graph_lines([10], loss=float("inf"))[0].replace("overflow cond: False", "overflow cond: True")
    written(node, [*started(0), line])

    (rank,) = polled(node.poller(POD)).ranks

    assert rank.scalars[-2:] == (Scalar(10, "overflow_steps_total", 1.0), Scalar(10, "skipped", 1.0))
    assert rank.loss is None


@pytest.mark.parametrize(
    ("lines", "rank"),
    [
        pytest.param(started(0), 0, id="one worker"),
        pytest.param(started(0, 1, left_out=[0]), 1, id="the one that is copied"),
        pytest.param(started(4, 5, 6, 7, left_out=[4, 5, 6]), 7, id="the one of another pod"),
        pytest.param(started(0, 1), -1, id="two workers mixed"),
        pytest.param([], -1, id="nobody says"),
        pytest.param([line.replace("id:0", "id:None") for line in started(0)], -1, id="msrun does not know either"),
    ],
)
def test_the_rank_is_known_where_the_log_holds_one_worker_s_lines(
    node: support.Node, lines: list[str], rank: int
) -> None:
    written(node, [*lines, *support.graph_lines([1, 2])])

    found = polled(node.poller(POD)).ranks

    assert [(each.state.rank, each.state.step) for each in found] == [(rank, 2)]


def test_lines_that_name_their_ranks_are_told_apart(node: support.Node) -> None:
    mixed = [
        line
        for step in (1, 2)
        for rank in (0, 1)
        for line in support.graph_lines([step], loss=rank + 1.0, prefix=f"output/log/rank_{rank}/info.log ")
    ]
    written(node, [*started(0, 1), *mixed])

    found = polled(node.poller(POD)).ranks

    assert [(each.state.rank, each.state.step, each.loss) for each in found] == [(0, 2, 1.0), (1, 2, 2.0)]


def test_mixed_lines_of_unnamed_ranks_count_each_step_once(node: support.Node) -> None:
    lines = [support.graph_lines([step])[0] for step in (1, 1, 2, 3, 2, 3, 4, 4)]
    written(node, [*started(0, 1), *lines])

    (rank,) = polled(node.poller(POD)).ranks

    assert [row.step for row in rank.steps] == [1, 2, 3, 4]
    assert [row.segment for row in rank.steps] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("warning", "rank", "is_valid"),
    [
        ("pipeline stages: 2 > 1, the loss on the last card is valid.", 0, False),
        ("When zero_bubble_v is enabled, loss is valid only on rank 0", 0, True),
        ("When zero_bubble_v is enabled, loss is valid only on rank 0", 1, False),
    ],
)
def test_a_loss_that_the_job_says_is_not_valid_is_none(
    node: support.Node, warning: str, rank: int, *, is_valid: bool
) -> None:
    written(node, [*started(rank), warning, *support.graph_lines([1, 2])])

    (found,) = polled(node.poller(POD)).ranks

    assert found.has_valid_loss is is_valid


def test_a_run_that_begins_anew_is_another_segment(node: support.Node) -> None:
    written(node, [*started(0), *support.graph_lines([1, 2, 1, 2])])

    (rank,) = polled(node.poller(POD)).ranks

    assert rank.steps_read == 4
    assert [(row.segment, row.step, row.interval_seconds) for row in rank.steps] == [
        (2, 1, None),
        (2, 2, 0.5),
    ]


def test_a_container_that_was_restarted_is_another_life(node: support.Node) -> None:
    written(node, [*started(0), *support.graph_lines([1, 2])])
    poller = node.poller(POD)
    (first,) = polled(poller).ranks
    written(node, [*started(0), *support.graph_lines([1])], "1.log")

    (second,) = polled(poller).ranks

    assert second.header.run_id != first.header.run_id
    assert second.header.claimed_mono_ns > first.header.claimed_mono_ns
    assert second.state.step == 1


def test_the_life_of_a_rank_stays_the_same_when_the_collector_starts_anew(node: support.Node) -> None:
    file = written(node, [*started(0), *support.graph_lines([1, 2])])
    (before,) = polled(node.poller(POD)).ranks
    file.write_text(support.cri([*started(0), *support.graph_lines([8, 9])]))

    (after,) = polled(node.poller(POD)).ranks

    assert after.header.run_id == before.header.run_id
    assert after.header.claimed_wall_ns == before.header.claimed_wall_ns


def test_a_rotated_log_is_read_to_its_end_and_the_new_one_from_its_begin(node: support.Node) -> None:
    file = written(node, [*started(0), *support.graph_lines([1, 2])])
    poller = node.poller(POD)
    poller.poll()
    append(file, support.cri(support.graph_lines([3])))
    file.rename(file.parent / "0.log.20261130-101500")
    written(node, support.graph_lines([4]))

    poll = polled(poller)

    assert [row.step for row in poll.ranks[0].steps] == [1, 2, 3, 4]
    assert poll.totals.refused == ()


def test_a_log_that_was_rotated_and_packed_unseen_is_counted_and_read_on(node: support.Node) -> None:
    file = written(node, [*started(0), *support.graph_lines([1, 2])])
    poller = node.poller(POD)
    poller.poll()
    file.rename(file.parent / "kept")
    (file.parent / "0.log.20261130-101500.gz").write_bytes(b"\x1f\x8b")
    written(node, support.graph_lines([4]))

    poll = polled(poller)

    assert [row.step for row in poll.ranks[0].steps] == [1, 2, 4]
    assert dict(poll.totals.refused) == {"behind": 1}


def test_a_log_that_grows_faster_than_it_is_read_is_read_at_its_end(node: support.Node) -> None:
    noise = support.cri(["x" * 1000] * 10) * 600
    file = written(node, [*started(0), *support.graph_lines([1])])
    append(file, noise + support.cri(support.graph_lines([2, 3])))
    poller = node.poller(POD)
    for _ in range(8):
        poll = poller.poll()

    assert [row.step for row in poll.ranks[0].steps] == [1, 2, 3]
    assert dict(poll.totals.refused) == {"behind": 1}


def test_parts_of_a_line_that_the_runtime_cut_are_one_line_even_between_streams(node: support.Node) -> None:
    line = support.graph_lines([7])[0]
    text = (
        support.cri(started(0))
        + support.cri([line[:50]], tag="P")
        + support.cri(["step warning"], stream="stderr")
        + support.cri([line[50:90]], tag="P")
        + support.cri([line[90:]])
    )
    (node.log_folder(POD) / "0.log").write_text(text)

    (rank,) = polled(node.poller(POD)).ranks

    assert [row.step for row in rank.steps] == [7]


def test_the_end_of_a_line_that_is_too_long_is_no_line(node: support.Node) -> None:
    line = support.graph_lines([7])[0]
    text = support.cri(["x" * 16000], tag="P") + support.cri(["x" * 16000], tag="P") + support.cri([line])
    (node.log_folder(POD) / "0.log").write_text(text)

    assert polled(node.poller(POD)).ranks == ()


def test_entries_that_no_runtime_writes_are_counted(node: support.Node) -> None:
    text = '{"log":"x"}\n\n2026 stdout F\nnoise stderr Q x\n' + support.cri([*started(0), *support.graph_lines([1])])
    (node.log_folder(POD) / "0.log").write_text(text)

    poll = polled(node.poller(POD))

    assert (poll.ranks[0].state.step, dict(poll.totals.refused)) == (1, {"line": 3})


def test_only_the_container_that_trains_is_read(node: support.Node) -> None:
    (node.log_folder(POD, "other") / "0.log").write_text(support.cri([*started(5), *support.graph_lines([9])]))
    written(node, [*started(0), *support.graph_lines([1])])

    named = polled(node.poller(POD)).ranks
    unnamed = polled(node.poller(support.a_tier_pod(container="", tiers=("logTail",)))).ranks

    assert [each.state.rank for each in named] == [0]
    assert sorted(each.state.rank for each in unnamed) == [0, 5]


def test_step_files_come_before_the_log(node: support.Node) -> None:
    pod = support.a_tier_pod()
    written(node, [*started(0), *support.graph_lines([1])])
    (node.perf_folder(pod) / "perf_ms_17_0.log").write_text(support.perf_text(0, 3))

    assert [rank.tier for rank in polled(node.poller(pod)).ranks] == ["perf_file"]


@pytest.mark.parametrize("case", ["not asked", "not mounted", "no folder"])
def test_no_log_is_read_without_the_monitor_and_the_install_asking(node: support.Node, case: str) -> None:
    if case != "no folder":
        written(node, [*started(0), *support.graph_lines([1])])
    pod = support.a_tier_pod(tiers=("perfFile",) if case == "not asked" else ("logTail",))

    poll = polled(node.poller(pod, has_logs=case != "not mounted"))

    assert (poll.ranks, poll.totals.refused) == ((), ())


def test_a_pod_s_log_folder_may_be_no_link(node: support.Node) -> None:
    folder = node.log_folder(POD)
    folder.rename(node.root / "elsewhere")
    folder.symlink_to(node.root / "elsewhere")
    (folder / "0.log").write_text(support.cri(support.graph_lines([1])))

    poll = polled(node.poller(POD))

    assert (poll.ranks, dict(poll.totals.refused)) == ((), {"link": 2})


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_a_log_that_is_no_file_is_refused(node: support.Node, kind: str) -> None:
    place = node.log_folder(POD) / "0.log"
    (node.root / "secret").write_text(support.cri(support.graph_lines([1])))
    {"link": lambda: place.symlink_to(node.root / "secret"), "fifo": lambda: os.mkfifo(place), "folder": place.mkdir}[
        kind
    ]()

    poll = polled(node.poller(POD))

    assert (poll.ranks, dict(poll.totals.refused)) == ((), {"link" if kind == "link" else "type": 2})


def test_a_log_of_more_ranks_than_a_node_has_stays_bounded(node: support.Node) -> None:
    written(node, [f"[Monitor] rank: {rank}, step: 1, loss: 1" for rank in range(500)])

    assert len(polled(node.poller(POD)).ranks) == 64


WHOLE = (
    support.cri([*started(0, 1, left_out=[0]), "noise"])
    + support.cri(support.graph_lines([1, 2, 3]))
    + support.cri([support.graph_lines([4])[0][:60]], tag="P")
    + support.cri([support.graph_lines([4])[0][60:]])
    + support.cri(["x" * 40_000])
    + support.cri(support.graph_lines([5]))
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, len(WHOLE)), max_size=12), rotations=st.sets(st.integers(0, 11), max_size=3))
def test_however_writes_are_split_and_the_log_is_rotated_the_rows_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], rotations: set[int]
) -> None:
    """Rotation happens between two lines, as the kubelet does it: the runtime opens a new file for the next entry."""
    node = support.Node(tmp_path_factory.mktemp("node"))
    file = node.log_folder(POD) / "0.log"
    poller = node.poller(POD)
    begin = 0
    for index, end in enumerate([*sorted(cuts), len(WHOLE)]):
        append(file, WHOLE[begin:end])
        poll = poller.poll()
        if index in rotations and WHOLE[:end].endswith("\n"):
            file.rename(file.parent / f"0.log.2026113{index}-101500")
        begin = end
    poll = polled(poller)

    assert [[(row.step, row.interval_seconds) for row in rank.steps] for rank in poll.ranks] == [
        [(1, None), (2, 0.5), (3, 0.5), (4, 0.5), (5, 0.5)]
    ]
    assert poll.ranks[0].state.rank == 1
    assert dict(poll.totals.refused) == {"line": 1}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.binary(max_size=400)
    | st.lists(st.binary(max_size=80).map(lambda part: b"2026-11-30T10:00:00Z stdout F " + part + b"\n")).map(b"".join)
)
def test_any_content_is_read_or_refused_but_never_fails(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    pod = support.a_tier_pod()
    node = support.Node(tmp_path_factory.mktemp("node"))
    (node.log_folder(pod) / "0.log").write_bytes(content)
    (node.perf_folder(pod) / "perf_ms_1_0.log").write_bytes(content)

    poll = polled(node.poller(pod))

    assert "error" not in dict(poll.totals.refused)
    assert all(rank.state.rank >= ring.UNKNOWN for rank in poll.ranks)

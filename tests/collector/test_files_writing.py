"""What is written: the job's summary and one rank by default, all ranks on request, masked and audited where asked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import files_support as support
import ring_support as rings
from rankbeat_collector.errors import SettingsError
from rankbeat_collector.files import audit, reading, settings, writing
from rankbeat_collector.files.destination import Place
from rankbeat_collector.files.lease import Lease
from rankbeat_collector.files.rows import Extra, Gathering, Row
from rankbeat_collector.files.summary import Summary
from rankbeat_contract import names, ring

if TYPE_CHECKING:
    from pathlib import Path

    from rankbeat_collector.model.ranks import Rank


def a_rank(rank: int, *, flags: int = 0, claimed: int = 0, **changes: object) -> Rank:
    header = rings.a_header(run_id=f"run{rank}", claimed_wall_ns=claimed)
    return rings.a_rank(header=header, state=rings.a_state(rank=rank, flags=flags, **changes))


def a_writing(root: Path, pod: str = "pod-0", **outputs: object) -> writing.Writing:
    """Outputs of JSON lines under root, written at once."""
    asked = {"files": [{"format": "jsonl", "flushSeconds": 0}], **outputs}
    made = settings.outputs(json.dumps({"experiment": "llm", "outputs": asked}))
    keys = writing.Keys(masking=support.KEY, encryption=support.KEY)
    return writing.Writing(made, Place(root, made.directory, made.experiment, "n1", pod), keys)


def rows_of(ranks: range, steps: range) -> list[Row]:
    return [support.a_row(step, rank=rank, run=f"run{rank}") for step in steps for rank in ranks]


def written_ranks(root: Path) -> set[int]:
    return {row.rank for row in support.read(root)}


def test_by_default_the_job_and_the_first_rank_with_a_valid_loss_are_written(tmp_path: Path) -> None:
    made = a_writing(tmp_path)
    ranks = [a_rank(0, flags=ring.LOSS_INVALID), a_rank(1, flags=ring.LOSS_INVALID), a_rank(2), a_rank(3)]

    made.take(rows_of(range(4), range(1, 4)), ranks, 0.0)
    made.close(0.0, 0.0)

    assert written_ranks(tmp_path) == {-1, 2}
    assert [path.name for path in reading.outputs_in(tmp_path)] == ["rank-2.000001.jsonl", "rank-job.000001.jsonl"]


def test_on_request_all_ranks_are_written(tmp_path: Path) -> None:
    made = a_writing(tmp_path, ranks="all")

    made.take(rows_of(range(4), range(1, 4)), [a_rank(rank) for rank in range(4)], 0.0)
    made.close(0.0, 0.0)

    assert written_ranks(tmp_path) == {-1, 0, 1, 2, 3}


def test_on_a_shared_volume_only_the_pod_of_the_lowest_rank_writes(tmp_path: Path) -> None:
    first, second = a_writing(tmp_path, "pod-0"), a_writing(tmp_path, "pod-1")

    second.take(rows_of(range(2, 4), range(1, 2)), [a_rank(2), a_rank(3)], 0.0)
    first.take(rows_of(range(2), range(1, 4)), [a_rank(0), a_rank(1)], 0.0)
    second._lease._said = None  # it looks again after some seconds
    second.take(rows_of(range(2, 4), range(2, 4)), [a_rank(2), a_rank(3)], 6.0)
    first.close(9.0, 0.0)
    second.close(9.0, 0.0)

    steps = {rank: [row.step for row in support.read(tmp_path) if row.rank == rank] for rank in (0, 2)}
    assert steps == {0: [1, 2, 3], 2: [1]}


@pytest.mark.parametrize(
    ("rank", "attempt", "claimed", "expected"),
    [(4, 0, 5, "no"), (2, 0, 5, "yes"), (3, 0, 5, "no"), (3, 0, 11, "yes"), (4, 1, 5, "yes"), (2, -1, 5, "no")],
    ids=["higher rank", "lower rank", "same", "same, begun anew", "newer attempt", "older attempt"],
)
def test_the_lease_goes_to_lower_ranks_and_newer_processes(
    rank: int, attempt: int, claimed: int, expected: str, tmp_path: Path
) -> None:
    assert Lease(tmp_path, "llm", "pod-0").is_mine(3, 0, 10)

    assert Lease(tmp_path, "llm", "pod-1").is_mine(rank, attempt, claimed) is (expected == "yes")


def test_a_lease_is_let_go_at_the_end_and_lost_by_silence(tmp_path: Path) -> None:
    ended, silent = Lease(tmp_path, "one", "pod-0"), Lease(tmp_path, "two", "pod-0")
    ended.is_mine(0, 0, 10)
    ended.let_go()
    silent.is_mine(0, 0, 10)
    (path,) = tmp_path.iterdir()
    path.write_text(json.dumps({**json.loads(path.read_text()), "time": 1.0}))

    assert Lease(tmp_path, "one", "pod-1").is_mine(8, 0, 5)
    assert Lease(tmp_path, "two", "pod-1").is_mine(8, 0, 5)


def test_a_summary_says_the_first_ranks_numbers_and_the_slowest_ranks_times() -> None:
    summary = Summary()
    fast = support.a_row(5, values={"loss": 2.0, "step_interval_seconds": 0.2, "gap_seconds": 0.01})
    slow = support.a_row(5, rank=1, run="run1", values={"step_interval_seconds": 0.4, "gap_seconds": 0.05})

    early = summary.taken([fast], 0, (0, 1))
    (row,) = summary.taken([slow], 0, (0, 1))

    assert early == ()
    assert (row.rank, row.step, row.run) == (-1, 5, "run0")
    assert row.values == {
        "loss": 2.0,
        "ranks_seen": 2.0,
        "step_interval_seconds": pytest.approx(0.3),
        "step_interval_seconds_max": 0.4,
        "gap_seconds_max": 0.05,
    }


@given(order=st.permutations([(rank, step) for rank in range(3) for step in range(1, 6)]))
def test_every_step_is_summarised_once_in_whatever_order_ranks_report(order: list[tuple[int, int]]) -> None:
    summary = Summary()

    made = []
    for rank, step in order:
        made += summary.taken([support.a_row(step, rank=rank)], 0, (0, 1, 2))
    made += summary.rest()

    assert sorted(row.step for row in made) == [1, 2, 3, 4, 5]
    assert {row.values["ranks_seen"] for row in made} == {3.0}


def test_a_rank_that_falls_silent_holds_the_summary_back_for_a_bounded_time() -> None:
    summary = Summary()

    made = [row for step in range(2000) for row in summary.taken([support.a_row(step)], 0, (0, 1))]

    assert len(made) > 1700


def test_records_of_a_step_become_one_row_with_its_own_time() -> None:
    gathering, header, state = Gathering(), rings.a_header(run_id="4f3a9c01d2"), rings.a_state(rank=3)
    at = header.claimed_mono_ns + 2_500_000_000
    for record, name in (
        (ring.Record(ring.KIND_SCALAR, 0, 7, at, 2.25, segment=1), "loss"),
        (ring.Record(ring.KIND_STEP, 1, 7, at, 0.2, 0.01, float("nan"), segment=1, flags=ring.TIMING_SYNCED), ""),
        (ring.Record(ring.KIND_SCALAR, 2, 7, at, 1.0, 0.5, 2.0, segment=1, layer=4), "norm"),
        (ring.Record(ring.KIND_SCALAR, 3, 7, at, 3.0, 0.1, segment=1), names.SCALAR_BASELINE_LOSS),
    ):
        gathering.observe(header, state, record, name)

    whole, layer = gathering.taken()

    assert whole == Row(
        7,
        1_796_000_002.5,
        3,
        0,
        "4f3a9c01",
        1,
        values={
            "loss": 2.25,
            "step_interval_seconds": 0.2,
            "gap_seconds": 0.01,
            "baseline_loss": 3.0,
            "baseline_loss_std": 0.1,
        },
    )
    assert (layer.layer, layer.values) == (4, {"norm": 1.0, "norm_min": 0.5, "norm_max": 2.0})
    assert gathering.taken() == ()


def test_masked_outputs_hold_no_tensor(tmp_path: Path) -> None:
    made = a_writing(tmp_path, masked=True)
    content = json.dumps({"low": 0.0, "high": 1.0, "counts": [1] * 64}).encode()
    extra = Extra("histogram", "weights", content)

    made.take([support.a_row(1, extra=extra, values={}), support.a_row(2)], [a_rank(0)], 0.0)
    made.close(0.0, 0.0)

    (shown,) = [row.extra for row in support.read(tmp_path) if row.extra is not None]
    masked = json.loads(shown.masked)
    assert (shown.content, masked["shape"], masked["dtype"], len(masked["hmac_sha256"])) == (b"", [64], "uint32", 64)
    assert b'"counts"' not in b"".join(path.read_bytes() for path in reading.outputs_in(tmp_path))


@pytest.mark.parametrize("what", ["encrypted", "masked"])
def test_without_its_key_nothing_is_written_in_clear_instead(what: str, tmp_path: Path) -> None:
    asked = settings.outputs(json.dumps({"outputs": {"files": [{"format": "jsonl"}], what: True}}))

    with pytest.raises(SettingsError, match="no key is mounted"):
        writing.Writing(asked, Place(tmp_path), writing.Keys())

    assert list(tmp_path.iterdir()) == []


def test_the_audit_log_knows_of_every_part(tmp_path: Path) -> None:
    asked = [{"format": "jsonl", "flushSeconds": 0, "maxFileBytes": 1500, "maxTotalBytes": 6000}]
    made = a_writing(tmp_path, directory="runs", audit=True, files=asked)
    for step in range(1, 101):
        made.take([support.a_row(step)], [a_rank(0)], float(step))
        made.flush(float(step))
    made.close(101.0, 0.0)

    (path,) = tmp_path.rglob(audit.PATTERN)
    actions = [json.loads(line)["action"] for line in path.read_text().splitlines()]
    assert path == tmp_path / "runs" / "audit-pod-0.jsonl"
    assert audit.verified(path) == len(actions)
    assert {"opened", "rotated", "deleted"} == set(actions)
    assert actions.count("deleted") == sum(counts.deleted for _, counts in made.counts())


@pytest.mark.parametrize(
    ("outputs", "field"),
    [
        ({"files": [{"format": "xml"}]}, r"outputs.files\[0\].format: is 'xml', write one of jsonl"),
        ({"files": [{"format": "csv", "path": "/etc/x"}]}, "not below the volume"),
        ({"files": [{"format": "csv", "path": "a/../../x"}]}, "not below the volume"),
        ({"files": [{"format": "csv", "path": "{experiment}/{host}"}]}, "known are {experiment}"),
        ({"files": [{"format": "csv", "maxFileBytes": "1Mi"}]}, "maxFileBytes: is '1Mi', write a number"),
        ({"directory": ".."}, "outputs.directory"),
        ({"ranks": "some"}, "outputs.ranks: is 'some', write one or all"),
        ({"http": {"url": "file:///etc/passwd"}}, "outputs.http.url"),
        ({"files": {}}, None),
        ({"files": {"format": "csv"}}, "outputs.files: is a dict, write a list"),
    ],
)
def test_settings_that_cannot_be_followed_are_refused_by_name(outputs: object, field: str | None) -> None:
    text = json.dumps({"outputs": outputs})
    if field is None:
        assert settings.outputs(text).files == ()
    else:
        with pytest.raises(SettingsError, match=field):
            settings.outputs(text)


def test_a_path_keeps_to_its_volume_whatever_an_experiment_is_called(tmp_path: Path) -> None:
    place = Place(tmp_path, "runs/{node}", "../../etc", "n1", "pod-0")

    assert place.base("{experiment}/{attempt}/rank-{rank}", -1, 2) == tmp_path / "runs/n1/-..-etc/2/rank-job"
    assert Place(tmp_path, "", "..", "n1").base("{experiment}", 0, 0) == tmp_path / "unknown"

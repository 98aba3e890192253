"""Outputs in trouble: full, gone, forbidden. Training never knows, every loss is counted, and it is tried again."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

import files_support as support
from rankbeat_collector.files import destination, reading, streams
from rankbeat_contract.outputs import File

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rankbeat_collector.files import keys

ROWS = [support.a_row(step) for step in range(4000)]


@contextlib.contextmanager
def a_small_tmpfs(place: Path, size: str) -> Iterator[Path]:
    """A tmpfs of its own, where this user may mount one."""
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("key", [None, support.KEY], ids=["clear", "sealed"])
@pytest.mark.parametrize("kind", support.FORMATS)
def test_a_full_volume_costs_rows_that_are_counted_and_leaves_only_whole_ones(
    kind: str, key: keys.Key | None, tmp_path: Path
) -> None:
    with a_small_tmpfs(tmp_path / "volume", "64k") as volume:
        stream, counts = support.a_stream(volume, kind, key=key)
        for first in range(0, len(ROWS), 100):
            stream.take(ROWS[first : first + 100], float(first * 100))
            stream.flush(float(first * 100))
        was_full = dict(counts.failing)
        whole = support.read(volume, key)
        for path in reading.outputs_in(volume):
            path.unlink()
        stream.flush(1e9)
        stream.close(1e9)
        after = support.read(volume, key)

    assert was_full == {str(volume / "rank-0"): "full"}
    assert counts.troubles["full"] > 0
    assert [row.step for row in whole] == list(range(len(whole)))
    assert 0 < len(whole) < len(ROWS)
    assert counts.written + counts.dropped == len(ROWS)
    assert [row.step for row in after] == [row.step for row in ROWS[-len(after) :]]
    assert counts.failing == {}


@pytest.mark.parametrize("kind", support.FORMATS)
def test_a_folder_that_vanishes_is_made_anew(kind: str, tmp_path: Path) -> None:
    stream, counts = support.a_stream(tmp_path / "a" / "b", kind)
    stream.take(ROWS[:10], 0.0)
    stream.flush(0.0)

    shutil.rmtree(tmp_path / "a")
    stream.take(ROWS[10:20], 1.0)
    stream.close(1.0)

    assert [row.step for row in support.read(tmp_path / "a" / "b")] == list(range(10, 20))
    assert counts.troubles["vanished"] == 1


def test_a_folder_that_is_no_folder_is_named_and_tried_again_with_growing_pauses(tmp_path: Path) -> None:
    place = tmp_path / "volume"
    place.write_text("")
    stream, counts = support.a_stream(place, "jsonl")

    stream.take(ROWS[:1], 0.0)
    for now in (0.0, 0.5, 1.5, 2.0, 3.0, 3.9, 7.9):
        stream.flush(now)
    failures = counts.troubles["unwritable"]
    failing = dict(counts.failing)
    place.unlink()
    stream.flush(20.0)

    assert failures == 4
    assert list(failing) == [str(place / "rank-0")]
    assert [row.step for row in support.read(place)] == [0]


def test_what_waits_for_a_volume_is_bounded_and_the_newest_rows_are_kept(tmp_path: Path) -> None:
    (tmp_path / "volume").write_text("")
    stream, counts = support.a_stream(tmp_path / "volume", "jsonl")

    for row in ROWS:
        stream.take([row], 0.0)
    (tmp_path / "volume").unlink()
    stream.flush(100.0)
    stream.close(100.0)

    kept = [row.step for row in support.read(tmp_path / "volume")]
    assert kept == list(range(len(ROWS) - streams.WAITING_ROWS, len(ROWS)))
    assert counts.dropped == len(ROWS) - streams.WAITING_ROWS


def a_destination(root: Path, **limits: float) -> destination.Destination:
    asked = File("jsonl", **limits, flush_seconds=0.0)  # type: ignore[arg-type]
    return destination.Destination(asked, destination.Place(root, experiment="llm"), None, lambda *_: None)


def test_the_oldest_parts_go_when_all_are_too_large_together(tmp_path: Path) -> None:
    made = a_destination(tmp_path, max_file_bytes=2000, max_total_bytes=10_000)

    for first in range(0, 1000, 10):
        made.take([row._replace(rank=first // 10 % 2) for row in ROWS[first : first + 10]], float(first))
        made.flush(float(first))

    parts = reading.outputs_in(tmp_path)
    assert 8_000 < sum(path.stat().st_size for path in parts) <= 10_000 + 2 * 2000
    assert max(row.step for path in parts for row in reading.read(path).rows) == 999
    assert made.counts.deleted > 50


def test_parts_go_when_they_are_too_old_but_never_the_present_one(tmp_path: Path) -> None:
    made = a_destination(tmp_path, max_file_bytes=2000, max_age_seconds=3600.0)
    made.take(ROWS[:100], 0.0)
    made.flush(0.0)
    before = reading.outputs_in(tmp_path)

    for path in before:
        os.utime(path, (1.0, 1.0))
    made.flush(100.0)

    assert reading.outputs_in(tmp_path) == before[-1:]


def test_earlier_attempts_count_towards_the_same_limits(tmp_path: Path) -> None:
    old = tmp_path / "llm" / "0" / "rank-0.000001.jsonl"
    old.parent.mkdir(parents=True)
    old.write_text("x" * 9000)
    os.utime(old, (1.0, 1.0))
    asked = File("jsonl", "{experiment}/{attempt}/rank-{rank}", max_total_bytes=8000, flush_seconds=0.0)
    made = destination.Destination(asked, destination.Place(tmp_path, experiment="llm"), None, lambda *_: None)

    made.take([support.a_row(1, attempt=1)], 0.0)
    made.flush(0.0)

    assert [path.parent.name for path in reading.outputs_in(tmp_path)] == ["1"]

"""rankbeat.load: every format, rotated, merged over ranks and attempts, encrypted ones with a key."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import files_support as support
import rankbeat
from rankbeat_collector.errors import DecryptionError
from rankbeat_collector.files import audit
from rankbeat_collector.files.rows import Extra

if TYPE_CHECKING:
    from pathlib import Path

    from rankbeat_collector.files import keys


def a_key_file(folder: Path) -> Path:
    path = folder / "key"
    path.write_text(support.KEY.secret.hex())
    return path


@pytest.mark.parametrize("key", [None, support.KEY], ids=["clear", "sealed"])
@pytest.mark.parametrize("kind", support.FORMATS)
def test_a_folder_of_any_format_becomes_one_frame(kind: str, key: keys.Key | None, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = {"max_file_bytes": 600, "key": key}
    support.written(out, kind, [support.a_row(step) for step in range(1, 41)], **options)
    support.written(out / "b", kind, [support.a_row(step, rank=1, run="run1") for step in range(1, 21)], **options)

    frame = rankbeat.load(out, key_file=a_key_file(tmp_path) if key else None)

    assert frame[frame["rank"] == 0]["loss"].tolist() == [step + 0.5 for step in range(1, 41)]
    assert frame[frame["rank"] == 1]["step"].tolist() == list(range(1, 21))
    assert list(frame.columns[:8]) == ["rank", "step", "layer", "head", "time", "attempt", "run", "segment"]
    assert frame.attrs["cut"] == []


@pytest.mark.parametrize("kind", support.FORMATS)
def test_of_a_step_that_was_made_again_the_last_attempts_numbers_stand(kind: str, tmp_path: Path) -> None:
    first = [support.a_row(step, values={"loss": 1.0, "norm": 1.0}) for step in range(1, 11)]
    again = [
        support.a_row(step, attempt=1, run="run1", time=support.FIRST_TIME + 100 + step, values={"loss": 2.0})
        for step in range(6, 13)
    ]
    support.written(tmp_path, kind, first)
    support.written(tmp_path, kind, again)

    frame = rankbeat.load(tmp_path)

    assert frame["step"].tolist() == list(range(1, 13))
    assert frame["loss"].tolist() == [1.0] * 5 + [2.0] * 7
    assert frame["norm"].notna().tolist() == [True] * 5 + [False] * 7
    assert frame["attempt"].tolist() == [0] * 5 + [1] * 7


def test_a_pod_that_was_made_anew_without_a_new_attempt_is_told_by_its_time(tmp_path: Path) -> None:
    again = support.a_row(1, run="aaaa", time=support.FIRST_TIME + 100, values={"loss": 2.0})
    support.written(tmp_path, "jsonl", [again, support.a_row(1), support.a_row(2)])

    assert rankbeat.load(tmp_path)["loss"].tolist() == [2.0, 2.5]


def test_the_same_run_in_two_formats_is_there_once(tmp_path: Path) -> None:
    rows = [support.a_row(step, values={"loss": 0.1 * step}) for step in range(1, 6)]
    support.written(tmp_path, "tensorboard", rows)
    support.written(tmp_path, "csv", rows)

    assert rankbeat.load(tmp_path)["loss"].tolist() == [0.1 * step for step in range(1, 6)]


def test_layers_and_heads_are_rows_of_their_own(tmp_path: Path) -> None:
    rows = [support.a_row(1), *(support.a_row(1, layer=layer, values={"entropy": 0.5}) for layer in range(3))]
    support.written(tmp_path, "jsonl", rows)

    frame = rankbeat.load(tmp_path)

    assert frame["layer"].tolist() == [-1, 0, 1, 2]
    assert frame["entropy"].count() == 3


def test_a_cut_file_is_read_as_far_as_it_goes_and_named(tmp_path: Path) -> None:
    (path,) = support.written(tmp_path, "jsonl", [support.a_row(1), support.a_row(2)])
    path.write_bytes(path.read_bytes()[:-5])

    frame = rankbeat.load(path)

    assert (frame["step"].tolist(), frame.attrs["cut"]) == ([1], [str(path)])


def test_only_some_ranks_on_request(tmp_path: Path) -> None:
    support.written(tmp_path, "jsonl", [support.a_row(1, rank=rank) for rank in range(-1, 4)])

    assert rankbeat.load(tmp_path, ranks=(0, 2))["rank"].tolist() == [0, 2]


def test_extras_are_a_frame_of_their_own(tmp_path: Path) -> None:
    content = {"low": 0.0, "high": 1.0, "counts": [1, 2]}
    extra = Extra("histogram", "weights", json.dumps(content).encode())
    support.written(tmp_path, "jsonl", [support.a_row(1), support.a_row(1, values={}, extra=extra)])

    frame = rankbeat.load(tmp_path, extras=True)

    assert frame[["step", "kind", "name", "content"]].to_numpy().tolist() == [[1, "histogram", "weights", content]]
    assert len(rankbeat.load(tmp_path)) == 1


def test_an_empty_folder_is_an_empty_frame_with_its_columns(tmp_path: Path) -> None:
    frame = rankbeat.load(tmp_path)

    assert (len(frame), list(frame.columns)[:2]) == (0, ["rank", "step"])


def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    support.written(tmp_path / "out", "csv", [support.a_row(1)], key=support.KEY)
    (tmp_path / "x.txt").write_text("")

    with pytest.raises(DecryptionError, match="is encrypted, give its key file"):
        rankbeat.load(tmp_path / "out")
    with pytest.raises(ValueError, match=r"ends in none of .jsonl, .csv, .pb"):
        rankbeat.load(tmp_path / "x.txt")
    with pytest.raises(FileNotFoundError):
        rankbeat.load(tmp_path / "nowhere")


def test_a_view_is_noted_where_there_is_an_audit_log(tmp_path: Path) -> None:
    log = audit.Log(tmp_path, "pod-0")
    log.note("opened", "x")
    support.written(tmp_path / "llm", "jsonl", [support.a_row(1)])

    rankbeat.load(tmp_path / "llm")

    (path,) = set(tmp_path.glob(audit.PATTERN)) - {log.path}
    assert json.loads(path.read_text())["how"] == "rankbeat.load"


def test_json_lines_and_csv_need_neither_protobuf_nor_cryptography(tmp_path: Path) -> None:
    support.written(tmp_path, "csv", [support.a_row(1)])
    program = (
        "import sys, rankbeat; frame = rankbeat.load(sys.argv[1]);"
        "print(len(frame), {'google.protobuf', 'cryptography', 'tensorboardX'} & set(sys.modules))"
    )

    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)

    assert ended.stdout == "1 set()\n"

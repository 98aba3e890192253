"""The audit log: a chain that any change breaks, gone on with after a restart or a kill."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rankbeat_collector.errors import AuditError
from rankbeat_collector.files import audit

if TYPE_CHECKING:
    from pathlib import Path


def a_log(folder: Path, entries: int = 4) -> Path:
    log = audit.Log(folder, "pod-0")
    for number in range(entries):
        log.note("opened", f"file-{number}")
    return log.path


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_an_entry_says_who_did_what_when(tmp_path: Path) -> None:
    (entry,) = lines(a_log(tmp_path, 1))

    assert set(entry) == {"number", "time", "who", "action", "what", "previous", "hash"}
    assert [entry[name] for name in ("number", "who", "action", "what", "previous")] == [
        1,
        "pod-0",
        "opened",
        "file-0",
        audit.START,
    ]


def test_a_chain_holds_over_restarts(tmp_path: Path) -> None:
    a_log(tmp_path)

    path = a_log(tmp_path)

    assert audit.verified(path) == 8


@pytest.mark.parametrize("line", range(4))
@pytest.mark.parametrize("what", ["changed", "hash too", "dropped", "swapped"])
def test_a_change_of_any_line_is_found_at_that_line_or_the_next(line: int, what: str, tmp_path: Path) -> None:
    path = a_log(tmp_path, 5)
    every = path.read_text().splitlines(keepends=True)
    entry = json.loads(every[line])
    if what == "dropped":
        del every[line]
    elif what == "swapped":
        every[line], every[line + 1] = every[line + 1], every[line]
    else:
        entry["what"] = "another"
        if what == "hash too":
            entry["hash"] = audit.link(str(entry["previous"]), entry)
        every[line] = json.dumps(entry) + "\n"
    path.write_text("".join(every))

    with pytest.raises(AuditError) as raised:
        audit.verified(path)

    assert raised.value.line == line + (2 if what == "hash too" else 1)


def test_a_line_that_a_killed_writer_left_is_cut_off_and_said(tmp_path: Path) -> None:
    path = a_log(tmp_path, 2)
    with path.open("a") as file:
        file.write('{"number": 3, "ti')

    a_log(tmp_path, 1)

    assert [(entry["number"], entry["action"]) for entry in lines(path)] == [
        (1, "opened"),
        (2, "opened"),
        (3, "recovered"),
        (4, "opened"),
    ]
    assert audit.verified(path) == 4


def test_two_writers_of_one_name_make_one_chain(tmp_path: Path) -> None:
    one, other = audit.Log(tmp_path, "ada@laptop"), audit.Log(tmp_path, "ada@laptop")

    for number in range(5):
        one.note("viewed", f"one-{number}")
        other.note("viewed", f"other-{number}")

    assert audit.verified(one.path) == 10


def test_a_view_is_noted_in_the_logs_folder_above(tmp_path: Path) -> None:
    a_log(tmp_path, 1)
    below = tmp_path / "llm" / "rank-0.000001.jsonl"
    below.parent.mkdir()
    below.write_text("")

    audit.note_view(below, "rankbeat.load")

    (path,) = set(tmp_path.glob(audit.PATTERN)) - {tmp_path / "audit-pod-0.jsonl"}
    (entry,) = lines(path)
    assert (entry["action"], entry["what"], entry["how"]) == ("viewed", str(below), "rankbeat.load")


def test_without_a_log_a_view_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("")

    audit.note_view(tmp_path / "x.jsonl", "rankbeat.load")

    assert [path.name for path in tmp_path.iterdir()] == ["x.jsonl"]

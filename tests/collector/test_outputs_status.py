"""What becomes of a pod's outputs, told by the pod's own collector to the node's: a few words and numbers."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

import files_support
import ring_support as support
from rankbeat_collector.files import streams
from rankbeat_collector.model import reports, written
from rankbeat_collector.model.ranks import PodRings
from rankbeat_collector.model.written import Written
from rankbeat_collector.sidecar import options
from rankbeat_collector.sidecar.configured import Configured
from rankbeat_collector.sidecar.health import Health
from rankbeat_contract import outputs as contract

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

POD = support.a_pod()
SAID: dict[str, Any] = {
    "pod": "llm-0",
    "troubles": [],
    "rows_written": 12,
    "rows_dropped": 3,
    "records_lost": 2,
    "entries_lost": 1,
    "writing": {"outputs": {"jsonl": {"failing": {"/secret": "full"}}}},
}


def polled(folder: Path) -> PodRings:
    """One poll of the pod whose rings lie in folder."""
    (found,) = support.a_poller(folder.parents[4], POD).poll().pods
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return support.ring_folder(tmp_path, POD)


def put(folder: Path, text: str) -> Path:
    path = folder / contract.STATUS_FILE
    path.write_text(text)
    return path


def test_a_pod_without_such_a_file_says_nothing_of_outputs(folder: Path):
    found = polled(folder)

    assert (found.outputs, found.refused) == (None, ())


def test_counts_and_known_words_leave_the_pod(folder: Path):
    put(folder, json.dumps({**SAID, "troubles": ["rows_lost", "full", "<script>", 7, "full", ["io"]]}))

    assert polled(folder).outputs == Written(("full", "rows_lost"), 12, 3, 2, 1)


def test_a_file_that_nobody_has_written_for_a_minute_is_silent(folder: Path):
    path = put(folder, json.dumps(SAID))
    before = polled(folder).outputs
    os.utime(path, (time.time() - 61, time.time() - 61))

    after = polled(folder).outputs

    assert before is not None
    assert after is not None
    assert (before.troubles, after.troubles) == ((), ("silent",))


def test_of_a_pod_that_is_over_the_last_word_stays(tmp_path: Path):
    pod = support.a_pod(phase="Succeeded")
    path = put(support.ring_folder(tmp_path, pod), json.dumps(SAID))
    os.utime(path, (1.0, 1.0))

    (found,) = support.a_poller(tmp_path, pod).poll().pods

    assert found.outputs == Written((), 12, 3, 2, 1)


def a_link(path: Path) -> None:
    (path.parent / "other").write_text(json.dumps(SAID))
    path.symlink_to(path.parent / "other")


def a_large_file(path: Path) -> None:
    path.write_bytes(b" " * (written.MAX_BYTES + 1))


def text(content: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(content)


HOSTILE = {
    "a link": (a_link, "link"),
    "a pipe": (os.mkfifo, "type"),
    "a folder": (os.mkdir, "type"),
    "too large": (a_large_file, "size"),
    "empty": (text(""), "outputs"),
    "half a file": (text(json.dumps(SAID)[:40]), "outputs"),
    "deeply nested": (text("[" * 60_000), "outputs"),
    "a list": (text("[]"), "outputs"),
    "no list of troubles": (text(json.dumps({**SAID, "troubles": {"full": 1}})), "outputs"),
    "a negative count": (text(json.dumps({**SAID, "rows_written": -1})), "outputs"),
    "a count that no JSON keeps": (text(json.dumps({**SAID, "rows_dropped": 1 << 60})), "outputs"),
    "a count of many digits": (text('{"troubles": [], "rows_written": ' + "9" * 60_000 + "}"), "outputs"),
    "not a number": (text(json.dumps({**SAID, "records_lost": float("nan")})), "outputs"),
    "a truth": (text(json.dumps({**SAID, "entries_lost": True})), "outputs"),
    "not UTF-8": (lambda path: path.write_bytes(b"\xff{}"), "outputs"),
}


@pytest.mark.parametrize(("made", "reason"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_file_that_is_no_status_is_refused_and_counted(made: Callable[[Path], object], reason: str, folder: Path):
    made(folder / contract.STATUS_FILE)

    found = polled(folder)

    assert (found.outputs, found.refused) == (None, ((reason, 1),))


def test_the_report_holds_it_where_there_is_any():
    pods = (PodRings(POD, 1, outputs=Written(("full",), 12, 3, 2, 1)), PodRings(POD, 1))
    made = reports.report(reports.Sender("n1", 5.0), support.a_poll(pods=pods), {}, is_late=False)
    said, none = json.loads(json.dumps(made.body["pods"]))

    assert said["outputs"] == {
        "troubles": ["full"],
        "rows_written": 12,
        "rows_dropped": 3,
        "records_lost": 2,
        "entries_lost": 1,
    }
    assert "outputs" not in none


def test_rows_that_are_lost_are_a_trouble_for_five_minutes_and_count_for_ever(tmp_path: Path):
    config = files_support.a_configuration(tmp_path, "jsonl")
    given = options.settings("sidecar", [f"--rings={tmp_path}", f"--out={tmp_path}/out", f"--config={config}"])
    present, health = Configured(given), Health()
    present.refresh()
    assert present.writing is not None

    before = health.said(present, 0.0)
    present.writing.destinations[0].counts.dropped = 4
    during = [health.said(present, at)["troubles"] for at in (5.0, 304.0)]
    after = health.said(present, 305.0)

    assert before["troubles"] == []
    assert during == [["rows_lost"], ["rows_lost"]]
    assert (after["troubles"], after["rows_dropped"]) == ([], 4)


def test_the_words_of_a_writer_are_those_of_the_contract():
    assert set(streams.TROUBLES) <= set(contract.TROUBLES)


def asking(config: Path, what: str) -> None:
    config.write_text(config.read_text().replace('"outputs": {', f'"outputs": {{"{what}": true, '))


@pytest.mark.parametrize(
    ("spoil", "troubles"),
    [
        (lambda _out, _config: None, ()),
        (lambda out, _config: out.write_text(""), ("unwritable",)),
        (lambda _out, config: asking(config, "encrypted"), ("key_missing",)),
        (lambda _out, config: asking(config, "masked"), ("key_missing",)),
        (lambda _out, config: config.write_text("{"), ("settings",)),
    ],
    ids=["healthy", "a folder that is none", "no key", "no masking key", "no JSON"],
)
def test_from_the_program_beside_the_job_to_the_report_of_the_node(
    spoil: Callable[[Path, Path], object], troubles: tuple[str, ...], folder: Path, tmp_path: Path
):
    ring, out = files_support.a_ring(folder), tmp_path / "out"
    config = files_support.a_configuration(tmp_path, "jsonl")
    spoil(out, config)
    ring.step(1)
    keys = ("--encryption-key-file", tmp_path / "key", "--masking-key-file", tmp_path / "key")
    more = ("--status-file", folder / contract.STATUS_FILE, *keys)
    with files_support.a_sidecar(folder, out, config, *more) as child:
        (folder / f"{contract.STATUS_FILE}.{child.pid}").symlink_to(tmp_path / "victim")
        deadline = time.monotonic() + 20
        while polled(folder).outputs is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        child.send_signal(signal.SIGTERM)
        child.wait(10)

    found = polled(folder)
    assert found.outputs is not None
    assert tuple(each for each in found.outputs.troubles if each != "rows_lost") == troubles
    assert (found.outputs.rows_written > 0) is out.is_dir() is (troubles == ())
    assert not (tmp_path / "victim").exists()

"""The collector beside a job as a program: started, killed, reconfigured, stopped."""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import files_support as support
from rankbeat_collector.errors import SettingsError
from rankbeat_collector.files import audit, keys, merging, reading, settings
from rankbeat_collector.sidecar import options
from rankbeat_collector.sidecar.loop import Loop
from rankbeat_contract import names, side

if TYPE_CHECKING:
    from collections.abc import Callable


def wait(until: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def steps(out: Path, rank: int = 0) -> list[int]:
    """Steps of a rank in all files, each once."""
    return [row.step for row in merging.merged(support.read(out)) if row.rank == rank and row.layer < 0]


def a_free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def replaced(path: Path, content: str) -> None:
    """As the kubelet does it: whole, by a rename."""
    other = path.with_suffix(".new")
    other.write_text(content)
    other.replace(path)


def test_beside_a_job_every_record_until_the_end_is_written_and_no_port_is_opened(tmp_path: Path) -> None:
    ring, out = support.a_ring(tmp_path / "rings"), tmp_path / "out"
    config = support.a_configuration(tmp_path, *support.FORMATS)
    with support.a_sidecar(tmp_path / "rings", out, config) as child:
        ring.step(1)
        ring.scalar(1, "loss", 2.5)
        wait(lambda: out.is_dir() and steps(out))
        sockets = [str(fd.readlink()) for fd in Path(f"/proc/{child.pid}/fd").iterdir() if fd.is_symlink()]
        ring.step(2)
        child.send_signal(signal.SIGTERM)
        code = child.wait(10)

    assert code == 0
    assert [target for target in sockets if "socket" in target] == []
    assert steps(out) == steps(out, -1) == [1, 2]
    assert {reading.format_of(path) for path in reading.outputs_in(out)} == set(support.FORMATS)
    assert [reading.read(path).was_cut for path in reading.outputs_in(out)] == [False] * 8


@pytest.mark.slow
@pytest.mark.parametrize("key", [None, support.KEY], ids=["clear", "encrypted"])
def test_killed_at_any_moment_it_leaves_whole_rows_and_the_next_one_goes_on(
    key: keys.Key | None, tmp_path: Path
) -> None:
    ring, out = support.a_ring(tmp_path / "rings"), tmp_path / "out"
    (tmp_path / "key").write_bytes(support.KEY.secret)
    config = support.a_configuration(tmp_path, *support.FORMATS, encrypted=key is not None, audit=True)
    step = 0
    for life in (1, 2):
        with support.a_sidecar(tmp_path / "rings", out, config, "--encryption-key-file", tmp_path / "key") as child:
            wait(lambda life=life: out.with_suffix(".log").read_bytes().count(b"started") == life)
            until = time.monotonic() + random.uniform(0.2, 0.5)
            while time.monotonic() < until:
                step += 1
                ring.step(step)
                time.sleep(0.001)
            child.kill()
            child.wait()
    with support.a_sidecar(tmp_path / "rings", out, config, "--encryption-key-file", tmp_path / "key") as child:
        wait(lambda: out.with_suffix(".log").read_bytes().count(b"started") == 3)
        time.sleep(0.5)
        child.send_signal(signal.SIGTERM)
        child.wait(10)

    for kind in support.FORMATS:
        rows = [
            row
            for path in reading.outputs_in(out)
            if reading.format_of(path) == kind
            for row in reading.read(path, key).rows
        ]
        assert [row.step for row in merging.merged(rows) if row.rank == 0] == list(range(1, step + 1))
    assert [audit.verified(path) > 0 for path in out.rglob(audit.PATTERN)] == [True]


def test_a_changed_configuration_is_followed_and_one_that_is_wrong_or_gone_changes_nothing(tmp_path: Path) -> None:
    ring, out = support.a_ring(tmp_path / "rings"), tmp_path / "out"
    config = support.a_configuration(tmp_path, "jsonl", audit=True)
    before = config.read_text()
    with support.a_sidecar(tmp_path / "rings", out, config) as child:
        ring.step(1)
        wait(lambda: list(out.rglob("rank-0*.jsonl")))
        replaced(config, before.replace('"jsonl"', '"csv"'))
        time.sleep(0.2)
        ring.step(2)
        wait(lambda: list(out.rglob("rank-0*.csv")))
        replaced(config, before.replace('"jsonl"', '"xml"'))
        wait(lambda: b"format: is 'xml', write one of" in out.with_suffix(".log").read_bytes())
        config.unlink()
        time.sleep(0.2)
        ring.step(3)
        child.send_signal(signal.SIGTERM)
        code = child.wait(10)

    entries = [json.loads(line) for path in out.glob(audit.PATTERN) for line in path.read_text().splitlines()]
    changes = [(entry["what"], entry["fields"]) for entry in entries if entry["action"] == "changed"]
    assert code == 0
    assert changes == [(str(config), ["outputs.files[0].format"])]
    assert steps(out) == [1, 2, 3]


@pytest.mark.parametrize(
    ("before", "after", "fields"),
    [
        ("{}", "{}", ()),
        ("", '{"experiment": "a"}', ("experiment",)),
        (
            '{"outputs": {"ranks": "one", "audit": true}}',
            '{"outputs": {"ranks": "all", "audit": true}}',
            ("outputs.ranks",),
        ),
        ('{"outputs": {"files": []}}', '{"outputs": {"files": [{"format": "csv"}]}}', ("outputs.files[0].format",)),
        ('{"monitors": [{"name": "a"}, {"name": "b"}]}', '{"monitors": [{"name": "a"}]}', ("monitors[1].name",)),
        ('{"a": 1}', '{"a": null}', ("a",)),
    ],
    ids=["nothing", "from no file", "one of two", "an entry more", "an entry less", "to null"],
)
def test_fields_that_differ_are_named_and_no_others(before: str, after: str, fields: tuple[str, ...]) -> None:
    named = settings.changed(before, after)

    assert named == fields


def test_switching_the_audit_log_off_is_its_last_entry(tmp_path: Path) -> None:
    out, config = tmp_path / "out", support.a_configuration(tmp_path, "jsonl", audit=True)
    ring = support.a_ring(tmp_path / "rings")
    with support.a_sidecar(tmp_path / "rings", out, config) as child:
        ring.step(1)
        wait(lambda: list(out.rglob("rank-0*.jsonl")))
        replaced(config, config.read_text().replace('"audit": true', '"audit": false'))
        wait(lambda: out.with_suffix(".log").read_bytes().count(b"outputs folder=") == 2)
        child.send_signal(signal.SIGTERM)
        child.wait(10)

    (log,) = out.glob(audit.PATTERN)
    last = json.loads(log.read_text().splitlines()[-1])
    assert (last["action"], last["fields"]) == ("changed", ["outputs.audit"])
    assert audit.verified(log) == last["number"]


def test_before_there_is_a_configuration_or_a_ring_it_waits(tmp_path: Path) -> None:
    out, config = tmp_path / "out", tmp_path / "monitor.json"
    status = tmp_path / "status.json"
    with support.a_sidecar(tmp_path / "rings", out, config, "--status-file", status) as child:
        wait(status.exists)
        support.a_configuration(tmp_path, "jsonl")
        ring = support.a_ring(tmp_path / "rings")
        ring.step(1)
        wait(lambda: out.is_dir() and steps(out))
        child.send_signal(signal.SIGTERM)
        child.wait(10)

    said = json.loads(status.read_text())
    assert (said["rings"], said["writing"]["first_rank"]) == (1, 0)
    assert said["writing"]["outputs"]["jsonl"]["rows_written"] == 2


def test_a_key_that_is_mounted_late_is_found(tmp_path: Path) -> None:
    ring, out = support.a_ring(tmp_path / "rings"), tmp_path / "out"
    ring.step(1)
    config = support.a_configuration(tmp_path, "jsonl", encrypted=True)
    given = options.settings(
        "sidecar",
        [f"--rings={tmp_path}/rings", f"--out={out}", f"--config={config}", f"--encryption-key-file={tmp_path}/key"],
    )
    loop = Loop(given)
    loop.once()
    was_valid, was_there = loop.configured.is_valid, out.exists()

    (tmp_path / "key").write_bytes(support.KEY.secret)
    loop.configured._retry_at = 0.0
    ring.step(2)
    loop.once()
    loop.configured.close()

    assert (was_valid, was_there) == (False, False)
    assert {row.step for path in reading.outputs_in(out) for row in reading.read(path, support.KEY).rows} == {2}


def test_a_monitor_that_turns_to_encryption_without_a_key_writes_no_further_row_in_clear(tmp_path: Path) -> None:
    ring, out, status = support.a_ring(tmp_path / "rings"), tmp_path / "out", tmp_path / "status.json"
    config = support.a_configuration(tmp_path, "jsonl")
    more = ("--status-file", status, "--encryption-key-file", tmp_path / "key")
    with support.a_sidecar(tmp_path / "rings", out, config, *more) as child:
        ring.step(1)
        wait(lambda: out.is_dir() and steps(out))
        replaced(config, config.read_text().replace('"files"', '"encrypted": true, "files"'))
        wait(lambda: b"nothing is written" in out.with_suffix(".log").read_bytes())
        ring.step(2)
        child.send_signal(signal.SIGTERM)
        child.wait(10)

    assert steps(out) == [1]
    assert json.loads(status.read_text())["troubles"] == ["key_missing"]


def test_a_custom_monitor_is_found_beside_the_outputs(tmp_path: Path) -> None:
    ring, out = support.a_ring(tmp_path / "rings"), tmp_path / "out"
    (out / "monitors").mkdir(parents=True)
    (out / "monitors" / "mine.py").write_text("class Twice:\n    def record(self, row):\n        return {'x': 2.0}\n")
    asked = [
        {"name": "own", "class": "mine:Twice", "where": "collector"},
        {"name": "p", "class": "a:B", "where": "process"},
    ]
    config = support.a_configuration(tmp_path, "jsonl", monitors=asked)
    with support.a_sidecar(tmp_path / "rings", out, config) as child:
        ring.step(1)
        wait(lambda: steps(out))
        child.send_signal(signal.SIGTERM)
        child.wait(10)

    assert {row.values["own_x"] for row in support.read(out)} == {2.0}


def test_on_request_it_serves_how_the_outputs_fare(tmp_path: Path) -> None:
    ring, out = support.a_ring(tmp_path / "rings"), tmp_path / "out"
    out.write_text("")
    config, port = support.a_configuration(tmp_path, "jsonl"), a_free_port()
    options = ("--host", "127.0.0.1", "--port", port, "--namespace", "team-a")
    with support.a_sidecar(tmp_path / "rings", out, config, *options):
        ring.step(1)
        wait(lambda: b"cannot be written" in out.with_suffix(".log").read_bytes())
        text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()

    labels = 'namespace="team-a",output="jsonl",pod="pod-0"'
    assert f"rankbeat_output_failing{{{labels}}} 2.0" in text
    assert 'rankbeat_output_errors_total{namespace="team-a",output="jsonl",pod="pod-0",reason="unwritable"}' in text


def test_in_local_mode_all_that_is_there_is_written_at_once(tmp_path: Path) -> None:
    for rank in range(2):
        ring = support.a_ring(tmp_path / "rings", rank)
        for step in range(1, 3001):
            ring.step(step)
    command = ["local", "--rings", "rings", "--out", "out", "--formats", "csv,jsonl", "--experiment", "mine", "--once"]

    ended = subprocess.run(
        [sys.executable, "-m", "rankbeat_collector", *command], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert {path.parent for path in reading.outputs_in(tmp_path / "out")} == {tmp_path / "out" / "mine"}
    assert steps(tmp_path / "out", 0) == steps(tmp_path / "out", 1) == list(range(1, 3001))
    assert f"folder={tmp_path}/out" in ended.stderr


def test_what_the_side_file_holds_is_written_too(tmp_path: Path) -> None:
    from rankbeat_agent.wire import side as wire  # noqa: PLC0415

    rings = tmp_path / "rings"
    ring = support.a_ring(rings)
    ring.step(1)
    made = wire.claim_side(str(rings), "run0", side.DEFAULT_BYTES)
    assert made.write(side.RUN, "run", 0, b'{"argv": ["train.py"]}')
    assert made.write(side.HISTOGRAM, "weights", 1, side.pack_histogram(-1.0, 1.0, [7] * side.BINS))
    assert made.write(side.IMAGE, "attention", 1, side.pack_image((1, 2, 1), b"\0\xff"))
    command = ["local", "--rings", str(rings), "--out", str(tmp_path / "out"), "--once"]

    subprocess.run([sys.executable, "-m", "rankbeat_collector", *command], capture_output=True, check=True)

    extras = {row.extra.kind: row.extra for row in support.read(tmp_path / "out") if row.extra is not None}
    assert json.loads(extras["run"].content) == {"argv": ["train.py"]}
    assert json.loads((tmp_path / "out/default/run-run0.json").read_text()) == {"argv": ["train.py"]}
    assert json.loads(extras["histogram"].content) == {"low": -1.0, "high": 1.0, "counts": [7] * side.BINS}
    assert extras["image"].content.startswith(side.PNG)


def test_settings_have_the_pods_places_for_defaults() -> None:
    made = options.settings("sidecar", [])

    assert (made.rings, str(made.out), made.listen) == (names.RING_PATH, names.OUTPUT_PATH, None)
    assert made.config == f"{names.CONFIG_PATH}/{names.MONITOR_CONFIG_KEY}"


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(SettingsError, match="--poll-interval"):
        options.settings("sidecar", ["--poll-interval", "0"])

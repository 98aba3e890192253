"""rankbeat decrypt and rankbeat audit verify, as programs."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import files_support as support
from rankbeat_collector.files import audit, reading

if TYPE_CHECKING:
    from pathlib import Path

ROWS = [support.a_row(step) for step in range(1, 30)]


def rankbeat(*arguments: object) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "rankbeat", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=False, timeout=60)


def a_key_file(folder: Path) -> Path:
    path = folder / "key"
    path.write_bytes(support.KEY.secret)
    return path


def test_encrypted_files_are_written_in_clear_beside_them(tmp_path: Path) -> None:
    key = a_key_file(tmp_path)
    sealed = support.written(tmp_path / "out", "csv", ROWS, key=support.KEY, max_file_bytes=700)

    ended = rankbeat("decrypt", *sealed, "--key-file", key)

    clear = [path.with_suffix("") for path in sealed]
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert [row for path in clear for row in reading.read(path).rows] == ROWS


def test_one_file_goes_to_standard_output(tmp_path: Path) -> None:
    (path,) = support.written(tmp_path / "out", "csv", ROWS, key=support.KEY)

    ended = rankbeat("decrypt", path, "--key-file", a_key_file(tmp_path), "--output", "-")

    assert ended.stdout.startswith(b"step,time,rank,attempt")
    assert ended.stdout.count(b"\n") == len(ROWS) + 1


def test_of_a_changed_file_nothing_is_written(tmp_path: Path) -> None:
    (path,) = support.written(tmp_path / "out", "csv", ROWS, key=support.KEY)
    content = bytearray(path.read_bytes())
    content[-40] ^= 1
    path.write_bytes(content)

    ended = rankbeat("decrypt", path, "--key-file", a_key_file(tmp_path))

    assert ended.returncode == 1
    assert b"was changed: chunk" in ended.stderr
    assert list((tmp_path / "out").iterdir()) == [path]


def test_a_file_without_its_end_is_written_as_far_as_it_goes_and_that_is_said(tmp_path: Path) -> None:
    stream, _ = support.a_stream(tmp_path / "out", "csv", key=support.KEY)
    stream.take(ROWS, 0.0)
    stream.flush(0.0)
    (path,) = reading.outputs_in(tmp_path / "out")

    ended = rankbeat("decrypt", path, "--key-file", a_key_file(tmp_path))

    assert ended.returncode == 0
    assert b"has no end" in ended.stderr
    assert reading.read(path.with_suffix("")).rows == tuple(ROWS)


def test_a_wrong_key_is_named(tmp_path: Path) -> None:
    (path,) = support.written(tmp_path / "out", "csv", ROWS, key=support.KEY)
    (tmp_path / "key").write_bytes(bytes(32))

    ended = rankbeat("decrypt", path, "--key-file", tmp_path / "key")

    assert ended.returncode == 1
    assert f"was written with the key {support.KEY.key_id.hex()}".encode() in ended.stderr


def test_a_whole_chain_is_confirmed_and_the_first_broken_link_is_named(tmp_path: Path) -> None:
    log = audit.Log(tmp_path, "pod-0")
    for number in range(5):
        log.note("opened", f"file-{number}")

    whole = rankbeat("audit", "verify", log.path)
    log.path.write_text(log.path.read_text().replace("file-2", "file-9"))
    broken = rankbeat("audit", "verify", log.path)

    assert (whole.returncode, whole.stdout) == (0, f"{log.path}: 5 entries, the chain holds\n".encode())
    assert (broken.returncode, broken.stdout) == (1, b"")
    assert f"{log.path}:3 was changed: its hash does not match".encode() in broken.stderr

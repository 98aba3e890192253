"""Rows, outputs and the collector beside a job, for tests of files."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import ring_support as support
from rankbeat_collector.files import destination, encoders, keys, reading, streams
from rankbeat_collector.files.rows import Row

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

FORMATS = ("jsonl", "csv", "protobuf", "tensorboard")
KEY = keys.Key(bytes(range(32)))
FIRST_TIME = 1_796_000_000.0


def a_row(step: int = 1, **changes: object) -> Row:
    """Rank 0's row of a step, one second after the other, with a loss that float32 holds exactly."""
    row = Row(step, FIRST_TIME + step, 0, 0, "run0", 1, values={"loss": 0.5 + step, "step_interval_seconds": 0.25})
    return row._replace(**changes)  # type: ignore[arg-type]


def a_stream(
    folder: Path, kind: str, *, max_file_bytes: int = 1 << 20, key: keys.Key | None = None
) -> tuple[streams.Stream, streams.Counts]:
    """A stream of parts `rank-0...` in folder."""
    counts = streams.Counts()
    naming = streams.Naming(folder / "rank-0", encoders.SUFFIXES.get(kind, ""), "pod-0", encrypted=key is not None)
    opening = streams.Opening(naming, max_file_bytes, key, counts)
    return streams.Stream(opening, destination.encoder_of(kind)), counts


def written(folder: Path, kind: str, rows: Sequence[Row], **options: object) -> tuple[Path, ...]:
    """Parts that hold these rows."""
    stream, _ = a_stream(folder, kind, **options)  # type: ignore[arg-type]
    stream.take(rows, 0.0)
    stream.close(0.0)
    return reading.outputs_in(folder)


def read(folder: Path, key: keys.Key | None = None) -> list[Row]:
    """All rows of all parts in folder, in the parts' order."""
    return [row for path in reading.outputs_in(folder) for row in reading.read(path, key).rows]


def a_configuration(folder: Path, *formats: str, **changes: object) -> Path:
    """A monitor.json that asks for these formats, flushed at once."""
    files = [{"format": kind, "flushSeconds": 0} for kind in formats]
    path = folder / "monitor.json"
    outputs = {"files": files, **changes}
    monitors = outputs.pop("monitors", [])
    path.write_text(json.dumps({"version": 2, "experiment": "llm", "outputs": outputs, "monitors": monitors}))
    return path


@contextlib.contextmanager
def a_sidecar(rings: Path, out: Path, config: Path, *more: object) -> Iterator[subprocess.Popen[bytes]]:
    """The real program beside a job, polling 20 times a second; its log in out.log beside out."""
    options = ("--rings", rings, "--out", out, "--config", config, "--pod", "pod-0", "--poll-interval", 0.05, *more)
    command = [sys.executable, "-m", "rankbeat_collector", "sidecar", *map(str, options)]
    with out.with_suffix(".log").open("ab") as log, subprocess.Popen(command, stderr=log) as child:
        try:
            yield child
        finally:
            child.kill()


def a_ring(folder: Path, rank: int = 0, *, capacity: int = 4000, **changes: object) -> support.RingWriter:
    """A ring of a rank in phase train."""
    folder.mkdir(exist_ok=True)
    writer = support.RingWriter(folder / f"run{rank}.ring", capacity=capacity)
    writer.state(rank=rank, **changes)
    return writer

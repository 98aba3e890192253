"""The four formats: what is written is what is read, however it is rotated, sealed or cut."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

import files_support as support
from rankbeat_collector.files import encoders, images, keys, merging, reading, schema
from rankbeat_collector.files.rows import Extra, Row
from rankbeat_contract import side

NAMES = ("loss", "learning_rate", "grad_norm", "user_a")
NUMBERS = st.floats(width=32)


@st.composite
def stories(draw: st.DrawFn) -> list[Row]:
    """Rows of two ranks and the job through two attempts, of which the second begins anywhere."""
    rows = []
    for rank in draw(st.sets(st.sampled_from((-1, 0, 3)), min_size=1)):
        begin, time = 0, support.FIRST_TIME
        for attempt in range(draw(st.integers(1, 3))):
            for step in range(begin, begin + draw(st.integers(1, 6))):
                time += 1.0
                names = draw(st.sets(st.sampled_from(NAMES), min_size=1))
                values = {name: draw(NUMBERS) for name in sorted(names)}
                row = Row(step, time, rank, attempt, f"run{attempt}", 1, values=values)
                rows.append(row)
                if draw(st.booleans()):
                    rows.append(row._replace(layer=2, head=draw(st.sampled_from((-1, 1))), values={"entropy": 0.5}))
            begin = draw(st.integers(0, begin + 5))
    return rows


def comparable(rows: object) -> list[tuple[object, ...]]:
    """Rows whose NaNs compare."""
    return [
        (*row[:8], {name: "nan" if math.isnan(value) else value for name, value in row.values.items()}, row.extra)
        for row in rows  # type: ignore[attr-defined]
    ]


@pytest.mark.parametrize("kind", support.FORMATS)
@settings(max_examples=40, deadline=None)
@given(
    rows=stories(),
    max_file_bytes=st.integers(1, 4000),
    key=st.sampled_from((None, support.KEY)),
    batch=st.integers(1, 9),
)
def test_rows_come_back_whole_from_parts_of_any_size(
    kind: str, rows: list[Row], max_file_bytes: int, key: keys.Key | None, batch: int
) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        stream, counts = support.a_stream(Path(place), kind, max_file_bytes=max_file_bytes, key=key)
        for first in range(0, len(rows), batch):
            stream.take(rows[first : first + batch], 0.0)
            stream.flush(0.0)
        stream.close(0.0)

        made = support.read(Path(place), key)
        cut = [path for path in reading.outputs_in(Path(place)) if reading.read(path, key).was_cut]

    assert comparable(merging.merged(made)) == comparable(merging.merged(rows))
    assert (counts.written, counts.dropped, cut) == (len(rows), 0, [])


@pytest.mark.parametrize("kind", support.FORMATS)
def test_parts_keep_below_the_limit_and_are_numbered_on(kind: str, tmp_path: Path) -> None:
    rows = [support.a_row(step) for step in range(100)]

    support.written(tmp_path, kind, rows[:50], max_file_bytes=1500)
    support.written(tmp_path, kind, rows[50:], max_file_bytes=1500)

    parts = reading.outputs_in(tmp_path)
    naming = support.a_stream(tmp_path, kind)[0].naming
    assert len(parts) > 3
    assert [naming.number(path.name) for path in parts] == list(range(1, len(parts) + 1))
    assert all(path.stat().st_size <= 1500 for path in parts)
    assert comparable(merging.merged(support.read(tmp_path))) == comparable(rows)


@pytest.mark.parametrize("kind", support.FORMATS)
@pytest.mark.parametrize("key", [None, support.KEY], ids=["clear", "sealed"])
def test_a_file_cut_at_any_byte_gives_its_whole_rows(kind: str, key: keys.Key | None, tmp_path: Path) -> None:
    rows = [support.a_row(step) for step in range(1, 5)]
    stream, _ = support.a_stream(tmp_path, kind, key=key)
    for row in rows:
        stream.take([row], 0.0)
        stream.flush(0.0)
    (path,) = reading.outputs_in(tmp_path)
    content = path.read_bytes()

    for length in range(len(content)):
        path.write_bytes(content[:length])
        read = reading.read(path, key).rows
        assert comparable(read) == comparable(rows[: len(read)])

    path.write_bytes(content)
    assert comparable(reading.read(path, key).rows) == comparable(rows)


def test_lines_of_json_are_what_a_person_expects(tmp_path: Path) -> None:
    (path,) = support.written(tmp_path, "jsonl", [support.a_row(7), support.a_row(7, layer=1, values={"norm": 1.0})])

    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"step": 7, "time": 1796000007.0, "rank": 0, "attempt": 0, "run": "run0", "segment": 1, "loss": 7.5}
        | {"step_interval_seconds": 0.25},
        {
            "step": 7,
            "time": 1796000007.0,
            "rank": 0,
            "attempt": 0,
            "run": "run0",
            "segment": 1,
            "layer": 1,
            "norm": 1.0,
        },
    ]


def test_a_csv_begins_a_new_part_where_a_new_name_needs_a_new_header(tmp_path: Path) -> None:
    stream, _ = support.a_stream(tmp_path, "csv")
    stream.take([support.a_row(1, values={"loss": 1.0})], 0.0)
    stream.flush(0.0)
    stream.take([support.a_row(2, values={"loss": 2.0, "norm": 3.0})], 0.0)
    stream.close(0.0)

    heads = [path.read_text().splitlines()[0] for path in reading.outputs_in(tmp_path)]

    fields = "step,time,rank,attempt,run,segment,layer,head"
    assert heads == [f"{fields},loss", f"{fields},loss,norm"]


def test_the_protobuf_schema_of_the_code_is_that_of_the_file(tmp_path: Path) -> None:
    folder = Path(schema.__file__).parents[2]
    made = tmp_path / "descriptors"
    command = ["-m", "grpc_tools.protoc", f"-I{folder}", f"--descriptor_set_out={made}", str(folder / schema.FILE)]
    subprocess.run([sys.executable, *command], check=True)

    (of_file,) = descriptor_pb2.FileDescriptorSet.FromString(made.read_bytes()).file
    for message in of_file.message_type:
        for field in message.field:
            field.ClearField("json_name")
    assert of_file == schema.file_descriptor()


HISTOGRAM = Extra("histogram", "weights", json.dumps({"low": -1.0, "high": 1.0, "counts": [1, 2, 3, 4]}).encode())
IMAGE = Extra("image", "attention", images.png((2, 3, 1), bytes(range(6))))
RUN = Extra("run", "run", json.dumps({"argv": ["train.py"]}).encode())


@pytest.mark.parametrize("kind", ["jsonl", "protobuf", "tensorboard"])
def test_histograms_and_images_come_back(kind: str, tmp_path: Path) -> None:
    rows = [support.a_row(3, values={}, extra=extra) for extra in (HISTOGRAM, IMAGE)]

    support.written(tmp_path, kind, rows)

    assert [row.extra for row in support.read(tmp_path)] == [HISTOGRAM, IMAGE]


@pytest.mark.parametrize("kind", ["jsonl", "protobuf"])
def test_documents_and_masked_tensors_come_back(kind: str, tmp_path: Path) -> None:
    masked = Extra("image", "attention", b"", json.dumps({"shape": [2, 3, 1]}))
    rows = [support.a_row(3, values={}, extra=extra) for extra in (RUN, masked)]

    support.written(tmp_path, kind, rows)

    assert [row.extra for row in support.read(tmp_path)] == [RUN, masked]


def test_a_raw_image_becomes_a_png_of_its_shape() -> None:
    made = images.png((2, 3, 4), bytes(24))

    assert made.startswith(side.PNG)
    assert images.png_shape(made) == (2, 3, 4)


def test_an_encoder_writes_a_varint_as_protobuf_does(tmp_path: Path) -> None:
    long = support.a_row(1, run="r" * 300)

    support.written(tmp_path, "protobuf", [long])

    assert support.read(tmp_path) == [long]
    assert set(encoders.SUFFIXES) | {"tensorboard"} == set(support.FORMATS)


def events(folder: Path) -> list[object]:
    """All events of a run's files, as TensorBoard reads them: by file name."""
    from tensorboardX.proto.event_pb2 import Event  # noqa: PLC0415

    made = []
    for path in sorted(folder.rglob("events.out.tfevents.*")):
        content = path.read_bytes()
        while content:
            length = int.from_bytes(content[:8], "little")
            made.append(Event.FromString(content[12 : 12 + length]))
            content = content[16 + length :]
    return made


def test_a_resumed_run_tells_tensorboard_from_which_step_to_forget(tmp_path: Path) -> None:
    """TensorBoard 2.21's EventAccumulator shows steps 1 to 50 of the first run, 51 to 60 of the second (2026-11-30)."""
    support.written(tmp_path, "tensorboard", [support.a_row(step) for step in range(1, 101)], max_file_bytes=3000)

    again = [support.a_row(step, run="run1", attempt=1) for step in range(51, 61)]
    support.written(tmp_path, "tensorboard", again, max_file_bytes=3000)

    made = events(tmp_path)
    starts = [event.step for event in made if event.WhichOneof("what") == "session_log"]  # type: ignore[attr-defined]
    steps = [event.step for event in made if event.WhichOneof("what") == "summary"]  # type: ignore[attr-defined]
    assert starts == [1, 51]
    assert steps == [*range(1, 101), *range(51, 61)]


@pytest.mark.parametrize("kind", support.FORMATS)
@settings(max_examples=60, deadline=None)
@given(changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_file_with_any_changed_bytes_is_read_without_an_error(kind: str, changes: list[tuple[int, int]]) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        (path,) = support.written(Path(place), kind, [support.a_row(step) for step in range(20)])
        content = bytearray(path.read_bytes())
        for offset, byte in changes:
            content[offset % len(content)] = byte
        path.write_bytes(content)

        assert len(reading.read(path).rows) <= 21

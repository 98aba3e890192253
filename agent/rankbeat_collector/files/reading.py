"""Reads what the outputs wrote: every format, rotated or not, sealed or not, whole or cut by a killed writer."""

import base64
import csv
import io
import json
import re
import struct
from pathlib import Path
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from rankbeat_collector.errors import DecryptionError
from rankbeat_collector.files import keys, rows
from rankbeat_collector.files.keys import Key
from rankbeat_collector.files.rows import Extra, Row
from rankbeat_contract import ring

_EVENTS = re.compile(r"events\.out\.tfevents\.\d+\..*")
_AUDIT = re.compile(r"audit-.*(?<!\.\d{6})\.jsonl")
_SUFFIXES = (".jsonl", ".csv", ".pb")


class Read(NamedTuple):
    """One file's rows, and what was odd about it."""

    path: Path
    rows: Tuple[Row, ...]
    was_cut: bool = False
    """Whether the end of a row, or of the sealing, is missing: its writer was killed, or still writes."""


def format_of(path: Path) -> str:
    """jsonl, csv, protobuf or tensorboard; empty where the name is none of an output's."""
    name = path.name.removesuffix(keys.SUFFIX)
    if _EVENTS.fullmatch(name):
        return "tensorboard"
    if _AUDIT.fullmatch(name):
        return ""
    return {".jsonl": "jsonl", ".csv": "csv", ".pb": "protobuf"}.get(Path(name).suffix, "")


def outputs_in(path: Path) -> Tuple[Path, ...]:
    """The output files at a path: a file, or all below a folder, by name.

    Raises: FileNotFoundError.
    """
    if path.is_file():
        return (path,)
    if not path.is_dir():
        raise FileNotFoundError(2, "there is no file or folder", str(path))
    return tuple(sorted(each for each in path.rglob("*") if each.is_file() and format_of(each)))


def content_of(path: Path, key: Optional[Key]) -> Tuple[bytes, bool]:
    """A file's bytes in clear, and whether its sealing was cut.

    Raises: DecryptionError, OSError.
    """
    with path.open("rb") as file:
        if not path.name.endswith(keys.SUFFIX):
            return file.read(), False
        if key is None:
            raise DecryptionError(str(path), "is encrypted, give its key file")
        from rankbeat_collector.files import encryption  # noqa: PLC0415 - cryptography only where files are sealed

        opened = encryption.Opened(file, key, str(path))
        return b"".join(opened.chunks()), opened.was_cut


def read(path: Path, key: Optional[Key] = None) -> Read:
    """One output file.

    Raises: DecryptionError; ValueError where it is no output; OSError.
    """
    reader = _READERS.get(format_of(path))
    if reader is None:
        raise ValueError(f"{path} is no output: its name ends in none of {', '.join(_SUFFIXES)}")
    content, was_cut = content_of(path, key)
    found: List[Row] = []
    is_whole = True
    for row in reader(content):
        if row is None:
            is_whole = False
        else:
            found.append(row)
    return Read(path, tuple(found), was_cut or not is_whole)


def _json_lines(content: bytes) -> Iterator[Optional[Row]]:
    """Rows; None for a line that is not whole."""
    for line in content.splitlines(keepends=True):
        try:
            yield _json_row(json.loads(line)) if line.endswith(b"\n") else None
        except (ValueError, KeyError, TypeError):  # noqa: PERF203 - a line that is not whole
            yield None


def _json_row(fields: Dict[str, Any]) -> Row:
    known = {name: fields.pop(name) for name in rows.FIELDS if name in fields}
    kind = fields.pop("kind", None)
    if kind is None:
        return Row(**known, values=fields)
    masked = json.dumps(fields["masked"]) if "masked" in fields else ""
    content = fields.get("content")
    if masked:
        body = b""
    else:
        body = (
            base64.b64decode(content) if kind == "image" and isinstance(content, str) else json.dumps(content).encode()
        )
    return Row(**known, extra=Extra(str(kind), str(fields["name"]), body, masked))


def _csv(content: bytes) -> Iterator[Optional[Row]]:
    lines = content.decode("utf-8", "replace").split("\n")
    if lines.pop():  # what follows the last line's end
        yield None
    columns = _cells(lines[0]) if lines else []
    for line in lines[1:]:
        try:
            yield _csv_row(dict(zip(columns, _cells(line))))
        except (ValueError, KeyError):  # noqa: PERF203
            yield None


def _cells(line: str) -> List[str]:
    """Cells of one line of CSV; none where it is no such line."""
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return []


def _csv_row(cells: Dict[str, str]) -> Row:
    step, rank, attempt, segment, layer, head = (
        int(cells.pop(name)) for name in ("step", "rank", "attempt", "segment", "layer", "head")
    )
    seconds, run = float(cells.pop("time")), cells.pop("run")
    values = {name: float(cell) for name, cell in cells.items() if cell}
    return Row(step, seconds, rank, attempt, run, segment, layer, head, values)


def _protobuf(content: bytes) -> Iterator[Optional[Row]]:
    from google.protobuf.message import DecodeError  # noqa: PLC0415 - only for this format

    from rankbeat_collector.files import schema  # noqa: PLC0415

    place = 0
    while place < len(content):
        length, place = _varint(content, place)
        if length < 0 or place + length > len(content):
            yield None
            return
        try:
            yield _message_row(schema.ROW.FromString(content[place : place + length]))
        except DecodeError:
            yield None
            return
        place += length


def _varint(content: bytes, place: int) -> Tuple[int, int]:
    """The number at a place and where it ends; -1 where it is not whole."""
    number = shift = 0
    while place < len(content) and shift < 35:
        byte = content[place]
        number |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return number, place
    return -1, place


def _message_row(message: Any) -> Row:
    fields = {name: getattr(message, name) for name in rows.FIELDS}
    extra = None
    if message.HasField("extra"):
        said = message.extra
        extra = Extra(said.kind, said.name, said.content, said.masked)
    return Row(**fields, values={value.name: value.value for value in message.values}, extra=extra)


def _tensorboard(content: bytes) -> Iterator[Optional[Row]]:
    from tensorboardX.proto.event_pb2 import Event  # noqa: PLC0415 - only for this format
    from tensorboardX.record_writer import masked_crc32c  # noqa: PLC0415

    whose = {"rank": rows.JOB, "attempt": 0, "run": "", "segment": 0}
    for body in _records(content, masked_crc32c):
        if body is None:
            yield None
            return
        event = Event.FromString(body)
        kind = event.WhichOneof("what")
        if kind == "log_message":
            whose = _whose(event.log_message.message) or whose
        elif kind == "summary":
            yield from _event_rows(event, whose)


def _records(content: bytes, crc: Callable[[bytes], int]) -> Iterator[Optional[bytes]]:
    file: BinaryIO = io.BytesIO(content)
    while True:
        head = file.read(12)
        if not head:
            return
        length = struct.unpack_from("<Q", head)[0] if len(head) == 12 else -1
        body = file.read(length) if 0 <= length <= len(content) else b""
        check = file.read(4)
        if length < 0 or len(body) < length or len(check) < 4 or struct.unpack("<I", check)[0] != crc(body):
            yield None
            return
        yield body


def _whose(message: str) -> Optional[Dict[str, Any]]:
    try:
        said = json.loads(message)["rankbeat"]
        return {name: said[name] for name in ("rank", "attempt", "run", "segment")}
    except (ValueError, KeyError, TypeError):
        return None


_TAG = re.compile(r"(?P<name>.*?)(/layer_(?P<layer>\d+))?(/head_(?P<head>\d+))?")


def _event_rows(event: Any, whose: Dict[str, Any]) -> Iterator[Row]:
    """A row for each layer and head, one for each image and histogram."""
    by_place: Dict[Tuple[int, int], Dict[str, float]] = {}
    for value in event.summary.value:
        found = _TAG.fullmatch(value.tag)
        if found is None:
            continue
        layer, head = (int(found[each]) if found[each] else ring.UNKNOWN for each in ("layer", "head"))
        if value.HasField("simple_value"):
            by_place.setdefault((layer, head), {})[found["name"]] = value.simple_value
            continue
        extra = _event_extra(value, found["name"])
        if extra is not None:
            yield Row(step=event.step, time=event.wall_time, layer=layer, head=head, extra=extra, **whose)
    for (layer, head), values in by_place.items():
        yield Row(step=event.step, time=event.wall_time, layer=layer, head=head, values=values, **whose)


def _event_extra(value: Any, name: str) -> Optional[Extra]:
    if value.HasField("image"):
        return Extra("image", name, value.image.encoded_image_string)
    if value.HasField("histo"):
        counts = [int(count) for count in value.histo.bucket]
        said = {"low": value.histo.min, "high": value.histo.max, "counts": counts}
        return Extra("histogram", name, json.dumps(said).encode())
    return None


_READERS: Dict[str, Callable[[bytes], Iterator[Optional[Row]]]] = {
    "jsonl": _json_lines,
    "csv": _csv,
    "protobuf": _protobuf,
    "tensorboard": _tensorboard,
}

"""TensorBoard's event files: scalars, histograms, images. tensorboardX gives the messages and the checksum.

Its writer has a thread that dies on a full disk; these bytes go the way of all others.
"""

import json
import struct
from typing import Any, List, Optional, Sequence, Tuple

from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.proto.summary_pb2 import HistogramProto, Summary
from tensorboardX.record_writer import masked_crc32c

from rankbeat_collector.files import images
from rankbeat_collector.files.rows import Row
from rankbeat_contract import ring

FILE_VERSION = "brain.Event:2"
"""From this version on a reader drops, at a START, what it has of that step and later (purge_step)."""


def framed(message: Any) -> bytes:
    """A record of an event file: length and its checksum, the message and its checksum."""
    body = message.SerializeToString()
    length = struct.pack("<Q", len(body))
    checks = (struct.pack("<I", masked_crc32c(part)) for part in (length, body))
    return b"".join((length, next(checks), body, next(checks)))


def tag_of(row: Row, name: str) -> str:
    """NAME, NAME/layer_3, NAME/layer_3/head_1."""
    layer = "" if row.layer == ring.UNKNOWN else f"/layer_{row.layer}"
    head = "" if row.head == ring.UNKNOWN else f"/head_{row.head}"
    return name + layer + head


class TensorBoard:
    """Events of one run directory. A START event with the step goes before what replaces earlier steps."""

    def __init__(self) -> None:
        self._life: Optional[Tuple[str, int, int]] = None
        self._last_step = -1

    def head(self, coming: Sequence[Row]) -> bytes:
        """The version, and whose events these are (a log message, which TensorBoard does not show)."""
        first = coming[0]
        version = Event(wall_time=first.time, file_version=FILE_VERSION)
        return framed(version) + self._whose(first)

    def fits(self, row: Row) -> bool:  # noqa: ARG002 - the protocol's
        return True

    def row(self, row: Row) -> bytes:
        events: List[bytes] = []
        life = (row.run, row.segment, row.rank)
        if life != self._life:
            events.append(self._whose(row))
            # At first nobody knows what an earlier collector wrote into this directory.
            if self._life is None or row.step <= self._last_step:
                start = SessionLog(status=SessionLog.START)
                events.append(framed(Event(wall_time=row.time, step=row.step, session_log=start)))
            self._life, self._last_step = life, -1
        self._last_step = max(self._last_step, row.step)
        summary = _summary(row)
        if summary is not None:
            events.append(framed(Event(wall_time=row.time, step=row.step, summary=summary)))
        return b"".join(events)

    def _whose(self, row: Row) -> bytes:
        whose = {"rank": row.rank, "attempt": row.attempt, "run": row.run, "segment": row.segment}
        event = Event(wall_time=row.time, step=row.step)
        event.log_message.message = json.dumps({"rankbeat": whose})
        return framed(event)


def _summary(row: Row) -> Optional[Any]:
    if row.extra is None:
        values = [Summary.Value(tag=tag_of(row, name), simple_value=value) for name, value in row.values.items()]
        return Summary(value=values) if values else None
    if row.extra.masked:
        return None
    tag = tag_of(row, row.extra.name)
    if row.extra.kind == "histogram":
        return Summary(value=[Summary.Value(tag=tag, histo=_histogram(json.loads(row.extra.content)))])
    if row.extra.kind == "image":
        shape = images.png_shape(row.extra.content)
        if shape is not None:
            height, width, channels = shape
            content = row.extra.content
            image = Summary.Image(height=height, width=width, colorspace=channels, encoded_image_string=content)
            return Summary(value=[Summary.Value(tag=tag, image=image)])
    return None


def _histogram(content: Any) -> Any:
    """Equal bins between low and high; sums are of the bins' middles, the values themselves are not known."""
    low, high, counts = float(content["low"]), float(content["high"]), [int(count) for count in content["counts"]]
    width = (high - low) / len(counts)
    middles = [low + width * (number + 0.5) for number in range(len(counts))]
    return HistogramProto(
        min=low,
        max=high,
        num=sum(counts),
        sum=sum(count * middle for count, middle in zip(counts, middles)),
        sum_squares=sum(count * middle * middle for count, middle in zip(counts, middles)),
        bucket_limit=[low + width * (number + 1) for number in range(len(counts))],
        bucket=counts,
    )

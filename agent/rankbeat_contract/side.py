"""The side file: what does not fit a record of the ring. Pure functions between bytes and values.

Beside RUN_ID.ring, as RUN_ID.side, only where the monitor asks for something that goes here. Allocated whole before it
is mapped, never grown; written by the training process, read by pread, like the ring.

    offset      bytes                   content
    0           128                     HEADER, written once
    128         2 x 128                 two STATE slots, written alternately, as in the ring
    512         slots x 128             index of area KEPT, then index of area STREAM
    ...         ...                     data of area KEPT, then data of area STREAM

An entry is a slot of its area's index, found by its number like a record of the ring, and a payload in the area's data.
The slot holds the payload's place, its length and its CRC32, and has a CRC32 itself: a reader takes an entry whose two
checksums match, and no other. KEPT is for what is said once and must not be lost (the run, shapes, dumps): filled from
the front, and when it is full a new entry is dropped and counted. STREAM (histograms, images) goes round: new entries
overwrite the oldest, and the reader counts what it lost.
"""

import struct
import zlib
from typing import NamedTuple, Optional, Sequence, Tuple

from rankbeat_contract import parts, ring

MAGIC = b"RANKSIDE"
VERSION = 1
SUFFIX = ".side"

HEADER_BYTES = 128
STATE_OFFSET = 128
STATE_BYTES = 128
INDEX_OFFSET = 512
SLOT_BYTES = 128
KEPT_SLOTS = 64
BYTES_PER_STREAM_SLOT = 1024
"""Of the file: a histogram and its slot need 400 bytes, an image more."""
DEFAULT_BYTES = 1 << 20
MIN_BYTES = 32 << 10
MAX_BYTES = 64 << 20

KEPT, STREAM = range(2)
AREAS = (KEPT, STREAM)

RUN = 1
"""What was started: JSON object, as of the first train()."""
HISTOGRAM = 2
"""pack_histogram()."""
IMAGE = 3
"""A PNG, or pack_image()."""
DUMP = 4
"""JSON object: what led to a loss that is no number, or to the end of the device's memory."""
SHAPES = 5
"""JSON object: shapes and types of a step's inputs."""
KINDS = {RUN: "run", HISTOGRAM: "histogram", IMAGE: "image", DUMP: "dump", SHAPES: "shapes"}
KIND_SLOTS = 8
"""Kinds that a state has counters for; counter 0 is for those that there are not."""

BINS = 64
NAME_LETTERS = 64

HEADER = struct.Struct("<8sHHIIQ32s")
STATE = struct.Struct("<QQQQ8I")
SLOT = struct.Struct("<BQqQIII64s")
_HISTOGRAM = struct.Struct(f"<dd{BINS}I")
_IMAGE = struct.Struct("<HHH")
PNG = b"\x89PNG\r\n\x1a\n"


class Header(NamedTuple):
    """What is fixed for the life of a side file."""

    file_bytes: int
    pid: int
    claimed_mono_ns: int
    run_id: str
    """That of the ring beside it."""


class State(NamedTuple):
    """How much was written since the claim."""

    sequence: int = 0
    """Counts the writes of the state, from 1."""
    kept: int = 0
    """Entries written to KEPT; the newest lies in slot (kept - 1) % KEPT_SLOTS."""
    stream: int = 0
    updated_mono_ns: int = 0
    dropped: Tuple[int, ...] = (0,) * KIND_SLOTS
    """By kind: entries that did not fit."""

    def written(self, area: int) -> int:
        """Entries of an area since the claim."""
        return self.stream if area == STREAM else self.kept


class Slot(NamedTuple):
    """One slot of an index: what an entry is and where its payload lies."""

    kind: int
    number: int
    """Of the entry in its area since the claim, from 0."""
    step: int
    mono_ns: int
    offset: int
    """In the file."""
    length: int
    crc: int
    """CRC32 of the payload."""
    name: str


class Entry(NamedTuple):
    """An entry that was whole when it was read."""

    kind: int
    number: int
    step: int
    mono_ns: int
    name: str
    payload: bytes


class Area(NamedTuple):
    """Where an area lies in the file."""

    slots_offset: int
    slots: int
    data: int
    size: int
    """Bytes of data, a multiple of 8."""

    def slot_offset(self, number: int) -> int:
        """Byte offset of the slot of the entry with this number."""
        return self.slots_offset + number % self.slots * SLOT_BYTES

    def holds(self, slot: Slot) -> bool:
        """Whether a slot points into this area."""
        return self.data <= slot.offset and slot.offset + slot.length <= self.data + self.size


def areas(file_bytes: int) -> Tuple[Area, Area]:
    """The areas KEPT and STREAM of a file of file_bytes.

    Raises: ValueError if file_bytes is below MIN_BYTES or above MAX_BYTES.
    """
    if not MIN_BYTES <= file_bytes <= MAX_BYTES:
        raise ValueError(f"side file of {file_bytes} bytes, {MIN_BYTES} to {MAX_BYTES} are possible")
    slots = file_bytes // BYTES_PER_STREAM_SLOT
    stream_index = INDEX_OFFSET + KEPT_SLOTS * SLOT_BYTES
    data = stream_index + slots * SLOT_BYTES
    kept_bytes = (file_bytes - data) // 4 // 8 * 8
    stream_bytes = (file_bytes - data - kept_bytes) // 8 * 8
    return (
        Area(INDEX_OFFSET, KEPT_SLOTS, data, kept_bytes),
        Area(stream_index, slots, data + kept_bytes, stream_bytes),
    )


def area_of(kind: int) -> int:
    """Where entries of a kind go."""
    return STREAM if kind in (HISTOGRAM, IMAGE) else KEPT


def state_offset(sequence: int) -> int:
    """Byte offset of the slot that the state with this sequence number is written to."""
    return STATE_OFFSET + (sequence & 1) * STATE_BYTES


def pack_header(header: Header) -> bytes:
    """HEADER_BYTES bytes."""
    run_id = header.run_id.encode("ascii", "replace")[:32]
    fields = header.file_bytes, header.pid, header.claimed_mono_ns, run_id
    return ring.sealed(HEADER.pack(MAGIC, VERSION, SLOT_BYTES, *fields), HEADER_BYTES)


def unpack_header(part: bytes) -> Header:
    """The header of a side file.

    Raises: ValueError if the bytes are no header of this version.
    """
    body = parts.unsealed(part, HEADER_BYTES)
    if body is None:
        raise ValueError("header's checksum does not match")
    magic, version, slot, file_bytes, pid, claimed, run_id = HEADER.unpack_from(body)
    if magic != MAGIC or version != VERSION or slot != SLOT_BYTES:
        raise ValueError(f"no side file of version {VERSION}: magic {magic!r}, version {version}, slot {slot} bytes")
    return Header(file_bytes, pid, claimed, parts.text(run_id))


def pack_state(state: State) -> bytes:
    """STATE_BYTES bytes; they belong at state_offset(state.sequence)."""
    return ring.sealed(STATE.pack(*state[:4], *state.dropped), STATE_BYTES)


def newest_state(slots: bytes) -> Optional[State]:
    """What was written, None while no state is valid. slots: the file from STATE_OFFSET, 2 x STATE_BYTES."""
    newest = None
    for start in (0, STATE_BYTES):
        body = parts.unsealed(slots[start : start + STATE_BYTES], STATE_BYTES)
        if body is not None:
            sequence, kept, stream, updated, *dropped = STATE.unpack_from(body)
            if newest is None or sequence > newest.sequence:
                newest = State(sequence, kept, stream, updated, tuple(dropped))
    return newest


def pack_slot(slot: Slot) -> bytes:
    """SLOT_BYTES bytes; they belong at the area's slot_offset(slot.number)."""
    name = slot.name.encode("ascii", "replace")[:NAME_LETTERS]
    return ring.sealed(SLOT.pack(*slot[:7], name), SLOT_BYTES)


def unpack_slot(part: bytes, number: int) -> Optional[Slot]:
    """The slot of the entry with this number, None if the part does not hold it whole."""
    body = parts.unsealed(part, SLOT_BYTES)
    if body is None:
        return None
    *fields, name = SLOT.unpack_from(body)
    slot = Slot._make((*fields, parts.text(name)))
    return slot if slot.number == number else None


def entry(slot: Slot, payload: bytes) -> Optional[Entry]:
    """The entry of a slot and the bytes that it points to, None if these are no longer, or not yet, its payload."""
    if len(payload) != slot.length or zlib.crc32(payload) != slot.crc:
        return None
    return Entry(slot.kind, slot.number, slot.step, slot.mono_ns, slot.name, payload)


def pack_histogram(low: float, high: float, counts: Sequence[int]) -> bytes:
    """BINS counts over equal bins from low to high; a count beyond 32 bits is the largest that fits."""
    return _HISTOGRAM.pack(low, high, *(min(count, 2**32 - 1) for count in counts))


def unpack_histogram(payload: bytes) -> Tuple[float, float, Tuple[int, ...]]:
    """Low, high, BINS counts.

    Raises: ValueError if payload is no histogram.
    """
    if len(payload) != _HISTOGRAM.size:
        raise ValueError(f"histogram of {len(payload)} bytes, not {_HISTOGRAM.size}")
    low, high, *counts = _HISTOGRAM.unpack(payload)
    return low, high, tuple(counts)


def pack_image(shape: Tuple[int, int, int], pixels: bytes) -> bytes:
    """A raw image. shape: height, width, channels (1 grey, 3 RGB, 4 RGBA); pixels: a byte each, rows from the top.

    Raises: ValueError if shape and pixels do not agree.
    """
    height, width, channels = shape
    if channels not in (1, 3, 4) or height * width * channels != len(pixels) or max(height, width) >= 1 << 16:
        raise ValueError(f"image of shape {shape} with {len(pixels)} bytes")
    return _IMAGE.pack(*shape) + pixels


def unpack_image(payload: bytes) -> Tuple[Tuple[int, int, int], bytes]:
    """Shape and pixels of a raw image.

    Raises: ValueError if payload is none; a PNG (it begins with PNG) is none.
    """
    if len(payload) < _IMAGE.size or payload.startswith(PNG):
        raise ValueError(f"no raw image: {payload[:8]!r}")
    height, width, channels = _IMAGE.unpack_from(payload)
    pixels = payload[_IMAGE.size :]
    if channels not in (1, 3, 4) or height * width * channels != len(pixels):
        raise ValueError(f"image of shape {(height, width, channels)} with {len(pixels)} bytes")
    return (height, width, channels), pixels

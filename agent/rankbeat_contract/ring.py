"""The ring file: how one rank's observations lie in shared memory. Pure functions between bytes and values.

One file per rank process in the pod's `rankbeat` emptyDir (a tmpfs), allocated whole before it is mapped, never grown.
The training process writes it by mmap, the collector reads it by pread; nobody locks and nobody waits.

    offset      bytes               content
    0           128                 HEADER, written once when the ring is claimed
    128         2 x 256             two STATE slots, written alternately; the valid one with the larger sequence counts
    640         5 x 16              MARKS, what changes with each step: an aligned 8-byte word and its complement
    1024        128 x 96            NAMES, metric names interned once (id = slot number)
    13312       capacity x 64       RECORDS, circular; record n lies in slot n % capacity

Header, states, names and records each carry a CRC32 over all their other bytes (their sequence number included). The
reader trusts nothing but the CRC: a part that does not check was being written, or never was. A mark is two aligned
words, each written by one store; where it checks it is newer than the state, which is published a few times a second
only: packing and summing it costs 30 us in a process whose caches hold a training step, a mark 2 us (measured
2026-11-30 on x86-64 with evicted caches). All integers are little-endian.
Times are nanoseconds. `*_mono_ns` is CLOCK_MONOTONIC, which all processes of a node share; `*_wall_ns` is the epoch.
"""

import struct
import zlib
from typing import Any, NamedTuple, Optional

MAGIC = b"RANKBEAT"
VERSION = 1
SUFFIX = ".ring"

HEADER_BYTES = 128
STATE_BYTES = 256
STATE_OFFSET = 128
MARKS_OFFSET = 640
MARK_ENTERED_NS, MARK_ENTERED_STEP, MARK_STEP_NS, MARK_STEP, MARK_PHASE = range(5)
"""Order of the marks. A step's time is written before the step. MARK_PHASE: since when, its lowest 4 bits the phase."""
WORD_MASK = (1 << 64) - 1
NAMES_OFFSET = 1024
NAME_BYTES = 96
NAME_SLOTS = 128
RECORDS_OFFSET = NAMES_OFFSET + NAME_SLOTS * NAME_BYTES
RECORD_BYTES = 64
DEFAULT_BYTES = 1 << 20
MAX_BYTES = 16 << 20

UNKNOWN = -1
"""Rank, world size or step that is not known yet."""

PHASES = (
    "init_comm",
    "build",
    "load",
    "train",
    "callbacks",
    "checkpoint",
    "eval",
    "between",
    "recovering",
    "done",
    "failed",
)
"""Phases in the order of their codes: PHASES[code]."""

KIND_STEP = 1
"""A finished step: value = step interval, value2 = gap, value3 = in_step, all seconds; NaN where there is none."""
KIND_SCALAR = 2
"""A sampled number: value, named by name_id."""

TIMING_SYNCED = 1
"""State and record flag: durations were taken where the device was synchronised; without it they are dispatch times."""
LOSS_INVALID = 2
"""State flag: this rank holds no valid loss (a pipeline stage that is not the last)."""
AGENT_OFF = 4
"""State flag: the agent turned itself off after too many errors; training goes on, this state is the last one kept."""

_HEADER = struct.Struct("<8sHHIIIiIQQQ32s")
_STATE = struct.Struct("<QQiiiIBBHqqQQQQQIId64s80x")
_NAME = struct.Struct("<64s16sB")
_RECORD = struct.Struct("<BBHIQqQhhddd")
_CRC = struct.Struct("<I")
_MARKS = struct.Struct("<10Q")


class Header(NamedTuple):
    """What is fixed for the life of a ring."""

    capacity: int
    """Records that the ring holds."""
    pid: int
    """Process id as the training process sees it (its own pid namespace)."""
    attempt: int
    local_rank: int
    claimed_mono_ns: int
    claimed_wall_ns: int
    started_wall_ns: int
    """Start of the process, as near as it knows."""
    run_id: str
    """Names the file; at most 32 ASCII characters."""


class State(NamedTuple):
    """Where a rank stands now."""

    sequence: int = 0
    """Counts the writes of the state, from 1."""
    written: int = 0
    """Records written since the claim; the newest lies in slot (written - 1) % capacity."""
    rank: int = UNKNOWN
    world_size: int = UNKNOWN
    segment: int = 0
    """Counts the train() calls of this process, from 1; 0 before the first."""
    names: int = 0
    """Interned names."""
    phase: int = 0
    flags: int = 0
    step: int = UNKNOWN
    """Last finished global step."""
    entered_step: int = UNKNOWN
    """Last global step that this rank has begun."""
    phase_since_mono_ns: int = 0
    step_mono_ns: int = 0
    """When `step` finished, 0 if none has."""
    entered_mono_ns: int = 0
    updated_mono_ns: int = 0
    longest_interval_ns: int = 0
    """Longest stretch of this run in phase `train` between two finished steps (in sink mode: two sinks, undivided)."""
    agent_errors: int = 0
    total_steps: int = 0
    """Global step at which this train() call is going to end, 0 if unknown."""
    cpu_seconds: float = float("nan")
    exception: str = ""
    """Class name of the exception that ended the process, never its text."""


class Name(NamedTuple):
    """An interned metric name."""

    name: str
    unit: str = ""
    is_counter: bool = False


class Record(NamedTuple):
    """One observation."""

    kind: int
    sequence: int
    """Number of the record since the claim, from 0."""
    step: int
    mono_ns: int
    value: float
    value2: float = float("nan")
    value3: float = float("nan")
    name_id: int = 0
    flags: int = 0
    segment: int = 0
    layer: int = UNKNOWN
    head: int = UNKNOWN


def records_capacity(file_bytes: int) -> int:
    """Records that fit a ring file of file_bytes.

    Raises: ValueError if not even one fits, or the file is larger than MAX_BYTES.
    """
    if file_bytes > MAX_BYTES:
        raise ValueError(f"ring of {file_bytes} bytes is larger than {MAX_BYTES}")
    capacity = (file_bytes - RECORDS_OFFSET) // RECORD_BYTES
    if capacity < 1:
        raise ValueError(f"ring of {file_bytes} bytes holds no record, {RECORDS_OFFSET + RECORD_BYTES} is the least")
    return capacity


def state_offset(sequence: int) -> int:
    """Byte offset of the slot that the state with this sequence number is written to."""
    return STATE_OFFSET + (sequence & 1) * STATE_BYTES


def name_offset(name_id: int) -> int:
    return NAMES_OFFSET + name_id * NAME_BYTES


def record_offset(sequence: int, capacity: int) -> int:
    return RECORDS_OFFSET + (sequence % capacity) * RECORD_BYTES


def _sealed(payload: bytes, size: int) -> bytes:
    """payload padded to size, its CRC32 in front."""
    body = payload.ljust(size - _CRC.size, b"\0")
    return _CRC.pack(zlib.crc32(body)) + body


def _unsealed(part: bytes, size: int) -> Optional[bytes]:
    """The payload of a part, None if its CRC32 does not check or it was never written."""
    if len(part) != size:
        return None
    body = part[_CRC.size :]
    (crc,) = _CRC.unpack_from(part)
    if crc != zlib.crc32(body) or not any(body[:16]):
        return None
    return body


def pack_header(header: Header) -> bytes:
    """HEADER_BYTES bytes."""
    return _sealed(
        _HEADER.pack(
            MAGIC,
            VERSION,
            RECORD_BYTES,
            header.capacity,
            header.pid,
            header.attempt,
            header.local_rank,
            0,
            header.claimed_mono_ns,
            header.claimed_wall_ns,
            header.started_wall_ns,
            header.run_id.encode("ascii", "replace")[:32],
        ),
        HEADER_BYTES,
    )


def unpack_header(part: bytes) -> Header:
    """The header of a ring.

    Raises: ValueError if the bytes are no header of this version.
    """
    body = _unsealed(part, HEADER_BYTES)
    if body is None:
        raise ValueError("header's checksum does not match")
    magic, version, record, capacity, pid, attempt, local_rank, _, mono, wall, started, run = _HEADER.unpack_from(body)
    if magic != MAGIC or version != VERSION or record != RECORD_BYTES:
        raise ValueError(f"no ring of version {VERSION}: magic {magic!r}, version {version}, record {record} bytes")
    return Header(capacity, pid, attempt, local_rank, mono, wall, started, run.rstrip(b"\0").decode("ascii", "replace"))


def pack_state(state: State) -> bytes:
    """STATE_BYTES bytes; they belong at state_offset(state.sequence)."""
    return pack_state_fields(*state[:8], 0, *state[8:18], state.exception.encode("ascii", "replace"))


def pack_state_fields(*fields: Any) -> bytes:
    """STATE_BYTES bytes from the fields in the order of the file: the step path's short cut past the tuple."""
    body = _STATE.pack(*fields)
    return _CRC.pack(zlib.crc32(body)) + body


def _unpack_state(body: bytes) -> Optional[State]:
    *fields, exception = _STATE.unpack(body)
    del fields[8]  # padding
    state = State._make((*fields, exception.rstrip(b"\0").decode("ascii", "replace")))
    return state if state.phase < len(PHASES) else None


def newest_state(area: bytes) -> Optional[State]:
    """Where the rank stands, None while no state is valid.

    area: the file from STATE_OFFSET to NAMES_OFFSET. From the two slots alone comes the state as last published.
    """
    newest = None
    for start in (0, STATE_BYTES):
        body = _unsealed(area[start : start + STATE_BYTES], STATE_BYTES)
        state = None if body is None else _unpack_state(body)
        if state is not None and (newest is None or state.sequence > newest.sequence):
            newest = state
    start = MARKS_OFFSET - STATE_OFFSET
    return newest if newest is None or len(area) < start + _MARKS.size else _marked(newest, area[start:])


def _marked(state: State, marks: bytes) -> State:
    """state with what the marks say; a mark that was never set, or is being written, does not check."""
    words = _MARKS.unpack_from(marks)
    checked = [word if word ^ check == WORD_MASK else None for word, check in zip(words[::2], words[1::2])]
    entered_ns, entered_step, step_ns, step, phase = checked
    if entered_ns is not None and entered_step is not None:
        state = state._replace(entered_step=_signed(entered_step), entered_mono_ns=entered_ns)
    if step_ns is not None and step is not None:
        state = state._replace(step=_signed(step), step_mono_ns=step_ns)
    if phase is not None and phase & 15 < len(PHASES):
        state = state._replace(phase=phase & 15, phase_since_mono_ns=phase & ~15)
    newest = max(state.updated_mono_ns, state.entered_mono_ns, state.step_mono_ns, state.phase_since_mono_ns)
    return state._replace(updated_mono_ns=newest)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def pack_marks(state: State) -> bytes:
    """The marks that say the same as state; they belong at MARKS_OFFSET."""
    step_words = state.entered_mono_ns, state.entered_step, state.step_mono_ns, state.step
    words = [word & WORD_MASK for word in (*step_words, state.phase_since_mono_ns & ~15 | state.phase)]
    return _MARKS.pack(*(half for word in words for half in (word, word ^ WORD_MASK)))


def pack_name(name: Name) -> bytes:
    """NAME_BYTES bytes."""
    return _sealed(
        _NAME.pack(name.name.encode("ascii")[:64], name.unit.encode("ascii")[:16], int(name.is_counter)), NAME_BYTES
    )


def unpack_name(part: bytes) -> Optional[Name]:
    """The interned name in NAME_BYTES bytes, None if there is none."""
    body = _unsealed(part, NAME_BYTES)
    if body is None:
        return None
    name, unit, is_counter = _NAME.unpack_from(body)
    return Name(
        name.rstrip(b"\0").decode("ascii", "replace"), unit.rstrip(b"\0").decode("ascii", "replace"), bool(is_counter)
    )


def pack_record(record: Record) -> bytes:
    """RECORD_BYTES bytes; they belong at record_offset(record.sequence, capacity)."""
    return pack_record_fields(
        record.kind,
        record.flags,
        record.name_id,
        record.segment,
        record.sequence,
        record.step,
        record.mono_ns,
        record.layer,
        record.head,
        record.value,
        record.value2,
        record.value3,
    )


def pack_record_fields(*fields: float) -> bytes:
    """RECORD_BYTES bytes from the fields in the order of the file: the step path's short cut past the tuple."""
    body = _RECORD.pack(*fields)
    return _CRC.pack(zlib.crc32(body)) + body


def unpack_record(part: bytes, sequence: int) -> Optional[Record]:
    """The record with this sequence number, None if the slot does not hold it whole."""
    body = _unsealed(part, RECORD_BYTES)
    if body is None:
        return None
    kind, flags, name_id, segment, number, step, mono_ns, layer, head, value, value2, value3 = _RECORD.unpack_from(body)
    if number != sequence:
        return None
    return Record(kind, number, step, mono_ns, value, value2, value3, name_id, flags, segment, layer, head)

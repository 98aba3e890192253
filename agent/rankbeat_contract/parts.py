"""The ring's parts as values: pure functions between bytes and named tuples, for whoever reads a ring, or tests one.

All of it is reached by the names of rankbeat_contract.ring, whose format it is.
"""

import zlib
from typing import NamedTuple, Optional

from rankbeat_contract import ring


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
    rank: int = ring.UNKNOWN
    world_size: int = ring.UNKNOWN
    segment: int = 0
    """Counts the train() calls of this process, from 1; 0 before the first."""
    names: int = 0
    """Interned names."""
    phase: int = 0
    flags: int = 0
    step: int = ring.UNKNOWN
    """Last finished global step."""
    entered_step: int = ring.UNKNOWN
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
    refused: int = 0
    """Names, numbers and side entries that the writer could not take: they do not fit, or there is no room."""


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
    layer: int = ring.UNKNOWN
    head: int = ring.UNKNOWN


def state_offset(sequence: int) -> int:
    """Byte offset of the slot that the state with this sequence number is written to."""
    return ring.STATE_OFFSET + (sequence & 1) * ring.STATE_BYTES


def name_offset(name_id: int) -> int:
    return ring.NAMES_OFFSET + name_id * ring.NAME_BYTES


def record_offset(sequence: int, capacity: int) -> int:
    return ring.RECORDS_OFFSET + (sequence % capacity) * ring.RECORD_BYTES


def unsealed(part: bytes, size: int) -> Optional[bytes]:
    """The payload of a part, None if its CRC32 does not check or it was never written."""
    if len(part) != size:
        return None
    body = part[ring.CRC.size :]
    (crc,) = ring.CRC.unpack_from(part)
    if crc != zlib.crc32(body) or not any(body[:16]):
        return None
    return body


def text(field: bytes) -> str:
    """A string field without its filling."""
    return field.rstrip(b"\0").decode("ascii", "replace")


def pack_header(header: Header) -> bytes:
    """HEADER_BYTES bytes."""
    run_id = header.run_id.encode("ascii", "replace")[:32]
    body = ring.HEADER.pack(ring.MAGIC, ring.VERSION, ring.RECORD_BYTES, *header[:7], run_id)
    return ring.sealed(body, ring.HEADER_BYTES)


def unpack_header(part: bytes) -> Header:
    """The header of a ring.

    Raises: ValueError if the bytes are no header of this version.
    """
    body = unsealed(part, ring.HEADER_BYTES)
    if body is None:
        raise ValueError("header's checksum does not match")
    magic, version, record, *numbers, run = ring.HEADER.unpack_from(body)
    if magic != ring.MAGIC or version != ring.VERSION or record != ring.RECORD_BYTES:
        raise ValueError(
            f"no ring of version {ring.VERSION}: magic {magic!r}, version {version}, record {record} bytes"
        )
    return Header._make((*numbers, text(run)))


def pack_state(state: State) -> bytes:
    """STATE_BYTES bytes; they belong at state_offset(state.sequence)."""
    exception = state.exception.encode("ascii", "replace")
    return ring.sealed(ring.STATE.pack(*state[:18], exception, state.refused), ring.STATE_BYTES)


def _unpack_state(body: bytes) -> Optional[State]:
    *fields, exception, refused = ring.STATE.unpack(body)
    state = State._make((*fields, text(exception), refused))
    return state if state.phase < len(ring.PHASES) else None


def newest_state(area: bytes) -> Optional[State]:
    """Where the rank stands, None while no state is valid.

    area: the file from STATE_OFFSET to NAMES_OFFSET. From the two slots alone comes the state as last published.
    """
    newest = None
    for start in (0, ring.STATE_BYTES):
        body = unsealed(area[start : start + ring.STATE_BYTES], ring.STATE_BYTES)
        state = None if body is None else _unpack_state(body)
        if state is not None and (newest is None or state.sequence > newest.sequence):
            newest = state
    start = ring.MARKS_OFFSET - ring.STATE_OFFSET
    return newest if newest is None or len(area) < start + ring.MARKS.size else _marked(newest, area[start:])


def _marked(state: State, marks: bytes) -> State:
    """state with what the marks say; a mark that was never set, or is being written, does not check."""
    words = ring.MARKS.unpack_from(marks)
    checked = [word if word ^ check == ring.WORD_MASK else None for word, check in zip(words[::2], words[1::2])]
    entered_ns, entered_step, step_ns, step, phase = checked
    if entered_ns is not None and entered_step is not None:
        state = state._replace(entered_step=_signed(entered_step), entered_mono_ns=entered_ns)
    if step_ns is not None and step is not None:
        state = state._replace(step=_signed(step), step_mono_ns=step_ns)
    if phase is not None and phase >> ring.PHASE_SHIFT < len(ring.PHASES):
        state = state._replace(phase=phase >> ring.PHASE_SHIFT, phase_since_mono_ns=phase & ring.SINCE_MASK)
    newest = max(state.updated_mono_ns, state.entered_mono_ns, state.step_mono_ns, state.phase_since_mono_ns)
    return state._replace(updated_mono_ns=newest)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def phase_word(phase: int, since_mono_ns: int) -> int:
    """What MARK_PHASE holds."""
    return (phase << ring.PHASE_SHIFT) + (since_mono_ns & ring.SINCE_MASK)


def pack_marks(state: State) -> bytes:
    """The marks that say the same as state; they belong at MARKS_OFFSET."""
    step_words = state.entered_mono_ns, state.entered_step, state.step_mono_ns, state.step
    words = [word & ring.WORD_MASK for word in (*step_words, phase_word(state.phase, state.phase_since_mono_ns))]
    return ring.MARKS.pack(*(half for word in words for half in (word, word ^ ring.WORD_MASK)))


def pack_name(name: Name) -> bytes:
    """NAME_BYTES bytes."""
    letters, unit = name.name.encode("ascii")[: ring.NAME_LETTERS], name.unit.encode("ascii")[: ring.UNIT_LETTERS]
    return ring.sealed(ring.NAME.pack(letters, unit, name.is_counter), ring.NAME_BYTES)


def unpack_name(part: bytes) -> Optional[Name]:
    """The interned name in NAME_BYTES bytes, None if there is none."""
    body = unsealed(part, ring.NAME_BYTES)
    if body is None:
        return None
    name, unit, is_counter = ring.NAME.unpack_from(body)
    return Name(text(name), text(unit), bool(is_counter))


def pack_record_fields(*fields: float) -> bytes:
    """RECORD_BYTES bytes from the fields in the order of the file, for whoever has no time for a tuple."""
    return ring.sealed(ring.RECORD.pack(*fields), ring.RECORD_BYTES)


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


def unpack_record(part: bytes, sequence: int) -> Optional[Record]:
    """The record with this sequence number, None if the slot does not hold it whole."""
    body = unsealed(part, ring.RECORD_BYTES)
    if body is None:
        return None
    kind, flags, name_id, segment, number, *fields = ring.RECORD.unpack_from(body)
    if number != sequence:
        return None
    step, mono_ns, layer, head, value, value2, value3 = fields
    return Record(kind, number, step, mono_ns, value, value2, value3, name_id, flags, segment, layer, head)

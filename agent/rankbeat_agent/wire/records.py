"""What a rank that trains writes to its ring: the marks of each step, records, names. Compiled when training begins.

Nothing here raises: what does not fit is counted in the writer's `refused`. Offsets are spelled out: each name that a
step looks up is a cache line that training has thrown out.
"""

import zlib

from rankbeat_agent.wire.writer import UNFIT, Writer
from rankbeat_contract import ring

_NAN = float("nan")
_pack_record = ring.RECORD.pack
_put_crc = ring.CRC.pack_into
_crc32 = zlib.crc32


def mark_entered(writer: Writer, step: int, now_ns: int) -> None:
    """A step has begun. Each mark is a word and its complement, from ring.MARKS_OFFSET // 8 on."""
    writer.entered_step = step
    writer.entered_mono_ns = now_ns
    marks = writer.marks
    try:
        marks[80] = now_ns
        marks[81] = ~now_ns
        marks[82] = step
        marks[83] = ~step
    except UNFIT:
        writer.refused += 1


def mark_ended(writer: Writer, step: int, now_ns: int, phase: int) -> None:
    """A step has ended and a phase begun, as Writer.mark_phase() says it."""
    writer.step = step
    writer.step_mono_ns = writer.phase_since_mono_ns = now_ns
    writer.phase = phase
    marks = writer.marks
    try:
        marks[84] = now_ns
        marks[85] = ~now_ns
        marks[86] = step
        marks[87] = ~step
        word = now_ns + (phase << 59)  # ring.PHASE_SHIFT
        marks[88] = word
        marks[89] = ~word
    except UNFIT:
        writer.refused += 1


def note(  # noqa: PLR0913, PLR0917 - a record's fields; a tuple of them would be made only to be unpacked
    writer: Writer,
    kind: int,
    name_id: int,
    step: int,
    now_ns: int,
    value: float,
    value2: float = _NAN,
    value3: float = _NAN,
    layer: int = -1,
    head: int = -1,
) -> None:
    """Write one record of this segment; the next publish() makes it visible. One that does not fit is refused."""
    sequence = writer.written
    try:
        body = _pack_record(
            kind,
            writer.flags & 1,  # ring.TIMING_SYNCED
            name_id,
            writer.segment,
            sequence,
            step,
            now_ns,
            layer,
            head,
            value,
            value2,
            value3,
        )
    except UNFIT:
        writer.refused += 1
        return
    start = 13312 + sequence % writer.capacity * 64  # ring.RECORDS_OFFSET, ring.RECORD_BYTES
    memory = writer.memory
    _put_crc(memory, start, _crc32(body))
    memory[start + 4 : start + 64] = body
    writer.written = sequence + 1


def intern(writer: Writer, name: str, unit: str = "", is_counter: bool = False) -> int:  # noqa: FBT001, FBT002
    """The id of a name, for good; ring.UNKNOWN, which note() refuses, for one that does not fit or is too many."""
    known = writer.ids.get(name)
    if known is not None:
        return known
    name_id = writer.names
    try:
        part = ring.sealed(ring.NAME.pack(name.encode("ascii"), unit.encode("ascii"), is_counter), ring.NAME_BYTES)
        fits = name_id < ring.NAME_SLOTS and 0 < len(name) <= ring.NAME_LETTERS
    except (AttributeError, *UNFIT):
        fits = False
    if not fits:
        writer.refused += 1
        return ring.UNKNOWN
    start = ring.NAMES_OFFSET + name_id * ring.NAME_BYTES
    writer.memory[start : start + ring.NAME_BYTES] = part
    writer.ids[name] = name_id
    writer.names = name_id + 1
    return name_id

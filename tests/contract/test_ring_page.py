"""docs/ring.md says what rankbeat_contract.ring and side define: layouts, fields, phases, kinds."""

import re
import struct
from pathlib import Path

import pytest

from rankbeat_contract import ring, side

PAGE = (Path(__file__).resolve().parents[2] / "docs/ring.md").read_text(encoding="utf-8")
LETTERS = {"u8": "B", "u16": "H", "i16": "h", "u32": "I", "i32": "i", "u64": "Q", "i64": "q", "f64": "d"}


def rows(after):
    """The cells of the first table behind a text."""
    lines = PAGE.partition(after)[2].splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("| ---"))
    found = []
    for line in lines[first + 1 :]:
        if not line.startswith("|"):
            return found
        found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def letters(kind):
    """A type of the page in struct's letters."""
    count, _, single = kind.rpartition(" x ")
    if single.endswith(" bytes"):
        return single.removesuffix(" bytes") + "s"
    return count + LETTERS[single]


@pytest.mark.parametrize(
    ("heading", "defined"),
    [
        ("**Header**", ring.HEADER),
        ("**State**", ring.STATE),
        ("**Name**", ring.NAME),
        ("**Record**", ring.RECORD),
        ("**Side header**", side.HEADER),
        ("**Side state**", side.STATE),
        ("**Slot**", side.SLOT),
    ],
    ids=lambda value: value.strip("*") if isinstance(value, str) else "",
)
def test_each_field_has_the_offset_and_type_of_the_definition(heading, defined):
    format_, offset = "<", ring.CRC.size
    for begin, kind, _ in rows(heading):
        if int(begin) > offset:
            format_ += f"{int(begin) - offset}x"
        format_ += letters(kind)
        offset = int(begin) + struct.calcsize("<" + letters(kind))

    assert format_ == re.sub(r"[0-9]+x$", "", defined.format)


def test_the_parts_of_a_ring_lie_where_the_page_says():
    assert [(begin, size) for begin, size, _ in rows("## Layout")] == [
        ("0", f"{ring.HEADER_BYTES}"),
        (f"{ring.STATE_OFFSET}", f"2 x {ring.STATE_BYTES}"),
        (f"{ring.MARKS_OFFSET}", "5 x 16"),
        (f"{ring.NAMES_OFFSET}", f"{ring.NAME_SLOTS} x {ring.NAME_BYTES}"),
        (f"{ring.RECORDS_OFFSET}", f"capacity x {ring.RECORD_BYTES}"),
    ]
    assert (ring.MAX_BYTES, ring.DEFAULT_BYTES) == (16 << 20, 1 << 20)
    assert "A file has at most 16 MiB; 1 MiB is the default." in PAGE


def test_the_parts_of_a_side_file_lie_where_the_page_says():
    kept, stream = side.areas(side.DEFAULT_BYTES)

    assert [(begin, size) for begin, size, _ in rows("## The side file")] == [
        ("0", f"{side.HEADER_BYTES}"),
        (f"{side.STATE_OFFSET}", f"2 x {side.STATE_BYTES}"),
        (f"{kept.slots_offset}", f"{kept.slots} x {side.SLOT_BYTES}"),
        (f"{stream.slots_offset}", f"slots x {side.SLOT_BYTES}"),
    ]
    assert stream.slots == side.DEFAULT_BYTES // 1024
    assert (side.MAX_BYTES, side.DEFAULT_BYTES) == (64 << 20, 1 << 20)
    assert "1 MiB is the default, 64 MiB the most" in PAGE


def test_the_marks_lie_where_the_page_says():
    places = [int(begin) for begin, _, _ in rows("**Marks.**")]

    assert places == [ring.MARKS_OFFSET + 16 * mark for mark in range(5)]
    assert ring.MARK_PHASE == 4
    assert f"in the lowest {ring.PHASE_SHIFT} bits" in PAGE


def test_phases_stand_in_the_order_of_their_codes():
    listed = PAGE.partition("Phases by their code, from 0: ")[2].partition("\n\n")[0]

    assert tuple(re.findall(r"`([a-z_]+)`", listed)) == ring.PHASES


def test_flags_stand_with_their_bits():
    listed = PAGE.partition("\nFlags: ")[2].partition("\n\n")[0]

    bits = [int(bit) for bit in re.findall(r"(?:^|, )([0-9]+) ", listed)]
    assert bits == [ring.TIMING_SYNCED, ring.LOSS_INVALID, ring.AGENT_OFF, ring.HEARTBEAT]


def test_the_side_files_kinds_stand_with_their_numbers():
    listed = rows("An entry is there when")

    assert {int(kind): name for kind, name, _ in listed} == side.KINDS

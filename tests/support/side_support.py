"""Side files as a reader finds them."""

from dataclasses import dataclass
from pathlib import Path

from rankbeat_contract import side


@dataclass(frozen=True, slots=True)
class SideFile:
    """A side file read by one read."""

    header: side.Header
    state: side.State
    entries: tuple[side.Entry, ...]
    """Those that are whole, KEPT before STREAM, oldest first."""
    refused: int
    """Entries that an index still counts and that are not whole."""


def read_side(path: Path) -> SideFile:
    """What a side file holds.

    Raises: ValueError if it has no valid header or state.
    """
    return parse_side(path.read_bytes())


def parse_side(content: bytes) -> SideFile:
    """What the bytes of a side file hold."""
    header = side.unpack_header(content[: side.HEADER_BYTES])
    state = side.newest_state(content[side.STATE_OFFSET : side.STATE_OFFSET + 2 * side.STATE_BYTES])
    if state is None:
        raise ValueError("no valid state")
    found = []
    for which, area in enumerate(side.areas(header.file_bytes)):
        for number in range(max(0, state.written(which) - area.slots), state.written(which)):
            start = area.slot_offset(number)
            slot = side.unpack_slot(content[start : start + side.SLOT_BYTES], number)
            payload = b"" if slot is None else content[slot.offset : slot.offset + slot.length]
            found.append(None if slot is None else side.entry(slot, payload))
    whole = tuple(entry for entry in found if entry is not None)
    return SideFile(header, state, whole, len(found) - len(whole))

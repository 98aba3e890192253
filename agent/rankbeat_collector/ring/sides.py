"""One side file between polls: the entries that are new in it. Holds no descriptor."""

import os
from typing import Callable, Dict, List, Optional, Tuple

from rankbeat_collector.errors import RefusedError
from rankbeat_collector.model import ranks
from rankbeat_contract import ring, side

TakeEntry = Callable[[ring.Header, ring.State, side.Entry], None]
"""Takes an entry with the header and state of the ring beside it."""
_UNSEEN = 4
"""Newest entries that may lag behind the state that counts them, where stores become visible in any order (aarch64)."""


class SideFile:
    """A side file as read so far. An entry that is overwritten before it is read is counted as lost."""

    def __init__(self) -> None:
        self._header: Optional[side.Header] = None
        self._reset()

    def _reset(self) -> None:
        self.state = side.State()
        self.lost = 0
        self._next = [0, 0]
        self._late: List[Optional[int]] = [None, None]

    @property
    def dropped(self) -> Dict[str, int]:
        """Entries that the writer had no room for, by kind."""
        names = {0: "other", **side.KINDS}
        return {names[kind]: count for kind, count in enumerate(self.state.dropped) if count and kind in names}

    def read(self, fd: int, size: int, run_id: str) -> List[side.Entry]:
        """The entries that are new, in the order of their areas: what must not be lost first.

        Raises: RefusedError, OSError.
        """
        head = os.pread(fd, side.INDEX_OFFSET, 0)
        areas = self._claim(head[: side.HEADER_BYTES], size, run_id)
        state = side.newest_state(head[side.STATE_OFFSET : side.STATE_OFFSET + 2 * side.STATE_BYTES])
        if state is None or max(state.kept, state.stream) >= ranks.MAX_WRITTEN:
            raise RefusedError("state")
        if state.sequence == self.state.sequence and self._late == [None, None]:
            return []
        is_first, self.state = self.state.sequence == 0, state
        found: List[side.Entry] = []
        for which in side.AREAS:
            last = state.written(which)
            first = max(last - areas[which].slots, 0)
            if not is_first:
                self.lost += max(0, first - self._next[which])
            self._next[which] = max(first, self._next[which])
            lost = self._take(fd, which, areas[which], found)
            self.lost += 0 if is_first else lost
        return found

    def _claim(self, part: bytes, size: int, run_id: str) -> Tuple[side.Area, side.Area]:
        try:
            header = side.unpack_header(part)
            areas = side.areas(size)
        except ValueError as error:
            raise RefusedError("header") from error
        if (header.file_bytes, header.run_id) != (size, run_id):
            raise RefusedError("header")
        if header != self._header:
            self._reset()
            self._header = header
        return areas

    def _take(self, fd: int, which: int, area: side.Area, found: List[side.Entry]) -> int:
        """Appends the entries of an area up to the last; how many were not whole and never will be."""
        first, last = self._next[which], self.state.written(which)
        slots = _slots(fd, area, first, last)
        lost = last - first - len(slots)
        for number, slot in zip(range(last - len(slots), last), slots):
            entry = None if slot is None else side.entry(slot, os.pread(fd, slot.length, slot.offset))
            if entry is not None and entry.kind in side.KINDS and entry.name.isprintable():
                found.append(entry)
            elif last - number <= _UNSEEN and self._late[which] != number:
                self._late[which] = self._next[which] = number
                return lost
            else:
                lost += 1
        self._late[which] = None
        self._next[which] = last
        return lost


def _slots(fd: int, area: side.Area, first: int, last: int) -> List[Optional[side.Slot]]:
    """The slots of the entries before last, not before first, whose payloads may be there; None for one not whole."""
    numbers = range(first, last)
    index = os.pread(fd, area.slots * side.SLOT_BYTES, area.slots_offset) if numbers else b""
    found: List[Optional[side.Slot]] = []
    room = area.size
    for number in reversed(numbers):
        start = number % area.slots * side.SLOT_BYTES
        slot = side.unpack_slot(index[start : start + side.SLOT_BYTES], number)
        if slot is not None and area.holds(slot):
            room -= slot.length
            if room < 0:
                break  # payloads do not overlap: what is older is overwritten, or a lie
            found.append(slot)
        else:
            found.append(None)
    found.reverse()
    return found

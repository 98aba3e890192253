"""This process's side file, beside its ring: claimed where the monitor asks for what a record does not hold."""

import errno
import mmap
import os
import zlib
from time import monotonic_ns
from typing import List

from rankbeat_contract import side

DEFAULT_BYTES = side.DEFAULT_BYTES
_FREE_SHARE, _FREE_BYTES = 4, 64 << 20
"""A quarter of the volume, or 64 rings, stays free: for rings, which matter more, after a restart in place."""


class Side:
    """A claimed side file. No method raises: what does not fit is dropped and counted in the file itself."""

    __slots__ = ("areas", "dropped", "memory", "numbers", "places", "sequence")

    def __init__(self, memory: mmap.mmap) -> None:
        self.memory = memory
        self.areas = side.areas(len(memory))
        self.numbers = [0, 0]
        """Entries written, by area."""
        self.places = [0, 0]
        """Where the next payload begins in the area's data, by area."""
        self.dropped = [0] * side.KIND_SLOTS
        self.sequence = 0

    def write(self, kind: int, name: str, step: int, payload: bytes) -> bool:
        """Write an entry; False for one that does not fit, which is counted by its kind."""
        if self.memory.closed:
            return False
        try:
            fits = self._write(kind, name, step, payload)
        except Exception:  # noqa: BLE001 - a door: a step, a name or a payload of the wrong kind
            fits = False
        if not fits:
            counter = kind if kind in side.KINDS else 0
            self.dropped[counter] = min(self.dropped[counter] + 1, 2**32 - 1)
        self.publish()
        return fits

    def _write(self, kind: int, name: str, step: int, payload: bytes) -> bool:
        which = side.area_of(kind)
        area = self.areas[which]
        number = self.numbers[which]
        length = len(payload)
        begin = self._place(which, length)
        if begin < 0 or kind not in side.KINDS:
            return False
        offset = area.data + begin
        part = side.pack_slot(side.Slot(kind, number, step, monotonic_ns(), offset, length, zlib.crc32(payload), name))
        self.memory[offset : offset + length] = payload
        start = area.slot_offset(number)
        self.memory[start : start + side.SLOT_BYTES] = part
        self.places[which] = begin + (length + 7) // 8 * 8
        self.numbers[which] = number + 1
        return True

    def _place(self, which: int, length: int) -> int:
        """Where in an area's data a payload goes, -1 where it does not fit; a payload never goes round the end."""
        area = self.areas[which]
        begin = self.places[which]
        if begin + length <= area.size and (which == side.STREAM or self.numbers[which] < area.slots):
            return begin
        return 0 if which == side.STREAM and length <= area.size else -1

    def publish(self) -> None:
        """Write the state to the slot that the reader does not trust yet."""
        self.sequence += 1
        state = side.State(
            self.sequence, self.numbers[side.KEPT], self.numbers[side.STREAM], monotonic_ns(), tuple(self.dropped)
        )
        start = side.state_offset(self.sequence)
        self.memory[start : start + side.STATE_BYTES] = side.pack_state(state)

    def let_go(self) -> None:
        """Unmap, in a forked child: the file is the parent's, and this object drops all that it is given."""
        self.memory.close()


def _check_room(directory: str, file_bytes: int) -> None:
    volume = os.statvfs(directory)
    free = volume.f_bavail * volume.f_frsize - file_bytes
    # Without a limit of its own a tmpfs says 0 blocks.
    if volume.f_blocks and free < min(volume.f_blocks * volume.f_frsize // _FREE_SHARE, _FREE_BYTES):
        raise OSError(
            errno.ENOSPC,
            f"no room for a side file of {file_bytes} bytes: a quarter of the volume stays free for rings, "
            "raise the volume's size limit",
            directory,
        )


def claim_side(directory: str, run_id: str, file_bytes: int) -> Side:
    """A new side file in directory, beside the ring of this run id.

    Raises: OSError where the file cannot be made whole or would leave less of the volume free than rings may need;
    ValueError on a file_bytes that is not possible.
    """
    side.areas(file_bytes)
    _check_room(directory, file_bytes)
    path = os.path.join(directory, run_id)  # noqa: PTH118 - no pathlib in a training process
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, file_bytes)
        os.fchmod(descriptor, 0o644)
        memory = mmap.mmap(descriptor, file_bytes)
        header = side.Header(file_bytes, os.getpid(), monotonic_ns(), run_id)
        memory[: side.HEADER_BYTES] = side.pack_header(header)
        claimed = Side(memory)
        claimed.publish()
        os.rename(path, path + side.SUFFIX)  # noqa: PTH104
    except BaseException:
        os.unlink(path)  # noqa: PTH108
        raise
    finally:
        # No lock: that of the ring says whether the process lives. The mapping does not need the descriptor.
        os.close(descriptor)
    _CLAIMED.append(claimed)
    if len(_CLAIMED) == 1:
        os.register_at_fork(after_in_child=_leave_to_parent)
    return claimed


_CLAIMED: List[Side] = []


def _leave_to_parent() -> None:
    for claimed in _CLAIMED:
        claimed.let_go()
    _CLAIMED.clear()

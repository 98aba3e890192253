"""Room in a full volume: what dead processes of this local rank have left there. Imported only when there is none."""

import errno
import fcntl
import os
import stat
import struct
from contextlib import suppress
from time import sleep, time
from typing import List, Tuple

from rankbeat_contract import ring, side

_FLOCK = struct.Struct("hhqqi4x")
"""struct flock of 64-bit Linux."""
_ABANDONED_SECONDS = 60.0
"""Age at which a file that never got its name is left from a process that was killed in its claim, which takes 1 ms."""
_RUN_DIGITS = 24
RETRIES = 3
RETRY_SECONDS = 0.01
"""A claim takes 1 ms."""


def made(error: OSError, directory: str, local_rank: int, tried: int = RETRIES) -> bool:
    """Whether to try again, since the oldest leftover was deleted because error says that the volume is full.

    tried: earlier calls. Ranks that start together may each hold a part of the room that is enough for one of them
    (a file is allocated page by page) and find nothing to delete, so that the first RETRIES calls wait for a moment.
    """
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return False
    with suppress(OSError):
        leftovers: List[Tuple[int, str]] = []
        for name in os.listdir(directory):  # noqa: PTH208 - no pathlib in a training process
            age = _claimed_ns(os.path.join(directory, name), local_rank)  # noqa: PTH118
            if age >= 0:
                leftovers.append((age, name))
        if leftovers:
            path = os.path.join(directory, min(leftovers)[1])  # noqa: PTH118
            for leftover in (path[: -len(ring.SUFFIX)] + side.SUFFIX, path):
                with suppress(FileNotFoundError):  # or another rank that starts has just made the same room
                    os.unlink(leftover)  # noqa: PTH108
            return True
    if tried < RETRIES:
        sleep(RETRY_SECONDS)
        return True
    return False


def _claimed_ns(path: str, local_rank: int) -> int:
    """When a file that may go was claimed, 0 if it never got its name; -1 for one that has to stay."""
    is_ring = path.endswith(ring.SUFFIX)
    name = os.path.basename(path)  # noqa: PTH119
    if not is_ring and not (len(name) == _RUN_DIGITS and set(name) <= set("0123456789abcdef")):
        return -1
    with suppress(OSError, ValueError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            probe = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
            held = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, probe))
            if held[0] != fcntl.F_UNLCK or not stat.S_ISREG(status.st_mode):
                return -1
            if not is_ring:
                return 0 if time() - status.st_mtime > _ABANDONED_SECONDS else -1
            header = ring.unpack_header(os.pread(descriptor, ring.HEADER_BYTES, 0))
            return header.claimed_mono_ns if header.local_rank == local_rank else -1
        finally:
            os.close(descriptor)
    return -1

"""Opening what may be read of a pod beside its rings: regular files by checked names, no links, closed again."""

import errno
import itertools
import os
import re
import stat
from contextlib import contextmanager
from typing import Dict, Iterator, List, NamedTuple, Tuple

from rankbeat_collector.errors import RefusedError

MAX_FILES = 80
"""Files of one folder: step files of a pod of 64 ranks, and some that a restart left behind."""
_MAX_ENTRIES = 256
_MAX_BYTES = 4 << 30
"""Nobody's step file or log is larger; what is read in one poll has a limit of its own."""
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Found(NamedTuple):
    """A file that may be opened."""

    name: str
    identity: Tuple[int, int]
    """Device and inode."""
    changed_ns: int


def listed(folder: int, names: "re.Pattern[str]") -> Tuple[List[Found], Dict[str, int]]:
    """Files with such names, newest first, and how many of them were refused, by reason."""
    found: List[Found] = []
    refused: Dict[str, int] = {}
    with os.scandir(folder) as entries:
        for entry in itertools.islice(entries, _MAX_ENTRIES):
            if names.fullmatch(entry.name) is None:
                continue
            try:
                status = os.stat(entry.name, dir_fd=folder, follow_symlinks=False)
                _check(status)
            except FileNotFoundError:
                continue
            except RefusedError as error:
                refused[error.reason] = refused.get(error.reason, 0) + 1
            else:
                found.append(Found(entry.name, (status.st_dev, status.st_ino), status.st_mtime_ns))
        if next(iter(entries), None) is not None:
            refused["too_many"] = 1
    found.sort(key=lambda each: (-each.changed_ns, each.name))
    if len(found) > MAX_FILES:
        refused["too_many"] = refused.get("too_many", 0) + len(found) - MAX_FILES
    return found[:MAX_FILES], refused


def _check(status: os.stat_result) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise RefusedError("link")
    if not stat.S_ISREG(status.st_mode):
        raise RefusedError("type")
    if status.st_size > _MAX_BYTES:
        raise RefusedError("size")


@contextmanager
def opened(folder: int, found: Found) -> Iterator[Tuple[int, int]]:
    """Descriptor and size of a file, the same that was found.

    Raises: FileNotFoundError if it has gone, RefusedError if something else has taken its place, OSError else.
    """
    try:
        fd = os.open(found.name, _FILE, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise RefusedError("link" if error.errno == errno.ELOOP else "type") from error
        raise
    try:
        status = os.fstat(fd)
        _check(status)
        if (status.st_dev, status.st_ino) != found.identity:
            raise RefusedError("type")
        yield fd, status.st_size
    finally:
        os.close(fd)

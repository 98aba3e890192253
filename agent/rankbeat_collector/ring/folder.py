"""Opening what lies in a pod's ring folder: one component at a time, no links, regular files only, closed again.

A descriptor that stays open keeps the kubelet from unmounting the volume, so the pod cannot go (measured: 88 s instead
of 2). The pod owns the folder and may change anything in it at any moment.
"""

import errno
import itertools
import os
import re
import stat
from contextlib import contextmanager
from typing import Callable, Dict, Iterator, List, NamedTuple, Sequence, Tuple

from rankbeat_collector.errors import RefusedError
from rankbeat_collector.model import written
from rankbeat_contract import outputs, ring, side

MAX_RINGS = 80
"""Rings read of one pod: a pod of 64 ranks, and some that a restart left behind."""
MAX_ENTRIES = 512
"""Names looked at in one pod's folder."""

_NAME = re.compile(r"[0-9A-Za-z_-]{1,64}" + re.escape(ring.SUFFIX))
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Found(NamedTuple):
    """A file that may be opened."""

    name: str
    identity: Tuple[int, int]
    """Device and inode."""
    changed_ns: int
    largest: int
    """Bytes over which it is not opened."""


@contextmanager
def opened(parent: int, components: Sequence[str]) -> Iterator[int]:
    """A descriptor of the folder below parent.

    Raises: FileNotFoundError if it is not there, RefusedError if a component is a link or no folder, OSError else.
    """
    fd = _walked(parent, components)
    try:
        yield fd
    finally:
        os.close(fd)


def _walked(parent: int, components: Sequence[str]) -> int:
    fd = os.dup(parent)
    for name in components:
        try:
            below = os.open(name, _FOLDER, dir_fd=fd)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise RefusedError("link") from error
            raise
        finally:
            os.close(fd)
        fd = below
    return fd


def rings(folder: int) -> Tuple[List[Found], Dict[str, int]]:
    """The ring files in a folder, newest first, and how many others were refused, by reason.

    Files of no or no checked name for a ring are the pod's own and not looked at.
    """
    return listed(folder, lambda name: name.endswith(ring.SUFFIX), _file, (MAX_ENTRIES, MAX_RINGS))


def listed(
    folder: int, is_wanted: Callable[[str], bool], find: Callable[[int, str], Found], most: Tuple[int, int]
) -> Tuple[List[Found], Dict[str, int]]:
    """What find makes of the wanted names in a folder, newest first, and how many it refused, by reason.

    most: names looked at, files given back.
    """
    most_names, most_files = most
    found: List[Found] = []
    refused: Dict[str, int] = {}
    with os.scandir(folder) as entries:
        for entry in itertools.islice(entries, most_names):
            if not is_wanted(entry.name):
                continue
            try:
                found.append(find(folder, entry.name))
            except FileNotFoundError:
                continue
            except RefusedError as error:
                refused[error.reason] = refused.get(error.reason, 0) + 1
        if next(iter(entries), None) is not None:
            refused["too_many"] = 1
    found.sort(key=lambda each: (-each.changed_ns, each.name))
    if len(found) > most_files:
        refused["too_many"] = refused.get("too_many", 0) + len(found) - most_files
    return found[:most_files], refused


def _file(folder: int, name: str) -> Found:
    if _NAME.fullmatch(name) is None:
        raise RefusedError("name")
    return found_file(folder, name, ring.MAX_BYTES)


def beside(folder: int, found: Found) -> Found:
    """The side file beside a ring.

    Raises: FileNotFoundError if there is none, RefusedError if it is not to be opened, OSError else.
    """
    return found_file(folder, found.name[: -len(ring.SUFFIX)] + side.SUFFIX, side.MAX_BYTES)


def outputs_status(folder: int) -> Found:
    """What the collector beside the job says of its outputs.

    Raises: FileNotFoundError if there is none, RefusedError if it is not to be opened, OSError else.
    """
    return found_file(folder, outputs.STATUS_FILE, written.MAX_BYTES)


def found_file(folder: int, name: str, largest: int) -> Found:
    """A regular file of largest bytes at most.

    Raises: FileNotFoundError if there is none, RefusedError if it is not to be opened, OSError else.
    """
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    _check(status, largest)
    return Found(name, (status.st_dev, status.st_ino), status.st_mtime_ns, largest)


def _check(status: os.stat_result, largest: int) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise RefusedError("link")
    if not stat.S_ISREG(status.st_mode):
        raise RefusedError("type")
    if status.st_size > largest:
        raise RefusedError("size")


@contextmanager
def opened_file(folder: int, found: Found) -> Iterator[Tuple[int, int]]:
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
        _check(status, found.largest)
        if (status.st_dev, status.st_ino) != found.identity:
            raise RefusedError("type")
        yield fd, status.st_size
    finally:
        os.close(fd)

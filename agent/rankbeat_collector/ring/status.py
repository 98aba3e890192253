"""The status file of the collector beside a job, between polls."""

import os
from typing import Optional, Tuple

from rankbeat_collector.errors import RefusedError
from rankbeat_collector.model import written
from rankbeat_collector.model.written import Written
from rankbeat_collector.ring import folder


class OutputsFile:
    """The file as it was last read; read again when it has changed."""

    def __init__(self) -> None:
        self._mark: Optional[Tuple[Tuple[int, int], int]] = None
        self._known: Optional[Written] = None

    def read(self, fd: int, wall_ns: int, *, is_over: bool) -> Optional[Written]:
        """What it says, None where there is no file. is_over: whether the pod is, and nobody writes any longer.

        Raises: RefusedError or OSError where the file cannot be read or believed.
        """
        try:
            found = folder.outputs_status(fd)
        except FileNotFoundError:
            return None
        mark = (found.identity, found.changed_ns)
        if mark != self._mark:
            self._mark, self._known = mark, None
            self._known = _read(fd, found)
        if self._known is None:
            raise RefusedError("outputs")
        return self._known if is_over else written.silent(self._known, (wall_ns - found.changed_ns) / 1e9)


def _read(fd: int, found: folder.Found) -> Optional[Written]:
    """None where the file has gone meanwhile or holds something else."""
    try:
        with folder.opened_file(fd, found) as (opened, _):
            return written.written(os.pread(opened, written.MAX_BYTES, 0))
    except (FileNotFoundError, ValueError) as error:
        if isinstance(error, RefusedError):
            raise
        return None

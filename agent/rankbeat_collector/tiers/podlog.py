"""The log of one container as the kubelet keeps it: `N.log`, N its restarts, rotated to `N.log.<time>`.

Only new bytes are read. A rotated file is followed by its inode to its end, then the new `N.log` from its begin.
"""

import os
import re
from typing import Dict, List, Optional, Tuple

from rankbeat_collector.errors import RefusedError
from rankbeat_collector.ring import folder as folders
from rankbeat_collector.ring.folder import Found
from rankbeat_collector.tiers import files, msrun
from rankbeat_collector.tiers.cri import Joiner, Line
from rankbeat_collector.tiers.loss_lines import MAX_BYTES
from rankbeat_collector.tiers.tailing import Tail

_NAME = re.compile(r"([0-9]{1,6})\.log(?:\.[0-9-]{1,32})?")
_ENTRY_BYTES = 32 << 10
"""containerd cuts lines at 16 KiB, CRI-O at 8 KiB."""
_BUDGET_BYTES = 256 << 10
"""Read in one poll: 512 KiB/s at two polls a second."""
_BEHIND_BYTES = 4 << 20
_KEPT_BYTES = 1 << 20
"""A log that grows faster than it is read is left out up to its newest part, and that is counted."""


class ContainerLog:
    """Where reading stands. Holds no descriptor."""

    def __init__(self) -> None:
        self.restarts = -1
        """Of the container, as the file's name counts them; -1 before the first file."""
        self.refused: Dict[str, int] = {}
        """By the last read."""
        self._identity: Optional[Tuple[int, int]] = None
        self._begin()

    def _begin(self) -> None:
        self._tail = Tail(_ENTRY_BYTES)
        self._joiner = Joiner(MAX_BYTES)

    def read(self, folder: int) -> List[Line]:
        """New lines that may matter. folder: descriptor of the container's folder.

        Raises: OSError.
        """
        found, self.refused = files.listed(folder, _NAME)
        current = max((file for file in found if file.name.endswith(".log")), key=_restarts, default=None)
        if current is None:
            return []
        if _restarts(current) != self.restarts:
            self.restarts, self._identity = _restarts(current), current.identity
            self._begin()
        lines: List[Line] = []
        if self._identity != current.identity:
            rotated = next((file for file in found if file.identity == self._identity), None)
            if rotated is None:
                self._refuse("behind")
            elif not self._read(folder, rotated, lines):
                return lines
            self._identity, self._tail = current.identity, Tail(_ENTRY_BYTES)
        self._read(folder, current, lines)
        return lines

    def _read(self, folder: int, file: Found, lines: List[Line]) -> bool:
        """Reads on in a file; whether that was its end."""
        before = self._tail.refused + self._joiner.refused
        try:
            with folders.opened_file(folder, file) as (fd, size):
                if size < self._tail.offset:
                    self._refuse("behind")
                    self._tail = Tail(_ENTRY_BYTES)
                for entry in self._tail.read(fd, _BUDGET_BYTES):
                    line = self._joiner.line(entry)
                    if line is not None and _is_wanted(line.text):
                        lines.append(line)
                if size - self._tail.offset > _BEHIND_BYTES:
                    self._refuse("behind")
                    self._tail.skip_to(size - _KEPT_BYTES)
        except FileNotFoundError:
            return True
        except RefusedError as error:
            self._refuse(error.reason)
            return True
        self._refuse("line", self._tail.refused + self._joiner.refused - before)
        return self._tail.offset >= size

    def _refuse(self, reason: str, count: int = 1) -> None:
        if count > 0:
            self.refused[reason] = self.refused.get(reason, 0) + count


def _is_wanted(text: bytes) -> bool:
    return b"step" in text or any(mark in text for mark in msrun.MARKS)


def _restarts(file: Found) -> int:
    return int(file.name.partition(".")[0])


def containers(folder: int) -> List[str]:
    """Names of the containers whose logs lie in a pod's folder, a few at most."""
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry, _ in zip(entries, range(64)) if entry.is_dir(follow_symlinks=False))
    return names[:8]

"""What is new in a file that only grows: whole lines, each once, however the writer splits its writes."""

import os
from typing import List


class Tail:
    """How far a file has been read. Holds no descriptor, and of the file at most one line that is not whole yet."""

    def __init__(self, max_line_bytes: int) -> None:
        self._max_line_bytes = max_line_bytes
        self.offset = 0
        self._part = b""
        self._is_too_long = False
        self.refused = 0
        """Lines longer than max_line_bytes, left out."""

    def read(self, fd: int, budget_bytes: int) -> List[bytes]:
        """Lines that ended since the last call, of at most budget_bytes read; without their line feeds.

        Raises: OSError.
        """
        new = os.pread(fd, budget_bytes, self.offset)
        self.offset += len(new)
        *whole, part = new.split(b"\n")
        lines: List[bytes] = []
        for line in whole:
            self._add(line)
            if not self._is_too_long:
                lines.append(self._part)
            self._part, self._is_too_long = b"", False
        self._add(part)
        return lines

    def _add(self, more: bytes) -> None:
        if self._is_too_long:
            return
        self._part += more
        if len(self._part) > self._max_line_bytes:
            self._part, self._is_too_long = b"", True
            self.refused += 1

    def skip_to(self, offset: int) -> None:
        """Goes on at the first line that begins after offset."""
        self.offset = offset
        self._part, self._is_too_long = b"", True

"""Lines of a container's log as runtimes write them (CRI), `<time> <stream> <P or F> <text>`, after P it goes on."""

import calendar
import re
import time
from typing import Dict, NamedTuple, Optional


class Line(NamedTuple):
    """A whole line of the container's output."""

    text: bytes
    stamp: bytes
    """When the runtime read its end; wall_ns of it is the time."""


class Joiner:
    """Puts lines together that the runtime cut (containerd at 16 KiB)."""

    def __init__(self, max_line_bytes: int) -> None:
        self._max_line_bytes = max_line_bytes
        self._parts: Dict[bytes, bytes] = {}
        self.refused = 0
        """Entries that are none. Longer lines are of no interest: they are left out and not counted."""

    def line(self, entry: bytes) -> Optional[Line]:
        """The line that this entry ends, None if it ends none that is wanted."""
        fields = entry.split(b" ", 3)
        if len(fields) < 3 or fields[1] not in (b"stdout", b"stderr") or fields[2][:1] not in (b"P", b"F"):
            self.refused += 1
            return None
        stamp, stream, tag = fields[:3]
        text = fields[3] if len(fields) == 4 else b""
        if tag[:1] == b"P" or stream in self._parts:
            text = self._parts.get(stream, b"") + text[: self._max_line_bytes + 1]
            if tag[:1] == b"P":
                # One byte more than may be is kept: the end of a line that is too long must not look like a line.
                self._parts[stream] = text[: self._max_line_bytes + 1]
                return None
            del self._parts[stream]
        if len(text) > self._max_line_bytes:
            return None
        return Line(text, stamp)


_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):(\d\d))")


def wall_ns(stamp: bytes) -> Optional[int]:
    """Nanoseconds of the epoch, None if it is no time (RFC 3339)."""
    found = _STAMP.fullmatch(stamp)
    if found is None:
        return None
    try:
        seconds = calendar.timegm(time.strptime(found[1].decode("ascii"), "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return None
    if found[3] is not None:
        offset = int(found[4]) * 3600 + int(found[5]) * 60
        seconds += offset if found[3] == b"-" else -offset
    return seconds * 1_000_000_000 + int((found[2] or b"0").ljust(9, b"0"))

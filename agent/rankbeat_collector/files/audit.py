"""The audit log: one JSON object per line, each with the hash of the line before, so that a change breaks the chain.

A cut at the end cannot be seen in the file alone: keep its last hash elsewhere where that matters.
"""

import contextlib
import fcntl
import getpass
import hashlib
import json
import os
import re
import socket
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

from rankbeat_collector.errors import AuditError

START = "0" * 64
PATTERN = "audit-*.jsonl"
ACTIONS = ("opened", "rotated", "deleted", "viewed", "changed", "recovered")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def link(previous: str, entry: Dict[str, Any]) -> str:
    """Hash of an entry: over the hash before it and its own JSON with sorted keys, without `hash`."""
    body = json.dumps({name: value for name, value in entry.items() if name != "hash"}, sort_keys=True)
    return hashlib.sha256((previous + body).encode()).hexdigest()


class Log:
    """One writer's log. Each writer has a file of its own: `audit-WRITER.jsonl`."""

    def __init__(self, directory: Path, writer: str) -> None:
        self.path = directory / f"audit-{_UNSAFE.sub('-', writer)}.jsonl"
        self._writer = writer
        self._last: Optional[Tuple[int, str]] = None
        self._size = 0

    def note(self, action: str, what: str, **more: Any) -> None:
        """Append one entry. Raises: OSError."""
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(str(self.path), flags, 0o644)
        try:
            with contextlib.suppress(OSError):  # a volume without locks: one writer then, as the name says
                fcntl.flock(fd, fcntl.LOCK_EX)
            if self._last is None or os.fstat(fd).st_size != self._size:
                self._last = self._continued(fd)
            self._append(fd, action, what, more)
        finally:
            os.close(fd)

    def _append(self, fd: int, action: str, what: str, more: Dict[str, Any]) -> None:
        number, previous = self._last or (0, START)
        who = self._writer
        now = round(time.time(), 3)
        entry = {"number": number + 1, "time": now, "who": who, "action": action, "what": what, **more}
        entry["previous"] = previous
        entry["hash"] = link(previous, entry)
        line = (json.dumps(entry) + "\n").encode()
        size = os.fstat(fd).st_size
        try:
            written = os.write(fd, line)
        except OSError:
            os.ftruncate(fd, size)
            raise
        if written < len(line):
            os.ftruncate(fd, size)
            raise OSError(28, os.strerror(28), str(self.path))
        self._last, self._size = (number + 1, entry["hash"]), size + len(line)

    def _continued(self, fd: int) -> Tuple[int, str]:
        """Where an earlier process left off; what it left of a line is cut off, and said."""
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        last = content[:whole].rstrip(b"\n").rpartition(b"\n")[2]
        known = (0, START)
        with contextlib.suppress(ValueError, KeyError, TypeError):
            entry = json.loads(last)
            known = (int(entry["number"]), str(entry["hash"]))
        if whole < len(content):
            os.ftruncate(fd, whole)
            self._last = known
            self._append(fd, "recovered", f"{len(content) - whole} bytes of a line that was not whole", {})
            known = self._last
        return known


def verified(path: Path) -> int:
    """Entries of a log whose chain holds.

    Raises: AuditError at the first line that does not follow from the one before; OSError.
    """
    previous, number = START, 0
    for number, line in enumerate(_lines(path), 1):
        try:
            entry = json.loads(line)
            said = {name: entry[name] for name in ("number", "previous", "hash")}
        except (ValueError, KeyError, TypeError) as error:
            raise AuditError(str(path), number, "is no entry") from error
        if said["number"] != number:
            raise AuditError(str(path), number, f"is numbered {said['number']}: entries are missing or were added")
        if said["previous"] != previous:
            raise AuditError(str(path), number, "does not follow from the line before")
        if said["hash"] != link(previous, entry):
            raise AuditError(str(path), number, "was changed: its hash does not match")
        previous = said["hash"]
    return number


def _lines(path: Path) -> List[str]:
    return path.read_text(encoding="utf-8").splitlines()


def logs_above(path: Path, levels: int = 6) -> Iterator[Path]:
    """Folders at or above path that hold audit logs."""
    folder = path if path.is_dir() else path.parent
    for place in (folder, *folder.parents)[:levels]:
        if next(iter(place.glob(PATTERN)), None) is not None:
            yield place


def note_view(path: Path, how: str) -> None:
    """Say in the logs' folder, if there is one, who looks at path. Raises: OSError where that cannot be written."""
    for folder in logs_above(path.resolve()):
        Log(folder, _viewer()).note("viewed", str(path), how=how)
        return


def _viewer() -> str:
    with contextlib.suppress(Exception):
        return f"{getpass.getuser()}@{socket.gethostname()}"
    return f"{os.getuid()}@{socket.gethostname()}"

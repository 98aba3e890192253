"""Whether a file is another than before."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

Stamp = tuple[int, int, int]
"""Modification time, inode and size: an editor replaces the file, a ConfigMap turns a link."""


def file_stamp(path: Path) -> Stamp | None:
    """None where there is no such file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size

"""One part of an output: a file that only grows, and is whole after every write that succeeded."""

import errno
import os
from pathlib import Path
from typing import Any, Optional

from rankbeat_collector.files.keys import Key

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


class Part:
    """An open part. A write that fails is taken back, so that no half row stays."""

    def __init__(self, path: Path, key: Optional[Key]) -> None:
        """Raises: FileExistsError if the name is taken, OSError."""
        _make_folder(path.parent)
        self.path = path
        self.size = 0
        self.is_broken = False
        """Whether nothing may be appended any more: half a row is left, or a nonce was used."""
        self._fd = os.open(str(path), _CREATE, 0o644)
        self._sealer = None if key is None else _sealer(key)
        try:
            if self._sealer is not None:
                self._write(self._sealer.header)
        except OSError:
            self._discard()
            raise

    def append(self, text: bytes) -> None:
        """Raises: OSError; the part then holds what it held before, and is closed if it is broken."""
        try:
            self._write(text if self._sealer is None else self._sealer.sealed(text))
        except OSError:
            # A nonce must never seal two texts: after a failure the chunk's number is spent.
            self.is_broken = self.is_broken or self._sealer is not None
            if self.is_broken:
                self.abandon()
            raise

    def _write(self, content: bytes) -> None:
        view = memoryview(content)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            try:
                os.ftruncate(self._fd, self.size)
            except OSError:
                self.is_broken = True
            raise
        self.size += len(content)

    def is_there(self) -> bool:
        """Whether its name still leads to it."""
        try:
            status, own = self.path.stat(), os.fstat(self._fd)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == (own.st_dev, own.st_ino)

    def close(self) -> None:
        """Raises: OSError if the end cannot be written; it is closed all the same."""
        try:
            if self._sealer is not None:
                self._write(self._sealer.end())
        finally:
            os.close(self._fd)

    def abandon(self) -> None:
        """Close what cannot be written to any more."""
        os.close(self._fd)

    def _discard(self) -> None:
        os.close(self._fd)
        self.path.unlink()


def _make_folder(folder: Path) -> None:
    """Raises: NotADirectoryError where a file has its name; OSError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from error


def _sealer(key: Key) -> Any:
    from rankbeat_collector.files import encryption  # noqa: PLC0415 - cryptography only where files are sealed

    return encryption.Sealer(key)


def grown(text_bytes: int, key: Optional[Key]) -> int:
    """Bytes that so much text takes in a part, in one append."""
    if key is None or not text_bytes:
        return text_bytes
    from rankbeat_collector.files import encryption  # noqa: PLC0415

    chunks = -(-text_bytes // encryption.MAX_TEXT_BYTES)
    return text_bytes + chunks * encryption.CHUNK_EXTRA_BYTES

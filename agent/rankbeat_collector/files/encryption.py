"""Encryption at rest: AES-256-GCM in chunks that can be appended, verified one by one, and cut off at any byte.

    8 bytes     MAGIC
    8 bytes     key id: first bytes of SHA-256 over "rankbeat key id" and the key
    16 bytes    salt, random per file; the file's own key is HKDF-SHA256(key, salt)
    chunks      length of the sealed bytes (uint32, little-endian), nonce (12 bytes), sealed bytes (text, a tag of 16)
    end         a chunk of no text, sealed as the end

A chunk's nonce is its number, unique under the file's own key; the number, the header and whether it is the end are
authenticated with it, so that chunks can neither be changed, moved, dropped in the middle nor added. A file without its
end was cut, by a writer that was killed or by someone: its whole chunks are read, and that it was cut is said.
"""

import os
import struct
from typing import BinaryIO, Iterator, Tuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from rankbeat_collector.errors import DecryptionError
from rankbeat_collector.files.keys import KEY_BYTES, Key

MAGIC = b"RBEATENC"
HEADER_BYTES = 32
MAX_TEXT_BYTES = 1 << 20
_FRAME = struct.Struct("<I12s")
_TAG_BYTES = 16
CHUNK_EXTRA_BYTES = _FRAME.size + _TAG_BYTES


class Sealer:
    """Makes one file's bytes."""

    def __init__(self, key: Key) -> None:
        self.header = MAGIC + key.key_id + os.urandom(16)
        self._cipher = _cipher(key, self.header)
        self._number = 0

    def sealed(self, text: bytes) -> bytes:
        """text as chunks."""
        parts = (text[start : start + MAX_TEXT_BYTES] for start in range(0, len(text), MAX_TEXT_BYTES))
        return b"".join(self._chunk(part, is_end=False) for part in parts)

    def end(self) -> bytes:
        """The last chunk."""
        return self._chunk(b"", is_end=True)

    def _chunk(self, text: bytes, *, is_end: bool) -> bytes:
        nonce = self._number.to_bytes(12, "little")
        sealed = self._cipher.encrypt(nonce, text, _bound(self.header, is_end=is_end))
        self._number += 1
        return _FRAME.pack(len(sealed), nonce) + sealed


def _cipher(key: Key, header: bytes) -> AESGCM:
    derived = HKDF(algorithm=hashes.SHA256(), length=KEY_BYTES, salt=header[16:], info=MAGIC).derive(key.secret)
    return AESGCM(derived)


def _bound(header: bytes, *, is_end: bool) -> bytes:
    return header + (b"\1" if is_end else b"\0")


class Opened:
    """A sealed file's text, chunk by chunk. was_cut holds once all chunks are read."""

    def __init__(self, file: BinaryIO, key: Key, name: str) -> None:
        """Raises: DecryptionError where this is no such file, or of another key."""
        self._file, self._name = file, name
        self._header = file.read(HEADER_BYTES)
        self.was_cut = True
        if MAGIC.startswith(self._header[:8]) and len(self._header) < HEADER_BYTES:
            self._header = b""  # killed before the first chunk
            return
        if not self._header.startswith(MAGIC):
            raise DecryptionError(name, "is no encrypted file of Rankbeat")
        if self._header[8:16] != key.key_id:
            held, given = self._header[8:16].hex(), key.key_id.hex()
            raise DecryptionError(name, f"was written with the key {held}, the given key is {given}")
        self._cipher = _cipher(key, self._header)

    def chunks(self) -> Iterator[bytes]:
        """Raises: DecryptionError at the first chunk that was changed."""
        number, ended = 0, not self._header
        while not ended:
            frame = self._file.read(_FRAME.size)
            if len(frame) < _FRAME.size:
                return
            length, nonce = _FRAME.unpack(frame)
            if not _TAG_BYTES <= length <= MAX_TEXT_BYTES + _TAG_BYTES or nonce != number.to_bytes(12, "little"):
                raise DecryptionError(self._name, f"was changed: chunk {number} has a false frame")
            sealed = self._file.read(length)
            if len(sealed) < length:
                return
            text, ended = self._text(nonce, sealed, number)
            number += 1
            if text:
                yield text
        if self._header:
            self.was_cut = False
            if self._file.read(1):
                raise DecryptionError(self._name, "was changed: there are bytes after its end")

    def _text(self, nonce: bytes, sealed: bytes, number: int) -> Tuple[bytes, bool]:
        for is_end in (len(sealed) == _TAG_BYTES, False):
            try:
                return self._cipher.decrypt(nonce, sealed, _bound(self._header, is_end=is_end)), is_end
            except InvalidTag:  # noqa: PERF203 - twice at most
                continue
        raise DecryptionError(self._name, f"was changed: chunk {number} does not verify")

"""Keys for encryption and masking."""

import base64
import binascii
import hashlib
from pathlib import Path
from typing import NamedTuple

from rankbeat_collector.errors import SettingsError

KEY_BYTES = 32
SUFFIX = ".enc"
"""Of an encrypted file's name."""


class Key(NamedTuple):
    """A key of 32 bytes."""

    secret: bytes

    @property
    def key_id(self) -> bytes:
        return hashlib.sha256(b"rankbeat key id" + self.secret).digest()[:8]


def key_from(path: Path) -> Key:
    """The key in a file: 32 bytes as they are, 64 hexadecimal digits, or base64.

    Raises: SettingsError.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SettingsError(
            str(path), f"key cannot be read: {error.strerror}; mount the Secret there", "key_missing"
        ) from error
    if len(content) == KEY_BYTES:
        return Key(content)
    text = content.strip()
    for decoded in (binascii.unhexlify, base64.b64decode):
        try:
            secret = decoded(text)
        except ValueError:
            continue
        if len(secret) == KEY_BYTES:
            return Key(secret)
    raise SettingsError(
        str(path), f"holds {len(content)} bytes that are no key; make one with openssl rand -hex 32", "key_invalid"
    )

"""Images of the side file: PNGs as they are, raw pixels made into one."""

import struct
import zlib
from typing import Optional, Tuple

from rankbeat_contract import side

Shape = Tuple[int, int, int]
"""Height, width, channels."""
_COLOUR_TYPES = {1: 0, 3: 2, 4: 6}
_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}
"""By PNG's colour type."""


def png_shape(content: bytes) -> Optional[Shape]:
    """The shape of a PNG, None where it is none."""
    if not content.startswith(side.PNG) or len(content) < 26:
        return None
    width, height, _, colour = struct.unpack_from(">IIBB", content, 16)
    return int(height), int(width), _CHANNELS.get(colour, 3)


def png(shape: Shape, pixels: bytes) -> bytes:
    """Raw pixels, a byte per channel, as a PNG."""
    height, width, channels = shape
    row = width * channels
    lines = b"".join(b"\0" + pixels[start : start + row] for start in range(0, height * row, row))
    head = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    return side.PNG + b"".join(
        _chunk(kind, content) for kind, content in ((b"IHDR", head), (b"IDAT", zlib.compress(lines)), (b"IEND", b""))
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

"""A state that holds something that does not fit. Imported only where there is one."""

from typing import Any

from rankbeat_agent.wire.writer import FIELDS, UNFIT, Writer
from rankbeat_contract import ring

_RANGES = {"B": (0, 2**8 - 1), "H": (0, 2**16 - 1), "I": (0, 2**32 - 1), "Q": (0, 2**64 - 1)}
_RANGES.update({"i": (-(2**31), 2**31 - 1), "q": (-(2**63), 2**63 - 1)})


def state(writer: Writer) -> bytes:
    """The writer's state behind its CRC32, each number moved into its range; what is none is 0."""
    letters = (*ring.STATE_FORMAT[1:].split("64s")[0].replace("2x", ""), "s", "I")
    values = (getattr(writer, field, 0) for field in FIELDS)
    return ring.STATE.pack(*map(_fitted, letters, values))


def _fitted(letter: str, value: Any) -> Any:
    if letter == "s":
        return value if isinstance(value, bytes) else b""
    try:
        if letter == "d":
            return float(value)
        least, most = _RANGES[letter]
        return min(max(int(value), least), most)
    except UNFIT:
        return 0

"""Durations and sizes as people write them."""

import re

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_BYTES = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
_SIZE = re.compile(r"([1-9][0-9]{0,6})(Ki|Mi|Gi|Ti)")


def duration_seconds(text: str) -> float:
    """Seconds of a duration such as `8s`, `1h30m` or `500ms`.

    Raises: ValueError if text is no duration.
    """
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no duration, write for example 20s, 5m or 1h30m")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def size_bytes(text: str) -> int:
    """Bytes of a size such as `64Mi`.

    Raises: ValueError if text is no size.
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no size, write for example 512Ki, 64Mi or 1Gi")
    return int(found[1]) * _BYTES[found[2]]


def size_text(count: int) -> str:
    """A size that holds count bytes and is written in the largest unit that needs no fraction, rounded up to Ki."""
    kibibytes = max(1, -(-count // 1024))
    for unit in ("Ki", "Mi", "Gi"):
        if kibibytes % 1024:
            return f"{kibibytes}{unit}"
        kibibytes //= 1024
    return f"{kibibytes}Ti"

"""Typed looks into JSON: what is absent or of another type reads as empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def mapping(value: object, *path: str) -> Mapping[str, object]:
    """The object at path below value."""
    found = member(value, *path)
    return found if isinstance(found, dict) else {}


def sequence(value: object, *path: str) -> Sequence[object]:
    """The array at path below value."""
    found = member(value, *path)
    return found if isinstance(found, list) else ()


def text(value: object, *path: str) -> str:
    """The string at path below value."""
    found = member(value, *path)
    return found if isinstance(found, str) else ""


def texts(value: object, *path: str) -> tuple[str, ...]:
    """The strings of the array at path below value."""
    return tuple(each for each in sequence(value, *path) if isinstance(each, str))


def number(value: object, *path: str) -> int | None:
    """The integer at path below value, None where there is none."""
    found = member(value, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def labels(value: object, *path: str) -> Mapping[str, str]:
    """The strings of the object at path below value."""
    return {key: each for key, each in mapping(value, *path).items() if isinstance(each, str)}


def member(value: object, *path: str) -> object:
    """What stands at path below value, None where nothing does."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value

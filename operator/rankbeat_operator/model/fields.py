"""Typed reads of a parsed fleet.yaml: each gives a value, or says which field is wrong and what to write there.

within: the dotted place of the mapping that is read from. All raise InvalidFleetError.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rankbeat_contract import units
from rankbeat_operator.errors import InvalidFleetError
from rankbeat_operator.model.manifests import Manifest


def mapping(parent: Manifest, key: str, within: str) -> Manifest:
    value = parent.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidFleetError(_place(within, key), f"is {value!r}, write a mapping")
    return value


def section(parent: Manifest, key: str, within: str, known: Sequence[str]) -> Manifest:
    """A mapping without keys that nobody would read."""
    found = mapping(parent, key, within)
    unknown = sorted(set(found) - set(known), key=str)
    if unknown:
        where = _place(within, key)
        raise InvalidFleetError(where, f"has {', '.join(map(repr, unknown))}, write only {', '.join(known)}")
    return found


def boolean(parent: Manifest, key: str, within: str) -> bool:
    value = parent.get(key, False)
    if not isinstance(value, bool):
        raise InvalidFleetError(_place(within, key), f"is {value!r}, write true or false")
    return value


def text(parent: Manifest, key: str, within: str, default: str) -> str:
    value = parent.get(key)
    if value is None:
        return default
    if not isinstance(value, str):
        raise InvalidFleetError(_place(within, key), f"is {value!r}, write text, in quotes if need be")
    return value


def path(parent: Manifest, key: str, within: str, default: str) -> str:
    value = text(parent, key, within, default)
    if not value.startswith("/") or ".." in value.split("/"):
        raise InvalidFleetError(_place(within, key), f"is {value!r}, write an absolute path without ..")
    return value.rstrip("/")


def duration(parent: Manifest, key: str, within: str, default: str, bounds: tuple[float, float]) -> float:
    """Seconds. bounds: least and most, as the program takes them."""
    try:
        seconds = units.duration_seconds(text(parent, key, within, default))
    except ValueError as error:
        raise InvalidFleetError(_place(within, key), str(error)) from error
    if not bounds[0] <= seconds <= bounds[1]:
        raise InvalidFleetError(_place(within, key), f"is {seconds:g}s, write from {bounds[0]:g}s to {bounds[1]:g}s")
    return seconds


def texts(parent: Manifest, key: str, within: str) -> tuple[str, ...]:
    return tuple(text({key: value}, key, within, "") for value in _sequence(parent, key, within))


def mappings(parent: Manifest, key: str, within: str) -> tuple[Manifest, ...]:
    return tuple(mapping({key: value}, key, within) for value in _sequence(parent, key, within))


def text_mapping(parent: Manifest, key: str, within: str) -> Mapping[str, str]:
    found = mapping(parent, key, within)
    return {str(name): text(found, name, _place(within, key), "") for name in found}


def _sequence(parent: Manifest, key: str, within: str) -> Sequence[Any]:
    value = parent.get(key)
    if value is None:
        return ()
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise InvalidFleetError(_place(within, key), f"is {value!r}, write a list")
    return value


def _place(within: str, key: str) -> str:
    return ".".join(part for part in (within, key) if part) or "the top"

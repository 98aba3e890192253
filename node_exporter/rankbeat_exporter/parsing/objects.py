"""Parts of an object of the API server, which may be anything: what has the wrong shape is empty."""

from __future__ import annotations

from collections.abc import Mapping


def mapping(given: object) -> Mapping[str, object]:
    return given if isinstance(given, Mapping) else {}


def rows(given: object) -> list[Mapping[str, object]]:
    """The objects in a list."""
    return [one for one in given if isinstance(one, Mapping)] if isinstance(given, list) else []

"""The text of /metrics: every collector's families, rendered when what it saw changed, and one text of them all."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from prometheus_client.metrics_core import Metric as Family

_log = logging.getLogger(__name__)

View = TypeVar("View")


class Rendered(NamedTuple):
    """A family: HELP and TYPE, then its samples."""

    head: bytes
    samples: bytes


class Source(NamedTuple):
    """One collector's share of the page, by the names of its families."""

    name: str
    rendered: Callable[[], Mapping[str, Rendered]]


def source(name: str, view: Callable[[], View], families: Callable[[View], Iterable[Family]]) -> Source:
    """A source that renders what it shows when its view is another than the last.

    view: what is known now; families: how it shows. A thousand series cost 15 ms to render and 0.1 to compare.
    """
    kept: tuple[View, Mapping[str, Rendered]] | None = None

    def rendered() -> Mapping[str, Rendered]:
        nonlocal kept
        now, before = view(), kept
        if before is not None and before[0] == now:
            return before[1]
        found = {family.name: _rendered(family) for family in families(now)}
        kept = (now, found)
        return found

    return Source(name, rendered)


class Exposition:
    """The page of all sources. One that fails is left out, logged and counted: a scrape never fails as a whole."""

    def __init__(self) -> None:
        self._sources: dict[str, Source] = {}
        self._failures: dict[str, int] = {}

    def put(self, source: Source) -> None:
        """In the place of the one with its name, if there is one. A scrape that is under way reads the old ones."""
        self._sources = {**self._sources, source.name: source}
        self._failures.setdefault(source.name, 0)

    def drop(self, name: str) -> None:
        self._sources = {key: source for key, source in self._sources.items() if key != name}

    def failures(self) -> tuple[tuple[str, int], ...]:
        """How often a source could not be shown, by its name."""
        return tuple(sorted(self._failures.items()))

    def page(self) -> tuple[int, str, bytes]:
        """A family that several sources have stands once, with the samples of all."""
        families: dict[str, list[Rendered]] = {}
        for source in self._sources.values():
            try:
                found = source.rendered()
            except Exception:  # noqa: BLE001 - a door: the other collectors are shown
                self._failures[source.name] += 1
                level = logging.ERROR if self._failures[source.name] == 1 else logging.DEBUG
                _log.log(level, "series cannot be shown collector=%s", source.name, exc_info=True)
                continue
            for name, rendered in found.items():
                families.setdefault(name, []).append(rendered)
        parts = (part for same in families.values() for part in (same[0].head, *(one.samples for one in same)))
        return 200, CONTENT_TYPE_LATEST, b"".join(parts)


class _One(Collector):
    """A registry of one family, as generate_latest takes it."""

    def __init__(self, family: Family) -> None:
        self._family = family

    def collect(self) -> Iterator[Family]:
        yield self._family


def _rendered(family: Family) -> Rendered:
    lines = generate_latest(_One(family)).split(b"\n", 2)
    return Rendered(b"\n".join((*lines[:2], b"")), lines[2])

"""The text of /metrics: what a collection found is rendered once, at its end, and served as it is until the next.

No prometheus_client: its generate_latest takes 60 ms of CPU for the 2,000 series of 16 NPUs (0.26), and this 5.
"""

from __future__ import annotations

import functools
import logging
import math
import time
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rankbeat_contract.metrics import Metric
    from rankbeat_exporter.collectors.families import Family

_log = logging.getLogger(__name__)

View = TypeVar("View")
Row = tuple[tuple[str, ...], float]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MAX_LABEL_TEXTS = 8192
"""Kept from one rendering to the next: 16 NPUs have 900, and most of a rendering's time would go into them."""


class Rendered(NamedTuple):
    """A family: HELP and TYPE, then its samples."""

    head: bytes
    samples: bytes


class _Before(NamedTuple):
    """A family as it was rendered: most have the same rows from one collection to the next."""

    rows: tuple[Row, ...]
    rendered: Rendered


class Source:
    """One collector's share of the page, by the names of its families.

    view: what is known now; families: how it shows. Rendered at each scrape, which is for a few series; with
    fresh_seconds by refresh(), and at a scrape only when the last refresh() is older than that.
    """

    def __init__(
        self,
        name: str,
        view: Callable[[], View],
        families: Callable[[View], Iterable[Family]],
        fresh_seconds: float = 0.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._families: Callable[[], Iterable[Family]] = lambda: families(view())
        self._before: Mapping[str, _Before] = {}
        self._fresh_seconds = fresh_seconds
        self._now = now
        self._kept: tuple[Mapping[str, Rendered], float] | None = None

    def refresh(self) -> None:
        """At the end of a collection. Where it fails nothing is kept, and each scrape tells of it."""
        try:
            self._kept = self._rendered(), self._now() + self._fresh_seconds
        except Exception:
            self._kept = None
            raise

    def rendered(self) -> Mapping[str, Rendered]:
        kept = self._kept
        return kept[0] if kept is not None and self._now() <= kept[1] else self._rendered()

    def _rendered(self) -> Mapping[str, Rendered]:
        """Scrapes may meet here."""
        found = self._before = _rendered(self._families(), self._before)
        return {name: one.rendered for name, one in found.items()}


class Exposition:
    """The page of all sources. One that fails is left out, logged and counted: a scrape never fails as a whole."""

    def __init__(self) -> None:
        self._sources: dict[str, Source] = {}
        self._failures: dict[str, int] = {}
        self._page: tuple[list[bytes], bytes] = [], b""

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
        """A family that several sources have stands once, with the samples of all.

        The same bytes as before while no part is another: with 400 KiB made at each scrape resident memory wanders by
        2 MiB, and with these by 0.2.
        """
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
        parts = [part for same in families.values() for part in (same[0].head, *(one.samples for one in same))]
        before, body = self._page
        if parts != before:
            body = b"".join(parts)
            self._page = parts, body
        return 200, CONTENT_TYPE, body


def text(families: Iterable[Family]) -> bytes:
    """The families in Prometheus' text format (version 0.0.4)."""
    return b"".join(part for one in _rendered(families, {}).values() for part in one.rendered)


def _rendered(families: Iterable[Family], before: Mapping[str, _Before]) -> dict[str, _Before]:
    """By name. before: what was rendered the last time."""
    rows_by_name: dict[str, tuple[Row, ...]] = {}
    metrics: dict[str, Metric] = {}
    for metric, rows in families:
        rows_by_name[metric.name] = rows_by_name.get(metric.name, ()) + rows
        metrics[metric.name] = metric
    return {
        name: before[name]
        if name in before and before[name].rows == rows
        else _Before(rows, _family(metrics[name], rows))
        for name, rows in rows_by_name.items()
    }


def _family(metric: Metric, rows: tuple[Row, ...]) -> Rendered:
    lines = [f"{metric.name}{_labels(metric.labels, values)} {_number(number)}\n" for values, number in rows]
    return Rendered(_head(metric), "".join(lines).encode())


def _head(metric: Metric) -> bytes:
    told = metric.help.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {metric.name} {told}\n# TYPE {metric.name} {metric.kind}\n".encode()


@functools.lru_cache(MAX_LABEL_TEXTS)
def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    """In the order of the names' letters, as client libraries write them."""
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted(zip(names, values, strict=True)))
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    """The shortest text that reads as the same number; exponents from 1e6 on, as Go writes them."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    digits = repr(float(value))
    point = digits.find(".")
    if value > 0 and point > 6:
        mantissa = f"{digits[0]}.{digits[1:point]}{digits[point + 1 :]}".rstrip("0.")
        return f"{mantissa}e+{point - 1:02d}"
    return digits

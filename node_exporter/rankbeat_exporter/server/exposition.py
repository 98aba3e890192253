"""The text of /metrics: every collector's families, rendered when what it saw changed, and one text of them all."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rankbeat_contract.metrics import Metric
    from rankbeat_exporter.collectors.families import Family

_log = logging.getLogger(__name__)

View = TypeVar("View")

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


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

    view: what is known now; families: how it shows. 2,000 series cost 8 ms to render, and a tenth of one to compare.
    """
    kept: tuple[View, Mapping[str, Rendered]] | None = None

    def rendered() -> Mapping[str, Rendered]:
        nonlocal kept
        now, before = view(), kept
        if before is not None and before[0] == now:
            return before[1]
        found = _rendered(families(now))
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
        return 200, CONTENT_TYPE, b"".join(parts)


def text(families: Iterable[Family]) -> bytes:
    """The families in Prometheus' text format (version 0.0.4)."""
    return b"".join(part for rendered in _rendered(families).values() for part in rendered)


def _rendered(families: Iterable[Family]) -> dict[str, Rendered]:
    """By name. Devices have the same labels in a hundred families: each text of labels is made once."""
    labels: dict[tuple[tuple[str, ...], tuple[str, ...]], str] = {}
    found: dict[str, Rendered] = {}
    for metric, rows in families:
        lines = []
        for values, number in rows:
            key = (metric.labels, values)
            if (pairs := labels.get(key)) is None:
                pairs = labels[key] = _labels(*key)
            lines.append(f"{metric.name}{pairs} {_number(number)}\n")
        before = found[metric.name].samples if metric.name in found else b""
        found[metric.name] = Rendered(_head(metric), before + "".join(lines).encode())
    return found


def _head(metric: Metric) -> bytes:
    told = metric.help.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {metric.name} {told}\n# TYPE {metric.name} {metric.kind}\n".encode()


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

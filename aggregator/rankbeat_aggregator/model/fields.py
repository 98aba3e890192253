"""Reading of JSON objects, field by field, each with its bounds."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rankbeat_aggregator.errors import InvalidReport

LONGEST_AGE_SECONDS = 10 * 365 * 86400.0
"""Ten years: no process is older, so anything beyond is a broken clock or a hostile writer."""
GREATEST_INTEGER = (1 << 53) - 1
"""Largest integer that every JSON reader keeps exact."""


@dataclass(frozen=True, slots=True)
class Fields:
    """One JSON object and where it stands, for messages: `ranks[3]`."""

    values: Mapping[str, object]
    where: str = ""

    def path(self, name: str) -> str:
        return f"{self.where}.{name}" if self.where else name

    def fail(self, name: str, reason: str) -> InvalidReport:
        return InvalidReport(field=self.path(name), reason=reason)

    def text(self, name: str, longest: int = 253, pattern: re.Pattern[str] | None = None) -> str:
        """A string that is not empty.

        Raises: InvalidReport.
        """
        value = self.values.get(name)
        if not isinstance(value, str) or not 0 < len(value) <= longest:
            raise self.fail(name, f"is no string of 1 to {longest} characters")
        if pattern is not None and pattern.fullmatch(value) is None:
            raise self.fail(name, f"{value!r} does not match {pattern.pattern}")
        return value

    def flag(self, name: str, *, default: bool | None = None) -> bool:
        value = self.values.get(name, default)
        if not isinstance(value, bool):
            raise self.fail(name, "is neither true nor false")
        return value

    def integer(self, name: str, least: int = 0, most: int = GREATEST_INTEGER) -> int | None:
        """An integer, None where it is null, absent or -1 (unknown in the ring)."""
        value = self.values.get(name)
        if value is None or value == -1:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.fail(name, f"{value!r} is no integer from {least} to {most}")
        return value

    def number(self, name: str, least: float = 0.0, most: float = LONGEST_AGE_SECONDS) -> float | None:
        """A finite number, None where it is null, absent or not a number."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise self.fail(name, "is no number")
        number = float(value)
        if math.isnan(number):
            return None
        if not least <= number <= most:
            raise self.fail(name, f"{number!r} is outside {least:g} to {most:g}")
        return number

    def known(self, name: str, least: float = 0.0, most: float = LONGEST_AGE_SECONDS) -> float:
        """A finite number that must be there."""
        number = self.number(name, least, most)
        if number is None:
            raise self.fail(name, "is missing")
        return number

    def nested(self, name: str) -> "Fields | None":
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.fail(name, "is no object")
        return Fields(value, self.path(name))

    def rows(self, name: str, most: int) -> Sequence[object]:
        value = self.values.get(name, ())
        if not isinstance(value, (list, tuple)):
            raise self.fail(name, "is no list")
        if len(value) > most:
            raise self.fail(name, f"has {len(value)} entries, {most} is the limit")
        return value

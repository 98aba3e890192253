"""Which calls a round makes: each at its own interval, the most overdue first, as far as the round's time goes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from rankbeat_exporter.model.accelerator import Answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from rankbeat_exporter.sources.dcmi_calls import Call

    Chip = tuple[int, int]

BUDGET_SECONDS = 1.0
"""For calls that can wait, per round. 16 chips with the slowest published latencies need 40 s for all of them."""
KEEP_INTERVALS = 4
KEEP_SECONDS = 60.0
"""An answer is repeated for this many of its intervals and this long, then it is unknown."""


class _Kept(NamedTuple):
    answer: Answer
    asked: float


class Round(NamedTuple):
    """Answers of one NPU, and the keys of those that an earlier round got."""

    answers: dict[str, Answer]
    repeated: tuple[str, ...]


class Schedule:
    """Remembers answers between rounds. now: seconds that only grow."""

    def __init__(self, now: Callable[[], float] = time.monotonic, budget_seconds: float = BUDGET_SECONDS) -> None:
        self._now = now
        self._budget_seconds = budget_seconds
        self._kept: dict[tuple[Chip, str], _Kept] = {}
        self._chips: tuple[Chip, ...] = ()

    def rounds(
        self, chips: tuple[Chip, ...], calls: tuple[Call, ...], ask: Callable[[Call, Chip, dict[str, Answer]], Answer]
    ) -> dict[Chip, Round]:
        """What each chip answers now, or did not long ago. ask makes one call.

        A chip that came or went makes all be asked anew: another may stand in its place.
        """
        if chips != self._chips:
            self._kept.clear()
            self._chips = chips
        begin = self._now()
        asked: set[tuple[Chip, str]] = set()

        def make(chip: Chip, call: Call) -> None:
            answers = self._answers(chip, calls)
            if call.is_wanted(answers):
                self._kept[chip, call.key] = _Kept(ask(call, chip, answers), self._now())
                asked.add((chip, call.key))
            else:
                self._kept.pop((chip, call.key), None)

        for chip in chips:
            for call in calls:
                if not call.every_seconds or (call.is_identity and self._is_unknown(chip, call)):
                    make(chip, call)
        for chip, call in self._due(calls, begin):
            if self._now() - begin >= self._budget_seconds + self._regular_seconds(begin, asked):
                break
            make(chip, call)
        return {
            chip: Round(
                found := self._answers(chip, calls), tuple(key for key in found if (chip, key) not in asked)
            )
            for chip in chips
        }

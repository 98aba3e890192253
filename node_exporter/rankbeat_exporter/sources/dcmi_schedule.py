"""Which calls a round makes: each at its own interval, the most overdue first, as far as the round's time goes."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rankbeat_exporter.model.accelerator import Answer
    from rankbeat_exporter.sources.dcmi_calls import Call

    Chip = tuple[int, int]

BUDGET_SECONDS = 1.0
"""For calls that can wait, per round. All of 16 chips' take about 10 s with the slowest published latencies."""
KEEP_INTERVALS = 4
KEEP_SECONDS = 60.0
"""An answer is repeated for the longer of so many of its intervals and this; then it is unknown."""


class _Kept(NamedTuple):
    answer: Answer
    asked: float


class Round(NamedTuple):
    """Answers of one NPU, and the keys of those that an earlier round got."""

    answers: dict[str, Answer]
    repeated: tuple[str, ...]


class Schedule:
    """Remembers answers between rounds. ask makes one call of one chip, given what the chip answered already."""

    def __init__(
        self,
        calls: tuple[Call, ...],
        ask: Callable[[Call, Chip, dict[str, Answer]], Answer],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._calls = calls
        self._limits = {call.key: max(KEEP_SECONDS, KEEP_INTERVALS * call.every_seconds) for call in calls}
        self._ask = ask
        self._now = now
        self._kept: dict[Chip, dict[str, _Kept]] = {}
        self._answers: dict[Chip, dict[str, Answer]] = {}

    def rounds(self, chips: tuple[Chip, ...]) -> dict[Chip, Round]:
        """What each chip answers now, or answered not long ago.

        A chip that came or went makes all be asked anew: another may stand in its place.
        """
        if chips != tuple(self._kept):
            self._kept = {chip: {} for chip in chips}
        self._forget_old()
        asked = {chip: set[str]() for chip in chips}
        for chip in chips:
            for call in self._calls:
                if not call.every_seconds or (call.is_identity and not self._is_known(chip, call)):
                    asked[chip] |= self._made(chip, call)
        deadline = self._now() + BUDGET_SECONDS
        for chip, call in self._due():
            if self._now() >= deadline:
                break
            asked[chip] |= self._made(chip, call)
        return {chip: self._round(chip, asked[chip]) for chip in chips}

    def _forget_old(self) -> None:
        now = self._now()
        for kept in self._kept.values():
            for key in [key for key, one in kept.items() if now - one.asked >= self._limits[key]]:
                del kept[key]
        self._answers = {chip: {key: one.answer for key, one in kept.items()} for chip, kept in self._kept.items()}

    def _round(self, chip: Chip, asked: set[str]) -> Round:
        """In the order of the calls."""
        answers = self._answers[chip]
        found = {key: answers[key] for key in self._limits if key in answers}
        return Round(found, tuple(key for key in found if key not in asked))

    def _made(self, chip: Chip, call: Call) -> set[str]:
        answers = self._answers[chip]
        if not call.is_wanted(answers):
            self._kept[chip].pop(call.key, None)
            answers.pop(call.key, None)
            return set()
        answer = answers[call.key] = self._ask(call, chip, answers)
        self._kept[chip][call.key] = _Kept(answer, self._now())
        return {call.key}

    def _due(self) -> Iterator[tuple[Chip, Call]]:
        """Calls whose interval is over, the most overdue first, those never made in their own order."""
        now = self._now()
        overdue = [
            (-self._age(chip, call, now) + call.every_seconds, place, chip)
            for place, call in enumerate(self._calls)
            for chip in self._kept
            if call.every_seconds and self._age(chip, call, now) >= call.every_seconds
        ]
        yield from ((chip, self._calls[place]) for _, place, chip in sorted(overdue))

    def _age(self, chip: Chip, call: Call, now: float) -> float:
        kept = self._kept[chip].get(call.key)
        return now - kept.asked if kept else math.inf

    def _is_known(self, chip: Chip, call: Call) -> bool:
        kept = self._kept[chip].get(call.key)
        return kept is not None and not kept.answer.code

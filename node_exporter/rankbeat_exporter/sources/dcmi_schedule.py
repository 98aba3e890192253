"""Which calls a round makes: each at its own interval, the most overdue first, as far as the round's time goes."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from rankbeat_exporter.model.accelerator import Answer
    from rankbeat_exporter.sources.dcmi_calls import Call

    Chip = tuple[int, int]

BUDGET_SECONDS = 1.0
"""For calls that can wait, per round. All of 16 chips' take about 10 s with the slowest published latencies."""
KEEP_INTERVALS = 4
KEEP_SECONDS = 60.0
"""An answer is repeated for the longer of so many of its intervals and this; then it is unknown."""
NEVER_KNOWN = -math.inf


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
        self._prompt = tuple(
            (place, call)
            for place, call in enumerate(calls)
            if not call.every_seconds or call.is_identity or call.is_urgent
        )
        """Calls that a round may have to make at once."""
        self._ask = ask
        self._now = now
        self._answers: dict[Chip, dict[str, Answer]] = {}
        self._due: dict[Chip, dict[int, float]] = {}
        """When each call that can wait is to be made again, by its place among the calls."""

    def rounds(self, chips: tuple[Chip, ...]) -> dict[Chip, Round]:
        """What each chip answers now, or answered not long ago.

        A chip that came or went makes all be asked anew: another may stand in its place.
        """
        if chips != tuple(self._answers):
            waiting = {place: NEVER_KNOWN for place, call in enumerate(self._calls) if call.every_seconds}
            self._answers = {chip: {} for chip in chips}
            self._due = {chip: dict(waiting) for chip in chips}
        overdue = self._overdue()
        asked = {chip: set[str]() for chip in chips}
        for chip, answers in self._answers.items():
            for place, call in self._prompt:
                if (
                    not call.every_seconds
                    or (call.is_identity and self._due[chip][place] == NEVER_KNOWN)
                    or (call.is_urgent and call.is_urgent(answers))
                ):
                    self._make(chip, place, asked[chip])
        deadline = self._now() + BUDGET_SECONDS
        for _, place, chip in overdue:
            if self._now() >= deadline:
                break
            if self._calls[place].key not in asked[chip]:
                self._make(chip, place, asked[chip])
        return {chip: self._round(chip, asked[chip]) for chip in chips}

    def _overdue(self) -> list[tuple[float, int, Chip]]:
        """Calls whose interval is over, the most overdue first, first those never made; forgets the old."""
        now = self._now()
        found = sorted(
            (due, place, chip) for chip, dues in self._due.items() for place, due in dues.items() if due <= now
        )
        for due, place, chip in found:
            call = self._calls[place]
            if now - due + call.every_seconds >= max(KEEP_SECONDS, KEEP_INTERVALS * call.every_seconds):
                self._answers[chip].pop(call.key, None)
        return found

    def _make(self, chip: Chip, place: int, asked: set[str]) -> None:
        call, answers = self._calls[place], self._answers[chip]
        if not call.is_wanted(answers):
            answers.pop(call.key, None)
            return
        answer = answers[call.key] = self._ask(call, chip, answers)
        asked.add(call.key)
        if call.every_seconds:
            is_unknown = call.is_identity and answer.code
            self._due[chip][place] = NEVER_KNOWN if is_unknown else self._now() + call.every_seconds

    def _round(self, chip: Chip, asked: set[str]) -> Round:
        """In the order of the calls."""
        answers = self._answers[chip]
        found = {call.key: answers[call.key] for call in self._calls if call.key in answers}
        return Round(found, tuple(key for key in found if key not in asked))

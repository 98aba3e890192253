"""A queue of keys to reconcile: each key once, never two at a time, not more often than it makes sense."""

import asyncio
import heapq
import itertools
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Keys(Generic[Key]):
    """Coalesces: a key that is added many times before its turn has one turn.

    spacing_seconds: from the start of a key's turn to the start of its next. clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float], spacing_seconds: float = 1.0) -> None:
        self._clock = clock
        self._spacing = spacing_seconds
        self._due: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._order = itertools.count()
        self._changed = asyncio.Event()
        self.started: dict[Key, float] = {}
        """Keys whose turn it is, and since when."""
        self._last: dict[Key, float] = {}

    def add(self, key: Key, delay_seconds: float = 0.0) -> None:
        """Let it be key's turn after the delay, or earlier if it is due earlier already."""
        now = self._clock()
        due = max(now + delay_seconds, self._last.get(key, now - self._spacing) + self._spacing)
        if due < self._due.get(key, float("inf")):
            self._due[key] = due
            heapq.heappush(self._heap, (due, next(self._order), key))
            self._changed.set()

    def forget(self, key: Key) -> None:
        """No memory of a key that is gone; it may be added again."""
        self._due.pop(key, None)
        self._last.pop(key, None)

    async def next(self) -> Key:
        """The next key, which is nobody else's until done(key)."""
        while True:
            key = self._take()
            if key is not None:
                return key
            self._changed.clear()
            try:
                async with asyncio.timeout(self._wait_seconds()):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def done(self, key: Key) -> None:
        """The turn is over."""
        self.started.pop(key, None)
        if key in self._due:
            heapq.heappush(self._heap, (self._due[key], next(self._order), key))
        self._changed.set()

    def _take(self) -> Key | None:
        now = self._clock()
        while self._heap and self._heap[0][0] <= now:
            due, _, key = heapq.heappop(self._heap)
            if self._due.get(key) != due or key in self.started:
                continue
            del self._due[key]
            self.started[key] = self._last[key] = now
            return key
        return None

    def _wait_seconds(self) -> float | None:
        return max(0.0, self._heap[0][0] - self._clock()) if self._heap else None

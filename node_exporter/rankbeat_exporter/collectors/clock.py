"""The clock's rounds: all servers at once, the kernel and chrony beside them, and the newest observation for all."""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from rankbeat_exporter.collectors.servers import Asked, Server
from rankbeat_exporter.errors import CannotMeasure
from rankbeat_exporter.model import clock
from rankbeat_exporter.model.clock import ChronyClock, ClockLimits, ClockVerdict, KernelClock, Moment, Observation
from rankbeat_exporter.model.collection import Collection
from rankbeat_exporter.parsing import trust
from rankbeat_exporter.parsing.chrony import Tracking, chrony_clock
from rankbeat_exporter.parsing.kernel import Timex, kernel_clock, with_history

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)

SNTP = "sntp"
KERNEL = "kernel_clock"
CHRONY = "chrony"
_Found = TypeVar("_Found")


class LocalSources(NamedTuple):
    """Who on this node speaks of its clock; tracking is None where chronyd is not to be asked."""

    timex: Callable[[], Timex]
    tracking: Callable[[], Tracking] | None = None


@dataclass(frozen=True, slots=True)
class ClockView:
    """One look at the clock: verdict by now, the rest as the last round left it. servers: how many are configured."""

    verdict: ClockVerdict
    kernel: KernelClock | None
    chrony: ChronyClock | None
    servers: int
    collections: tuple[Collection, ...]


@dataclass(frozen=True, slots=True)
class _Round:
    """What a round found, and when it ended."""

    observation: Observation
    finished: Moment
    collections: tuple[Collection, ...]


class ClockCollector:
    """Rounds over servers and local sources; view() may be called from any thread at any time."""

    def __init__(
        self,
        servers: tuple[Server, ...],
        limits: ClockLimits,
        local: LocalSources,
        now: Callable[[], Moment] = lambda: (time.time(), time.monotonic()),
    ) -> None:
        self._servers = tuple(Asked(server, now) for server in servers)
        self._limits = limits
        self._local = local
        self._now = now
        self._pool = ThreadPoolExecutor(max(len(servers), 1), thread_name_prefix="sntp")
        self._round: _Round | None = None
        self._kernel_before: tuple[KernelClock, Moment] | None = None
        self._leap_until_monotonic = 0.0
        self._said = ""

    def collect(self) -> None:
        """One round."""
        found = Observation()
        collections = []
        if self._servers:
            begin = self._now()[1]
            tuple(self._pool.map(Asked.ask, self._servers))
            end = self._now()
            found = replace(found, servers=tuple(server.state(end) for server in self._servers))
            heard = any(state.reason == clock.SERVER_VALID for state in found.servers)
            collections.append(self._collection(SNTP, "" if heard else "NoValidServer", begin))
        kernel, collection = self._measured(KERNEL, self._kernel)
        collections.append(collection)
        chrony = None
        if (tracking := self._local.tracking) is not None:
            chrony, collection = self._measured(CHRONY, lambda: chrony_clock(tracking(), self._now()[0]))
            collections.append(collection)
        found = self._with_leap(replace(found, kernel=kernel, chrony=chrony))
        self._round = _Round(found, self._now(), tuple(collections))
        self._say()

    def view(self) -> ClockView:
        """The verdict at this moment: bounds have grown, and a round that is too old is believed no more."""
        last = self._round
        count = len(self._servers)
        if last is None:
            return ClockView(trust.clock_verdict(None, 0.0, self._limits), None, None, count, ())
        observation = last.observation
        now = self._now()
        if step := clock.step_seconds(last.finished, now):
            observation = clock.after_step(observation, step)
        verdict = trust.clock_verdict(observation, now[1] - last.finished[1], self._limits)
        if verdict.reason == clock.STALE:
            return ClockView(verdict, None, None, count, last.collections)
        return ClockView(verdict, observation.kernel, observation.chrony, count, last.collections)

    def _kernel(self) -> KernelClock:
        found, now = kernel_clock(self._local.timex()), self._now()
        if self._kernel_before is not None:
            before, then = self._kernel_before
            is_stepped = clock.step_seconds(then, now) != 0
            found = with_history(found, None if is_stepped else before, now[1] - then[1])
        self._kernel_before = (found, now)
        return found

    def _measured(self, name: str, measure: Callable[[], _Found]) -> tuple[_Found | None, Collection]:
        begin = self._now()[1]
        try:
            return measure(), self._collection(name, "", begin)
        except CannotMeasure as error:
            return None, self._collection(name, error.reason, begin)

    def _with_leap(self, found: Observation) -> Observation:
        now = self._now()[1]
        if trust.leap_is_announced(found):
            self._leap_until_monotonic = now + trust.LEAP_NEAR_SECONDS
        return replace(found, leap_is_near=now < self._leap_until_monotonic)

    def _collection(self, name: str, reason: str, begin: float) -> Collection:
        wall, monotonic = self._now()
        return Collection(name, reason, monotonic - begin, wall, monotonic)

    def _say(self) -> None:
        verdict = self.view().verdict
        disagreeing = ",".join(server.server for server in verdict.servers if server.reason == clock.SERVER_DISAGREES)
        said = f"trusted={verdict.is_trusted} reason={verdict.reason} source={verdict.source} disagreeing={disagreeing}"
        if said != self._said:
            figures = (verdict.offset_seconds, verdict.error_bound_seconds)
            _log.info("clock %s offset_seconds=%s error_bound_seconds=%s", said, *figures)
            self._said = said

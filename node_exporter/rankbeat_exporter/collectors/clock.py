"""The clock's rounds: all servers at once, the kernel beside them, and the newest observation for whoever asks."""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rankbeat_exporter.errors import CannotMeasure, InvalidPacket
from rankbeat_exporter.model import clock
from rankbeat_exporter.model.clock import ClockLimits, ClockVerdict, KernelClock, Observation, Sample, ServerState
from rankbeat_exporter.model.collection import Collection
from rankbeat_exporter.parsing import ntp, trust
from rankbeat_exporter.parsing.kernel import Timex, kernel_clock

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)

Moment = tuple[float, float]
"""Wall and monotonic seconds of one instant."""
SNTP = "sntp"
KERNEL = "kernel_clock"


class Server(Protocol):
    """What a round asks: sources.sntp.SntpServer, and the scripted servers of the tests."""

    @property
    def server(self) -> str: ...

    def best_sample(self) -> Sample: ...


@dataclass(frozen=True, slots=True)
class ClockView:
    """One look at the clock: verdict by now, observation as its round left it."""

    verdict: ClockVerdict
    kernel: KernelClock | None
    collections: tuple[Collection, ...]


@dataclass(slots=True)
class _Memory:
    """What a server's rounds leave for the next ones."""

    sample: Sample | None = None
    taken: Moment = (0.0, 0.0)
    kisses: int = 0
    quiet_until_monotonic: float = 0.0
    reason: str = clock.SERVER_STARTING


class ClockCollector:
    """Rounds over servers and the kernel; view() may be called from any thread at any time."""

    def __init__(
        self,
        servers: tuple[Server, ...],
        limits: ClockLimits,
        interval_seconds: float,
        timex: Callable[[], Timex],
        now: Callable[[], Moment] = lambda: (time.time(), time.monotonic()),
    ) -> None:
        self._servers = servers
        self._limits = limits
        self._interval_seconds = interval_seconds
        self._timex = timex
        self._now = now
        self._memories = {server.server: _Memory() for server in servers}
        self._pool = ThreadPoolExecutor(max(len(servers), 1), thread_name_prefix="sntp")
        self._found: tuple[Observation, Moment, tuple[Collection, ...]] | None = None
        self._said = ""

    def collect(self) -> None:
        """One round."""
        collections = []
        states: tuple[ServerState, ...] = ()
        if self._servers:
            begin = self._now()[1]
            tuple(self._pool.map(self._ask, self._servers))
            end = self._now()
            states = tuple(self._state(server.server, end) for server in self._servers)
            heard = any(state.reason == clock.SERVER_VALID for state in states)
            collections.append(self._collection(SNTP, "" if heard else "NoValidServer", begin))
        begin = self._now()[1]
        kernel, reason = self._kernel()
        collections.append(self._collection(KERNEL, reason, begin))
        self._found = (Observation(states, kernel), self._now(), tuple(collections))
        self._say()

    def view(self) -> ClockView:
        """The verdict at this moment: bounds have grown, and a round that is too old is believed no more."""
        found = self._found
        if found is None:
            return ClockView(trust.clock_verdict(None, 0.0, self._limits), None, ())
        observation, finished, collections = found
        now = self._now()
        if step := _step_seconds(finished, now):
            observation = clock.after_step(observation, step)
        verdict = trust.clock_verdict(observation, now[1] - finished[1], self._limits)
        is_fresh = verdict.reason != clock.STALE
        return ClockView(verdict, observation.kernel if is_fresh else None, collections)

    def _ask(self, server: Server) -> None:
        memory = self._memories[server.server]
        if self._now()[1] < memory.quiet_until_monotonic:
            return
        try:
            memory.sample = server.best_sample()
            memory.taken = self._now()
        except (InvalidPacket, CannotMeasure) as error:
            self._remember_fault(server.server, memory, error)
            return
        memory.reason = clock.SERVER_VALID
        memory.kisses = 0

    def _remember_fault(self, name: str, memory: _Memory, error: InvalidPacket | CannotMeasure) -> None:
        """Silence leaves the last sample in place; an answer that must not be believed takes it away."""
        if error.reason not in clock.SILENCES:
            memory.sample = None
        if error.reason.startswith("Kiss"):
            memory.kisses += 1
            pause = ntp.back_off_seconds(error.reason, memory.kisses, self._interval_seconds)
            memory.quiet_until_monotonic = self._now()[1] + pause
        level = logging.DEBUG if error.reason == memory.reason else logging.WARNING
        _log.log(level, "server not believed server=%s reason=%s detail=%r", name, error.reason, error.detail)
        memory.reason = error.reason

    def _state(self, name: str, end: Moment) -> ServerState:
        memory = self._memories[name]
        if memory.sample is None:
            return ServerState(name, memory.reason)
        sample = clock.sample_after_step(memory.sample, _step_seconds(memory.taken, end))
        return ServerState(name, memory.reason, sample, end[1] - memory.taken[1])

    def _kernel(self) -> tuple[KernelClock | None, str]:
        try:
            return kernel_clock(self._timex()), ""
        except CannotMeasure as error:
            return None, error.reason

    def _collection(self, name: str, reason: str, begin: float) -> Collection:
        wall, monotonic = self._now()
        return Collection(name, reason, monotonic - begin, wall, monotonic)

    def _say(self) -> None:
        verdict = self.view().verdict
        disagreeing = ",".join(server.server for server in verdict.servers if server.reason == clock.SERVER_DISAGREES)
        said = f"trusted={verdict.is_trusted} reason={verdict.reason} source={verdict.source} disagreeing={disagreeing}"
        if said != self._said:
            _log.info(
                "clock %s offset_seconds=%s error_bound_seconds=%s",
                said,
                verdict.offset_seconds,
                verdict.error_bound_seconds,
            )
            self._said = said


def _step_seconds(earlier: Moment, later: Moment) -> float:
    """By how much the wall clock was set between the two; 0 where it was only slewed."""
    step = (later[0] - earlier[0]) - (later[1] - earlier[1])
    return step if abs(step) > clock.STEP_TOLERANCE_SECONDS else 0.0

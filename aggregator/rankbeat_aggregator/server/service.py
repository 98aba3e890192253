"""What the program knows, and the loop that judges it."""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from rankbeat_aggregator.detect import judge
from rankbeat_aggregator.detect.judge import Judgement
from rankbeat_aggregator.model.report import Report
from rankbeat_aggregator.model.verdict import Incident, Verdict
from rankbeat_aggregator.window import fleet as fleets
from rankbeat_aggregator.window import view as views
from rankbeat_aggregator.window.fleet import Fleet, Receipt
from rankbeat_aggregator.window.job import Job
from rankbeat_aggregator.window.view import JobView
from rankbeat_contract.monitor import Settings

log = logging.getLogger(__name__)

EVALUATION_SECONDS = 1.0
SHARE = 4.0
"""Pause after a judgement, in its own length: a thousand ranks that die one by one must leave time for reports."""
FORGET_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Clock:
    """Where time comes from."""

    mono: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time


@dataclass(frozen=True, slots=True)
class Judged:
    """A job as it was judged last."""

    job: Job
    view: JobView
    settings: Settings
    verdict: Verdict
    """As it is told: without levels while the monitor is paused."""


@dataclass(slots=True)
class Counts:
    """What the program says of itself."""

    reports: Counter[str] = field(default_factory=Counter)
    """By result: accepted, partial, invalid, too_large, unauthenticated, forbidden, unavailable."""
    without_node_claim: int = 0
    evaluation_seconds: float = 0.0
    last_seconds: float = 0.0
    evaluations: int = 0
    evaluation_wall: float | None = None
    evaluation_mono: float | None = None


class Service:
    """Folds reports and judges jobs, all on the event loop's thread."""

    def __init__(self, settings: Callable[[str, str], Settings], clock: Clock) -> None:
        self._settings = settings
        self.clock = clock
        self.started_wall = clock.wall()
        self.fleet = Fleet(started=clock.mono())
        self.counts = Counts()
        self.judged: tuple[Judged, ...] = ()
        self._due = asyncio.Event()
        self._forgotten = clock.mono()

    def receipt(self) -> Receipt:
        return Receipt(self.clock.mono(), self.clock.wall())

    def accept(self, report: Report, receipt: Receipt) -> None:
        """Takes up a report, and judges soon if it changes who is alive."""
        self.counts.reports["partial" if report.refused else "accepted"] += 1
        if report.refused:
            log.warning(
                "event=ranks_refused node=%s ranks=%d first=%s", report.node, len(report.refused), report.refused[0]
            )
        if fleets.fold(self.fleet, report, receipt):
            self._due.set()

    async def run(self) -> None:
        """Judges every second and whenever a verdict may be due, until cancelled."""
        while True:
            try:
                self.evaluate()
            except Exception:
                # A door: a job that breaks a detector must not end the judging of all others' next second.
                log.exception("event=evaluation_failed")
            await asyncio.sleep(SHARE * self.counts.last_seconds)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(EVALUATION_SECONDS):
                    await self._due.wait()
            self._due.clear()

    def evaluate(self) -> None:
        """Judges every job now."""
        begun = self.clock.mono()
        if begun - self._forgotten >= FORGET_SECONDS:
            fleets.forget(self.fleet, begun)
            self._forgotten = begun
        wall_offset = self.clock.wall() - begun
        is_warm = self.fleet.is_warm(begun)
        self.judged = tuple(self._judge(job, begun, wall_offset, is_warm=is_warm) for job in self.fleet.jobs.values())
        ended = self.clock.mono()
        self.counts.last_seconds = ended - begun
        self.counts.evaluation_seconds += ended - begun
        self.counts.evaluations += 1
        self.counts.evaluation_wall, self.counts.evaluation_mono = self.clock.wall(), ended

    def _judge(self, job: Job, now: float, wall_offset: float, *, is_warm: bool) -> Judged:
        settings = self._settings(job.key.namespace, job.key.monitor)
        view = views.view(self.fleet, job, now)
        if is_warm:
            before = job.verdict
            job.verdict = judge.judge(view, before, Judgement(settings.limits, wall_offset))
            _say(job, before.incidents, job.verdict.incidents)
        told = _silenced(job.verdict) if settings.paused else job.verdict
        return Judged(job, view, settings, told)


def _silenced(verdict: Verdict) -> Verdict:
    """A paused monitor's incidents are known, but nobody is called."""
    return replace(verdict, incidents=tuple(replace(one, level=0, suspects=()) for one in verdict.incidents))


def _say(job: Job, before: tuple[Incident, ...], after: tuple[Incident, ...]) -> None:
    known = {one.kind: one for one in before}
    now = {one.kind: one for one in after}
    key = job.key
    for kind, one in now.items():
        if kind not in known or (known[kind].level, known[kind].evidence) != (one.level, one.evidence):
            log.info(
                "event=incident namespace=%s monitor=%s job_uid=%s kind=%s level=%d evidence=%s message=%r",
                *(key.namespace, key.monitor, key.job_uid, kind, one.level, one.evidence, one.message),
            )
    for kind in known.keys() - now.keys():
        log.info(
            "event=incident_ended namespace=%s monitor=%s job_uid=%s kind=%s",
            *(key.namespace, key.monitor, key.job_uid, kind),
        )

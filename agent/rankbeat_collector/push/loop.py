"""When a report goes out, and what becomes of it."""

import dataclasses
import http.client
import logging
import random
import threading
import time
from typing import Callable, Dict, FrozenSet, Optional

from rankbeat_collector.errors import RejectedError
from rankbeat_collector.model import exchange, ranks, reports
from rankbeat_collector.model.exchange import Exchange
from rankbeat_collector.model.ranks import Key, Poll, Turn
from rankbeat_collector.outputs import Counts
from rankbeat_collector.push.client import Client

_log = logging.getLogger(__name__)

_DEADLINE_SECONDS = 5.0
_LAST_DEADLINE_SECONDS = 1.2
"""For the push at the end: the pod has been told to stop."""
_URGENT_SECONDS = 1.0
"""Least time between two pushes."""


class Pusher:
    """Reports the last poll, regularly and at each turn of a rank."""

    def __init__(
        self, client: Client, sender: reports.Sender, counts: Counts, clock: Callable[[], object] = lambda: None
    ) -> None:
        """sender: without exchange and clock. clock: what the local clock service says; it may take a while."""
        self._client = client
        self._sender = sender
        self._counts = counts
        self._clock = clock
        self._condition = threading.Condition()
        self._poll: Optional[Poll] = None
        self._pushed: Optional[Poll] = None
        self._turns: FrozenSet[Turn] = frozenset()
        self._is_urgent = False
        self._is_stopping = False
        self._exchange: Optional[Exchange] = None
        self._sent: Dict[Key, reports.Sent] = {}
        self._failures = 0
        self._max_rows = reports.MAX_ROWS
        self._last_error = ""
        self._thread = threading.Thread(target=self.run, name="push", daemon=True)

    def offer(self, poll: Poll) -> None:
        """Makes poll the one to report; at once if a rank appeared, died, ended or is gone."""
        turns = ranks.turns(poll.ranks)
        with self._condition:
            self._poll = poll
            self._is_urgent = self._is_urgent or bool(turns - self._turns)
            self._turns = turns
            self._condition.notify()

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_seconds: float) -> None:
        """Sends a last report, and waits for it as long as asked."""
        with self._condition:
            self._is_stopping = True
            self._condition.notify()
        self._thread.join(timeout_seconds)

    def run(self) -> None:
        """Pushes until stopped, and once more then."""
        last = time.monotonic()
        while self._wait(last):
            last = time.monotonic()
            self._push_safely(_DEADLINE_SECONDS)
        self._push_safely(_LAST_DEADLINE_SECONDS)
        self._client.close()

    def _wait(self, last: float) -> bool:
        """Waits until a push is due and a poll is new; False if the collector stops.

        A poll is reported while it is fresh, and once: a poll loop that hangs must not look like ranks that are well.
        """
        jitter = random.random()  # noqa: S311 - spreads nodes, hides nothing
        pause = exchange.delay_seconds(self._sender.interval_seconds, self._failures, jitter)
        with self._condition:
            while not self._is_stopping:
                is_urgent = self._is_urgent and not self._failures
                remaining = last + (min(_URGENT_SECONDS, pause) if is_urgent else pause) - time.monotonic()
                if remaining <= 0 and self._poll is not self._pushed:
                    self._is_urgent = False
                    return True
                self._condition.wait(remaining if remaining > 0 else None)
        return False

    def _push_safely(self, deadline_seconds: float) -> None:
        poll = self._pushed = self._poll
        if poll is None or not poll.has_pods:
            return
        try:
            self._push(poll, deadline_seconds)
        except RejectedError as error:
            self._failed("rejected", error)
            if error.status == 413:
                self._max_rows //= 2
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._failed("failed", error)
        except Exception as error:  # noqa: BLE001 - the door of the loop
            _log.exception("report could not be made")
            self._counts.errors["push"] += 1
            self._failed("failed", error)

    def _push(self, poll: Poll, deadline_seconds: float) -> None:
        sender = self._sender._replace(exchange=self._exchange, clock=exchange.clock(self._clock()))
        now = dataclasses.replace(poll, mono_ns=time.monotonic_ns(), wall_ns=time.time_ns())  # ages are of this moment
        report = reports.report(sender, now, self._sent, is_late=self._failures > 0, max_rows=self._max_rows)
        answer = self._client.post(report.body, deadline_seconds)
        self._exchange = exchange.exchange(answer.sent_wall, answer.body, answer.received_wall) or self._exchange
        self._sent = report.sent
        self._counts.rows_dropped += report.dropped
        self._counts.pushes["accepted"] += 1
        self._counts.last_push_wall = answer.received_wall
        if self._failures:
            _log.info("report accepted again failures=%d", self._failures)
        self._failures = 0
        self._max_rows = reports.MAX_ROWS
        self._last_error = ""

    def _failed(self, result: str, error: Exception) -> None:
        self._counts.pushes[result] += 1
        self._failures += 1
        if type(error).__name__ != self._last_error:
            _log.warning("report %s error=%s message=%r", result, type(error).__name__, str(error)[:300])
        self._last_error = type(error).__name__

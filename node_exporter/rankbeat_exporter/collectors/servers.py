"""What a round asks a server, and what a server's rounds leave for the next ones."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from rankbeat_exporter.errors import CannotMeasure, InvalidPacket
from rankbeat_exporter.model import clock
from rankbeat_exporter.model.clock import Moment, Sample, ServerState

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)


class Server(Protocol):
    """sources.sntp.SntpServer, and the scripted servers of the tests."""

    @property
    def server(self) -> str: ...

    def best_sample(self) -> Sample: ...


class Asked:
    """A server and its last sample."""

    def __init__(self, server: Server, now: Callable[[], Moment]) -> None:
        self._server = server
        self._now = now
        self._sample: Sample | None = None
        self._taken: Moment = (0.0, 0.0)
        self._reason = clock.SERVER_STARTING

    def ask(self) -> None:
        """One round. Silence leaves the last sample in place; an answer that must not be believed takes it away."""
        try:
            self._sample = self._server.best_sample()
            self._taken = self._now()
            self._reason = clock.SERVER_VALID
        except (InvalidPacket, CannotMeasure) as error:
            if error.reason not in clock.SILENCES:
                self._sample = None
            level = logging.DEBUG if error.reason == self._reason else logging.WARNING
            name = self._server.server
            _log.log(level, "server not believed server=%s reason=%s detail=%r", name, error.reason, error.detail)
            self._reason = error.reason

    def state(self, end: Moment) -> ServerState:
        """How the round that ended then left it."""
        if self._sample is None:
            return ServerState(self._server.server, self._reason)
        sample = clock.sample_after_step(self._sample, clock.step_seconds(self._taken, end))
        return ServerState(self._server.server, self._reason, sample, end[1] - self._taken[1])

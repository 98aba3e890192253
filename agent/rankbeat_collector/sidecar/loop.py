"""Polls one folder of rings and feeds the outputs."""

import json
import logging
import os
import threading
import time
from pathlib import Path
from typing import Optional

from rankbeat_collector.files import rows, sides
from rankbeat_collector.model.pods import Pod
from rankbeat_collector.model.ranks import Poll
from rankbeat_collector.ring import polling
from rankbeat_collector.sidecar.configured import Configured
from rankbeat_collector.sidecar.health import Health
from rankbeat_collector.sidecar.options import Settings
from rankbeat_contract import outputs as contract
from rankbeat_contract import ring, side

_log = logging.getLogger(__name__)

_RECORDS = 16384
_RECORDS_OF_POD = 131072
"""A pod's own collector has no other pods to be fair to."""


def _replaced(path: Path, text: str) -> None:
    """Puts text at path, whole at every moment; the job may write to the folder too, whose links are not followed.

    Raises: OSError.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
        file.write(text)
    temporary.replace(path)


class Loop:
    """Polls one folder of rings and feeds the outputs."""

    def __init__(self, given: Settings) -> None:
        self._given = given
        self.configured = Configured(given)
        self._gathering = rows.Gathering()
        pod = Pod(given.namespace, given.pod, "own", "own", given.pod, "own", phase="Running")
        source = polling.Source(given.rings, lambda: (pod,), lambda _: ())
        observing = polling.Observing(self._gathering.observe, _RECORDS, _RECORDS_OF_POD, self._take_entry)
        self._poller = polling.Poller(source, observing)
        self._health = Health()
        self._status_at = 0.0
        self._was_readable = True
        self.latest: Optional[Poll] = None
        self.errors = 0
        self.entries_refused = 0
        """Of side files: not what their kind says."""

    def _take_entry(self, header: ring.Header, state: ring.State, entry: side.Entry) -> None:
        row = sides.extra_row(header, state, entry)
        if row is None or row.rank == ring.UNKNOWN:
            self.entries_refused += 1
        else:
            self._gathering.add_extra(row)

    def once(self) -> Poll:
        """One poll and what follows from it."""
        self.configured.refresh()
        poll = self.latest = self._poller.poll()
        self.configured.records_lost = poll.totals.records_lost
        self.configured.entries_lost = sum(rank.side_lost + sum(rank.side_dropped.values()) for rank in poll.ranks)
        self._say_readable(poll)
        now = time.monotonic()
        new = self._gathering.taken()
        writing = self.configured.writing
        if writing is not None:
            writing.take(new, [rank for rank in poll.ranks if rank.gone_mono_ns is None], now)
            writing.flush(now)
        if now >= self._status_at:
            self._status_at = now + contract.STATUS_SECONDS
            self._write_status(poll)
        return poll

    def _say_readable(self, poll: Poll) -> None:
        if poll.is_readable != self._was_readable:
            _log.log(
                logging.INFO if poll.is_readable else logging.WARNING,
                "rings %s path=%s",
                "are there" if poll.is_readable else "cannot be read",
                self._given.rings,
            )
        self._was_readable = poll.is_readable

    def _write_status(self, poll: Poll) -> None:
        if not self._given.status_file:
            return
        path = Path(self._given.status_file)
        writing = self.configured.writing
        status = {
            "time": round(time.time(), 3),
            "pod": self._given.pod,
            "rings": sum(1 for rank in poll.ranks if rank.gone_mono_ns is None),
            **self._health.said(self.configured, time.monotonic()),
            "refused": dict(poll.totals.refused),
            "entries_refused": self.entries_refused,
            "errors": self.errors,
            "writing": None if writing is None else writing.status(),
        }
        try:
            _replaced(path, json.dumps(status, indent=2) + "\n")
        except OSError as error:
            _log.debug("status not written path=%s error=%r", path, error)

    def run(self, stopped: threading.Event) -> None:
        """Polls until stopped, once more then, and ends."""
        is_last = self._given.is_once
        while True:
            try:
                self.once()
            except Exception:  # noqa: BLE001 - the door of the loop
                self.errors += 1
                if self.errors == 1:
                    _log.exception("poll failed")
            if is_last:
                break
            is_last = stopped.wait(self._given.poll_seconds)
        self.configured.close()
        if self.latest is not None:
            self._write_status(self.latest)

"""All outputs of one collector beside a job: which rows are written, and to where."""

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from rankbeat_collector.errors import SettingsError
from rankbeat_collector.files import audit, custom, documents, lease, masking, posting, rows, streams
from rankbeat_collector.files.destination import Destination, Place
from rankbeat_collector.files.keys import Key
from rankbeat_collector.files.rows import Row
from rankbeat_collector.files.settings import Outputs
from rankbeat_collector.files.summary import Summary
from rankbeat_collector.model.ranks import Rank
from rankbeat_contract import ring

_log = logging.getLogger(__name__)

_SHOWN = 8
"""Places of one output that the status names as failing."""


@dataclass(frozen=True)
class Keys:
    """What the Secret holds, as far as it is mounted."""

    encryption: Optional[Key] = None
    masking: Optional[Key] = None


def first_with_loss(found: Sequence[Rank]) -> Optional[Rank]:
    """The lowest rank here with a valid loss, the lowest of all where none has one; None before any trains."""
    training = [rank for rank in found if rank.state.rank != ring.UNKNOWN and rank.state.segment > 0]
    by_rank = sorted(training, key=lambda rank: (rank.state.rank, -rank.header.claimed_wall_ns))
    return next((rank for rank in by_rank if rank.has_valid_loss), by_rank[0] if by_rank else None)


class Writing:
    """Rows in, outputs out. Nothing here raises once it is made; what fails is counted."""

    def __init__(self, asked: Outputs, place: Place, keys: Keys) -> None:
        """Raises: SettingsError where a key is asked for and not mounted: nothing is written in clear instead."""
        if asked.encrypted and keys.encryption is None:
            raise SettingsError(
                "outputs.encryption", "no key is mounted, so no file is written; make the Secret", "key_missing"
            )
        if asked.masked and keys.masking is None:
            raise SettingsError(
                "outputs.masking", "no key is mounted, so nothing is written; make the Secret", "key_missing"
            )
        self.asked = asked
        self._place = place
        self._masking = keys.masking if asked.masked else None
        self._audit = audit.Log(place.folder, place.pod or place.node or "local") if asked.audit else None
        self.audit_errors = 0
        key = keys.encryption if asked.encrypted else None
        self.destinations = tuple(Destination(file, place, key, self.note) for file in asked.files)
        self._lease = lease.Lease(place.folder, place.experiment, place.pod or f"process {os.getpid()}")
        self._summary = Summary()
        self._chosen = rows.JOB
        self.monitors = custom.Running({monitor.name: monitor for monitor in asked.monitors}, asked.experiment)
        self.posting: Optional[posting.Posting] = None
        if asked.http is not None:
            self.posting = posting.Posting(asked.http, {"experiment": asked.experiment, "pod": place.pod})
            self.posting.start()

    def note(self, action: str, path: Path, **more: Sequence[str]) -> None:
        """Put an entry into the audit log, if there is one."""
        if self._audit is None:
            return
        try:
            self._audit.note(action, str(path), **more)
        except OSError as error:
            self.audit_errors += 1
            if self.audit_errors == 1:
                _log.warning("audit log cannot be written path=%s error=%r", self._audit.path, error)

    def take(self, new: Sequence[Row], found: Sequence[Rank], now: float) -> None:
        """Choose among the rows of one poll and hand them to the outputs. now: monotonic seconds."""
        written = self._chosen_rows(self.monitors.enriched(list(new)), found)
        if self._masking is not None:
            written = [masking.masked(row, self._masking) for row in written]
        if not written:
            return
        for destination in self.destinations:
            destination.take(written, now)
        if self.posting is not None:
            self.posting.take(written, now)
        if self.destinations and not self.asked.encrypted:
            documents.write_runs(self._place.folder / self._place.component(self.asked.experiment), written)

    def _chosen_rows(self, new: List[Row], found: Sequence[Rank]) -> List[Row]:
        first = first_with_loss(found)
        if first is None:
            return new if self.asked.all_ranks else []
        chosen = first.state.rank
        here = [rank.state.rank for rank in found if rank.is_alive and rank.state.rank != ring.UNKNOWN]
        is_mine = not self.destinations or self._lease.is_mine(
            chosen, first.header.attempt, first.header.claimed_wall_ns
        )
        before, self._chosen = self._chosen, chosen
        ended = list(self._summary.rest()) if before not in (chosen, rows.JOB) else []
        ended += self._summary.taken(new, chosen, here)
        of_ranks = new if self.asked.all_ranks else [row for row in new if row.rank == chosen and is_mine]
        return of_ranks + (ended if is_mine else [])

    def flush(self, now: float) -> None:
        """Write what is due."""
        for destination in self.destinations:
            destination.flush(now)
        if self.posting is not None:
            self.posting.flush(now)

    def close(self, now: float, post_seconds: float) -> None:
        """Write everything and end; what cannot be posted within post_seconds is lost."""
        rest = list(self._summary.rest()) if self._lease.has_it or not self.destinations else []
        for destination in self.destinations:
            destination.take(rest, now)
            destination.close(now)
        if self.posting is not None:
            self.posting.take(rest, now)
            self.posting.stop(post_seconds)
        self._lease.let_go()
        self.monitors.close()

    def counts(self) -> Tuple[Tuple[str, streams.Counts], ...]:
        """What became of the rows, by output: format and, where two have the same, their number."""
        known: Dict[str, streams.Counts] = {}
        for destination in self.destinations:
            name = destination.asked.format
            known[name if name not in known else f"{name}-{len(known)}"] = destination.counts
        if self.posting is not None:
            posted = streams.Counts(written=self.posting.rows_posted, dropped=self.posting.rows_dropped)
            posted.troubles["io"] = self.posting.posts["failed"] + self.posting.posts["rejected"]
            if self.posting.failing:
                posted.failing[self.posting.url] = self.posting.failing
            known["http"] = posted
        return tuple(known.items())

    def status(self) -> Mapping[str, Any]:
        """All of it as JSON values, for people and for the status file."""
        return {
            "experiment": self.asked.experiment,
            "folder": str(self._place.folder),
            "first_rank": self._chosen if self._chosen != rows.JOB else None,
            "outputs": {
                name: {
                    "rows_written": counts.written,
                    "rows_dropped": counts.dropped,
                    "parts_rotated": counts.parts,
                    "parts_deleted": counts.deleted,
                    "errors": counts.troubles,
                    "failing": dict(sorted(counts.failing.items())[:_SHOWN]),
                }
                for name, counts in self.counts()
            },
            "paths": sorted({str(self._place.base(file.path, rows.JOB, 0)) for file in self.asked.files}),
            "monitors_disabled": self.monitors.disabled,
            "audit_errors": self.audit_errors,
        }

"""One entry of `outputs.files`: streams by path, and the limits that hold for all its parts together."""

import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, Iterable, List, Mapping, Optional

from rankbeat_collector.files import encoders, places, rows, streams
from rankbeat_collector.files.encoders import Encoder
from rankbeat_collector.files.keys import Key
from rankbeat_collector.files.rows import Row
from rankbeat_contract.outputs import File

_log = logging.getLogger(__name__)

_MOST_STREAMS = 256
_LIMITS_SECONDS = 30.0
_EARLIER_ATTEMPTS = 64


@dataclass(frozen=True)
class Place:
    """Where this collector writes, and who it is."""

    root: Path
    directory: str = ""
    experiment: str = "default"
    node: str = ""
    pod: str = ""

    def base(self, template: str, rank: int, attempt: int) -> Path:
        """What a path template names, without number and suffix; the job's summary has `job` for a rank."""
        return places.below(self.root, self.directory, template, self.fields(rank, attempt))

    def fields(self, rank: int, attempt: int) -> Mapping[str, str]:
        """Values of the placeholders."""
        return {
            "experiment": self.experiment,
            "rank": "job" if rank == rows.JOB else str(rank),
            "node": self.node,
            "attempt": str(attempt),
        }

    @staticmethod
    def component(name: str) -> str:
        """A name as a component of a path."""
        return places.expanded("{experiment}", {"experiment": name})

    @property
    def folder(self) -> Path:
        """The outputs' folder."""
        return self.root / places.expanded(self.directory, self.fields(rows.JOB, 0))


def encoder_of(kind: str) -> Encoder:
    """A new encoder. TensorBoard's libraries are imported only where they are asked for: they cost 25 MiB."""
    if kind == "tensorboard":
        from rankbeat_collector.files import tensorboard  # noqa: PLC0415

        return tensorboard.TensorBoard()
    if kind == "protobuf":
        from rankbeat_collector.files import delimited  # noqa: PLC0415

        return delimited.Protobuf()
    return encoders.Csv() if kind == "csv" else encoders.JsonLines()


class Destination:
    """Rows of any rank in, parts of many streams out."""

    def __init__(self, asked: File, place: Place, key: Optional[Key], note: Callable[[str, Path], None]) -> None:
        self.asked = asked
        self.counts = streams.Counts()
        self._place = place
        self._key = key
        self._note = note
        self._streams: Dict[Path, streams.Stream] = {}
        self._namings: Dict[Path, streams.Naming] = {}
        """Of all paths that the limits are about: those written here, and the same of earlier attempts."""
        self._kept_parts = 0
        self._flush_at = 0.0
        self._limits_at = 0.0

    def take(self, new: Iterable[Row], now: float) -> None:
        """Keep rows for the next flush. now: monotonic seconds."""
        by_base: Dict[Path, List[Row]] = {}
        for row in new:
            by_base.setdefault(self._place.base(self.asked.path, row.rank, row.attempt), []).append(row)
        for base, of_base in by_base.items():
            self._stream(base, of_base[0]).take(of_base, now)

    def flush(self, now: float) -> None:
        """Write what waits if the flush interval is over; keep the limits."""
        if now < self._flush_at:
            return
        self._flush_at = now + self.asked.flush_seconds
        for stream in self._streams.values():
            stream.flush(now)
        if now >= self._limits_at or self.counts.parts != self._kept_parts:
            self._limits_at = now + _LIMITS_SECONDS
            self._keep_limits()

    def close(self, now: float) -> None:
        """Write what waits and end all parts."""
        for stream in self._streams.values():
            stream.close(now)
        self._keep_limits()
        self._streams = {}

    def _stream(self, base: Path, row: Row) -> streams.Stream:
        known = self._streams.pop(base, None)
        if known is None:
            if len(self._streams) >= _MOST_STREAMS:
                oldest = next(iter(self._streams))
                self._streams.pop(oldest).close(time.monotonic())
            known = streams.Stream(self._opening(base), encoder_of(self.asked.format))
            shown = known.naming.path(1, row.time)
            _log.info("output format=%s path=%s", self.asked.format, shown)
            self._namings.update((earlier, self._opening(earlier).naming) for earlier in self._bases_until(row))
        self._streams[base] = known
        return known

    def _opening(self, base: Path) -> streams.Opening:
        naming = streams.Naming(
            base=base,
            suffix=encoders.SUFFIXES.get(self.asked.format, ""),
            writer=self._place.pod or "rankbeat",
            encrypted=self._key is not None,
        )
        most = min(self.asked.max_file_bytes, max(1, self.asked.max_total_bytes // 2))
        return streams.Opening(naming, most, self._key, self.counts, self._note)

    def _bases_until(self, row: Row) -> Iterable[Path]:
        first = max(0, row.attempt - _EARLIER_ATTEMPTS)
        return {self._place.base(self.asked.path, row.rank, attempt) for attempt in range(first, row.attempt + 1)}

    def _keep_limits(self) -> None:
        """Delete the oldest parts of these streams that exceed total size or age, never one that is written now."""
        self._kept_parts = self.counts.parts
        present = {stream.present for stream in self._streams.values()}
        found = []
        for naming in self._namings.values():
            for _, path in naming.there():
                try:
                    status = path.stat()
                except OSError:
                    continue
                found.append((status.st_mtime, str(path), path, status.st_size))
        total = sum(size for *_, size in found)
        oldest = time.time() - self.asked.max_age_seconds
        for changed, _, path, size in sorted(found):
            if path in present or (total <= self.asked.max_total_bytes and changed >= oldest):
                continue
            try:
                path.unlink()
            except OSError as error:
                self.counts.troubles[streams.trouble_of(error)] += 1
                continue
            total -= size
            self.counts.deleted += 1
            self._note("deleted", path)

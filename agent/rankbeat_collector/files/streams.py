"""A sequence of parts: rows go in, parts are begun, rotated and, in trouble, retried. Memory is bounded."""

import copy
import errno
import logging
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from rankbeat_collector.files import keys, parts
from rankbeat_collector.files.encoders import Encoder
from rankbeat_collector.files.keys import Key
from rankbeat_collector.files.rows import Row

_log = logging.getLogger(__name__)

WAITING_ROWS = 512
"""Rows kept of one stream: more are written before the flush interval, or, while nothing can be written, dropped."""
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 60.0
_BATCH_BYTES = 1 << 18
_SECONDS = re.compile(r"tfevents\.(\d+)\.")

TROUBLES = ("full", "io", "unwritable", "vanished")
_TROUBLE = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "full"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ELOOP), "unwritable"),
    **dict.fromkeys((errno.ENOENT, errno.ESTALE, errno.ENODEV, errno.ENXIO), "vanished"),
}


def trouble_of(error: OSError) -> str:
    """One of TROUBLES."""
    return _TROUBLE.get(error.errno or 0, "io")


@dataclass
class Counts:
    """What became of the rows of one output, since the collector started."""

    written: int = 0
    dropped: int = 0
    parts: int = 0
    deleted: int = 0
    troubles: Dict[str, int] = field(default_factory=lambda: dict.fromkeys(TROUBLES, 0))
    failing: Dict[str, str] = field(default_factory=dict)
    """Places that cannot be written now, and why."""


@dataclass(frozen=True)
class Naming:
    """How the parts of a stream are named: NAME.000001.SUFFIX, or an event file's name in a folder of its own."""

    base: Path
    suffix: str
    """Of a format's part; empty for TensorBoard."""
    writer: str = ""
    """Ends an event file's name."""
    encrypted: bool = False

    @property
    def folder(self) -> Path:
        return self.base.parent if self.suffix else self.base

    def path(self, number: int, first_time: float, before: str = "") -> Path:
        """Of the part with this number. before: the name of the part before it, which TensorBoard is to read first."""
        end = keys.SUFFIX if self.encrypted else ""
        if self.suffix:
            return self.base.with_name(f"{self.base.name}.{number:06d}{self.suffix}{end}")
        seconds = max(int(first_time), int((_SECONDS.findall(before) or "0")[0]))
        return self.base / f"events.out.tfevents.{seconds:010d}.{number:06d}.{self.writer}{end}"

    def number(self, name: str) -> int:
        """Of a part with this file name, 0 where it is none of this stream's."""
        pattern = (
            re.escape(self.base.name) + r"\.(\d{6,})" + re.escape(self.suffix)
            if self.suffix
            else r"events\.out\.tfevents\.\d+\.(\d{6,})\..*"
        )
        found = re.fullmatch(pattern + rf"({re.escape(keys.SUFFIX)})?", name)
        return int(found.group(1)) if found else 0

    def there(self) -> List[Tuple[int, Path]]:
        """Parts that are there, oldest first."""
        try:
            names = os.listdir(self.folder)  # noqa: PTH208 - names are enough
        except OSError:
            return []
        return sorted((self.number(name), self.folder / name) for name in names if self.number(name))


@dataclass(frozen=True)
class Opening:
    """What a stream needs to begin parts."""

    naming: Naming
    max_file_bytes: int
    key: Optional[Key]
    counts: Counts
    note: Callable[[str, Path], None] = lambda _action, _path: None
    """Told of each part that is opened or rotated."""


class _Batch(NamedTuple):
    """Rows as bytes, and the encoder as it is after them."""

    text: bytes
    rows: int
    encoder: Encoder


class Stream:
    """Rows to parts."""

    def __init__(self, opening: Opening, encoder: Encoder) -> None:
        self._opening = opening
        self._encoder = encoder
        self._waiting: List[Row] = []
        self._part: Optional[parts.Part] = None
        self._number = 0
        self._is_empty = True
        self._pause = 0.0
        self._retry_at = 0.0

    @property
    def naming(self) -> Naming:
        return self._opening.naming

    @property
    def present(self) -> Optional[Path]:
        """The part that is being written."""
        return None if self._part is None else self._part.path

    def take(self, rows: Iterable[Row], now: float) -> None:
        """Keep rows for the next flush; many are written at once. now: monotonic seconds."""
        self._waiting.extend(rows)
        if len(self._waiting) >= WAITING_ROWS:
            self.flush(now)

    def flush(self, now: float) -> None:
        """Write what waits, unless it failed lately; never raises."""
        if self._waiting and now >= self._retry_at:
            try:
                self._write()
            except OSError as error:
                self._failed(error, now)
            else:
                self._worked()
        excess = len(self._waiting) - WAITING_ROWS
        if excess > 0:
            del self._waiting[:excess]
            self._opening.counts.dropped += excess

    def close(self, now: float) -> None:
        """Write what waits, once more, and end the part."""
        self._retry_at = 0.0
        self.flush(now)
        self._opening.counts.dropped += len(self._waiting)
        self._waiting = []
        self._end_part()

    def _write(self) -> None:
        if self._part is not None and not self._part.is_there():
            self._part.abandon()
            self._part = None
            self._opening.counts.troubles["vanished"] += 1
            _log.warning("output vanished, begun anew path=%s", self._opening.naming.base)
        while self._waiting:
            part = self._part
            batch = _Batch(b"", 0, self._encoder) if part is None else self._batch(part)
            if part is None or batch.rows == 0:
                self._begin_part()
                continue
            try:
                part.append(batch.text)
            except OSError:
                if part.is_broken:
                    self._part = None
                raise
            self._encoder, self._is_empty = batch.encoder, False
            self._opening.counts.written += batch.rows
            del self._waiting[: batch.rows]

    def _batch(self, part: parts.Part) -> "_Batch":
        """The rows that go into the present part now; none where a new part must come first."""
        opening, encoder = self._opening, self._encoder
        texts: List[bytes] = []
        size = 0
        for row in self._waiting:
            if not encoder.fits(row) or size > _BATCH_BYTES:
                break
            trial = copy.copy(encoder)  # what a row changes in it holds once the row is written
            text = trial.row(row)
            is_first = self._is_empty and not texts
            if part.size + parts.grown(size + len(text), opening.key) > opening.max_file_bytes and not is_first:
                break
            texts.append(text)
            encoder, size = trial, size + len(text)
        return _Batch(b"".join(texts), len(texts), encoder)

    def _begin_part(self) -> None:
        """Raises: OSError."""
        if self._part is not None:
            self._end_part()
            self._opening.counts.parts += 1
        there = self._opening.naming.there()
        number = max(self._number, there[-1][0] if there else 0) + 1
        while True:
            path = self._opening.naming.path(number, self._waiting[0].time, there[-1][1].name if there else "")
            try:
                part = parts.Part(path, self._opening.key)
                break
            except FileExistsError:
                number += 1
        encoder = copy.copy(self._encoder)
        head = encoder.head(self._waiting)
        try:
            if head:
                part.append(head)
        except OSError:
            part.abandon()
            path.unlink()
            raise
        self._part, self._number, self._encoder, self._is_empty = part, number, encoder, True
        self._opening.note("rotated" if number > 1 else "opened", path)

    def _end_part(self) -> None:
        part, self._part = self._part, None
        if part is None:
            return
        try:
            part.close()
        except OSError as error:
            self._opening.counts.troubles[trouble_of(error)] += 1

    def _failed(self, error: OSError, now: float) -> None:
        trouble, place = trouble_of(error), str(self._opening.naming.base)
        counts = self._opening.counts
        counts.troubles[trouble] += 1
        if place not in counts.failing:
            _log.warning(
                "output cannot be written path=%s reason=%s error=%r; training goes on, it is tried again",
                place,
                trouble,
                error,
            )
        counts.failing[place] = trouble
        self._pause = min(_LONGEST_PAUSE_SECONDS, self._pause * 2 or _FIRST_PAUSE_SECONDS)
        self._retry_at = now + self._pause

    def _worked(self) -> None:
        self._pause = 0.0
        place = str(self._opening.naming.base)
        if self._opening.counts.failing.pop(place, None) is not None:
            _log.info("output is written again path=%s", place)


def encoded(encoder: Encoder, rows: Sequence[Row]) -> bytes:
    """One part that holds these rows, for tests of readers and for examples."""
    return encoder.head(rows) + b"".join(encoder.row(row) for row in rows)

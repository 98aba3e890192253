"""Which collector writes the job's summary and the one rank: on a volume that pods share, the one with the lowest rank.

A file in the outputs' folder says who does and since when; a collector that finds it old takes over.
"""

import contextlib
import json
import logging
import os
import re
import time
from pathlib import Path
from typing import NamedTuple, Optional, Tuple

_log = logging.getLogger(__name__)

PREFIX = ".rankbeat-first-rank-"
_STALE_SECONDS = 60.0
_LOOK_SECONDS = 5.0
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class Lease:
    """The lowest rank with a valid loss, agreed through the volume."""

    def __init__(self, folder: Path, experiment: str, owner: str) -> None:
        self._path = folder / f"{PREFIX}{_UNSAFE.sub('-', experiment)}.json"
        self._owner = owner
        self._said_at = 0.0
        self._said: Optional[Tuple[int, int]] = None

    @property
    def has_it(self) -> bool:
        """Whether this collector wrote when it was asked last."""
        return self._said is not None

    def is_mine(self, rank: int, attempt: int, claimed_ns: int) -> bool:
        """Whether this collector, whose lowest such rank this is, writes; it does where nothing can be read or said."""
        now = time.monotonic()
        if self._said == (rank, claimed_ns) and now - self._said_at < _LOOK_SECONDS:
            return True
        wish = _Held(self._owner, rank, attempt, claimed_ns, round(time.time(), 3))
        held = self._held()
        if held is not None and held.owner != self._owner and not _precedes(wish, held):
            self._said = None
            return False
        self._say(wish)
        self._said, self._said_at = (rank, claimed_ns), now
        return True

    def let_go(self) -> None:
        """Leave it to the next collector, which then need not wait."""
        held = self._held()
        if held is not None and held.owner == self._owner:
            with contextlib.suppress(OSError):
                self._path.unlink()
        self._said = None

    def _held(self) -> Optional["_Held"]:
        try:
            held = json.loads(self._path.read_text(encoding="utf-8"))
            rank, attempt, claimed_ns = (int(held[name]) for name in ("rank", "attempt", "claimed_ns"))
            return _Held(str(held["owner"]), rank, attempt, claimed_ns, float(held["time"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _say(self, wish: "_Held") -> None:
        temporary = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(wish._asdict()) + "\n", encoding="utf-8")
            temporary.replace(self._path)
        except OSError as error:
            _log.debug("first rank not said path=%s error=%r", self._path, error)


class _Held(NamedTuple):
    """What the file says."""

    owner: str
    rank: int
    attempt: int
    claimed_ns: int
    time: float


def _precedes(wish: _Held, held: _Held) -> bool:
    """Whether the lease goes over: its owner is silent, the attempt is newer, the rank lower or begun anew."""
    if abs(wish.time - held.time) > _STALE_SECONDS or wish.attempt > held.attempt:
        return True
    if wish.attempt < held.attempt:
        return False
    return wish.rank < held.rank or (wish.rank == held.rank and wish.claimed_ns > held.claimed_ns)

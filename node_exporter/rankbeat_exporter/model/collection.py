"""How a collector fares, for its success, duration and last-collect series."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Collection:
    """One finished collection: reason is empty where it could measure; finished_* by the two clocks."""

    collector: str
    reason: str
    duration_seconds: float
    finished_wall: float
    finished_monotonic: float

"""Steps of many ranks side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rankbeat_aggregator.window.process import Process

KEPT_COLUMNS = 32
"""Newest steps aligned. A median needs no more, and 8,192 ranks of them are 2 MiB."""


@dataclass(frozen=True, slots=True)
class Window:
    """Steps of one attempt, aligned."""

    ranks: tuple[int, ...]
    keys: npt.NDArray[np.float64]
    """float64 [steps, 2], ascending: segment, step."""
    interval_seconds: npt.NDArray[np.float64]
    """float64 [ranks, steps], NaN where the rank reported none."""


def aligned(members: Sequence[Process]) -> Window:
    """The newest KEPT_COLUMNS steps of an attempt's processes."""
    ranked = [one for one in members if one.rank is not None]
    ranks = tuple(one.rank for one in ranked if one.rank is not None)
    newest = [one.rows[-KEPT_COLUMNS:] for one in ranked]
    rows = np.concatenate(newest) if newest else np.empty((0, 4))
    # One sortable number per key: real segments and steps are far below 2^20 and 2^53.
    codes = rows[:, 0].astype(np.int64) * (1 << 42) + rows[:, 1].astype(np.int64)
    columns, where, column = np.unique(codes, return_index=True, return_inverse=True)
    first = max(0, len(columns) - KEPT_COLUMNS)
    interval = np.full((len(ranked), len(columns) - first), np.nan)
    row = np.repeat(np.arange(len(ranked)), [len(part) for part in newest])
    is_kept = column >= first
    interval[row[is_kept], column[is_kept] - first] = rows[is_kept, 2]
    return Window(ranks, rows[where[first:], :2], interval)


def median_interval_seconds(window: Window) -> float | None:
    """The job's median step interval, None before the first. In a synchronous job all ranks have the same."""
    known = window.interval_seconds[np.isfinite(window.interval_seconds)]
    return float(np.median(known)) if len(known) else None

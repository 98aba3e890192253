"""The job's summary: per step one row that stands for all ranks seen here."""

import statistics
from typing import Dict, List, Optional, Sequence, Tuple

from rankbeat_collector.files import rows
from rankbeat_collector.files.rows import Row
from rankbeat_contract import ring

_OPEN_STEPS = 256
"""Steps that wait for slower ranks; in a synchronous job all ranks end a step within one flush of the agent."""
_OF_ONE_RANK = frozenset(("resident_memory_bytes",))
RANKS_SEEN = "ranks_seen"


class _Open:
    """A step that not all ranks have reported yet."""

    def __init__(self) -> None:
        self.chosen: Optional[Row] = None
        self.intervals: List[float] = []
        self.gaps: List[float] = []
        self.ranks: Dict[int, float] = {}


class Summary:
    """Rows of ranks in, rows of the job out, each step once all ranks have passed it."""

    def __init__(self) -> None:
        self._steps: Dict[int, _Open] = {}
        self._life: Optional[Tuple[str, int]] = None

    def taken(self, new: Sequence[Row], chosen: int, here: Sequence[int]) -> Tuple[Row, ...]:
        """Rows of the steps that are complete. chosen: the rank with a valid loss; here: ranks that live here."""
        ended: List[Row] = []
        for row in new:
            if row.extra is not None or row.layer != ring.UNKNOWN or row.head != ring.UNKNOWN:
                continue
            if row.rank == chosen and (row.run, row.segment) != self._life:
                if self._life is not None:
                    ended += self.rest()  # a new train() call may begin at an earlier step
                self._life = (row.run, row.segment)
            self._add(row, chosen)
        wanted = set(here) or {chosen}
        for step in sorted(self._steps):
            there = self._steps[step].ranks.keys()
            is_complete = there >= wanted and self._steps[step].chosen is not None
            if is_complete or len(self._steps) > _OPEN_STEPS:
                ended += self._ended(step)
        return tuple(ended)

    def rest(self) -> Tuple[Row, ...]:
        """Rows of all steps that are still open."""
        return tuple(row for step in sorted(self._steps) for row in self._ended(step))

    def _add(self, row: Row, chosen: int) -> None:
        known = self._steps.setdefault(row.step, _Open())
        known.ranks[row.rank] = row.time
        if rows.STEP_INTERVAL in row.values:
            known.intervals.append(row.values[rows.STEP_INTERVAL])
        if rows.GAP in row.values:
            known.gaps.append(row.values[rows.GAP])
        if row.rank == chosen:
            before = known.chosen
            known.chosen = row if before is None else row._replace(values={**before.values, **row.values})

    def _ended(self, step: int) -> Tuple[Row, ...]:
        known = self._steps.pop(step)
        if known.chosen is None:
            return ()
        measured = (rows.STEP_INTERVAL, rows.GAP, rows.IN_STEP)
        values = {
            name: value
            for name, value in known.chosen.values.items()
            if name not in measured and name not in _OF_ONE_RANK
        }
        values[RANKS_SEEN] = float(len(known.ranks))
        if known.intervals:
            values[rows.STEP_INTERVAL] = statistics.median(known.intervals)
            values[f"{rows.STEP_INTERVAL}_max"] = max(known.intervals)
        if known.gaps:
            values[f"{rows.GAP}_max"] = max(known.gaps)
        return (known.chosen._replace(rank=rows.JOB, values=values),)

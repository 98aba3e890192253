"""Rows: what one rank said of one step, put together from the records of its ring."""

import math
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from rankbeat_contract import names, ring

JOB = -1
"""In place of a rank: the job's summary."""
RUN_LETTERS = 8

STEP_INTERVAL = "step_interval_seconds"
GAP = "gap_seconds"
IN_STEP = "in_step_seconds"
DISPATCH = "timing_dispatch"
"""1 where the row's durations are dispatch times: the device was not synchronised at the step's end."""

_DEVIATIONS = frozenset((names.SCALAR_BASELINE_LOSS, names.SCALAR_BASELINE_STEP_INTERVAL))
"""Their value2 is a standard deviation, where others' value2 and value3 are the least and the largest."""


class Extra(NamedTuple):
    """What is no number. content: JSON, or an image's file as it is; empty where it is masked."""

    kind: str
    name: str
    content: bytes
    masked: str = ""
    """JSON with shape, dtype and hmac_sha256."""


class Row(NamedTuple):
    """One rank at one step; with a layer or a head: that layer's numbers."""

    step: int
    time: float
    """Seconds since the epoch, by the clock of the node that trains."""
    rank: int
    attempt: int
    run: str
    """First characters of the run's id: one life of one process."""
    segment: int
    layer: int = ring.UNKNOWN
    head: int = ring.UNKNOWN
    values: Mapping[str, float] = {}
    extra: Optional[Extra] = None


FIELDS = ("step", "time", "rank", "attempt", "run", "segment", "layer", "head")
"""Of a row, beside its values: names that no value has."""


def wall_seconds(header: ring.Header, mono_ns: int) -> float:
    """A ring's monotonic time as seconds since the epoch, to the microsecond; the same for every reader."""
    return round((header.claimed_wall_ns + mono_ns - header.claimed_mono_ns) / 1e9, 6)


def values_of(record: ring.Record, name: str) -> Dict[str, float]:
    """The numbers in a record, by name; what is unknown is absent, a sampled NaN is there."""
    if record.kind == ring.KIND_STEP:
        measured = {STEP_INTERVAL: record.value, GAP: record.value2, IN_STEP: record.value3}
        known = {name: round(value, 9) for name, value in measured.items() if math.isfinite(value)}
        return known if record.flags & ring.TIMING_SYNCED or not known else {**known, DISPATCH: 1.0}
    values = {name: record.value}
    second, third = ("std", "") if name in _DEVIATIONS else ("min", "max")
    for suffix, value in ((second, record.value2), (third, record.value3)):
        if suffix and not math.isnan(value):
            values[f"{name}_{suffix}"] = value
    return values


class Gathering:
    """Records of one step become one row. Fed by the reader of the rings, emptied after each poll."""

    def __init__(self) -> None:
        self._open: Dict[Tuple[object, ...], Tuple[Row, Dict[str, float]]] = {}
        self._extras: List[Row] = []
        self.without_rank = 0
        """Records of processes that did not know their rank yet."""

    def observe(self, header: ring.Header, state: ring.State, record: ring.Record, name: str) -> None:
        """Take in one record. name: of a scalar, empty for a step."""
        if state.rank == ring.UNKNOWN:
            self.without_rank += 1
            return
        key = (header.run_id, record.segment, record.step, record.layer, record.head)
        known = self._open.get(key)
        if known is None:
            values: Dict[str, float] = {}
            row = Row(
                record.step,
                wall_seconds(header, record.mono_ns),
                state.rank,
                header.attempt,
                header.run_id[:RUN_LETTERS],
                record.segment,
                record.layer,
                record.head,
                values,
            )
            known = self._open[key] = (row, values)
        known[1].update(values_of(record, name))

    def add_extra(self, row: Row) -> None:
        """Take in a row of the side file."""
        self._extras.append(row)

    def taken(self) -> Tuple[Row, ...]:
        """All rows since the last call, in the order of their first records."""
        rows = (*(row for row, _ in self._open.values()), *self._extras)
        self._open, self._extras = {}, []
        return rows


def as_json(row: Row) -> Dict[str, Any]:
    """The row as JSON values: fields, then values by name; layer and head only where there are any."""
    fields: Dict[str, Any] = {
        "step": row.step,
        "time": row.time,
        "rank": row.rank,
        "attempt": row.attempt,
        "run": row.run,
        "segment": row.segment,
    }
    if row.layer != ring.UNKNOWN:
        fields["layer"] = row.layer
    if row.head != ring.UNKNOWN:
        fields["head"] = row.head
    return {**fields, **{name: value for name, value in row.values.items() if name not in FIELDS}}

"""Many files' rows as one story: of each rank's step the last life that told it wins."""

from typing import Dict, Iterable, List, Set, Tuple

from rankbeat_collector.files.rows import Row

Life = Tuple[str, int]
"""Run and segment: one train() call of one process."""


def merged(found: Iterable[Row]) -> Tuple[Row, ...]:
    """Rows by rank, step, layer, head, without those that a later attempt, process or train() call told anew.

    A later one is one of a higher attempt, or of the same that began later by its rows' own times. Rows of one life at
    one place are one row; a row that is there twice (in two formats, or read twice from a ring) is there once.
    """
    every = tuple(found)
    order = _order(every)
    last: Dict[Tuple[int, int, bool], Tuple[int, float, int]] = {}
    for row in every:
        last[_told(row)] = max(last.get(_told(row), order[_life(row)]), order[_life(row)])
    kept = [row for row in every if order[_life(row)] == last[_told(row)]]
    return tuple(sorted(_joined(kept), key=_place))


def _place(row: Row) -> Tuple[int, int, int, int, bool]:
    return (row.rank, row.step, row.layer, row.head, row.extra is not None)


def _told(row: Row) -> Tuple[int, int, bool]:
    """What a life tells; extras apart, because nobody knows for sure which train() call an extra was of."""
    return (row.rank, row.step, row.extra is not None)


def _life(row: Row) -> Tuple[int, Life]:
    return (row.rank, (row.run, row.segment))


def _order(every: Tuple[Row, ...]) -> Dict[Tuple[int, Life], Tuple[int, float, int]]:
    """What tells which life is later: attempt, begin of the process, train() call."""
    began: Dict[Tuple[int, str], float] = {}
    for row in every:
        process = (row.rank, row.run)
        began[process] = min(began.get(process, row.time), row.time)
    return {_life(row): (row.attempt, began[(row.rank, row.run)], row.segment) for row in every}


def _joined(kept: List[Row]) -> List[Row]:
    together: Dict[Tuple[object, ...], Row] = {}
    extras: List[Row] = []
    seen: Set[Tuple[object, ...]] = set()
    for row in sorted(kept, key=lambda row: row.time):
        place = (row.rank, row.step, row.layer, row.head)
        if row.extra is not None:
            identity = (*place, row.extra.kind, row.extra.name)
            if identity not in seen:
                seen.add(identity)
                extras.append(row)
            continue
        before = together.get(place)
        together[place] = row if before is None else before._replace(values={**before.values, **row.values})
    return [*together.values(), *extras]

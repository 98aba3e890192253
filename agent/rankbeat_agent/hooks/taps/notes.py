"""What taps have read at one sampled step, on its way to the ring."""

import math
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from rankbeat_agent.wire import records
from rankbeat_agent.wire.writer import Writer
from rankbeat_contract import ring

MAX_HEAD_RECORDS = 256
"""Records of single heads of one name at one step: the ring is circular, and they must not push the steps out of it."""
_NAN = float("nan")


class Group(NamedTuple):
    """Values of one layer, -1 for what belongs to none. heads: their numbers, where they are not 0, 1, 2 and so on."""

    layer: int
    values: Sequence[float]
    heads: Sequence[int] = ()


class Notes:
    """Writes records of one step; signals (signals.Signals) knows the interval and filter of each metric."""

    __slots__ = ("now_ns", "signals", "step", "writer")

    def __init__(self, writer: Writer, step: int, now_ns: int, signals: Any) -> None:
        self.writer = writer
        self.step = step
        self.now_ns = now_ns
        self.signals = signals

    def one(self, name: str, value: float) -> None:
        """A sampled number."""
        self.signals.add(self.signals.id_of(self.writer, name), self.step, self.now_ns, value)

    def constant(self, name: str, value: float, layer: int = -1) -> None:
        """A number that rarely changes."""
        self._write(self.signals.id_of(self.writer, name), (value, _NAN, _NAN), layer)

    def layers(self, name: str, groups: List[Group], *, with_heads: bool = False) -> None:
        """Mean, minimum and maximum of each layer; then single heads, as many as MAX_HEAD_RECORDS leaves room for.

        The layers whose heads come first change with the step, so that all have their turn. A filter looks at the mean.
        """
        name_id = self.signals.id_of(self.writer, name)
        own = self.signals.own.get(name_id)
        if not groups or self.step < (self.signals.next_common if own is None else own.next_step):
            return
        first = self.step % len(groups)
        room = MAX_HEAD_RECORDS
        for layer, values, heads in groups[first:] + groups[:first]:
            spread = _spread(values)
            if own is not None and own.keeps is not None and not own.keeps(spread[0]):
                continue
            self._write(name_id, spread, layer)
            if with_heads and len(values) <= room:
                room -= len(values)
                for head, value in zip(heads or range(len(values)), values):
                    self._write(name_id, (value, _NAN, _NAN), layer, head)

    def _write(self, name_id: int, values: Tuple[float, float, float], layer: int, head: int = -1) -> None:
        records.note(self.writer, ring.KIND_SCALAR, name_id, self.step, self.now_ns, *values, layer, head)


def _spread(values: Sequence[float]) -> Tuple[float, float, float]:
    """Mean, minimum and maximum; all NaN with a NaN among them, which min() and max() see or not as it stands."""
    total = sum(values)
    return (_NAN, _NAN, _NAN) if math.isnan(total) else (total / len(values), min(values), max(values))


def grouped(layers: Sequence[Optional[int]], values: Sequence[float]) -> List[Group]:
    """values by layer, in the order of the layers; those of no layer last, as layer -1."""
    found: Dict[int, List[float]] = {}
    for layer, value in zip(layers, values):
        found.setdefault(-1 if layer is None else layer, []).append(value)
    return [Group(layer, found[layer]) for layer in sorted(found, key=lambda each: (each < 0, each))]

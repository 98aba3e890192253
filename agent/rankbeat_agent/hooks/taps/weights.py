"""What is read of the weights themselves at sampled steps: how far an update moves them, and how they are spread.

Nothing of it is compiled into the step: the weights are copied to the host.
"""

from typing import Any, Callable, Dict, List, Optional

from rankbeat_agent.hooks.taps import notes, selection
from rankbeat_contract import names, side

COPY_BYTES = 64 << 20
"""Weights copied before a sampled step for updateRatio, so much memory at most; those beyond it are left out."""
READ_BYTES = 16 << 20
"""Weights read at one sampled step for histograms; the others have their turn at the next."""
MAX_VALUES = 1 << 16
"""Values counted in one histogram; of a larger parameter every n-th."""


def _bytes(parameter: Any) -> int:
    return int(parameter.size) * int(getattr(parameter, "itemsize", 4))


def _array(parameter: Any) -> Any:
    """A parameter's values as float32; on CPU they may be the parameter's own memory."""
    return parameter.asnumpy().astype("float32", copy=False)


class Updates:
    """Norm of one step's update over the norm of the weights, of chosen parameters."""

    __slots__ = ("chosen", "kept", "step")

    def __init__(self, chosen: List[selection.Selected], refuse: Callable[[str, str], None]) -> None:
        self.chosen: List[selection.Selected] = []
        self.kept: Dict[int, Any] = {}
        """Copies of the weights before step, by place in chosen; held from its beginning to its end only."""
        self.step = -1
        left = COPY_BYTES
        for each in chosen:
            left -= 4 * int(each.parameter.size)
            if left < 0:
                left_out = len(chosen) - len(self.chosen)
                limit = f"{COPY_BYTES >> 20} MiB"
                refuse("updateRatio of all", f"{left_out} parameters are beyond {limit}: name fewer in spec.parameters")
                break
            self.chosen.append(each)

    def before(self, step: int) -> None:
        """Copy the weights: a sampled step begins."""
        self.kept = {place: _array(each.parameter).copy() for place, each in enumerate(self.chosen)}
        self.step = step

    def read(self, noted: notes.Notes) -> None:
        """Note how far the step moved the weights, if it is the one before which they were copied."""
        kept, self.kept = self.kept, {}
        if self.step != noted.step:
            return
        layers: List[Optional[int]] = []
        ratios: List[float] = []
        for place, before in kept.items():
            size = _norm(before)
            moved = _norm(_array(self.chosen[place].parameter) - before)
            if size > 0:  # one that is all zeros has no ratio
                layers.append(self.chosen[place].layer)
                ratios.append(moved / size)
        if ratios:
            noted.layers(names.SCALAR_UPDATE_RATIO, notes.grouped(layers, ratios))


def _norm(values: Any) -> float:
    flat = values.reshape(-1)
    return float(flat.dot(flat) ** 0.5)


class Histograms:
    """Histograms of chosen weights to the side file, by turns."""

    __slots__ = ("chosen", "next")

    def __init__(self, chosen: List[selection.Selected]) -> None:
        self.chosen = chosen
        self.next = 0

    def write(self, file: Any, step: int) -> None:
        """Write as many as READ_BYTES lets."""
        left = READ_BYTES
        for _ in self.chosen:
            each = self.chosen[self.next % len(self.chosen)]
            left -= _bytes(each.parameter)
            if left < 0 and left + _bytes(each.parameter) < READ_BYTES:
                return
            self.next += 1
            write(file, each.name, step, _array(each.parameter))


def write(file: Any, name: str, step: int, values: Any) -> None:
    """One histogram of the finite ones among values, NaN and infinities left out, to the side file."""
    import numpy  # noqa: ICN001, PLC0415 - imported by MindSpore; the agent needs no package of its own

    flat = values.reshape(-1)
    flat = flat[:: max(1, -(-flat.size // MAX_VALUES))]
    flat = flat[numpy.isfinite(flat)]
    if flat.size:
        counts, edges = numpy.histogram(flat, bins=side.BINS)
        payload = side.pack_histogram(float(edges[0]), float(edges[-1]), counts.tolist())
        file.write(side.HISTOGRAM, name[: side.NAME_LETTERS], step, payload)

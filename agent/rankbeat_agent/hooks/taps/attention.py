"""Entropy and sparsity of attention: a hook on Softmax cells, which give the probabilities. Compiled into the step."""

from typing import Any, Callable, List, Optional, Sequence, Tuple

import mindspore as ms
from mindspore import Parameter, Tensor, nn, ops

from rankbeat_agent.hooks.taps import late, modes, notes, selection
from rankbeat_contract import names

MAX_HEADS = 256
NOT_YET = -1.0
"""Where there is no head, and before the first step: neither entropy nor sparsity is ever below 0."""
THRESHOLD = 1e-2
"""A probability below it counts as none: softmax gives no exact zeros in float32."""
_TINY = 1e-9


def _takes(tap: Any) -> bool:
    obstacle = modes.sharding()
    if obstacle:
        tap.refuse("attention", obstacle)
    return not obstacle


class AttentionTap(nn.Cell):  # type: ignore[misc] # MindSpore has no types
    """Keeps entropy and sparsity of one Softmax cell by head; its parameter stays out of the cell's list."""

    def __init__(self, number: int, refuse: Callable[[str, str], None]) -> None:
        super().__init__(auto_prefix=False)
        self.max_heads = MAX_HEADS
        self.threshold = THRESHOLD
        self.tiny = _TINY
        self.nothing = Tensor([NOT_YET] * MAX_HEADS, ms.float32)
        own = self.__dict__
        own["refuse"] = refuse
        own["kept"] = Parameter(
            Tensor([[NOT_YET] * MAX_HEADS] * 2, ms.float32), name=f"rankbeat_attention_{number}", requires_grad=False
        )

    takes = late.Late(_takes)

    def construct(self, output: Any) -> Any:
        if self.takes:
            found = ops.stop_gradient(output).astype(ms.float32)
            entropy = -(found * ops.log(found + self.tiny)).sum(-1)
            sparsity = (found < self.threshold).astype(ms.float32).mean(-1)
            heads = 1
            if len(found.shape) == 4 and found.shape[1] <= self.max_heads:
                heads = found.shape[1]
                entropy = entropy.mean((0, 2))
                sparsity = sparsity.mean((0, 2))
            else:
                entropy = entropy.mean().reshape((1,))
                sparsity = sparsity.mean().reshape((1,))
            rest = self.nothing[heads:]
            ops.assign(self.kept, ops.stack((ops.concat((entropy, rest)), ops.concat((sparsity, rest)))))
        return output


def _hook(tap: AttentionTap) -> Callable[..., None]:
    def keep(_cell: Any, _inputs: Any, output: Any) -> None:
        tap(output)

    return keep


def _unfit(cell: Any) -> str:
    """Why a cell's output is no probabilities over its last axis; empty where it is."""
    kind = type(cell).__name__
    if kind not in ("Softmax", "SoftmaxExt"):
        return f"is a {kind}, not a Softmax"
    axis = getattr(cell, "axis", None)
    if axis is None:
        axis = getattr(getattr(cell, "softmax", None), "axis", -1)
    axes = list(axis) if isinstance(axis, (list, tuple)) else [axis]
    return "" if axes == [-1] else f"is a Softmax over axis {axes}, not the last"


class Attention:
    """The taps of one network, and how their values are read."""

    __slots__ = ("counts", "places", "refuse", "reports", "taps")

    def __init__(self, network: Any, patterns: Sequence[str], signals: Any, refuse: Callable[[str, str], None]) -> None:
        self.refuse = refuse
        found, self.counts = selection.cells(network, patterns)
        self.reports: Tuple[Tuple[int, str], ...] = tuple(
            (row, name)
            for row, signal, name in (
                (0, "attentionEntropy", names.SCALAR_ATTENTION_ENTROPY),
                (1, "attentionSparsity", names.SCALAR_ATTENTION_SPARSITY),
            )
            if signal in signals
        )
        self.places: List[Optional[int]] = []
        self.taps: List[AttentionTap] = []
        for path, cell in found:
            reason = _unfit(cell)
            if reason:
                refuse(f"attention cell {path!r}", reason)
                continue
            tap = AttentionTap(len(self.taps), refuse)  # a graph refuses two parameters of one name
            cell.register_forward_hook(_hook(tap))
            self.places.append(selection.layer_of(path))
            self.taps.append(tap)

    def read(self, noted: notes.Notes) -> None:
        """Note what the last step's attention was like."""
        kept = [tap.kept.asnumpy() for tap in self.taps]
        for row, name in self.reports:
            layers: List[Optional[int]] = []
            values: List[float] = []
            for place, both in zip(self.places, kept):
                heads = [value for value in both[row].tolist() if not value < -0.5]  # a NaN stays
                layers += [place] * len(heads)
                values += heads
            if values:
                noted.layers(name, notes.grouped(layers, values), with_heads=True)

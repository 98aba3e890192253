"""Gradient norms: a cell in the place of TrainOneStepCell's grad_reducer. Compiled into the step."""

import math
import weakref
from typing import Any, Callable, List, Optional, Sequence

import mindspore as ms
from mindspore import Parameter, Tensor, nn, ops

from rankbeat_agent.hooks.taps import late, modes, notes, selection
from rankbeat_contract import names

NOT_YET = -1.0
"""Sum of squares before the first step, and of a step that was compiled without the tap."""

sum_of_squares = ops.MultitypeFuncGraph("rankbeat_sum_of_squares")


@sum_of_squares.register("Tensor")  # type: ignore[untyped-decorator] # MindSpore has no types
def _dense(gradient: Any) -> Any:
    # Not L2Loss, one kernel instead of two: on CPU it is 7 % off at 30 million values (2.10.0).
    return ops.square(gradient.astype(ms.float32)).sum()


def _takes_norm(tap: Any) -> bool:
    if not tap.is_for_norm or getattr(tap.owner(), "use_clip_grad", False):
        return False  # MindFormers computes and returns the same norm itself
    return _may(tap, "gradNorm", modes.reduction())


def _takes_local(tap: Any) -> bool:
    return bool(tap.places) and _may(tap, "localNorms", modes.sharding())


def _may(tap: Any, signal: str, obstacle: str) -> bool:
    if obstacle:
        tap.refuse(signal, obstacle)
    return not obstacle


class GradientTap(nn.Cell):  # type: ignore[misc] # MindSpore has no types
    """Hands on what the reducer gives, and keeps the sums of squares before and after it.

    Its own parameters stay out of the cell's list: no checkpoint and no optimizer knows of them.
    """

    def __init__(
        self, owner: Any, places: Sequence[int], refuse: Callable[[str, str], None], *, is_for_norm: bool
    ) -> None:
        super().__init__(auto_prefix=False)
        self.inner = owner.grad_reducer
        self.hyper_map = ops.HyperMap()
        self.places = tuple(places)
        self.count = len(owner.weights)
        own = self.__dict__
        own["owner"] = weakref.ref(owner)
        own["is_for_norm"] = is_for_norm
        own["refuse"] = refuse
        own["after"] = Parameter(Tensor(NOT_YET, ms.float32), name="rankbeat_after", requires_grad=False)
        own["before"] = Parameter(
            Tensor([NOT_YET] * max(1, len(places)), ms.float32), name="rankbeat_before", requires_grad=False
        )

    takes_norm = late.Late(_takes_norm)
    takes_local = late.Late(_takes_local)

    def construct(self, grads: Any) -> Any:
        if self.takes_local and len(grads) == self.count:
            chosen = [grads[place] for place in self.places]
            ops.assign(self.before, ops.stack(self.hyper_map(sum_of_squares, chosen)))
        reduced = self.inner(grads)
        if self.takes_norm:
            ops.assign(self.after, ops.addn(self.hyper_map(sum_of_squares, reduced)))
        return reduced


class Gradients:
    """The tap of one TrainOneStepCell, and how its values are read."""

    __slots__ = ("layers", "refuse", "scale", "tap", "wants_norm")

    def __init__(
        self, owner: Any, chosen: List[selection.Selected], refuse: Callable[[str, str], None], *, wants_norm: bool
    ) -> None:
        self.refuse = refuse
        self.wants_norm = wants_norm
        self.layers = [each.layer for each in chosen]
        self.scale = _scale(owner)
        self.tap = GradientTap(owner, [each.place for each in chosen], refuse, is_for_norm=wants_norm)
        owner.grad_reducer = self.tap

    def norm(self, squares: float) -> Optional[float]:
        """The norm of the gradients of the loss, None where there is none."""
        return None if squares < 0 else math.sqrt(squares) / self.scale

    def read(self, noted: notes.Notes) -> None:
        """Note the norms of the step that has ended."""
        if self.wants_norm:
            norm = self.norm(self.tap.after.item())
            if norm is not None:
                noted.one(names.SCALAR_GRAD_NORM, norm)
        if self.layers:
            # Sums of squares over many parameters: one small copy instead of one each.
            norms = [self.norm(squares) for squares in self.tap.before.asnumpy().tolist()]
            known = [(layer, norm) for layer, norm in zip(self.layers, norms) if norm is not None]
            if known:
                layers, values = zip(*known)
                noted.layers(names.SCALAR_LOCAL_NORM, notes.grouped(layers, values))


def _scale(owner: Any) -> float:
    """By what the gradients at the reducer are too large: a fixed loss scale's sens, which the optimizer divides by.

    The cells with a loss scale of their own divide before the reducer and have no sens.
    """
    sens = getattr(owner, "sens", None)
    return float(sens) if getattr(owner, "sense_flag", False) and isinstance(sens, (int, float)) else 1.0

"""Loss by class: a cell in the place of the loss function that the training network calls. Compiled into the step."""

from typing import Any, Callable

import mindspore as ms
from mindspore import Parameter, Tensor, nn, ops

from rankbeat_agent.hooks import rank
from rankbeat_agent.hooks.taps import late, modes, notes
from rankbeat_contract import names

MAX_CLASSES = 256
NOT_YET = -1.0
"""Where there is no class, and before the first step; minus the number of classes where they are too many."""
UNKNOWN_RANK = -0.5
"""Where the rank of logits or labels is not known as the step is compiled."""
_KNOWN = (nn.SoftmaxCrossEntropyWithLogits, nn.CrossEntropyLoss)
"""Loss functions that make a cross entropy of logits and labels; what inherits from them may make anything."""
_LOSS = "_loss_fn"
"""What MindSpore's WithLossCell calls its loss function, and those that people write after its documentation."""

is_rank_unknown = ops.is_sequence_shape_unknown  # where MindSpore has none, the tap is refused at import, not the step


def _takes(tap: Any) -> bool:
    obstacle = modes.sharding()
    if obstacle:
        tap.refuse("classLoss", obstacle)
    return not obstacle


class ClassTap(nn.Cell):  # type: ignore[misc] # MindSpore has no types
    """Hands on what the loss function gives; keeps by class its labels' negative log-likelihood and number.

    Its parameter stays out of the cell's list: no checkpoint and no optimizer knows of it.
    """

    def __init__(self, loss: Any, refuse: Callable[[str, str], None]) -> None:
        super().__init__(auto_prefix=False)
        self.loss = loss
        self.ignored = getattr(loss, "ignore_index", -1)
        self.max_classes = MAX_CLASSES
        self.unknown_rank = UNKNOWN_RANK
        self.classes = Tensor(list(range(MAX_CLASSES)), ms.int32)
        self.nothing = Tensor([[NOT_YET] * MAX_CLASSES] * 2, ms.float32)
        own = self.__dict__
        own["refuse"] = refuse
        own["kept"] = Parameter(
            Tensor([[NOT_YET] * MAX_CLASSES] * 2, ms.float32), name="rankbeat_class_loss", requires_grad=False
        )

    takes = late.Late(_takes)

    def construct(self, logits: Any, labels: Any) -> Any:
        output = self.loss(logits, labels)  # first: what it refuses, it refuses in its own words
        if self.takes:
            self.keep(ops.stop_gradient(logits), ops.stop_gradient(labels))
        return output

    def keep(self, logits: Any, labels: Any) -> None:
        if is_rank_unknown(logits.shape) or is_rank_unknown(labels.shape):
            ops.assign(self.kept, ops.zeros_like(self.kept) + self.unknown_rank)
        elif logits.shape[min(1, logits.ndim - 1)] > self.max_classes:
            ops.assign(self.kept, ops.zeros_like(self.kept) - logits.shape[1])
        else:
            count = logits.shape[min(1, logits.ndim - 1)]
            scores = ops.log_softmax(self.rows(logits, count), -1)
            if labels.ndim == logits.ndim:
                shares = self.rows(labels, count)
            else:
                given = labels.reshape((-1, 1))
                shares = ops.logical_and(given == self.classes[:count], given != self.ignored).astype(ms.float32)
            # Not a product alone: a class that is masked out has an infinite score, and 0 times that is no number.
            parts = ops.select(shares > 0, -scores * shares, ops.zeros_like(shares))
            found = ops.stack((parts.sum(0), shares.sum(0)))
            ops.assign(self.kept, ops.concat((found, self.nothing[:, count:]), 1))

    def rows(self, values: Any, count: int) -> Any:
        if values.ndim > 2:  # pixels: (N, classes, height, width)
            values = ops.movedim(values, 1, -1)
        return values.reshape((-1, count)).astype(ms.float32)


def _place(network: Any) -> Any:
    """The cell that calls the loss function: network, or in it.

    Raises: ValueError where none of them does, or the loss function is none whose inputs are known.
    """
    inner = network
    for _ in range(4):  # micro-batches wrap it
        loss = getattr(inner, _LOSS, None)
        if loss is not None:
            if type(loss) not in (*_KNOWN, ClassTap):
                known = " or ".join(f"nn.{each.__name__}" for each in _KNOWN)
                raise ValueError(f"the loss function is a {type(loss).__name__}, not {known}")
            return inner
        inner = getattr(inner, "network", None)
    raise ValueError(
        f"{type(network).__name__} computes its loss itself; only a loss function of a WithLossCell is seen"
    )


class ClassLoss:
    """The tap of one network, and how its values are read."""

    __slots__ = ("refuse", "tap")

    def __init__(self, network: Any, refuse: Callable[[str, str], None]) -> None:
        self.refuse = refuse
        place = _place(network)
        loss = getattr(place, _LOSS)
        if isinstance(loss, ClassTap):  # two training cells of one network
            self.tap = loss
            return
        self.tap = ClassTap(loss, refuse)
        setattr(place, _LOSS, self.tap)
        if getattr(loss, "weight", None) is not None or getattr(loss, "label_smoothing", None):
            rank.say("classLoss is the negative log-likelihood alone, without the loss function's weight and smoothing")

    def read(self, noted: notes.Notes) -> None:
        """Note the loss of each class that the last step had labels of."""
        sums, weights = self.tap.kept.asnumpy().tolist()
        if weights[0] == UNKNOWN_RANK:
            self.refuse("classLoss", "the rank of logits or labels is not known when the step is compiled")
        elif weights[0] < NOT_YET:
            self.refuse("classLoss", f"{-weights[0]:.0f} classes are more than {MAX_CLASSES}")
        classes = [each for each, weight in enumerate(weights) if weight > 0]
        if classes:
            values = [sums[each] / weights[each] for each in classes]
            noted.layers(names.SCALAR_CLASS_LOSS, [notes.Group(-1, values, classes)], with_heads=True)

"""Expert load and separate losses where MindFormers has them: taken from its own callbacks, which clear them each step.

Nothing is compiled into the step. Classes of mindformers.core.callback.callback, 2.1.
"""

import functools
from typing import Any, Callable, Dict, List, Optional, Tuple

from rankbeat_agent.hooks import rank
from rankbeat_agent.hooks.taps import notes, selection
from rankbeat_contract import names

LOADS = ("expert_load", "num_tokens_per_expert")
"""Parameters that count tokens by expert since a callback last cleared them."""
_CLEARING = (
    ("TopkBiasBalanceCallback", "_update_topk_bias"),
    ("ExpertMigrateCallback", "_update_expert_load_history"),
)
"""Callbacks and their methods that clear LOADS."""
_LOSSES = (
    ("main_loss", names.SCALAR_LM_LOSS, ""),
    ("extra_loss", names.SCALAR_LOAD_BALANCING_LOSS, "is_moe_model"),
    ("mtp_loss", names.SCALAR_MTP_LOSS, "is_mtp_model"),
    ("indexer_loss", names.SCALAR_INDEXER_LOSS, ""),
)
"""MFLossMonitor.print_output_info's arguments, their names here, and the attribute without which it prints none."""


def _before(method: Callable[..., Any], note: Callable[..., None]) -> Callable[..., Any]:
    """method, note called before it with the same arguments."""

    @functools.wraps(method)
    def observed(*args: Any, **kwargs: Any) -> Any:
        try:
            note(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - a door
            rank.RANK.count("experts", error)
        return method(*args, **kwargs)

    return observed


class Experts:
    """What MindFormers' callbacks saw at the sampled step that runs."""

    __slots__ = ("cells", "is_sampled", "loads", "losses")

    def __init__(self, network: Any) -> None:
        self.cells: List[Tuple[Optional[int], Any]] = []
        """Layer and parameter."""
        self.is_sampled = False
        self.loads: List[Tuple[Optional[int], List[float]]] = []
        self.losses: Dict[str, float] = {}
        for path, parameter in network.parameters_and_names():
            if path.rpartition(".")[2] in LOADS:
                self.cells.append((selection.layer_of(path), parameter))

    def watch(self, callbacks: Any) -> None:
        """Stand before the methods of module callbacks that know."""
        for class_name, method in _CLEARING:
            owner = getattr(callbacks, class_name, None)
            if owner is not None and self.cells:
                setattr(owner, method, _before(getattr(owner, method), self.clearing))
        monitor = getattr(callbacks, "MFLossMonitor", None)
        if monitor is not None:
            monitor.print_output_info = _before(monitor.print_output_info, self.printing)

    def clearing(self, *_args: Any) -> None:
        """The loads are about to be cleared."""
        if self.is_sampled:
            self.loads = [(layer, parameter.asnumpy().reshape(-1).tolist()) for layer, parameter in self.cells]

    def printing(self, monitor: Any, *args: Any, **kwargs: Any) -> None:
        """MindFormers is about to log a step."""
        if not self.is_sampled or not getattr(monitor, "print_separate_loss", False):
            return
        given = dict(zip((name for name, _, _ in _LOSSES), args[-len(_LOSSES) :]))
        given.update((name, kwargs[name]) for name, _, _ in _LOSSES if name in kwargs)
        for argument, name, condition in _LOSSES:
            value = given.get(argument)
            if value is None or (condition and not getattr(monitor, condition, False)):
                continue
            number = float(value.reshape(-1)[0] if hasattr(value, "reshape") else value)
            if number > 0 or name in (names.SCALAR_LM_LOSS, names.SCALAR_MTP_LOSS) or number != number:  # noqa: PLR0124
                self.losses[name] = number

    def before(self, _step: int) -> None:
        """A sampled step begins."""
        self.is_sampled = True

    def read(self, noted: notes.Notes) -> None:
        """Note each layer's shares of tokens by expert, and the losses as MindFormers logged them."""
        self.is_sampled = False
        loads, self.loads = self.loads, []
        shares = [(layer, [load / sum(row) for load in row]) for layer, row in loads if sum(row) > 0]
        if shares:
            layers = [layer for layer, row in shares for _ in row]
            noted.layers(
                names.SCALAR_EXPERT_LOAD,
                notes.grouped(layers, [each for _, row in shares for each in row]),
                with_heads=True,
            )
        losses, self.losses = self.losses, {}
        for name, value in losses.items():
            noted.one(name, value)

"""MindFormers' PyNative trainer, which does not use `Model.train`: a callback before and one after the job's own.

Values come from the trainer's own store, as numbers that its LossCallback has logged at the same step
(mindformers 2.1.0, pynative/callback/loss_callback.py): no tensor is read for them.
"""

import functools
import sys
from typing import Any, Callable, Dict, Optional, Tuple

from rankbeat_agent.hooks import patches, rank
from rankbeat_contract import ring

_STORE = "mindformers.pynative.tools.monitor_utils"


def _number(value: Any) -> Optional[float]:
    return float(value) if isinstance(value, (int, float)) else None


def logged(step: int) -> Optional[Tuple[Optional[float], ...]]:
    """What the trainer has logged of a step, in the order of MindFormers' graph mode: loss, overflow, loss scale,
    learning rate, global norm; None where it has logged nothing of this step."""
    module = sys.modules.get(_STORE)
    if module is None:
        return None
    store = module.get_monitor_data_tracker()
    if store.training_state.get("step") != step:
        return None
    found = store.data
    loss, scale, rate, norm = (
        _number(found.get(name)) for name in ("loss", "loss-scale", "learning-rate", "grad-norm")
    )
    return loss, 0.0, scale, rate, norm


class Trained:
    """What one handler's callbacks have seen."""

    __slots__ = ("parameters", "process")

    def __init__(self, process: rank.Rank) -> None:
        self.process = process
        self.parameters: Dict[str, Any] = {}

    def prepare(self, _args: Any, state: Any, more: Dict[str, Any]) -> None:
        """Before the first step, after a checkpoint was loaded: state.global_step is where it stands."""
        seen = self.process.seen()
        self.parameters = {
            "rankbeat": "logged",
            "cur_step_num": int(state.global_step),
            "epoch_num": 1,
            "batch_num": int(state.max_steps),
            "dataset_sink_mode": True,  # so that the length is the product of the two
            "list_callback": (),
            "global_batch_size": int(state.global_batch_size),
            "network": more.get("model"),
        }
        patches.driven = True
        seen.prepare(self.parameters)

    def began(self, _args: Any, state: Any, _more: Dict[str, Any]) -> None:
        self.parameters["cur_step_num"] = state.global_step + 1
        self.parameters["net_outputs"] = None
        self.process.seen().began(self.parameters)

    def ended(self, _args: Any, state: Any, _more: Dict[str, Any]) -> None:
        self.parameters["cur_step_num"] = state.global_step
        self.process.seen().ended(self.parameters)

    def followed(self, _args: Any, state: Any, more: Dict[str, Any]) -> None:
        """After the job's own callbacks, which have logged the step by now."""
        writer = self.process.writer
        if writer is None:
            return
        # A stage that does not compute the loss gets None.
        is_invalid = more.get("loss") is None
        writer.flags = (writer.flags & ~ring.LOSS_INVALID) | (ring.LOSS_INVALID if is_invalid else 0)
        self.parameters["net_outputs"] = logged(state.global_step)
        self.parameters["skipped_steps"] = state.skipped_steps
        self.process.seen().followed(self.parameters)

    def paused(self, _args: Any, _state: Any, _more: Dict[str, Any]) -> None:
        self.process.seen().paused(self.parameters)

    def resumed(self, _args: Any, _state: Any, _more: Dict[str, Any]) -> None:
        self.process.seen().resumed(self.parameters)

    def finished(self, _args: Any, _state: Any, _more: Dict[str, Any]) -> None:
        self.left(None, None)

    def left(self, kind: Any, value: Any) -> None:
        """train() is over."""
        seen = self.process.seen()
        if seen.depth:
            # Where a callback raised, what the trainer had logged of the step by then.
            seen.parameters["net_outputs"] = logged(seen.parameters["cur_step_num"])
            seen.broke_off(kind, value)
            seen.came_out(kind, value)
        patches.driven = False


def _door(hook: str, note: Callable[..., None]) -> Callable[..., None]:
    def method(_callback: Any, args: Any, state: Any, **more: Any) -> None:
        patches.door(hook, note, args, state, more)

    return method


def head_and_tail(base: Any, seen: Trained) -> Tuple[Any, Any]:
    """The two callback classes; base is MindFormers' TrainerCallback."""

    class RankbeatHead(base):  # type: ignore[misc] # MindFormers has no types
        """First in the list: sees the end of a step before the job's own callbacks."""

        on_train_begin = _door("train begin", seen.prepare)
        on_step_end = _door("step end", seen.ended)
        on_epoch_end = on_train_end = _door("epoch end", seen.paused)

    class RankbeatTail(base):  # type: ignore[misc] # MindFormers has no types
        """Last in the list: sees the begin of a step after the job's own callbacks."""

        on_epoch_begin = on_epoch_end = _door("epoch begin", seen.resumed)
        on_step_begin = _door("step begin", seen.began)
        on_step_end = _door("callbacks", seen.followed)
        on_train_end = _door("train end", seen.finished)

    return RankbeatHead, RankbeatTail


def _surround(base: Any, handler: Any) -> None:
    process = rank.RANK
    if process.is_off:
        return
    head, tail = head_and_tail(base, Trained(process))
    handler.callbacks.insert(0, head())
    handler.callbacks.append(tail())


def patch_handler(module: Any) -> None:
    """Put our callbacks into each CallbackHandler that is made."""
    made = module.CallbackHandler.__init__

    @functools.wraps(made)
    def observed(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        patches.door("handler", _surround, module.TrainerCallback, self)

    module.CallbackHandler.__init__ = observed


def _broke_off() -> None:
    kind, value, _ = sys.exc_info()
    Trained(rank.RANK).left(kind, value)


def patch_trainer(module: Any) -> None:
    """Learn of an exception that leaves train(): the handler's callbacks are not told."""
    train = module.Trainer.train

    @functools.wraps(train)
    def observed(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return train(self, *args, **kwargs)
        except BaseException:
            patches.door("trainer", _broke_off)
            raise

    module.Trainer.train = observed

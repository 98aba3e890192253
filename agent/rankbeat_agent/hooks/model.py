"""Puts a callback before and one after the job's own in `Model.train` and `Model.fit`."""

import functools
from typing import Any, Callable, Tuple

from rankbeat_agent.hooks import rank, steps


def _door(hook: str, process: rank.Rank, note: Callable[[steps.Parameters], None]) -> Callable[..., None]:
    """A callback's method that notes, and never raises into training."""

    def method(_callback: Any, run_context: Any) -> None:
        try:
            note(run_context.original_args())
        except Exception as error:  # noqa: BLE001 - a door
            process.count(hook, error)

    return method


def _exit_door(process: rank.Rank, note: Callable[[Any, Any], None]) -> Callable[..., None]:
    """A callback's __exit__, likewise; the exception goes its way."""

    def method(_callback: Any, kind: Any, value: Any, _trace: Any) -> None:
        try:
            note(kind, value)
        except Exception as error:  # noqa: BLE001 - a door
            process.count("exit", error)

    return method


def head_and_tail(base: Any, seen: steps.Steps) -> Tuple[Any, Any]:
    """The two callback classes; base is MindSpore's Callback.

    Only `on_train_*` names: `Model.fit` refuses a class that defines an old one (docs/sources.md, MindSpore).
    """
    process = seen.process

    class RankbeatHead(base):  # type: ignore[misc] # MindSpore has no types
        """First in the list: sees the end of a step before the job's own callbacks."""

        def __enter__(self) -> Any:
            try:
                seen.went_in()
            except Exception as error:  # noqa: BLE001 - a door
                process.count("enter", error)
            return self

        __exit__ = _exit_door(process, seen.came_out)
        on_train_begin = _door("train begin", process, seen.prepare)
        on_train_step_end = _door("step end", process, seen.ended)
        on_train_epoch_end = _door("epoch end", process, seen.paused)
        on_train_end = _door("train end", process, seen.paused)

    class RankbeatTail(base):  # type: ignore[misc] # MindSpore has no types
        """Last in the list: sees the begin of a step, and of an epoch, after the job's own callbacks."""

        __exit__ = _exit_door(process, seen.broke_off)
        on_train_epoch_begin = _door("epoch begin", process, seen.resumed)
        on_train_step_begin = _door("step begin", process, seen.began)
        on_train_step_end = _door("callbacks", process, seen.followed)

    return RankbeatHead, RankbeatTail


def _surrounded(callbacks: Any, head: Any, tail: Any) -> Any:
    """The job's callbacks between ours, in a new list: theirs stays as it is.

    A tuple stays one: Model looks for a ModelCheckpoint in a list only (train/model.py, _save_final_ckpt).
    """
    if callbacks is None:
        return [head(), tail()]
    if isinstance(callbacks, tuple):
        return (head(), *callbacks, tail())
    return [head(), *(callbacks if hasattr(callbacks, "__iter__") else [callbacks]), tail()]


def _observed(
    method: Callable[..., Any], position: int, classes: Tuple[Any, Any], process: rank.Rank
) -> Callable[..., Any]:
    @functools.wraps(method)
    def observed(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not process.is_off:
            if len(args) > position:
                args = (*args[:position], _surrounded(args[position], *classes), *args[position + 1 :])
            else:
                kwargs = dict(kwargs, callbacks=_surrounded(kwargs.get("callbacks"), *classes))
        return method(self, *args, **kwargs)

    return observed


def patch(module: Any) -> None:
    """Wrap Model.train and Model.fit; callbacks is their parameter 2 and 4."""
    classes = head_and_tail(module.Callback, steps.Steps(rank.RANK))
    for name, position in (("train", 2), ("fit", 4)):
        setattr(module.Model, name, _observed(getattr(module.Model, name), position, classes, rank.RANK))

"""Puts a callback before and one after the job's own in `Model.train` and `Model.fit`."""

import sys
from typing import Any, Callable, Dict, List, Optional, Tuple

from rankbeat_agent.hooks import patches, rank, steps

_CLASSES: List[Any] = []
"""The two callback classes, once they are made."""


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
    step_begin, step_end, callbacks_end = seen.doors

    def came_out(kind: Any, value: Any) -> None:
        seen.came_out(kind, value)
        patches.driven = seen.depth > 0

    class RankbeatHead(base):  # type: ignore[misc] # MindSpore has no types
        """First in the list: sees the end of a step before the job's own callbacks."""

        def __enter__(self) -> Any:
            try:
                seen.went_in()
                patches.driven = True
            except Exception as error:  # noqa: BLE001 - a door
                process.count("enter", error)
            return self

        __exit__ = _exit_door(process, came_out)
        on_train_begin = _door("train begin", process, seen.prepare)
        on_train_step_end = step_end
        on_train_epoch_end = _door("epoch end", process, seen.paused)
        on_train_end = _door("train end", process, seen.paused)

    class RankbeatTail(base):  # type: ignore[misc] # MindSpore has no types
        """Last in the list: sees the begin of a step, and of an epoch, after the job's own callbacks."""

        __exit__ = _exit_door(process, seen.broke_off)
        on_train_epoch_begin = _door("epoch begin", process, seen.resumed)
        on_train_step_begin = step_begin
        on_train_step_end = callbacks_end

    return RankbeatHead, RankbeatTail


def _between(callbacks: Any, head: Any, tail: Any) -> Any:
    """The job's callbacks between ours, in a new list: theirs stays as it is.

    A tuple stays one: Model looks for a ModelCheckpoint in a list only (train/model.py, _save_final_ckpt).
    """
    if callbacks is None:
        return [head(), tail()]
    if isinstance(callbacks, tuple):
        return (head(), *callbacks, tail())
    return [head(), *(callbacks if hasattr(callbacks, "__iter__") else [callbacks]), tail()]


def surrounded(
    position: int, args: Tuple[Any, ...], kwargs: Dict[str, Any]
) -> Optional[Tuple[Tuple[Any, ...], Dict[str, Any]]]:
    """Arguments of Model.train or Model.fit with our callbacks among them, None where this process is not to be seen.

    position: of the parameter `callbacks`, after self.
    """
    process = rank.RANK
    if process.is_off:
        return None
    if not _CLASSES:
        _CLASSES.extend(head_and_tail(sys.modules["mindspore.train.model"].Callback, process.seen()))
    if len(args) > position:
        return (*args[:position], _between(args[position], *_CLASSES), *args[position + 1 :]), kwargs
    return args, dict(kwargs, callbacks=_between(kwargs.get("callbacks"), *_CLASSES))

"""Wraps the doors by which a job enters MindSpore and MindFormers.

Compiled in every process that imports MindSpore, so it holds the wrappers only; what they do is imported when a door is
first used. No wrapper raises, and each calls what it wraps exactly once.
"""

import functools
import os
import sys
from time import monotonic_ns, time_ns

import rankbeat_contract  # noqa: F401 - found while our folder is on sys.path, which a script may change later

TYPE_CHECKING = False  # typing costs milliseconds where nobody has imported it
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Optional

_INIT_COMM, _BUILD, _LOAD, _CHECKPOINT, _EVAL = 0, 1, 2, 5, 6
"""Phases as ring.PHASES numbers them: the ring's module is compiled when a ring is claimed."""
TAPS = (
    "gradNorm",
    "localNorms",
    "updateRatio",
    "attentionEntropy",
    "attentionSparsity",
    "classLoss",
    "histograms",
    "images",
    "expertLoad",
)
"""Signals that change the compiled graph."""
started_wall_ns = time_ns()
"""Start of the process, as soon as the first module is patched."""
driven = False
"""Whether steps are seen by someone else than the wrappers of optimizers: train() with callbacks, or an outer call."""


def _hooks(name: str) -> "Any":
    return __import__("rankbeat_agent.hooks." + name, fromlist=("",))


def door(hook: str, note: "Callable[..., Any]", *arguments: "Any") -> "Any":
    """What note gives back; None, and counted, where it raises."""
    try:
        return note(*arguments)
    except Exception as error:  # noqa: BLE001 - the door of doors
        try:
            _hooks("rank").RANK.count(hook, error)
        except Exception as broken:  # noqa: BLE001 - an agent that cannot even count
            if sys.stderr is not None:
                sys.stderr.write(f"rankbeat: error in {hook}: {error!r}, {broken!r}; training goes on\n")
    return None


def _entered(phase: int) -> "Optional[int]":
    """Announce a phase; the one before, None where there is nothing to announce: init() alone makes a rank."""
    module = _hooks("rank") if phase == _INIT_COMM else sys.modules.get("rankbeat_agent.hooks.rank")
    before: "Optional[int]" = None if module is None else module.RANK.went_into(phase)
    return before


def _phase(_owner: "Any", method: "Callable[..., Any]", phase: int) -> "Callable[..., Any]":
    """method, its time announced as a phase of this rank."""

    @functools.wraps(method)
    def observed(*args: "Any", **kwargs: "Any") -> "Any":
        before = door("phase", _entered, phase)
        if before is None:
            return method(*args, **kwargs)
        begun_ns = monotonic_ns()
        try:
            result = method(*args, **kwargs)
            door("phase", lambda: _hooks("phases").done(_hooks("rank").RANK, phase, begun_ns, result))
        finally:
            door("phase", lambda: _hooks("phases").came_back(_hooks("rank").RANK, before))
        return result

    return observed


def _training(_owner: "Any", method: "Callable[..., Any]", position: int) -> "Callable[..., Any]":
    """Model.train or Model.fit with our callbacks around the job's, its parameter at position."""

    @functools.wraps(method)
    def observed(self: "Any", *args: "Any", **kwargs: "Any") -> "Any":
        ours = door("train", lambda: _hooks("model").surrounded(position, args, kwargs))
        if ours is not None:
            args, kwargs = ours
        return method(self, *args, **kwargs)

    return observed


def _stepping(owner: "Any", method: "Callable[..., Any]", _argument: None) -> "Callable[..., Any]":
    """A cell's __call__, whose calls are steps of a loop of the job's own.

    Graphs are compiled from construct() and never see this; within a step that someone else sees it costs one look.
    """

    @functools.wraps(method)
    def observed(self: "Any", *args: "Any", **kwargs: "Any") -> "Any":
        call = super(owner, self).__call__
        if driven:
            return call(*args, **kwargs)
        return _hooks("loops").step(self, call, args, kwargs)

    return observed


def _asks_for(words: "Iterable[str]") -> bool:
    """Whether the monitor may ask for one of words; to know surely costs milliseconds in every process."""
    path = os.environ.get("RANKBEAT_CONFIG", "")
    text = os.environ.get("RANKBEAT_SIGNALS", "")
    if os.path.exists(path):  # noqa: PTH110 - no pathlib in a training process
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            text += file.read()
    return any(word in text for word in words)


def _hand_on(module: "Any", hook: str, function: str, *words: str) -> None:
    if not words or _asks_for(words):
        getattr(_hooks(hook), function)(module)


def patch(module: "Any", process_started_wall_ns: int) -> None:
    """Wrap what module has for us, in a process that started then."""
    global started_wall_ns  # noqa: PLW0603 - what the ring's header says
    started_wall_ns = process_started_wall_ns
    for wrapper, argument, owner_name, *names in _WRAPPED.get(module.__name__, ()):
        owner = getattr(module, owner_name) if owner_name else module
        for name in names:
            if hasattr(owner, name):  # versions differ
                setattr(owner, name, wrapper(owner, getattr(owner, name), argument))
    if module.__name__ in _HANDED_ON:
        door("patch", _hand_on, module, *_HANDED_ON[module.__name__])


_CHECKPOINTS = (
    (_phase, _CHECKPOINT, "", "save_checkpoint"),
    (_phase, _LOAD, "", "load_checkpoint", "load_param_into_net", "load_distributed_checkpoint"),
    (_phase, _LOAD, "", "load_segmented_checkpoints", "load_hf_checkpoint"),
)
_OPTIMIZER = ((_stepping, None, "Optimizer", "__call__"),)
_WRAPPED: "dict[str, tuple[Any, ...]]" = {
    # What all ways to a communication group go through, mint's init_process_group too.
    "mindspore.communication.management": ((_phase, _INIT_COMM, "", "init", "_init_with_store"),),
    "mindspore.train.model": (
        (_training, 2, "Model", "train"),
        (_training, 4, "Model", "fit"),
        (_phase, _BUILD, "Model", "build", "infer_train_layout", "infer_predict_layout"),
        (_phase, _EVAL, "Model", "eval", "predict"),
    ),
    "mindspore.train.serialization": _CHECKPOINTS,
    "mindspore.parallel.checkpoint_transform": _CHECKPOINTS,
    "mindspore.nn.wrap.cell_wrapper": ((_stepping, None, "TrainOneStepCell", "__call__"),),
    "mindspore.nn.optim.optimizer": _OPTIMIZER,
    "mindspore.experimental.optim.optimizer": _OPTIMIZER,
    "mindformers.checkpoint.checkpoint": _CHECKPOINTS,
}
"""By module: wrapper, its argument, class or the module itself, names of what is wrapped."""
_HANDED_ON: "dict[str, tuple[str, ...]]" = {
    "mindspore.nn.wrap.cell_wrapper": ("tapping", "patch_cells", *TAPS),
    "mindformers.tools.register.template": ("mindformers", "patch_template", "monitorConfig"),
    "mindformers.trainer.trainer": ("mindformers", "patch_trainer", "monitorConfig"),
    "mindformers.pynative.callback.callback": ("pynative", "patch_handler"),
    "mindformers.pynative.trainer.trainer": ("pynative", "patch_trainer"),
}
"""By module: who patches it further and by which function; only where the monitor asks for one of the words, if any."""

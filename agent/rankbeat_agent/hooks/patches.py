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
    from typing import Any, Callable, Optional

_INIT_COMM, _BUILD, _LOAD, _CHECKPOINT, _EVAL = 0, 1, 2, 5, 6
"""Phases as ring.PHASES numbers them: the ring's module is compiled when a ring is claimed."""
TAPS = (
    "gradNorm",
    "localNorms",
    "updateRatio",
    "attentionEntropy",
    "attentionSparsity",
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


def _done(phase: int, begun_ns: int, result: "Any") -> None:
    process = _hooks("rank").RANK
    if phase == _INIT_COMM:
        process.joined()
    elif phase == _CHECKPOINT:
        _hooks("checkpoints").saved(process, begun_ns)
    elif phase == _EVAL and process.steps is not None:
        process.steps.evaluated(result)


def _phase(method: "Callable[..., Any]", phase: int) -> "Callable[..., Any]":
    """method, its time announced as a phase of this rank."""

    @functools.wraps(method)
    def observed(*args: "Any", **kwargs: "Any") -> "Any":
        before = door("phase", _entered, phase)
        if before is None:
            return method(*args, **kwargs)
        begun_ns = monotonic_ns()
        try:
            result = method(*args, **kwargs)
            door("phase", _done, phase, begun_ns, result)
        finally:
            door("phase", lambda: _hooks("rank").RANK.came_back(before))
        return result

    return observed


def _training(method: "Callable[..., Any]", position: int) -> "Callable[..., Any]":
    """Model.train or Model.fit with our callbacks around the job's, its parameter at position."""

    @functools.wraps(method)
    def observed(self: "Any", *args: "Any", **kwargs: "Any") -> "Any":
        ours = door("train", lambda: _hooks("model").surrounded(position, args, kwargs))
        if ours is not None:
            args, kwargs = ours
        return method(self, *args, **kwargs)

    return observed


def _stepping(owner: "Any") -> None:
    """Calls of a cell that are steps of a loop of the job's own.

    Graphs are compiled from construct() and never see this; within a step that someone else sees it costs one look.
    """

    @functools.wraps(owner.__call__)
    def observed(self: "Any", *args: "Any", **kwargs: "Any") -> "Any":
        call = super(owner, self).__call__
        if driven:
            return call(*args, **kwargs)
        return _hooks("loops").step(self, call, args, kwargs)

    owner.__call__ = observed


def _wrap(owner: "Any", wrapper: "Callable[..., Any]", *places: "Any") -> None:
    """Wrap what owner has of (name, argument); versions differ."""
    for name, argument in places:
        if hasattr(owner, name):
            setattr(owner, name, wrapper(getattr(owner, name), argument))


def _patch_communication(module: "Any") -> None:
    # What all ways to a communication group go through, mint's init_process_group too.
    _wrap(module, _phase, ("init", _INIT_COMM), ("_init_with_store", _INIT_COMM))


def _patch_model(module: "Any") -> None:
    _wrap(module.Model, _training, ("train", 2), ("fit", 4))
    builds = (("build", _BUILD), ("infer_train_layout", _BUILD), ("infer_predict_layout", _BUILD))
    _wrap(module.Model, _phase, *builds, ("eval", _EVAL), ("predict", _EVAL))


def _patch_checkpoints(module: "Any") -> None:
    loads = ("load_checkpoint", "load_param_into_net", "load_distributed_checkpoint", "load_segmented_checkpoints")
    _wrap(module, _phase, ("save_checkpoint", _CHECKPOINT), *((name, _LOAD) for name in (*loads, "load_hf_checkpoint")))


def _asks_for(*words: str) -> bool:
    """Whether the monitor may ask for one of words; to know surely costs milliseconds in every process."""
    path = os.environ.get("RANKBEAT_CONFIG", "")
    text = os.environ.get("RANKBEAT_SIGNALS", "")
    if os.path.exists(path):  # noqa: PTH110 - no pathlib in a training process
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            text += file.read()
    return any(word in text for word in words)


def _install_taps() -> None:
    if _asks_for(*TAPS):
        _hooks("taps").install(_hooks("configuration").present())


def _patch_cell_wrapper(module: "Any") -> None:
    _stepping(module.TrainOneStepCell)
    # Before anything is compiled, and only where the monitor asks: parsing it takes time in every process.
    door("taps", _install_taps)


def _patch_optimizer(module: "Any") -> None:
    _stepping(module.Optimizer)


def _patch_template(module: "Any") -> None:
    if _asks_for("monitorConfig"):
        _hooks("mindformers").patch_template(module)


def _patch_graph_trainer(module: "Any") -> None:
    if _asks_for("monitorConfig"):
        _hooks("mindformers").patch_trainer(module)


def patch(module: "Any", process_started_wall_ns: int) -> None:
    """Wrap what module has for us, in a process that started then."""
    global started_wall_ns  # noqa: PLW0603 - what the ring's header says
    started_wall_ns = process_started_wall_ns
    _PATCHES[module.__name__](module)


_PATCHES: "dict[str, Callable[[Any], None]]" = {
    "mindspore.communication.management": _patch_communication,
    "mindspore.train.model": _patch_model,
    "mindspore.train.serialization": _patch_checkpoints,
    "mindspore.parallel.checkpoint_transform": _patch_checkpoints,
    "mindspore.nn.wrap.cell_wrapper": _patch_cell_wrapper,
    "mindspore.nn.optim.optimizer": _patch_optimizer,
    "mindspore.experimental.optim.optimizer": _patch_optimizer,
    "mindformers.checkpoint.checkpoint": _patch_checkpoints,
    "mindformers.tools.register.template": _patch_template,
    "mindformers.trainer.trainer": _patch_graph_trainer,
    "mindformers.pynative.callback.callback": lambda module: _hooks("pynative").patch_handler(module),
    "mindformers.pynative.trainer.trainer": lambda module: _hooks("pynative").patch_trainer(module),
}
"""The modules of PATCHED in autoload/sitecustomize.py."""

"""What this run is: command line, configuration, optimizer, data, versions. Written once, at attach, on request."""

import json
import os
import platform
import sys
from contextlib import suppress
from typing import Any, Callable, Dict, Optional

from rankbeat_agent.hooks import redaction
from rankbeat_agent.hooks.losses import Meaning
from rankbeat_contract import side

_PARALLEL = (
    "parallel_mode",
    "device_num",
    "gradients_mean",
    "pipeline_stages",
    "pipeline_scheduler",
    "full_batch",
    "enable_parallel_optimizer",
    "search_mode",
    "strategy_ckpt_load_file",
    "enable_alltoall",
)
_HYPERPARAMETERS = (
    "beta1",
    "beta2",
    "betas",
    "eps",
    "epsilon",
    "momentum",
    "weight_decay",
    "loss_scale",
    "use_nesterov",
    "use_amsgrad",
    "amsgrad",
    "dynamic_lr",
    "is_group_lr",
)
_MODULES = ("mindspore", "mindformers", "numpy", "mindspeed", "transformers")
_MAX_FRAMES = 64
_COMMIT_CHARACTERS = (40, 64)


def _plain(value: Any) -> Any:
    """A number out of a tensor of one, the value as it is otherwise."""
    if hasattr(value, "asnumpy"):
        return float(value.asnumpy().reshape(-1)[0]) if value.size == 1 else list(value.shape)
    return value


def _optimizer(optimizer: Any) -> Optional[Dict[str, Any]]:
    if optimizer is None:
        return None
    found = {name: _plain(getattr(optimizer, name)) for name in _HYPERPARAMETERS if hasattr(optimizer, name)}
    rate = getattr(optimizer, "learning_rate", None)
    schedule = type(rate).__name__
    parameters = getattr(optimizer, "parameters", None) or ()
    return {
        "class": type(optimizer).__name__,
        "learning_rate": _plain(rate) if hasattr(rate, "asnumpy") or isinstance(rate, (int, float)) else schedule,
        "parameters": len(parameters),
        "weights": sum(int(parameter.size) for parameter in parameters),
        **found,
    }


def _parallel() -> Dict[str, Any]:
    from mindspore import context  # noqa: PLC0415 - imported by the job

    found: Dict[str, Any] = {}
    for key in _PARALLEL:
        try:
            found[key] = context.get_auto_parallel_context(key)
        except (ValueError, TypeError, KeyError):  # noqa: PERF203 - a key that this version does not know
            continue
    return found


def _mindformers() -> Optional[Dict[str, Any]]:
    """The configuration that MindFormers' trainer is running with: a local of the frame that called Model.train."""
    frame: Any = sys._getframe()  # noqa: SLF001 - it is how a debugger would look
    for _ in range(_MAX_FRAMES):
        if frame is None:
            return None
        if str(frame.f_globals.get("__name__", "")).startswith("mindformers.trainer"):
            config = frame.f_locals.get("config")
            if isinstance(config, dict) and config:
                return config
        frame = frame.f_back
    return None


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - no pathlib in a training process
        return file.read(1 << 20).strip()


def _commit_of(folder: str) -> Optional[str]:
    """The commit that a repository's HEAD names, read from its files: git itself is never run."""
    git = os.path.join(folder, ".git")  # noqa: PTH118
    if os.path.isfile(git):  # noqa: PTH113 - a worktree: `gitdir: PATH`
        git = os.path.join(folder, _read(git).partition(":")[2].strip())  # noqa: PTH118
    head = _read(os.path.join(git, "HEAD"))  # noqa: PTH118
    if not head.startswith("ref:"):
        return head if len(head) in _COMMIT_CHARACTERS else None
    reference = head[4:].strip()
    common = git
    with suppress(OSError):  # a worktree's references lie in the repository that it belongs to
        common = os.path.join(git, _read(os.path.join(git, "commondir")))  # noqa: PTH118
    try:
        return _read(os.path.join(common, reference))  # noqa: PTH118
    except OSError:
        packed = _read(os.path.join(common, "packed-refs"))  # noqa: PTH118
        rows = [row.split() for row in packed.splitlines()]
        return next((row[0] for row in rows if row[1:] == [reference]), None)


def commit(folder: str) -> Optional[str]:
    """The commit of the repository that holds folder, None where there is none that can be read."""
    folder = os.path.abspath(folder)  # noqa: PTH100
    while True:
        try:
            return _commit_of(folder)
        except OSError:
            pass
        parent = os.path.dirname(folder)  # noqa: PTH120
        if parent == folder:
            return None
        folder = parent


def _dataset(parameters: Dict[str, Any]) -> Dict[str, Any]:
    dataset = parameters.get("train_dataset")
    return {
        "batches": None if dataset is None else int(dataset.get_dataset_size()),
        "local_batch": None if dataset is None else dataset.get_batch_size(),
        "epochs": parameters.get("epoch_num"),
        "sink_mode": parameters.get("dataset_sink_mode"),
    }


def described(parameters: Dict[str, Any], meant: Meaning, world_size: int) -> Dict[str, Any]:
    """run.json, secrets hidden. A part that cannot be read is absent, with the class of its error in `unread`."""
    script = getattr(sys.modules.get("__main__"), "__file__", None) or os.getcwd()  # noqa: PTH109
    parts: Dict[str, Callable[[], Any]] = {
        "argv": lambda: redaction.arguments(getattr(sys, "orig_argv", sys.argv)),
        "world_size": lambda: world_size,
        "global_batch": lambda: meant.global_batch or None,
        "optimizer": lambda: _optimizer(parameters.get("optimizer")),
        "dataset": lambda: _dataset(parameters),
        "parallel": _parallel,
        "mindformers": _mindformers,
        "versions": lambda: {
            "python": platform.python_version(),
            **{name: getattr(sys.modules[name], "__version__", None) for name in _MODULES if name in sys.modules},
        },
        "git_commit": lambda: commit(os.path.dirname(os.path.abspath(script))),  # noqa: PTH100, PTH120
    }
    found: Dict[str, Any] = {}
    unread: Dict[str, str] = {}
    for name, part in parts.items():
        try:
            value = part()
        except Exception as error:  # noqa: BLE001 - a door of one part: a user's objects answer
            unread[name] = type(error).__name__
            continue
        if value is not None:
            found[name] = value if name in ("argv", "git_commit") else redaction.filtered(value)
    return {**found, **({"unread": unread} if unread else {})}


def write(file: Any, parameters: Dict[str, Any], meant: Meaning, world_size: int) -> None:
    """Describe the run in the side file; without MindFormers' configuration where the whole does not fit."""
    if file is None:
        return
    content = described(parameters, meant, world_size)
    if not file.write(side.RUN, "run", 0, json.dumps(content).encode()):
        content = {**{key: value for key, value in content.items() if key != "mindformers"}, "cut": ["mindformers"]}
        file.write(side.RUN, "run", 0, json.dumps(content).encode())

"""The job's own monitors in the training process, called at sampled steps: `monitors` with `where: process`.

    class Mine:
        def open(self, context): ...     # optional; context: experiment, name, options, place ("process")
        def record(self, row): ...       # a mapping of names to numbers, or None
        def close(self): ...             # optional, at the end of the process

row holds step, rank and parameters: MindSpore's callback parameters, with the tensors. Imported only where asked for.
"""

import atexit
import importlib
import os
import re
from typing import Any, Dict, NamedTuple, Optional, Tuple

from rankbeat_agent.hooks import rank
from rankbeat_contract import names

_NAME = re.compile(names.METRIC_NAME_PATTERN)
MAX_VALUES = 16
"""Of one monitor for one step: a ring holds 128 names."""


class Context(NamedTuple):
    """What a monitor is told when it is opened."""

    experiment: str
    name: str
    options: Dict[str, Any]
    place: str = "process"


def _made(asked: Dict[str, Any], experiment: str) -> Any:
    module, _, attribute = str(asked.get("class", "")).partition(":")
    monitor = getattr(importlib.import_module(module), attribute)()
    if not callable(getattr(monitor, "record", None)):
        raise TypeError("has no method record(row)")
    opened = getattr(monitor, "open", None)
    if opened is not None:
        opened(Context(experiment, str(asked.get("name", "")), dict(asked.get("options") or {})))
    return monitor


def _numbers(name: str, said: Any) -> Dict[str, float]:
    """Raises: TypeError, ValueError where they are none."""
    if said is None:
        return {}
    values = {f"{name}_{key}": float(value) for key, value in said.items()}
    wrong = [key for key in values if _NAME.fullmatch(key) is None]
    if wrong or len(values) > MAX_VALUES:
        raise ValueError(f"gave {len(values)} values, wrong names {wrong[:3]}: at most {MAX_VALUES}, like loss2")
    return values


class Custom:
    """Monitors that still run; one that raises is disabled, and that is said."""

    __slots__ = ("disabled", "monitors", "opened_in", "process")

    def __init__(self, process: rank.Rank) -> None:
        self.process = process
        self.monitors: Dict[str, Tuple[str, Any]] = {}
        """Class and monitor, by name."""
        self.disabled: Dict[str, str] = {}
        self.opened_in = 0

    def open(self, asked: Tuple[Dict[str, Any], ...], experiment: str) -> None:
        """Make and open those that run in the process; once in a process."""
        if self.opened_in == os.getpid():
            return
        self.opened_in = os.getpid()
        atexit.register(self.close)
        for each in asked:
            if each.get("where") != "process":
                continue
            name, path = str(each.get("name", "")), str(each.get("class", ""))
            try:
                self.monitors[name] = (path, _made(each, experiment))
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a door: what a class of the job's does
                self._disable(name, path, error)

    def sample(self, step: int, parameters: Dict[str, Any]) -> Dict[str, float]:
        """What they make of this step, as NAME_KEY."""
        values: Dict[str, float] = {}
        writer = self.process.writer
        row = {"step": step, "rank": -1 if writer is None else writer.rank, "parameters": parameters}
        for name, (path, monitor) in tuple(self.monitors.items()):
            try:
                values.update(_numbers(name, monitor.record(row)))
            except (Exception, SystemExit) as error:  # noqa: BLE001, PERF203 - a door
                self._disable(name, path, error)
        return values

    def close(self) -> None:
        """Let each end what it began, in the process that opened it."""
        monitors, self.monitors = self.monitors, {}
        if self.opened_in != os.getpid():
            return
        for name, (path, monitor) in monitors.items():
            try:
                close: Optional[Any] = getattr(monitor, "close", None)
                if close is not None:
                    close()
            except (Exception, SystemExit) as error:  # noqa: BLE001, PERF203 - a door
                self._disable(name, path, error)

    def _disable(self, name: str, path: str, error: BaseException) -> None:
        self.monitors.pop(name, None)
        self.disabled[name] = type(error).__name__
        rank.say(f"monitor {name!r} ({path}) disabled: {error!r}")
        if isinstance(error, Exception):
            self.process.count(f"monitor {name}", error)


CUSTOM = Custom(rank.RANK)

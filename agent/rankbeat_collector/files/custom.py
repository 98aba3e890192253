"""Custom monitors in the collector: the job's own classes, fed with rows, never trusted to work.

    class Mine:
        def open(self, context): ...    # optional; context: experiment, name, options, place ("collector")
        def record(self, row): ...      # a mapping of names to numbers, or None
        def close(self): ...            # optional

row is a rank's step as it stands in a line of JSON: step, time, rank and so on, then the step's numbers by name.
"""

import importlib
import logging
import numbers
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from rankbeat_collector.errors import MonitorError
from rankbeat_collector.files import rows
from rankbeat_collector.files.rows import Row
from rankbeat_collector.files.settings import Monitor
from rankbeat_contract import names

_log = logging.getLogger(__name__)

_NAME = re.compile(names.METRIC_NAME_PATTERN)
MAX_VALUES = 64
"""Of one monitor for one row."""


class Context(NamedTuple):
    """What a monitor is told when it is opened."""

    experiment: str
    name: str
    options: Mapping[str, Any]
    place: str = "collector"


class Running:
    """The monitors that still run, and what became of the others."""

    def __init__(self, asked: Mapping[str, Monitor], experiment: str) -> None:
        self._monitors: Dict[str, Any] = {}
        self.disabled: Dict[str, str] = {}
        """By name: why it runs no longer."""
        for name, monitor in asked.items():
            try:
                self._monitors[name] = _opened(monitor, experiment)
            except BaseException as error:  # noqa: BLE001, PERF203 - a door: what a class of the job's does at import
                self._disable(name, monitor.path, "open", error)
        self._paths = {name: monitor.path for name, monitor in asked.items()}

    def enriched(self, new: List[Row]) -> List[Row]:
        """The rows with what the monitors made of them, as NAME_KEY."""
        return [self._enriched(row) for row in new] if self._monitors else new

    def _enriched(self, row: Row) -> Row:
        if row.extra is not None:
            return row
        values = dict(row.values)
        for name, monitor in tuple(self._monitors.items()):
            try:
                values.update(_numbers(name, monitor.record(rows.as_json(row))))
            except BaseException as error:  # noqa: BLE001, PERF203 - a door
                del self._monitors[name]
                self._disable(name, self._paths[name], "record", error)
        return row._replace(values=values)

    def close(self) -> None:
        """Let each end what it began."""
        for name, monitor in self._monitors.items():
            try:
                close = getattr(monitor, "close", None)
                if close is not None:
                    close()
            except BaseException as error:  # noqa: BLE001, PERF203 - a door
                self._disable(name, self._paths[name], "close", error)
        self._monitors = {}

    def _disable(self, name: str, path: str, where: str, error: BaseException) -> None:
        self.disabled[name] = type(error).__name__
        _log.warning("monitor disabled name=%s class=%s in=%s error=%r", name, path, where, error, exc_info=error)


def _opened(monitor: Monitor, experiment: str) -> Any:
    module, _, attribute = monitor.path.partition(":")
    made = getattr(importlib.import_module(module), attribute)()
    if not callable(getattr(made, "record", None)):
        raise MonitorError(f"{monitor.path} has no method record(row)")
    opened = getattr(made, "open", None)
    if opened is not None:
        opened(Context(experiment, monitor.name, monitor.options))
    return made


def _numbers(name: str, said: Optional[Mapping[str, Any]]) -> Dict[str, float]:
    """Raises: MonitorError."""
    if said is None:
        return {}
    if not isinstance(said, Mapping) or len(said) > MAX_VALUES:
        raise MonitorError(f"record() gave {type(said).__name__}, it gives a mapping of at most {MAX_VALUES} numbers")
    values: Dict[str, float] = {}
    for key, value in said.items():
        full = f"{name}_{key}"
        if _NAME.fullmatch(full) is None:
            raise MonitorError(f"record() named a value {key!r}, names match {names.METRIC_NAME_PATTERN}")
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise MonitorError(f"record() gave {key}={value!r}, which is no number")
        values[full] = float(value)
    return values

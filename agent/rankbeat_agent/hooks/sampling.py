"""Which steps are sampled: the monitor's configuration, read when train() begins."""

import json
from typing import Any, Dict, NamedTuple

from rankbeat_contract import monitor

POINTS = 200
"""Samples of a whole run where the monitor leaves the interval to us (sampling, `interval: auto`)."""


class Sampling(NamedTuple):
    """Every interval_steps-th global step, and all of the first dense_first_steps."""

    interval_steps: int
    dense_first_steps: int

    def next_step(self, step: int) -> int:
        """The first sampled step after step: where floor(step / interval) changes, the same on all ranks."""
        if step < self.dense_first_steps:
            return step + 1
        return (step // self.interval_steps + 1) * self.interval_steps


def _count(content: Dict[str, Any], key: str, default: int) -> int:
    value = content.get(key, default)
    if type(value) is not int or value < 0:
        raise ValueError(f"{key} is {value!r}, not a number of steps")
    return value


def sampling(text: str, total_steps: int) -> Sampling:
    """What the configuration in text asks for; text is empty where there is none yet.

    Raises: ValueError if text is no configuration.
    """
    defaults = monitor.Settings()
    content = json.loads(text) if text else {}
    if not isinstance(content, dict):
        raise ValueError(  # noqa: TRY004 - one error for all that is no configuration
            f"configuration is a {type(content).__name__}, not an object"
        )
    interval = _count(content, "intervalSteps", defaults.interval_steps)
    if interval == monitor.AUTO:
        interval = max(1, total_steps // POINTS)
    return Sampling(interval, _count(content, "denseFirstSteps", defaults.dense_first_steps))


def configuration_text(path: str) -> str:
    """The configuration file's text, empty where there is none: a pod may start before its monitor exists.

    Raises: OSError if the file is there but cannot be read; ValueError if it is no UTF-8.
    """
    if not path:
        return ""
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - no pathlib in a training process
            return file.read()
    except FileNotFoundError:
        return ""

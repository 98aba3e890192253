"""A TrainingMonitor's settings: one reading of `spec` for operator, aggregator and agent."""

import re
from typing import Any, Dict, Mapping, NamedTuple, Tuple

AUTO = 0
"""Sampling interval that the agent derives from the length of the run, about 200 points a run."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")

PHASE_LIMITS = {
    "init_comm": 1800.0,
    "build": 3600.0,
    "load": 3600.0,
    "callbacks": 600.0,
    "checkpoint": 1800.0,
    "eval": 3600.0,
    "between": 3600.0,
    "recovering": 1800.0,
}
"""Seconds that a phase other than `train` may last. Source: half an hour for start and compile, DLRover's hour for
what may compile again (docs/sources.md, Stalls)."""


class Limits(NamedTuple):
    """When a verdict is due, seconds."""

    hang_seconds: float = 20.0
    rank_missing_seconds: float = 60.0
    phase_seconds: Tuple[Tuple[str, float], ...] = tuple(sorted(PHASE_LIMITS.items()))


class Settings(NamedTuple):
    """What a monitor asks for, with the defaults filled in."""

    experiment: str = ""
    paused: bool = False
    interval_steps: int = AUTO
    dense_first_steps: int = 100
    limits: Limits = Limits()


def duration_seconds(text: str) -> float:
    """Seconds of a duration such as `8s`, `1h30m` or `500ms`.

    Raises: ValueError if text is no duration.
    """
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no duration, write for example 20s, 5m or 1h30m")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def settings(spec: Mapping[str, Any]) -> Settings:
    """The settings in a TrainingMonitor's spec, which the API server has checked against the schema.

    Raises: ValueError on a value that the schema would have refused.
    """
    sampling = spec.get("sampling") or {}
    alerts = spec.get("alerts") or {}
    interval = str(sampling.get("interval", "auto"))
    if interval != "auto" and not (interval.isdigit() and int(interval) > 0):
        raise ValueError(f"spec.sampling.interval is {interval!r}, write auto or a number of steps from 1")
    return Settings(
        experiment=str(spec.get("experiment", "")),
        paused=bool(spec.get("paused", False)),
        interval_steps=AUTO if interval == "auto" else int(interval),
        dense_first_steps=int(sampling.get("denseFirstSteps", 100)),
        limits=_limits(alerts.get("limits") or {}),
    )


def _limits(given: Mapping[str, str]) -> Limits:
    phases: Dict[str, float] = dict(PHASE_LIMITS)
    for name, field in (("initComm", "init_comm"), *((name, name) for name in PHASE_LIMITS)):
        if name in given:
            phases[field] = duration_seconds(given[name])
    return Limits(
        hang_seconds=duration_seconds(given.get("hang", "20s")),
        rank_missing_seconds=duration_seconds(given.get("rankMissing", "1m")),
        phase_seconds=tuple(sorted(phases.items())),
    )


def agent_configuration(monitor: Settings) -> Dict[str, Any]:
    """What the agent reads from MONITOR_CONFIG_KEY, as JSON values."""
    return {"intervalSteps": monitor.interval_steps, "denseFirstSteps": monitor.dense_first_steps}

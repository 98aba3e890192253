"""A TrainingMonitor's settings: one reading of `spec` for operator, webhook, aggregator, and for the agent's file."""

from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple

from rankbeat_contract import mindformers, outputs, translation
from rankbeat_contract.outputs import Outputs
from rankbeat_contract.units import duration_seconds

AUTO = 0
"""Sampling interval that the agent derives from the length of the run, about 200 points a run."""
DENSE_FIRST_STEPS = 100
CONFIGURATION_VERSION = 2
"""Of the configuration file: what its keys mean."""

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

TAP_SIGNALS = frozenset(
    (
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
)
"""Signals that are tapped inside the step (docs/taps.md)."""
FILE_SIGNALS = frozenset(("inputShapes", "run", "forensics", "histograms", "images"))
"""Signals that are no series: a pod's own collector writes them to outputs.files or posts them to outputs.http."""

MODE_NODE = "node"
MODE_SIDECAR = "sidecar"


class Limits(NamedTuple):
    """When a verdict is due, seconds."""

    hang_seconds: float = 20.0
    rank_missing_seconds: float = 60.0
    phase_seconds: Tuple[Tuple[str, float], ...] = tuple(sorted(PHASE_LIMITS.items()))


class Metric(NamedTuple):
    """How one metric of the ring is sampled. interval_steps: None follows spec.sampling. filter: "" keeps all."""

    name: str
    interval_steps: Optional[int] = None
    filter: str = ""


class CustomMonitor(NamedTuple):
    """A class of the user's. where: collector or process. options: what its open() is told."""

    name: str
    class_path: str
    where: str = "collector"
    options: Mapping[str, Any] = {}


class Settings(NamedTuple):
    """What a monitor asks for, with the defaults filled in.

    samples_per_step: the global batch, 0 where the job is to say. signals: None where the default holds.
    """

    experiment: str = ""
    paused: bool = False
    interval_steps: int = AUTO
    dense_first_steps: int = DENSE_FIRST_STEPS
    limits: Limits = Limits()
    signals: Optional[Tuple[str, ...]] = None
    metrics: Tuple[Metric, ...] = ()
    samples_per_step: int = 0
    attention_cells: Tuple[str, ...] = ()
    parameters: Tuple[str, ...] = ()
    collector_mode: str = MODE_NODE
    outputs: Outputs = Outputs()
    monitors: Tuple[CustomMonitor, ...] = ()
    msrun_fixes: Tuple[str, ...] = ()
    tiers: Tuple[str, ...] = ()
    mindformers: Mapping[str, Any] = {}
    """MindFormers' monitor_config; empty unless all of it is what MindFormers accepts."""

    @property
    def asks_for_taps(self) -> bool:
        return bool(TAP_SIGNALS.intersection(self.signals or ()))

    @property
    def signals_without_place(self) -> Tuple[str, ...]:
        """Those that only files or posts can hold, where there are neither."""
        if self.outputs.files or self.outputs.http:
            return ()
        return tuple(signal for signal in self.signals or () if signal in FILE_SIGNALS)


def settings(spec: Mapping[str, Any]) -> Settings:
    """The settings in a TrainingMonitor's spec, which the API server has checked against the schema.

    What spec.monitorConfig is translated to holds where the spec itself says nothing.

    Raises: ValueError on a value that the schema would have refused.
    """
    spec = translation.effective(spec).spec
    sampling = spec.get("sampling") or {}
    alerts = spec.get("alerts") or {}
    interval = sampling.get("interval", "auto")
    return Settings(
        experiment=str(spec.get("experiment", "")),
        paused=bool(spec.get("paused", False)),
        interval_steps=AUTO if interval == "auto" else _steps(interval, "spec.sampling.interval", "auto or "),
        dense_first_steps=int(sampling.get("denseFirstSteps", DENSE_FIRST_STEPS)),
        limits=_limits(alerts.get("limits") or {}),
        signals=tuple(spec["signals"]) if "signals" in spec else None,
        metrics=tuple(map(_metric, spec.get("metrics") or ())),
        samples_per_step=int(spec.get("samplesPerStep", 0)),
        attention_cells=tuple((spec.get("attention") or {}).get("cells") or ()),
        parameters=tuple(spec.get("parameters") or ()),
        collector_mode=str((spec.get("collector") or {}).get("mode", MODE_NODE)),
        outputs=outputs.outputs(spec.get("outputs") or {}),
        monitors=tuple(map(_custom, spec.get("monitors") or ())),
        msrun_fixes=tuple((spec.get("msrun") or {}).get("fix") or ()),
        tiers=tuple(spec.get("tiers") or ()),
        mindformers=mindformers.accepted((spec.get("mindformers") or {}).get("monitorConfig") or {}),
    )


def _steps(value: object, field: str, also: str = "") -> int:
    text = str(value)
    if not (text.isdigit() and int(text) > 0):
        raise ValueError(f"{field} is {text!r}, write {also}a number of steps from 1")
    return int(text)


def _metric(entry: Mapping[str, Any]) -> Metric:
    interval = entry.get("interval")
    return Metric(
        name=str(entry["name"]),
        interval_steps=None if interval is None else _steps(interval, f"spec.metrics[{entry['name']}].interval"),
        filter=str(entry.get("filter", "")),
    )


def _custom(entry: Mapping[str, Any]) -> CustomMonitor:
    return CustomMonitor(
        str(entry["name"]), str(entry["class"]), str(entry.get("where", "collector")), entry.get("options") or {}
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


def sampling_configuration(interval_steps: int, dense_first_steps: int) -> Dict[str, int]:
    """`sampling` of the configuration file; intervalSteps 0 is auto."""
    return {"intervalSteps": interval_steps, "denseFirstSteps": dense_first_steps}


def agent_configuration(monitor: Settings) -> Dict[str, Any]:
    """What agent and sidecar read from MONITOR_CONFIG_KEY, as JSON values; an absent key means its default."""
    optional: Dict[str, Any] = {
        "experiment": monitor.experiment,
        "metrics": [_metric_configuration(metric) for metric in monitor.metrics],
        "samplesPerStep": monitor.samples_per_step,
        "attention": {"cells": list(monitor.attention_cells)} if monitor.attention_cells else {},
        "parameters": list(monitor.parameters),
        "console": {"ranks": monitor.outputs.console_ranks} if monitor.outputs.console_ranks else {},
        "monitors": [
            {"name": each.name, "class": each.class_path, "where": each.where, "options": dict(each.options)}
            for each in monitor.monitors
        ],
        "mindformers": {"monitorConfig": dict(monitor.mindformers)} if monitor.mindformers else {},
        "outputs": outputs.configuration(monitor.outputs),
    }
    return {
        "version": CONFIGURATION_VERSION,
        "sampling": sampling_configuration(monitor.interval_steps, monitor.dense_first_steps),
        # An empty list is a wish too: nothing but steps and times.
        **({} if monitor.signals is None else {"signals": list(monitor.signals)}),
        **{key: value for key, value in optional.items() if value},
    }


def _metric_configuration(metric: Metric) -> Dict[str, Any]:
    return {
        "name": metric.name,
        **({} if metric.interval_steps is None else {"intervalSteps": metric.interval_steps}),
        **({"filter": metric.filter} if metric.filter else {}),
    }

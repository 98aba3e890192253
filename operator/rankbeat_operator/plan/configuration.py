"""Conditions of what a monitor says itself, each there only where it says it; none keeps a job from being seen."""

from collections.abc import Iterator

from rankbeat_contract import metric_rules
from rankbeat_operator.model.condition import Condition
from rankbeat_operator.model.monitors import Monitor
from rankbeat_operator.model.observed import Observed
from rankbeat_operator.model.planned import Sampling

_SHOWN = 4
"""Refused keys that are written out."""


def conditions(monitor: Monitor, observed: Observed) -> Iterator[Condition]:
    """ConfigurationTranslated where a bare configuration is written, MetricsHeeded where spec.metrics is,
    ExperimentUnique where an experiment is, SamplingInForce while a change of the sampling is on its way."""
    if monitor.has_bare_configuration:
        yield _translated(monitor)
    if monitor.settings.metrics:
        yield _heeded(monitor)
    if monitor.settings.experiment:
        yield _unique(monitor, observed)
    yield from _pending(monitor, observed)


def _translated(monitor: Monitor) -> Condition:
    refused = monitor.refused
    if not refused:
        return Condition(
            "ConfigurationTranslated", "True", "Translated", "every key of the bare configuration is heeded"
        )
    shown = "; ".join(f"{outcome.key}: {outcome.text}" for outcome in refused[:_SHOWN])
    more = f"; and {len(refused) - _SHOWN} more" if len(refused) > _SHOWN else ""
    return Condition(
        "ConfigurationTranslated",
        "False",
        "KeysRefused",
        f"the rest is used without {shown}{more}: rankbeat translate FILE shows what becomes of every key",
    )


def _heeded(monitor: Monitor) -> Condition:
    settings = monitor.settings
    in_process = [each.name for each in settings.monitors if each.where == "process"]
    problems = [
        f"spec.metrics[{metric.name}]: {problem}"
        for metric in settings.metrics
        if (problem := metric_rules.problem(metric.name, in_process, has_interval=metric.interval_steps is not None))
    ]
    if not problems:
        return Condition("MetricsHeeded", "True", "Heeded", "every entry of spec.metrics names a metric and is used")
    more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
    return Condition("MetricsHeeded", "False", "NotHeeded", "; ".join(problems[:_SHOWN]) + more)


def _pending(monitor: Monitor, observed: Observed) -> Iterator[Condition]:
    """SamplingInForce while spec.sampling is not yet what the ranks do; without a step, which moves all the time."""
    planned, settings = observed.planned, monitor.settings
    if planned is None or observed.verdict is None:
        return
    change, step = planned.change, observed.verdict.step
    if planned.sampling != Sampling(settings.interval_steps, settings.dense_first_steps):
        until = (
            "the job has made a second step" if change is None else f"step {change.from_step}, where the last one holds"
        )
        yield Condition("SamplingInForce", "False", "ChangeWaits", f"the change of spec.sampling waits until {until}")
    elif change is not None and step is not None and step < change.from_step:
        text = f"spec.sampling holds from step {change.from_step} on, by which every rank has read it"
        yield Condition("SamplingInForce", "False", "ChangePending", text)


def _unique(monitor: Monitor, observed: Observed) -> Condition:
    experiment, workload = monitor.settings.experiment, observed.workload
    is_over = workload is not None and bool(workload.finished)
    if not observed.rivals or is_over:
        return Condition("ExperimentUnique", "True", "Unique", f"no other job is experiment {experiment!r} now")
    others = ", ".join(f"TrainingMonitor {name}" for name in observed.rivals[:_SHOWN])
    return Condition(
        "ExperimentUnique",
        "False",
        "ExperimentTaken",
        f"{others} of another job has spec.experiment {experiment!r} too: both are observed, but dashboards and paths"
        " with {experiment} mix them; change spec.experiment of one",
    )

"""What a train() call's signals are, decided before its first step; each part fails for itself."""

import os
from typing import Any, Dict, Tuple

from rankbeat_agent.hooks import configuration, losses, memory, rank, rates, sampling, sidefile
from rankbeat_agent.wire.writer import Writer
from rankbeat_contract import names, ring

Parameters = Dict[str, Any]


class Own:
    """What the monitor asks of one metric: its own interval, its filter."""

    __slots__ = ("interval_steps", "keeps", "next_step", "rule")

    def __init__(self, interval_steps: int, keeps: Any) -> None:
        self.interval_steps = interval_steps
        self.keeps = keeps
        self.rule = sampling.Rule(sampling.Sampling(1, 0))
        self.next_step = 0

    def takes(self, step: int, value: float) -> bool:
        """Whether to keep a value that comes at no sampled step: in each interval the first that the filter keeps."""
        if step < self.next_step or (self.keeps is not None and not self.keeps(value)):
            return False
        if self.interval_steps:
            self.next_step = (step // self.interval_steps + 1) * self.interval_steps
        return True


def _losses(signals: Any, writer: Writer, parameters: Parameters) -> None:
    signals.meant = losses.Meaning()
    signals.reads_loss = False
    signals.meant = losses.meaning(parameters, writer.rank, writer.world_size)
    writer.flags = (writer.flags & ~ring.LOSS_INVALID) | (0 if signals.meant.is_valid else ring.LOSS_INVALID)
    asked = signals.configuration.signals
    is_wanted = not asked.isdisjoint(("loss", "perplexity"))
    signals.reads_loss = signals.reads_tensors and signals.meant.is_valid and is_wanted
    signals.perplexity_id = signals.id_of(writer, names.SCALAR_PERPLEXITY) if "perplexity" in asked else -1


def samples(signals: Any, writer: Writer, parameters: Parameters) -> None:
    """Samples of the whole job in a step; without parameters only what the monitor or MindFormers says of them."""
    if "throughput" in signals.configuration.signals:
        asked = signals.configuration.samples_per_step
        known = losses.samples_per_step(parameters, signals.meant, writer.world_size, asked)
        if known:
            signals.constant(writer, names.SCALAR_SAMPLES_PER_STEP, known)


def _rates(signals: Any, writer: Writer, parameters: Parameters) -> None:
    if signals.reads_tensors and "learningRate" in signals.configuration.signals:
        signals.rate_id = signals.id_of(writer, names.SCALAR_LEARNING_RATE)
        optimizer = parameters.get("optimizer") or getattr(parameters.get("train_network"), "optimizer", None)
        signals.rate = rates.reader(optimizer, parameters)


def _memory(signals: Any, _writer: Writer, _parameters: Parameters) -> None:
    signals.device = None
    if "memory" in signals.configuration.signals:
        if signals.statm < 0:
            signals.statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        signals.device = memory.device()


def rules(signals: Any, writer: Writer, _parameters: Parameters) -> None:
    """Intervals and filters of single metrics; what the ring's metrics do not have takes none of its names."""
    asked, signals.own, signals.others = signals.configuration.metrics, {}, {}
    if not asked:
        return
    from rankbeat_contract import metric_rules  # noqa: PLC0415 - only where asked for

    refused = 0
    monitors = [str(each.get("name")) for each in signals.configuration.monitors if each.get("where") == "process"]
    for metric in asked:
        keeps, unfiltered = _keeps(metric)
        wrong = metric_rules.problem(metric.name, monitors, has_interval=metric.interval_steps > 0)
        refused += bool(wrong or unfiltered)
        for text in filter(None, (wrong, unfiltered)):
            rank.say(f"metric {metric.name}: {text}")
        if metric_rules.is_sampled(metric.name, monitors):
            signals.own[signals.id_of(writer, metric.name)] = Own(metric.interval_steps, keeps)
        else:
            is_event = metric_rules.is_event(metric.name)
            signals.others[metric.name] = Own(0 if is_event else metric.interval_steps, keeps)
    signals.constant(writer, names.SCALAR_FILTERS_REFUSED, refused)


def _keeps(metric: configuration.Metric) -> Tuple[Any, str]:
    """The metric's filter, None without one; and what is wrong with it."""
    if not metric.filter:
        return None, ""
    from rankbeat_agent.hooks import filters  # noqa: PLC0415 - only where asked for

    try:
        return filters.compiled(metric.filter, metric.name), ""
    except ValueError as error:
        return None, f"{error}; it is not filtered"


def prints(signals: Any, writer: Writer, _parameters: Parameters) -> None:
    """Whether this rank has a line in the job's own log."""
    ranks, signals.console = signals.configuration.console_ranks, None
    if ranks:
        from rankbeat_agent.hooks import console  # noqa: PLC0415 - only where asked for

        if console.is_asked(ranks, writer.rank, signals.meant.first_valid_rank):
            signals.console = console.Console(signals.process)


def _on_request(signals: Any, writer: Writer, parameters: Parameters) -> None:
    wanted = signals.configuration
    signals.custom = signals.shapes = None
    if "forensics" in wanted.signals:
        from rankbeat_agent.hooks import forensics  # noqa: PLC0415 - only where asked for

        signals.forensics = signals.forensics or forensics.Forensics()
        signals.looks = True
    if "inputShapes" in wanted.signals:
        from rankbeat_agent.hooks import shapes  # noqa: PLC0415 - only where asked for

        signals.shapes = shapes.Shapes()
    if "run" in wanted.signals:
        from rankbeat_agent.hooks import runs  # noqa: PLC0415 - only where asked for

        runs.write(sidefile.present(signals.process), parameters, signals.meant, writer.world_size)
    if any(each.get("where") == "process" for each in wanted.monitors):
        from rankbeat_agent.hooks import custom  # noqa: PLC0415 - only where asked for

        custom.CUSTOM.open(wanted.monitors, wanted.experiment)
        signals.custom = custom.CUSTOM


PARTS = (
    ("loss", _losses),
    ("samples per step", samples),
    ("learning rate", _rates),
    ("memory", _memory),
    ("metrics", rules),
    ("console", prints),
    ("on request", _on_request),
)
"""Each takes a signals.Signals, the writer and MindSpore's parameters, in this order."""
FOLLOWING = {"samples_per_step": samples, "metrics": rules, "console_ranks": prints}
"""What follows a change of the configuration within a train() call, by the field that changed; without parameters."""

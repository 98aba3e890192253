"""What a train() call's signals are, decided before its first step; each part fails for itself."""

import os
from typing import Any, Dict

from rankbeat_agent.hooks import losses, memory, rank, rates, sampling, sidefile
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


def _losses(signals: Any, writer: Writer, parameters: Parameters) -> None:
    signals.meant = losses.Meaning()
    signals.reads_loss = False
    signals.meant = losses.meaning(parameters, writer.rank, writer.world_size)
    writer.flags = (writer.flags & ~ring.LOSS_INVALID) | (0 if signals.meant.is_valid else ring.LOSS_INVALID)
    asked = signals.configuration.signals
    is_wanted = not asked.isdisjoint(("loss", "perplexity"))
    signals.reads_loss = signals.reads_tensors and signals.meant.is_valid and is_wanted
    signals.perplexity_id = signals.id_of(writer, names.SCALAR_PERPLEXITY) if "perplexity" in asked else -1


def _samples(signals: Any, writer: Writer, parameters: Parameters) -> None:
    if "throughput" in signals.configuration.signals:
        asked = signals.configuration.samples_per_step
        samples = losses.samples_per_step(parameters, signals.meant, writer.world_size, asked)
        if samples:
            signals.constant(writer, names.SCALAR_SAMPLES_PER_STEP, samples)


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


def _metrics(signals: Any, writer: Writer, _parameters: Parameters) -> None:
    signals.own = {}
    refused = 0
    for metric in signals.configuration.metrics:
        keeps = None
        if metric.filter:
            from rankbeat_agent.hooks import filters  # noqa: PLC0415 - only where asked for

            try:
                keeps = filters.compiled(metric.filter, metric.name)
            except ValueError as error:
                refused += 1
                rank.say(f"metric {metric.name}: {error}; it is not filtered")
        signals.own[signals.id_of(writer, metric.name)] = Own(metric.interval_steps, keeps)
    if signals.configuration.metrics:
        signals.constant(writer, names.SCALAR_FILTERS_REFUSED, refused)


def _on_request(signals: Any, writer: Writer, parameters: Parameters) -> None:
    wanted = signals.configuration
    signals.console = signals.custom = signals.shapes = None
    if wanted.console_ranks:
        from rankbeat_agent.hooks import console  # noqa: PLC0415 - only where asked for

        if console.is_asked(wanted.console_ranks, writer.rank, signals.meant.first_valid_rank):
            signals.console = console.Console(signals.process)
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
    ("samples per step", _samples),
    ("learning rate", _rates),
    ("memory", _memory),
    ("metrics", _metrics),
    ("on request", _on_request),
)
"""Each takes a signals.Signals, the writer and MindSpore's parameters, in this order."""

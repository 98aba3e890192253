"""What is read of a sampled step: functions of a signals.Signals, which says what is due and keeps the numbers."""

import math
import sys
from typing import Any, Dict

from rankbeat_agent.hooks import losses, rates, sidefile
from rankbeat_agent.wire.writer import Writer
from rankbeat_contract import names

_LARGEST_EXPONENT = 709.0
"""Of e, as a double."""

Parameters = Dict[str, Any]


def outputs(signals: Any, writer: Writer, step: int, parameters: Parameters, now_ns: int) -> None:
    """What the step has computed: its loss, and what MindFormers puts beside it."""
    found: Any = parameters.get("net_outputs")
    is_skipped, has_rate = False, False
    if losses.has_overflow(found):
        is_skipped = losses.is_left_out(found, signals.meant.norm_limit)
        if is_skipped:
            signals.add(signals.id_of(writer, names.SCALAR_SKIPPED), step, now_ns, 1.0)
        for name, value in losses.figures(found):
            has_rate = has_rate or name == names.SCALAR_LEARNING_RATE
            signals.add(signals.id_of(writer, name), step, now_ns, value)
    if signals.reads_loss:
        loss = signals.loss_of(found)
        # A step that the job itself leaves out says nothing by a loss that is no number.
        if loss is not None and not (is_skipped and not math.isfinite(loss)):
            signals.add(signals.loss_id, step, now_ns, loss)
            if signals.perplexity_id >= 0:
                # min() of a NaN and a number is the first of them: NaN stays NaN.
                perplexity = math.exp(min(loss, _LARGEST_EXPONENT))
                signals.add(signals.perplexity_id, step, now_ns, perplexity)
    if has_rate:
        signals.rate = None
    elif signals.rate is not None and step >= signals.rate_step and signals.is_due(signals.rate_id, step):
        _rate(signals, signals.rate, step, now_ns)


def _rate(signals: Any, reader: rates.Reader, step: int, now_ns: int) -> None:
    signals.rate_step = step + rates.RATE_STEPS
    if now_ns < signals.rate_ns:
        return
    signals.rate_ns = now_ns + rates.SCHEDULE_NS if reader.is_costly else 0
    signals.rate = None  # where it raises: counted once, not tried again
    signals.add(signals.rate_id, step, now_ns, reader.read(step))
    signals.rate = reader


def requested(signals: Any, writer: Writer, step: int, parameters: Parameters, now_ns: int) -> None:
    """What the monitor asks for beside them."""
    if signals.shapes is not None:
        signals.shapes.sample(sidefile.present(signals.process), step, parameters)
    if signals.custom is not None:
        for name, value in signals.custom.sample(step, parameters).items():
            name_id = signals.id_of_jobs(writer, name)
            if name_id is not None:
                signals.add(name_id, step, now_ns, value)
    if signals.configuration.has_taps:
        module = sys.modules.get("rankbeat_agent.hooks.taps")
        if module is not None and module.TAPS is not None:
            module.TAPS.sample(writer, step, now_ns, signals.configuration.signals)

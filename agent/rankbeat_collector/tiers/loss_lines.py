"""Lines of training loops that say loss, learning rate, norm and step time.

MindFormers 2.1, graph mode (MFLossMonitor), global step (epoch - 1) x steps + step:
    { Epoch:[  2/  2], step:[    7/   10], loss:[4.121618/4.092713], per_step_time: 30ms, lr: 0.000116, overflow cond: False, loss_scale: 1.0, global_norm: [0.945], ...
MindFormers 2.1, PyNative trainer, step is the global one:
    { step:[    7/   10], consumed_samples: 56, global_batch_size: 8, loss:   4.121618, per_step_time:     30ms, lr: 1.000000e-05, grad_norm:   0.945468, ... }
Any other loop, with the numbers that it has:
    [Monitor] step: 50, loss: 2.31, learning_rate: 1e-4, grad_norm: 0.9
"""  # noqa: E501 - real lines

import math
import re
from datetime import datetime
from typing import NamedTuple, Optional, Tuple

from rankbeat_contract import names

MAX_BYTES = 4096
"""Of a line that is looked at: MindFormers' longest has 500."""
_MAX_STEP = 1 << 48

_NUMBER = r"[-+\w.]{1,40}"
_ONE = rf"\[?[ ]?({_NUMBER})\.?[ ]?\]?"
"""A number, or an array that holds one."""
_GRAPH = re.compile(
    r"\{ Epoch:\[ *(?P<epoch>\d{1,9})/ *\d{1,9}\], step:\[ *(?P<step>\d{1,12})/ *(?P<steps>\d{1,12})\], "
    rf"(?:loss:\[ *(?P<loss>{_NUMBER})/|loss: *(?P<sink_loss>{_NUMBER}),)"
)
_PYNATIVE = re.compile(r"\{ step:\[ *(?P<step>\d{1,12})/ *(?P<steps>\d{1,12})\], consumed_samples: ")
_OTHER = re.compile(r"\[(?:[Mm]onitor|[Rr]ankbeat)\] (?:rank: *(?P<rank>\d{1,7}), )?step: *(?P<step>\d{1,12})\b")
_EPOCHS = re.compile(r"\{ Epoch:\[ *\d{1,9}/ *(\d{1,9})\]")
_FIELDS = {
    names.SCALAR_LOSS: re.compile(rf", loss: *{_ONE}"),
    names.SCALAR_LEARNING_RATE: re.compile(rf", (?:lr|learning_rate): *{_ONE}"),
    names.SCALAR_GRAD_NORM: re.compile(rf", (?:global_norm|grad_norm): *{_ONE}"),
    names.SCALAR_LOSS_SCALE: re.compile(rf", loss_scale: *{_ONE}"),
}
_STEP_TIME = re.compile(r", per_step_time: *(\d{1,12})ms")
_OVERFLOW = re.compile(r", overflow(?: cond)?: *\[?[ ]?(True|False)[ ]?\]?")
_WRITTEN = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})")
_RANK = re.compile(r"\brank[_ ](\d{1,7})\b")
_PLAIN = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf|infinity)", re.IGNORECASE)


class LossLine(NamedTuple):
    """What one line says; None and absent names are what it does not say."""

    step: int
    """Global, from 1."""
    total_steps: int = 0
    values: Tuple[Tuple[str, float], ...] = ()
    """Scalars by the names that the agent gives them."""
    step_seconds: Optional[float] = None
    """From the begin to the end of the step, whole milliseconds."""
    has_overflow: bool = False
    written_seconds: Optional[float] = None
    """When the program wrote it, in its own time zone: for differences only."""
    rank: Optional[int] = None
    """Where the line names it."""


def loss_line(text: str) -> Optional[LossLine]:
    """The numbers in a line of a log, None if it is no line of training."""
    graph = _GRAPH.search(text)
    if graph is not None:
        return _graph_line(text, graph)
    found = _PYNATIVE.search(text)
    if found is not None:
        return _line(text, found, int(found["step"]), int(found["steps"]))
    found = _OTHER.search(text)
    return None if found is None else _line(text, found, int(found["step"]), 0)


def _graph_line(text: str, found: "re.Match[str]") -> Optional[LossLine]:
    epoch, step, steps = int(found["epoch"]), int(found["step"]), int(found["steps"])
    epochs = _EPOCHS.search(text)
    line = _line(text, found, (epoch - 1) * steps + step, steps * int(epochs[1]) if epochs else 0)
    loss = _value(found["loss"] or found["sink_loss"])
    if line is None or loss is None:
        return line
    return line._replace(values=((names.SCALAR_LOSS, loss), *(v for v in line.values if v[0] != names.SCALAR_LOSS)))


def _line(text: str, found: "re.Match[str]", step: int, total_steps: int) -> Optional[LossLine]:
    if not 0 < step < _MAX_STEP:
        return None
    before, body = text[: found.start()], text[found.start() :]
    rank = found.groupdict().get("rank") or (named[1] if (named := _RANK.search(before)) else None)
    step_time, overflow = _STEP_TIME.search(body), _OVERFLOW.search(body)
    return LossLine(
        step=step,
        total_steps=total_steps if total_steps < _MAX_STEP else 0,
        values=_values(body),
        step_seconds=int(step_time[1]) / 1000 if step_time else None,
        has_overflow=overflow is not None and overflow[1] == "True",
        written_seconds=_written(before),
        rank=None if rank is None else int(rank),
    )


def _values(body: str) -> Tuple[Tuple[str, float], ...]:
    found = ((name, field.search(body)) for name, field in _FIELDS.items())
    known = ((name, _value(match[1])) for name, match in found if match is not None)
    return tuple((name, value) for name, value in known if value is not None)


def _value(text: str) -> Optional[float]:
    """The number, also NaN or infinite; None for None, unavailable, N and the like."""
    return float(text) if _PLAIN.fullmatch(text.rstrip(".")) else None


def _written(text: str) -> Optional[float]:
    found = _WRITTEN.search(text)
    if found is None:
        return None
    try:
        # As if it were UTC: only differences are taken.
        moment = datetime.strptime(found[1] + "+0000", "%Y-%m-%d %H:%M:%S%z").timestamp()
    except ValueError:
        return None
    return moment + int(found[2]) / 1000 if math.isfinite(moment) else None

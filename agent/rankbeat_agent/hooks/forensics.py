"""What led to the first loss that is no number, or to the end of the device's memory: dumped to the side file."""

import json
import math
from collections import deque
from typing import Any, Deque, Dict, Optional, Tuple

from rankbeat_agent.hooks import losses, memory, rank, sidefile
from rankbeat_agent.wire.writer import Writer
from rankbeat_contract import names, side

LAST_STEPS = 50
_SECOND_NS = 1e9


class Forensics:
    """The last steps, and whether the first NaN has been seen; for the life of the process."""

    __slots__ = ("full_at", "has_seen", "rows", "sampled")

    def __init__(self) -> None:
        self.rows: Deque[Tuple[int, Optional[float], int, bool]] = deque(maxlen=LAST_STEPS)
        """Step, loss, end in nanoseconds, whether the job left it out."""
        self.sampled: Dict[int, Tuple[int, float]] = {}
        """Step and value of the last sample, by the name's id."""
        self.has_seen = False
        self.full_at: Optional[int] = None
        """The step in which the device's memory was last used up: one exception may come by several doors."""

    def take(self, step: int, loss: Optional[float], ended_ns: int, *, is_skipped: bool) -> bool:
        """Remember a step; whether its loss is the first that is no number."""
        self.rows.append((step, loss, ended_ns, is_skipped))
        if self.has_seen or is_skipped or loss is None or math.isfinite(loss):
            return False
        self.has_seen = True
        return True

    def _steps(self) -> Any:
        before = None
        for step, loss, ended_ns, is_skipped in self.rows:
            interval = None if before is None else (ended_ns - before) / _SECOND_NS
            before = ended_ns
            yield {"step": step, "loss": loss, "interval_seconds": interval, "skipped": is_skipped}

    def write(self, process: rank.Rank, writer: Writer, signals: Any, outputs: Any) -> None:
        """Dump the first NaN: where it was, what rate and norm were known by then, and the last steps before it."""
        known: Dict[str, Tuple[int, float]] = {}
        for name in (names.SCALAR_LEARNING_RATE, names.SCALAR_GRAD_NORM):
            sampled = self.sampled.get(signals.ids.get(name, -1))
            if sampled is not None:
                known[name] = sampled
        try:
            if losses.has_overflow(outputs):
                known.update((name, (writer.step, value)) for name, value in losses.figures(outputs))
            elif signals.rate is not None and (not signals.rate.is_costly or names.SCALAR_LEARNING_RATE not in known):
                known[names.SCALAR_LEARNING_RATE] = (writer.step, signals.rate.read(writer.step))
        except Exception as error:  # noqa: BLE001 - a door: what was sampled is dumped all the same
            process.count("forensics", error)
        figures: Dict[str, float] = {}
        for name, (step, value) in known.items():
            figures.update({name: value, f"{name}_step": step})
        self._dump(process, writer, "nan_loss", figures)

    def failed(self, process: rank.Rank, writer: Writer, signals: Any, error: Optional[BaseException]) -> None:
        """Dump the memory's figures where an exception says that there is none left."""
        if memory.is_out_of_memory(error) and writer.entered_step != self.full_at:
            self.full_at = writer.entered_step
            figures = dict(memory.values(signals.statm, signals.device)) if signals.statm >= 0 else {}
            self._dump(process, writer, "out_of_memory", figures, exception=type(error).__name__)

    def _dump(self, process: rank.Rank, writer: Writer, reason: str, figures: Dict[str, Any], **more: str) -> None:
        file = sidefile.present(process)
        if file is None:
            return
        content = {"reason": reason, "step": writer.step, "rank": writer.rank, **more, **figures}
        content["steps"] = list(self._steps())
        file.write(side.DUMP, reason, max(writer.step, 0), json.dumps(content).encode())

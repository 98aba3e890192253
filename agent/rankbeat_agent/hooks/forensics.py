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

    __slots__ = ("has_seen", "rows")

    def __init__(self) -> None:
        self.rows: Deque[Tuple[int, Optional[float], int, bool]] = deque(maxlen=LAST_STEPS)
        """Step, loss, end in nanoseconds, whether the job left it out."""
        self.has_seen = False

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

    def write(self, file: Any, writer: Writer, signals: Any, outputs: Any) -> None:
        """Dump the first NaN: where it was, with what rate and norm, and the last steps before it."""
        figures: Dict[str, Optional[float]] = {}
        if losses.has_overflow(outputs):
            figures.update(losses.figures(outputs))
        elif signals.rate is not None and not signals.rate.is_costly:
            figures[names.SCALAR_LEARNING_RATE] = signals.rate.read(writer.step)
        self._dump(file, writer, "nan_loss", figures)

    def broke_off(self, process: rank.Rank, writer: Writer, signals: Any, error: Optional[BaseException]) -> None:
        """Dump the memory's figures where an exception says that there is none left."""
        if memory.is_out_of_memory(error):
            figures = dict(memory.values(signals.statm, signals.device)) if signals.statm >= 0 else {}
            self._dump(sidefile.present(process), writer, "out_of_memory", figures, exception=type(error).__name__)

    def _dump(self, file: Any, writer: Writer, reason: str, figures: Dict[str, Any], **more: str) -> None:
        if file is None:
            return
        content = {"reason": reason, "step": writer.step, "rank": writer.rank, **more, **figures}
        content["steps"] = list(self._steps())
        file.write(side.DUMP, reason, max(writer.step, 0), json.dumps(content).encode())

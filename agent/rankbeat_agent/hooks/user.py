"""The job's own numbers: `rankbeat.log(name=value)` comes here where the agent trains along."""

from _thread import get_ident
from time import monotonic_ns
from typing import Any, Dict

from rankbeat_agent.hooks import evaluation, rank
from rankbeat_agent.wire import records
from rankbeat_contract import names, ring

MAX_NAMES = 32
"""Of the ring's 128 that the job may take."""
_PUBLISH_NS = 250_000_000

TRAINING: Any = None
"""steps.Steps of this process once it trains."""


class _Log:
    __slots__ = ("has_refused", "names", "publish_ns")

    def __init__(self) -> None:
        self.names: Dict[str, str] = {}
        """By what the job says: the name in the ring, empty where it can have none."""
        self.publish_ns = 0
        self.has_refused = False
        """Names are refused for as long as they come, and counted once."""

    def name(self, said: str) -> str:
        known = self.names.get(said)
        if known is None:
            is_full = len(self.names) >= MAX_NAMES
            known = "" if is_full else evaluation.normalised(said, names.USER_PREFIX)
            if not is_full:
                self.names[said] = known
            if not known and not self.has_refused:
                self.has_refused = True
                rank.RANK.count("log", ValueError(f"no metric for {said!r}: no name, or more than {MAX_NAMES}"))
        return known

    def take(self, values: Dict[str, float]) -> None:
        writer = rank.RANK.writer
        # Another thread would write into a record that the training thread is writing.
        if writer is None or TRAINING is None or TRAINING.signals is None or get_ident() != rank.RANK.thread:
            return
        now = monotonic_ns()
        step = max(writer.step, 0)
        signals = TRAINING.signals
        for said, told in values.items():
            name, value = self.name(said), float(told)
            name_id = signals.id_of_jobs(writer, name) if name and signals.takes(name, step, value) else None
            if name_id is not None:
                records.note(writer, ring.KIND_SCALAR, name_id, step, now, value, float("nan"), float("nan"))
        if now >= self.publish_ns:
            self.publish_ns = now + _PUBLISH_NS
            writer.publish(now)


_LOG = _Log()


def log(values: Dict[str, float]) -> None:
    """Note values by name at the last finished step; what is no number, or a name too many, is counted."""
    try:
        _LOG.take(values)
    except Exception as error:  # noqa: BLE001 - a door: the job's line goes on
        rank.RANK.count("log", error)

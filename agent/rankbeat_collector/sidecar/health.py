"""How the outputs fare in a few words and numbers: the part of the status file that may leave the pod."""

from typing import Dict, FrozenSet, Iterator

from rankbeat_collector.sidecar.configured import Configured
from rankbeat_contract import outputs as contract

RECENT_SECONDS = 300.0
"""A loss is a trouble for so long after it grew last: longer than a person needs to look, shorter than a run."""


class Health:
    """Remembers when each loss grew last."""

    def __init__(self) -> None:
        self._known: Dict[str, int] = {}
        self._grew: Dict[str, float] = {}

    def said(self, configured: Configured, now: float) -> Dict[str, object]:
        """What the node's collector reads (model.written). now: monotonic seconds."""
        counts = () if configured.writing is None else configured.writing.counts()
        numbers = {
            "rows_written": sum(each.written for _, each in counts),
            "rows_dropped": sum(each.dropped for _, each in counts),
            "records_lost": configured.records_lost,
            "entries_lost": configured.entries_lost,
        }
        gone = sum(each.troubles["vanished"] for _, each in counts)
        losses = {**numbers, "rows_written": 0, "vanished": gone}
        grown = self._grown(losses, now)
        found = {*_present(configured)}
        found |= {"vanished"} & grown
        found |= {"rows_lost"} if grown - {"vanished"} else set()
        return {"troubles": [each for each in contract.TROUBLES if each in found], **numbers}

    def _grown(self, losses: Dict[str, int], now: float) -> FrozenSet[str]:
        """Which losses have grown lately."""
        for name, count in losses.items():
            if count > self._known.get(name, 0):
                self._grew[name] = now
        self._known = losses
        return frozenset(name for name, at in self._grew.items() if now - at < RECENT_SECONDS)


def _present(configured: Configured) -> Iterator[str]:
    """What is wrong at this moment."""
    if configured.trouble:
        yield configured.trouble
    writing = configured.writing
    if writing is None:
        return
    for name, counts in writing.counts():
        yield from ("http",) if name == "http" and counts.failing else counts.failing.values()
    if writing.audit_errors:
        yield "audit"
    if writing.monitors.disabled:
        yield "monitor"

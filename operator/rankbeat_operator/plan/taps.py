"""Condition TapsInstalled: whether what is tapped inside the step (docs/taps.md) is."""

from collections.abc import Iterator

from rankbeat_contract import names
from rankbeat_operator.model.condition import Condition
from rankbeat_operator.model.monitors import Monitor
from rankbeat_operator.model.observed import Observed
from rankbeat_operator.model.verdicts import JobVerdict, Taps

_LOG = "the job's log says why: kubectl logs POD | grep 'is not observed'"
_LOOP = """the job's own loop is seen by its steps alone, and no tensor is read there: train by Model.train, or take \
what is tapped out of spec.signals"""


def conditions(monitor: Monitor, observed: Observed) -> Iterator[Condition]:
    """TapsInstalled where a signal is tapped inside the step."""
    if monitor.settings.asks_for_taps:
        yield _installed(monitor, observed.verdict)


def _installed(monitor: Monitor, verdict: JobVerdict | None) -> Condition:
    if verdict is None or not verdict.ranks_reporting:
        return _condition("Unknown", "NoReports", "no rank reports what it taps: see condition Reporting")
    taps = verdict.taps
    if taps is None and verdict.tiers and set(verdict.tiers.values()) == {names.TIER_HEARTBEAT}:
        return _condition("False", "LoopOfItsOwn", _LOOP)
    if taps is None:
        return _condition("Unknown", "NoSamples", "no rank has sampled a step yet, at which it says what it taps")
    if taps.refused or taps.unresolved_paths:
        return _refused(monitor.settings.attention_cells, taps)
    return _condition("True", "Installed", f"{taps.ranks} ranks tap what spec.signals asks for")


def _refused(cells: tuple[str, ...], taps: Taps) -> Condition:
    paths = [f"spec.attention.cells[{place}] {cells[place]!r}" for place in taps.unresolved_paths if place < len(cells)]
    others = taps.refused - len(taps.unresolved_paths)
    texts = []
    if paths:
        texts.append(f"no cell of the network has the path {', '.join(paths)}: compare with net.cells_and_names()")
    if others > 0:
        texts.append(f"{others} of spec.signals cannot be tapped in this job")
    whose = f"on {taps.ranks_refusing} of {taps.ranks} ranks"
    reason = "PathsUnresolved" if paths else "TapsRefused"
    return _condition("False", reason, f"{whose} {'; '.join(texts) or 'a path fits no cell'}; {_LOG}")


def _condition(status: str, reason: str, message: str) -> Condition:
    return Condition("TapsInstalled", status, reason, message)

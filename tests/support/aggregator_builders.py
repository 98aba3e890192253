"""Reports as collectors send them, with good defaults, and a judge to send them to."""

from collections.abc import Mapping, Sequence
from typing import Any

from rankbeat_aggregator.detect import judge
from rankbeat_aggregator.detect.judge import Judgement
from rankbeat_aggregator.model import report as reports
from rankbeat_aggregator.model.report import JobKey
from rankbeat_aggregator.model.verdict import Incident, Verdict
from rankbeat_aggregator.window import fleet as fleets
from rankbeat_aggregator.window import view as views
from rankbeat_aggregator.window.fleet import Fleet, Receipt
from rankbeat_aggregator.window.view import JobView
from rankbeat_contract.monitor import Limits

DEFAULTS = Limits()
KEY = JobKey("team-a", "llm", "uid-1")
TRUSTED = {"trusted": True, "reason": "Quorum", "source": "sntp", "offset_seconds": 0.0, "error_bound_seconds": 0.001}
UNTRUSTED = {"trusted": False, "reason": "NoQuorum", "source": "", "offset_seconds": None, "error_bound_seconds": None}
WALL = 1_796_000_000.0
"""Wall clock at monotonic 0 of every clock in these tests."""


def a_rank(rank: int | None = 0, **given: Any) -> dict[str, Any]:
    """A rank of two that has just finished step 512, is inside step 513, and runs in a pod of its own node."""
    place = 0 if rank is None else rank
    return {
        "namespace": KEY.namespace,
        "monitor": KEY.monitor,
        "job": "llm",
        "job_uid": KEY.job_uid,
        "pod": f"llm-{place}",
        "pod_uid": f"pod-{place}",
        "run": f"run-{place}",
        "attempt": 0,
        "rank": rank,
        "local_rank": 0,
        "world_size": 2,
        "claimed_age_seconds": 100.0,
        "alive": True,
        "phase": "train",
        "phase_age_seconds": 0.01,
        "segment": 1,
        "step": 512,
        "step_age_seconds": 0.01,
        "entered_step": 513,
        "entered_age_seconds": 0.008,
        "updated_age_seconds": 0.008,
        "longest_interval_seconds": 0.12,
        "median_interval_seconds": 0.02,
        "timing": "synced",
        "total_steps": 4000,
        "steps": [],
        "scalars": [],
        "agent_on": True,
        "loss_valid": True,
        "records_lost": 0,
        "agent_errors": 0,
        "exception": "",
        "cpu_seconds": 12.5,
        **given,
    }


def stalled(rank: int = 0, seconds: float = 30.0, **given: Any) -> dict[str, Any]:
    """A rank whose last progress is that old."""
    ages = ("phase_age_seconds", "step_age_seconds", "entered_age_seconds", "updated_age_seconds")
    return a_rank(rank, **{**dict.fromkeys(ages, seconds), **given})


def not_arrived(rank: int = 1, seconds: float = 30.0, **given: Any) -> dict[str, Any]:
    """A stalled rank that has not entered the step that follows its last."""
    return stalled(rank, seconds, **{"entered_step": 512, **given})


def failed(rank: int = 1, seconds: float = 1.0, **given: Any) -> dict[str, Any]:
    """A rank whose process ended with an exception outside a step."""
    defaults = {"alive": False, "phase": "failed", "exception": "RuntimeError", "entered_step": 512}
    return stalled(rank, seconds, **{**defaults, **given})


def done(rank: int = 0, seconds: float = 1.0, **given: Any) -> dict[str, Any]:
    return stalled(rank, seconds, **{"alive": False, "phase": "done", "step": 4000, "entered_step": 4000, **given})


def a_pod(rank: Mapping[str, Any], **given: Any) -> dict[str, Any]:
    """The pod of a rank."""
    kept = ("namespace", "monitor", "job", "job_uid", "pod", "pod_uid")
    state = {"deleting": False, "phase": "Running", "started_age_seconds": 120.0, "rings": 1, "refused": {}}
    return {**{name: rank[name] for name in kept}, **state, **given}


def a_report(
    node: str, ranks: Sequence[Mapping[str, Any]], pods: Sequence[Mapping[str, Any]] | None = None, **given: Any
) -> dict[str, Any]:
    """What a node sends; by default each rank's pod runs."""
    return {
        "node": node,
        "sent_wall": WALL,
        "interval_seconds": 5.0,
        "exchange": {"offset_seconds": 0.0, "delay_seconds": 0.002},
        "clock": TRUSTED,
        "pods": list(pods) if pods is not None else [a_pod(rank) for rank in ranks],
        "ranks": list(ranks),
        **given,
    }


class Judge:
    """An aggregator without the world: reports go in at a time, a verdict comes out at a time."""

    def __init__(self, limits: Limits = DEFAULTS, started: float = -1000.0) -> None:
        self.limits = limits
        self.fleet = Fleet(started=started)
        self.verdict = Verdict()

    def hears(self, at: float, *ranks: Mapping[str, Any], **given: Any) -> "Judge":
        """Every rank's own node reports it; ranks of one node share a report where they name it as `on`."""
        by_node: dict[str, list[Mapping[str, Any]]] = {}
        for rank in ranks:
            node = rank.get("on") or f"n{rank['rank'] or 0}"
            by_node.setdefault(node, []).append(rank)
        for node, its in by_node.items():
            self.node(at, node, its, **given)
        return self

    def node(self, at: float, node: str, ranks: Sequence[Mapping[str, Any]], **given: Any) -> "Judge":
        report = reports.parse(a_report(node, ranks, **{"sent_wall": WALL + at, **given}))
        assert report.refused == ()
        fleets.fold(self.fleet, report, Receipt(at, WALL + at))
        return self

    def view(self, at: float) -> JobView:
        return views.view(self.fleet, self.fleet.jobs[KEY], at)

    def says(self, at: float) -> Verdict:
        """The verdict at a time."""
        if self.fleet.is_warm(at):
            self.verdict = judge.judge(self.view(at), self.verdict, Judgement(self.limits, WALL))
        return self.verdict

    def incidents(self, at: float) -> dict[str, Incident]:
        return {incident.kind: incident for incident in self.says(at).incidents}

    def levels(self, at: float) -> dict[str, int]:
        """Levels of what is open."""
        return {kind: incident.level for kind, incident in self.incidents(at).items()}

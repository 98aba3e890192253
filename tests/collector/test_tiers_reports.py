"""What the collector reports of lower tiers, and that the aggregator takes it and judges it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import tier_support as support
from aggregator_builders import WALL, Judge
from rankbeat_aggregator.model import report as aggregator
from rankbeat_aggregator.model.report import JobKey
from rankbeat_aggregator.server import verdicts
from rankbeat_aggregator.window import fleet as fleets
from rankbeat_aggregator.window import view as views
from rankbeat_aggregator.window.fleet import Receipt
from rankbeat_collector.model import reports
from rankbeat_collector.model.reports import Sender

if TYPE_CHECKING:
    from pathlib import Path

    from rankbeat_aggregator.window.view import JobView


def reported(node: support.Node, *pods: object) -> JobView:
    """The job as an aggregator sees it after one report of these pods."""
    poller = node.poller(*pods)  # type: ignore[arg-type]
    poller.poll()
    body = reports.report(Sender("n1", 5.0), poller.poll(), {}, is_late=False).body
    parsed = aggregator.parse({**json.loads(json.dumps(body)), "sent_wall": WALL})
    judge = Judge()
    fleets.fold(judge.fleet, parsed, Receipt(0.0, WALL))
    assert parsed.refused == ()
    return views.view(judge.fleet, judge.fleet.jobs[JobKey("team-a", "llm", "job-1")], 1.0)


@pytest.fixture
def node(tmp_path: Path) -> support.Node:
    return support.Node(tmp_path)


def test_ranks_of_step_files_count_as_reporting(node: support.Node) -> None:
    pod = support.a_tier_pod(has_agent=False)
    for rank in (0, 1):
        (node.perf_folder(pod) / f"perf_ms_{17 + rank}_{rank}.log").write_text(support.perf_text(rank, 40))

    view = reported(node, pod)

    assert [(member.rank, member.finished, member.entered) for member in view.members] == [
        (0, (1, 40), None),
        (1, (1, 40), None),
    ]
    assert (view.expected, len(view.reporting)) == (2, 2)
    assert view.median_interval_seconds == pytest.approx(0.021)
    assert verdicts._tiers(view) == {"llm-0": "perf_file"}


def test_unnamed_ranks_of_a_log_are_members_without_a_number(node: support.Node) -> None:
    pod = support.a_tier_pod(has_agent=False, tiers=("logTail",))
    (node.log_folder(pod) / "0.log").write_text(support.cri(support.graph_lines([10, 20, 30])))

    view = reported(node, pod)

    assert [(member.rank, member.finished) for member in view.members] == [(None, (1, 30))]
    assert view.members[0].process.losses == ((10, 2.5), (20, 2.5), (30, 2.5))
    assert view.median_interval_seconds == pytest.approx(0.5)


def test_the_end_of_the_pod_is_a_crash_or_none(node: support.Node) -> None:
    ended = [support.a_tier_pod(name=f"llm-{phase}", uid=phase, phase=phase) for phase in ("Succeeded", "Failed")]
    for rank, pod in enumerate(ended):
        (node.perf_folder(pod) / "perf_ms_17_0.log").write_text(support.perf_text(rank, 40))

    view = reported(node, *ended)

    assert [(member.phase, member.is_dead) for member in view.members] == [("done", False), ("failed", True)]


def test_a_collector_that_starts_anew_continues_the_same_run(node: support.Node) -> None:
    """The aggregator keeps the snapshot with the largest age since the claim: a later claim would freeze it."""
    pod = support.a_tier_pod()
    file = node.perf_folder(pod) / "perf_ms_17_0.log"
    judge = Judge()
    for at, steps in ((0.0, 40), (5.0, 90)):
        file.write_text(support.perf_text(0, steps))
        poller = node.poller(pod)
        poller.poll()
        body = reports.report(Sender("n1", 5.0), poller.poll(), {}, is_late=False).body
        parsed = aggregator.parse({**json.loads(json.dumps(body)), "sent_wall": WALL + at})
        fleets.fold(judge.fleet, parsed, Receipt(at, WALL + at))

    view = views.view(judge.fleet, judge.fleet.jobs[JobKey("team-a", "llm", "job-1")], 6.0)

    assert (view.attempt, [member.finished for member in view.members]) == (1, [(1, 90)])

"""What the demo takes for a page."""

import json

from rankbeat_demo import incident, pages
from rankbeat_demo.pages import Page


def delivery(path: str, *alerts: dict) -> str:
    return json.dumps({"received": 12.5, "path": path, "body": {"alerts": alerts}})


def alert(status: str, suspects: str = "") -> dict:
    return {"status": status, "labels": {"alertname": "TrainingHung"}, "annotations": {"suspects": suspects}}


def test_tickets_and_resolved_alerts_page_nobody():
    assert pages.pages([delivery("/ticket", alert("firing")), delivery("/page", alert("resolved"))]) == ()


def test_a_firing_alert_at_the_pager_is_a_page():
    found = pages.pages([delivery("/page", alert("firing"))])

    assert found == (Page(12.5, "TrainingHung", {"alertname": "TrainingHung"}, {"suspects": ""}),)


def test_suspects_are_the_ranks_that_the_page_names():
    (page,) = pages.pages([delivery("/page", alert("firing", "rank 1 on node-1 (llm-1), rank 3 on node-2 (llm-3)"))])

    assert incident.suspects_in(page) == ("1", "3")

"""docs/alerts.md, from alerts/rules.yaml."""

from pathlib import Path
from typing import Any

import yaml

from reference import markdown

HEADS = ("alert", "severity", "for", "summary", "runbook")
SAYS = (
    "`critical` pages, `warning` is a ticket. Thresholds are series: a TrainingMonitor's limits change them, the rules "
    "stay. One alert fires per job, or per node and component; suspects stand in the annotation `suspects`."
)


def page(rules: Path) -> str:
    groups = yaml.safe_load(rules.read_text())["groups"]
    return markdown.page("Alerts", "alerts/rules.yaml", SAYS, *map(_section, groups))


def _section(group: dict[str, Any]) -> str:
    alerts = [rule for rule in group["rules"] if "alert" in rule]  # the others record what alerts read
    return f"## {group['name']}\n\n{markdown.table(HEADS, map(_row, alerts))}"


def _row(rule: dict[str, Any]) -> tuple[str, ...]:
    runbook = rule["annotations"]["runbook_url"].removeprefix("RUNBOOKS/")
    return (
        markdown.code(rule["alert"]),
        rule["labels"]["severity"],
        rule.get("for", "at once"),
        rule["annotations"]["summary"],
        f"[{runbook}](runbooks/{runbook})",
    )

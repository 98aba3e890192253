"""The queries of the shipped dashboard, by row."""

import json
from pathlib import Path

JOB_OVERVIEW = Path(__file__).resolve().parents[2] / "dashboards/job-overview.json"
DEVICES_ROW = "Accelerators by rank"


def queries(namespace: str, monitor: str) -> dict[str, dict[str, str]]:
    """Row ("" before the first) -> panel -> query, the dashboard's variables filled in."""
    rows: dict[str, dict[str, str]] = {"": {}}
    row = ""
    for panel in json.loads(JOB_OVERVIEW.read_text())["panels"]:
        if panel["type"] == "row":
            row = panel["title"]
            rows[row] = {}
        for target in panel.get("targets", ()):
            rows[row][panel["title"]] = target["expr"].replace("$namespace", namespace).replace("$monitor", monitor)
    return rows

"""The table of metrics: the one place for names, labels and HELP texts."""

import re
from pathlib import Path

import pytest

from rankbeat_contract import metrics

ROOT = Path(__file__).resolve().parents[2]
NAMES = {one.name for one in metrics.TABLE}
PACKAGES = {path.parent.name for path in ROOT.glob("*/rankbeat_*/__init__.py")}
PROGRAMS = ("agent/rankbeat_collector", "aggregator", "node_exporter", "operator")


def test_names_are_unique():
    assert len(NAMES) == len(metrics.TABLE)


@pytest.mark.parametrize("metric", metrics.TABLE, ids=lambda metric: metric.name)
def test_a_metric_is_named_labelled_and_explained_as_all_are(metric):
    assert re.fullmatch(r"rankbeat(_[a-z]+)+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == metrics.COUNTER)
    assert len(set(metric.labels)) == len(metric.labels)
    assert metric.help.endswith(".")
    assert metric.program in metrics.PROGRAMS


@pytest.mark.parametrize("path", ["alerts/rules.yaml", "dashboards/job-overview.json"])
def test_alerts_and_dashboards_ask_only_for_metrics_that_exist(path):
    text = (ROOT / path).read_text()
    recorded = set(re.findall(r"\w+:rankbeat_\w+:\w+", text))  # LEVEL:METRIC:OPERATIONS, as recording rules name theirs
    asked = set(re.findall(r"\brankbeat_[a-z_]+", re.sub(r"\w+:rankbeat_\w+:\w+", "", text)))

    assert asked <= NAMES
    assert recorded <= set(re.findall(r'record: "(.+)"', (ROOT / "alerts/rules.yaml").read_text()))


def test_no_program_spells_a_metric():
    sources = [path for program in PROGRAMS for path in (ROOT / program).rglob("*.py")]
    words = {(path.name, word) for path in sources for word in re.findall(r"\brankbeat_\w+", path.read_text())}

    assert [(path, word) for path, word in sorted(words) if word not in PACKAGES] == []

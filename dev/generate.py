"""Writes every generated file: the chart's copies of CRD, rules and dashboards, the dashboards, the reference tables.

usage: generate.py [--check]    --check writes nothing and fails where a file would change
"""

import argparse
import difflib
import sys
from collections.abc import Mapping
from pathlib import Path

from reference import alerts, external, metrics, trainingmonitor, values

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "charts/helm/rankbeat/files"
CRD = ROOT / "crds/trainingmonitors.rankbeat.io.yaml"
RULES = ROOT / "alerts/rules.yaml"
DOCS = ROOT / "docs"


def dashboards() -> Mapping[str, str]:
    """Dashboard file name -> JSON text."""
    sys.path.insert(0, str(ROOT / "dashboards"))
    from grafana_foundation_sdk.cog.encoder import JSONEncoder  # noqa: PLC0415

    import job_overview  # noqa: PLC0415

    text = JSONEncoder(sort_keys=True, indent=2).encode(job_overview.job_overview())
    return {"job-overview.json": text + "\n"}


def generated() -> Mapping[Path, str]:
    """Every generated file with its content."""
    files = {
        CHART / "crd.yaml": CRD.read_text(),
        CHART / "rules.yaml": RULES.read_text(),
        ROOT / "alerts/external.yaml": external.page(),
        CHART / "external.yaml": external.page(),
        CHART / "inhibit.yaml": (ROOT / "alerts/alertmanager.yaml").read_text(),
        DOCS / "metrics.md": metrics.page(),
        DOCS / "alerts.md": alerts.page(RULES),
        DOCS / "trainingmonitor.md": trainingmonitor.page(CRD),
        DOCS / "values.md": values.page(ROOT / "charts/helm/rankbeat/values.yaml"),
    }
    for name, text in dashboards().items():
        files[ROOT / "dashboards" / name] = text
        files[CHART / "dashboards" / name] = text
    return files


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = 0
    for path, text in generated().items():
        old = path.read_text() if path.exists() else ""
        if old == text:
            continue
        stale += 1
        name = str(path.relative_to(ROOT))
        if check:
            sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), text.splitlines(True), name, name, n=1))
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"wrote {name}")
    if check and stale:
        print(f"{stale} generated files are stale: run `make generate` and commit them", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

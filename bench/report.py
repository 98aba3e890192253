"""Writes docs/benchmarks.md from the figures that benchmarks, set-up and demo left under build/: `make bench-report`.

A section per file, in the order of SECTIONS; the method is the first paragraphs of the benchmark's own docstring. Where
a file is missing, the page keeps the section that it has, with its date and machine.
"""

import ast
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from measuring import ROOT

BENCH = ROOT / "build/bench"
SECTIONS: Mapping[str, tuple[str, str]] = {
    "demo-cold": (
        "The demo, nothing cached",
        "`make demo` from a clean clone, our caches and those of Go and uv empty: Kubernetes is built from source.",
    ),
    "setup-cold": ("Set-up, nothing cached", "The steps of the same run; independent steps run side by side."),
    "demo": (
        "The demo, everything cached",
        "`make demo` on a machine that has run it before; the cluster starts anew.",
    ),
    "step-overhead": ("A training step with the agent", ""),
    "collector": ("The node collector", ""),
    "outputs": ("The collector beside a job, all outputs on", ""),
    "aggregator": ("The aggregator", ""),
    "webhook": ("The webhook", ""),
    "exporter": ("The accelerators' exporter", ""),
}
HEAD = """# Benchmarks

Written by `make bench-report` from the files that the benchmarks leave under `build/`; each has one command,
`make bench-NAME`. The machines are small, shared and noisy: compare figures of one run with each other, not across
runs. All of it was measured on CPUs; what hardware has yet to show stands in [unverified.md](unverified.md).
"""


def method(name: str) -> str:
    """What the benchmark does, in its own words."""
    source = ROOT / "bench" / f"{name.replace('-', '_')}.py"
    if not source.exists():
        return ""
    text = (ast.get_docstring(ast.parse(source.read_text())) or "").partition("\nusage: ")[0]
    paragraphs = [part for part in text.split("\n\n") if not part.startswith("    ")]
    return "\n\n".join(paragraphs)


def figures_of(name: str) -> Path:
    return ROOT / "build/demo.json" if name == "demo" else BENCH / f"{name}.json"


def rows(figures: Mapping[str, float]) -> list[str]:
    return [
        f"| `{name}` | {value:,.4g} |" if value < 1000 else f"| `{name}` | {value:,.0f} |"
        for name, value in figures.items()
    ]


def machine(found: object) -> str:
    if isinstance(found, dict):
        return ", ".join(f"{name} {value}" for name, value in found.items())
    return str(found)


def section(name: str) -> str:
    title, told = SECTIONS[name]
    content = json.loads(figures_of(name).read_text())
    lines = [
        f"## {title}",
        "",
        told or method(name),
        "",
        "| figure | value |",
        "| --- | --- |",
        *rows(content["figures"]),
    ]
    for arm, (low, high) in content.get("intervals_95", {}).items():
        lines.append(f"| 95 % interval of `{arm}` over `off` | {low:.4f} to {high:.4f} |")
    if "verdict" in content:
        lines += ["", f"Verdict of its own control: {content['verdict']}. {content.get('conditions', '')}."]
    return "\n".join([*lines, "", f"{content['date']}; {machine(content['machine'])}."])


def written_sections(page: str) -> dict[str, str]:
    """The page's sections by their titles: figures of another machine, which has no files here, stay."""
    return {part.split("\n", 1)[0]: f"## {part.rstrip()}\n" for part in page.split("\n## ")[1:]}


def main() -> int:
    page = ROOT / "docs/benchmarks.md"
    written = written_sections(page.read_text()) if page.exists() else {}
    sections = []
    for name, (title, _) in SECTIONS.items():
        if figures_of(name).exists():
            sections.append(section(name) + "\n")
        elif title in written:
            sections.append(written[title])
            print(f"{name}: no figures here, the page keeps its own", file=sys.stderr)
        else:
            print(f"{name}: no figures, here or on the page: run make bench-{name}, or make demo", file=sys.stderr)
            return 1
    page.write_text("\n".join([HEAD, *sections]))
    print(f"wrote {page.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`rankbeat translate`: what becomes of each key of a bare monitor_config."""

import sys
from enum import Enum
from pathlib import Path
from typing import Any, Dict

import typer
import yaml
from rich.console import Console
from rich.table import Table

from rankbeat_contract import translation
from rankbeat_contract.translation import Outcome, Translation

_COLOURS = {translation.TRANSLATED: "green", translation.KEPT: "dim", translation.REFUSED: "red"}
_FILE = typer.Argument(help="YAML or JSON with a monitor_config; - reads standard input.")


class Shape(str, Enum):
    """What is printed."""

    TABLE = "table"
    YAML = "yaml"


_OUTPUT = typer.Option(Shape.TABLE, "--output", "-o", help="table, with the spec below it; yaml: the spec alone.")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(translate)


def translate(file: Path = _FILE, output: Shape = _OUTPUT) -> None:
    """Translate a bare monitor_config into fields of a TrainingMonitor; exit 1 if a key is refused.

    What becomes of each key is shown. Put what is printed into a TrainingMonitor, or the file's content as it is under
    `spec.monitorConfig`, where the operator translates it in the same way.
    """
    translated = translation.translated(_read(file))
    if output is Shape.TABLE:
        _show(translated)
    else:
        for outcome in translated.refused:
            print(f"rankbeat: {outcome.key} is refused: {outcome.text}", file=sys.stderr)
    print(yaml.safe_dump({"spec": translated.spec}, sort_keys=False, width=120), end="")
    if translated.refused:
        raise typer.Exit(1)


def _read(file: Path) -> Dict[str, Any]:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        content = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        sys.exit(f"rankbeat: {file} cannot be read: {error}")
    if not isinstance(content, dict):
        sys.exit(f"rankbeat: {file} holds no object with keys: write for example `step_interval: 10`")
    return {str(key): value for key, value in content.items()}


def _show(translated: Translation) -> None:
    table = Table("key", "", "what becomes of it", box=None, pad_edge=False, header_style="bold")
    for outcome in translated.outcomes:
        table.add_row(*_cells(outcome))
    # To standard error, so that the spec alone can be piped on.
    Console(stderr=True, highlight=False).print(table)


def _cells(outcome: Outcome) -> "tuple[str, str, str]":
    colour = _COLOURS[outcome.verdict]
    return outcome.key.replace("[", "\\["), f"[{colour}]{outcome.verdict}[/]", outcome.text.replace("[", "\\[")

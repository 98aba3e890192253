"""`rankbeat audit verify`: whether an audit log's chain holds."""

import sys
from pathlib import Path
from typing import List

import typer

from rankbeat_collector.errors import AuditError
from rankbeat_collector.files import audit

_FILES = typer.Argument(help="Audit logs, audit-WRITER.jsonl.", show_default=False)


def register(app: typer.Typer) -> None:
    """Add the command."""
    group = typer.Typer(no_args_is_help=True, help="Audit logs of outputs.")
    group.callback()(_group)
    group.command()(verify)
    app.add_typer(group, name="audit")


def _group() -> None:
    """Audit logs of outputs."""


def verify(files: List[Path] = _FILES) -> None:
    """Check each log's chain of hashes; name the first line that does not follow and exit 1.

    Entries that were cut off at the end cannot be seen: compare the number with what you noted elsewhere.
    """
    is_broken = False
    for file in files:
        try:
            print(f"{file}: {audit.verified(file)} entries, the chain holds")
        except AuditError as error:  # noqa: PERF203 - all files are looked at
            is_broken = True
            print(f"rankbeat: {error}", file=sys.stderr)
        except (OSError, UnicodeDecodeError) as error:
            sys.exit(f"rankbeat: {file} cannot be read: {error}")
    if is_broken:
        raise typer.Exit(1)

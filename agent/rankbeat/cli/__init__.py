"""The command `rankbeat`: one module for each command, each with a function `register(app)`."""

import importlib
import sys
from typing import Tuple

COMMANDS: Tuple[str, ...] = ("translate", "decrypt", "audit", "verify")
"""Modules of this package that add a command."""
_NEEDED = ("typer", "rich", "yaml")


def main() -> None:
    """Entry point of the program."""
    try:
        import typer  # noqa: PLC0415 - an extra, which may not be there
    except ModuleNotFoundError as error:
        if error.name not in _NEEDED:
            raise
        sys.exit(f"rankbeat: {error.name} is not installed: pip install 'rankbeat[cli]'")
    app = typer.Typer(
        name="rankbeat",
        help="Sees inside the ranks of a distributed training job.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_whole)
    for name in COMMANDS:
        importlib.import_module(f"rankbeat.cli.{name}").register(app)
    app()


def _whole() -> None:
    """Sees inside the ranks of a distributed training job."""

"""`rankbeat verify`: whether what Rankbeat reads of this machine is true."""

import importlib.util
import shutil
import subprocess
import sys
from typing import List

import typer

_PROGRAM = "rankbeat-exporter"
_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


def register(app: typer.Typer) -> None:
    """Add the command."""
    group = typer.Typer(no_args_is_help=True, help="Compare what is read with what other tools say.")
    group.callback()(_group)
    group.command(context_settings=_PASSED_ON)(node)
    app.add_typer(group, name="verify")


def _group() -> None:
    """Compare what is read with what other tools say."""


def node(context: typer.Context) -> None:
    """This machine's NPUs and GPUs, beside what npu-smi and nvidia-smi say of them, figure by figure.

    Run it on the node itself, as root. All options go on to `rankbeat-exporter verify`: --tool, --json, --vendor,
    --npu-driver-root, --nvidia-driver-root, --deadline. Exit 0: all agrees. 1: something differs. 2: nothing compared.
    """
    try:
        raise typer.Exit(subprocess.call([*_program(), "verify", *context.args]))
    except OSError as error:
        sys.exit(f"rankbeat: {_PROGRAM} cannot be started: {error}")


def _program() -> List[str]:
    if importlib.util.find_spec("rankbeat_exporter") is not None:
        return [sys.executable, "-m", "rankbeat_exporter"]
    found = shutil.which(_PROGRAM)
    if found is None:
        sys.exit(f"rankbeat: {_PROGRAM} is not installed: pip install 'rankbeat-platform[exporter]'")
    return [found]

"""The demo's cluster: up, images in, programs run on it."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILD = ROOT / "build"
NAME = "demo"
NODE_ADDRESS = "10.90.0.1"
"""Address of the first node on its bridge: what a pod reaches outside the pods' network."""


class CommandError(RuntimeError):
    """A program that the demo ran has failed; the message is its last output."""


def run(*command: str, timeout_seconds: float = 120, stdin: str | None = None) -> str:
    """Standard output of a program.

    Raises: CommandError with the command and the end of its output.
    """
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig()), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=timeout_seconds, env=environment, input=stdin
    )
    if done.returncode:
        tail = (done.stderr or done.stdout).strip()[-2000:]
        raise CommandError(f"{' '.join(command)}: exit {done.returncode}\n{tail}")
    return done.stdout


def state() -> Path:
    return BUILD / "cluster" / NAME


def kubeconfig() -> Path:
    return state() / "kubeconfig"


def program(name: str) -> str:
    """Path of kubectl, helm or another program that `make setup` built."""
    found = BUILD / "bin" / name
    if not found.exists():
        raise CommandError(f"{found} is not there: run `make setup`")
    return str(found)


def kubectl(*arguments: str, timeout_seconds: float = 60, stdin: str | None = None) -> str:
    return run(program("kubectl"), *arguments, timeout_seconds=timeout_seconds, stdin=stdin)


def kubectl_json(*arguments: str) -> dict[str, object]:
    value: dict[str, object] = json.loads(kubectl(*arguments, "-o", "json"))
    return value


def cluster(*arguments: str, timeout_seconds: float = 180) -> str:
    return run(sys.executable, "-m", "rankbeat_cluster", *arguments, "--name", NAME, timeout_seconds=timeout_seconds)


def on_node(*command: str, timeout_seconds: float = 60) -> str:
    """Output of a program inside the first node's namespaces."""
    return run(
        sys.executable,
        "-m",
        "rankbeat_cluster",
        "exec",
        "--name",
        NAME,
        "--",
        *command,
        timeout_seconds=timeout_seconds,
    )


def image_tars(names: Sequence[str]) -> tuple[str, ...]:
    """Paths of the images' archives, written by `make setup`."""
    images = json.loads((BUILD / "images.json").read_text())
    return tuple(images[name]["tar"] for name in names)


def image_digests(names: Sequence[str]) -> str:
    """The images' digests, one a line."""
    images = json.loads((BUILD / "images.json").read_text())
    return "".join(f"{name} {images[name]['digest']}\n" for name in names)

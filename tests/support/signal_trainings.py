"""Trainings whose signals a monitor chooses, and what they leave."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import side_support
import training_support as support

JOB = support.REPO / "tests/agent/signals_job.py"


def trained(
    folder: Path,
    agent: Path,
    *options: str,
    monitor: dict[str, Any] | None = None,
    code: int = 0,
    job: Path = JOB,
    **more: str,
) -> tuple[subprocess.CompletedProcess[str], support.Ring]:
    """A finished job that ended with code, and its ring. monitor: content of the configuration. more: environment."""
    (folder / "rings").mkdir()
    if monitor is not None:
        (folder / "monitor.json").write_text(json.dumps({"version": 2, **monitor}))
        more["RANKBEAT_CONFIG"] = str(folder / "monitor.json")
    environment = support.environment(agent, folder / "rings", **more)
    done = support.run([str(support.mindspore_python()), str(job), *options], environment, folder)
    assert done.returncode == code, done.stderr[-2000:]
    (ring,) = support.read_rings(folder / "rings")
    return done, ring


def printed(done: subprocess.CompletedProcess[str], what: str) -> dict[int, float]:
    """What the job printed of each step."""
    pattern = re.compile(rf"^step (\d+) {what} (\S+)$", re.MULTILINE)
    return {int(step): float(value) for step, value in pattern.findall(done.stdout)}


def entries(folder: Path, kind: int) -> list[Any]:
    """What the side file's entries of this kind hold."""
    (path,) = (folder / "rings").glob("*.side")
    return [json.loads(entry.payload) for entry in side_support.read_side(path).entries if entry.kind == kind]

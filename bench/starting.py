"""What the agent adds to the start of a process: a part of bench/step_overhead.py."""

import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

AGENT = Path(__file__).resolve().parents[1] / "agent"
STARTS = 31


def pod_folder(folder: Path) -> Path:
    """The agent as a pod's ConfigMap lays it out, without bytecode."""
    for package in ("rankbeat_agent", "rankbeat_contract"):
        shutil.copytree(AGENT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(AGENT / "rankbeat_agent/autoload/sitecustomize.py", folder)
    return folder


def milliseconds(agent: Path, rings: Path) -> dict[str, float]:
    """Medians: an interpreter without us, with us switched off, with us; and what MindSpore's import adds."""
    base = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    disabled = {**base, "PYTHONPATH": str(agent)}
    enabled = {**disabled, "RANKBEAT_RING_DIR": str(rings)}
    spent: dict[str, list[float]] = {"plain": [], "disabled": [], "enabled": []}
    variants = [("plain", base), ("disabled", disabled), ("enabled", enabled)]
    for _ in range(STARTS):
        random.shuffle(variants)
        for name, environment in variants:
            before = time.perf_counter()
            subprocess.run([sys.executable, "-c", "pass"], env=environment, check=True)
            spent[name].append((time.perf_counter() - before) * 1000)
    # The difference of two imports of MindSpore (1.3 s each) drowns in noise, so the part that we add is timed itself.
    # Steps and signals are first compiled when training begins: `train_begin` is what that adds to the compilation of
    # the job's own graph.
    program = (
        "import sys, time, mindspore\n"
        f"sys.path.insert(0, {str(agent)!r})\n"
        "before = time.perf_counter()\n"
        "from rankbeat_agent.hooks import patches\n"
        "watched = {*patches._WRAPPED, *patches._HANDED_ON}\n"
        "for name in watched & sys.modules.keys(): patches.patch(sys.modules[name], 0)\n"
        "from rankbeat_agent.hooks import rank\n"
        "rank.RANK.claim()\n"
        "claimed = time.perf_counter()\n"
        "from rankbeat_agent.hooks import anchoring, configuration, endings, model, signals, steps, user\n"
        "print((claimed - before) * 1000, (time.perf_counter() - claimed) * 1000)\n"
    )
    environment = {**base, "RANKBEAT_RING_DIR": str(rings)}
    for _ in range(7):
        done = subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True)
        for name, value in zip(("hooked", "train_begin"), done.stdout.split(), strict=True):
            spent.setdefault(name, []).append(float(value))
    return {name: statistics.median(values) for name, values in spent.items()}


def figures(start: Mapping[str, float]) -> dict[str, float]:
    """What milliseconds() found: with MindSpore and a ring, without MindSpore, switched off, as train() begins."""
    idle = start["enabled"] - start["plain"]
    return {
        "start_ms": idle + start["hooked"],
        "start_idle_ms": idle,
        "start_disabled_ms": start["disabled"] - start["plain"],
        "train_begin_ms": start["train_begin"],
    }

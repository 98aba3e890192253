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
    """Medians: interpreters without us, with us switched off, with us; and what MindSpore's import adds."""
    base = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    disabled = {**base, "PYTHONPATH": str(agent)}
    enabled = {**disabled, "RANKBEAT_RING_DIR": str(rings)}
    spent: dict[str, list[float]] = {}
    # CPython sets up its syntax trees for the first source that a process compiles at run time: ours, or else one of
    # MindSpore's, which imports ast. With `ast` both sides have paid for it.
    variants = [
        ("plain", "pass", base),
        ("disabled", "pass", disabled),
        ("enabled", "pass", enabled),
        ("plain_ast", "import ast", base),
        ("enabled_ast", "import ast", enabled),
    ]
    for _ in range(STARTS):
        random.shuffle(variants)
        for name, program, environment in variants:
            before = time.perf_counter()
            subprocess.run([sys.executable, "-c", program], env=environment, check=True)
            spent.setdefault(name, []).append((time.perf_counter() - before) * 1000)
    # The difference of two imports of MindSpore (1.3 s each) drowns in noise, so the part that we add is timed itself.
    # `claim` follows at init() or train(); steps and signals are first compiled when training begins: `train_begin` is
    # what that adds to the compilation of the job's own graph.
    program = (
        "import sys, time, mindspore\n"
        f"sys.path.insert(0, {str(agent)!r})\n"
        "before = time.perf_counter()\n"
        "from rankbeat_agent.hooks import patches\n"
        "watched = {*patches._WRAPPED, *patches._HANDED_ON}\n"
        "for name in watched & sys.modules.keys(): patches.patch(sys.modules[name], 0)\n"
        "hooked = time.perf_counter()\n"
        "from rankbeat_agent.hooks import rank\n"
        "rank.RANK.claim()\n"
        "claimed = time.perf_counter()\n"
        "from rankbeat_agent.hooks import anchoring, configuration, endings, model, signals, steps, user\n"
        "for since, until in ((before, hooked), (hooked, claimed), (claimed, time.perf_counter())):\n"
        "    print((until - since) * 1000)\n"
    )
    environment = {**base, "RANKBEAT_RING_DIR": str(rings)}
    for _ in range(7):
        done = subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True)
        for name, value in zip(("hooked", "claim", "train_begin"), done.stdout.split(), strict=True):
            spent.setdefault(name, []).append(float(value))
    return {name: statistics.median(values) for name, values in spent.items()}


def figures(start: Mapping[str, float]) -> dict[str, float]:
    """What milliseconds() found: with MindSpore, without it, switched off; the ring's claim; as train() begins."""
    return {
        "start_ms": start["enabled_ast"] - start["plain_ast"] + start["hooked"],
        "start_idle_ms": start["enabled"] - start["plain"],
        "start_disabled_ms": start["disabled"] - start["plain"],
        "claim_ms": start["claim"],
        "train_begin_ms": start["train_begin"],
    }

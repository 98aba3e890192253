"""Everything that this machine lacks to build, test and show Rankbeat.

    python3 dev/setup.py [--only STEP ...] [--print-uv]

Standard library only: it runs before any environment exists. Steps run side by side where they do not need each other;
each is cached by a hash of its inputs under $RANKBEAT_CACHE (default ~/.cache/rankbeat), and two setups may run at
once. Leaves .venv, links build/bin/PROGRAM and build/mindspore into the cache, build/setup.json with the seconds of
each step, and build/setup-logs/STEP.log.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import json
import os
import platform
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rankbeat_setup import steps
from rankbeat_setup.runs import BUILD, LOGS, Run, show

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

HEARTBEAT_SECONDS = 30.0


@dataclass(frozen=True)
class Step:
    """A part of the setup, the steps that it needs, and what to do when it fails.

    is_usual: whether a setup without --only does it.
    """

    name: str
    work: Callable[[Run], None]
    after: tuple[str, ...]
    remedy: str
    is_usual: bool = True


NETWORK = "look at the log; if a download failed, check this machine's package index settings and run setup again"
STEPS = (
    Step(
        "kubernetes", steps.kubernetes, (), "install Go 1.26 as `go` on PATH; the build needs 6 GB disk and 2 GB memory"
    ),
    Step("uv", steps.uv, (), NETWORK),
    Step("debian", steps.debian, (), "run as root on Debian 12 or later; " + NETWORK),
    Step("venv", steps.venv, ("uv",), NETWORK),
    Step("mindspore", steps.mindspore, ("uv",), NETWORK),
    # After Kubernetes: they share packages in Go's build cache and would only fight for the cores.
    Step("addons", steps.addons, ("kubernetes",), "look at the log; setup continues where it stopped"),
    Step("tools", steps.tools, ("venv",), NETWORK),
    Step(
        "images",
        steps.images,
        ("debian", "tools", "mindspore"),
        "look at the log; the images are rebuilt one by one",
    ),
    Step("mindformers", steps.mindformers, ("uv",), NETWORK, is_usual=False),
)


RUNNING: dict[str, Run] = {}


def run_step(step: Step) -> dict[str, object]:
    """Seconds and state (cold, warm) of one step."""
    with (LOGS / f"{step.name}.log").open("w") as log:
        run = Run(step.name, log)
        RUNNING[step.name] = run
        try:
            step.work(run)
        finally:
            del RUNNING[step.name]
    state = "cold" if run.is_cold else "warm"
    show(f"{step.name:<11} done  {run.seconds():.1f} s  {state}")
    return {"seconds": round(run.seconds(), 3), "state": state}


def heartbeat() -> None:
    """Say for each running step how long it has been at what."""
    for run in list(RUNNING.values()):
        show(f"{run.name:<11} {run.doing or 'starting'} ... {run.seconds():.0f} s")


def run_all(wanted: Sequence[Step]) -> tuple[dict[str, dict[str, object]], dict[str, BaseException]]:
    """What each step gave back, and what each failed step raised; those that need a failed one are not started."""
    names = {step.name for step in wanted}
    waiting = list(wanted)
    going: dict[Future[dict[str, object]], Step] = {}
    results: dict[str, dict[str, object]] = {}
    failures: dict[str, BaseException] = {}
    with ThreadPoolExecutor(len(wanted)) as pool:
        while waiting or going:
            for step in [step for step in waiting if names.intersection(step.after) <= results.keys()]:
                waiting.remove(step)
                going[pool.submit(run_step, step)] = step
            if not going:  # what still waits needs a step that failed
                break
            done, _ = wait(going, HEARTBEAT_SECONDS, FIRST_COMPLETED)
            if not done:
                heartbeat()
            for future in done:
                settle(future, going.pop(future), results, failures)
    return results, failures


def settle(
    future: Future[dict[str, object]],
    step: Step,
    results: dict[str, dict[str, object]],
    failures: dict[str, BaseException],
) -> None:
    """Sort one finished step into results or failures."""
    error = future.exception()
    if error is None:
        results[step.name] = future.result()
    else:
        failures[step.name] = error
        show(f"{step.name:<11} FAILED: {error}")


def explain(step: Step, error: BaseException) -> None:
    """Print what failed, where, the end of the log, and what to do."""
    log = LOGS / f"{step.name}.log"
    tail = log.read_text(errors="replace").splitlines()[-20:]
    text = "\n".join(f"    {line}" for line in tail)
    print(f"\n{step.name}: {error}\n  log: {log}\n{text}\n  what to do: {step.remedy}", file=sys.stderr)


def report(results: Mapping[str, Mapping[str, object]], total_seconds: float) -> None:
    """Leave build/setup.json."""
    figures = {"total_seconds": round(total_seconds, 3)} | {
        f"{name}_seconds": each["seconds"] for name, each in results.items()
    }
    memory_mib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    machine = {"cores": os.cpu_count(), "memory_mib": memory_mib, "system": platform.platform()}
    date = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    text = json.dumps({"figures": figures, "steps": results, "date": date, "machine": machine}, indent=2)
    (BUILD / "setup.json").write_text(text + "\n")


def main() -> int:
    """Exit status: 0 when every step asked for is done."""
    names = [step.name for step in STEPS]
    parser = argparse.ArgumentParser(description="Install everything that this machine lacks.")
    parser.add_argument("--only", nargs="+", choices=names, metavar="STEP", help=f"of {', '.join(names)}; nothing else")
    parser.add_argument("--print-uv", action="store_true", help="install uv if need be and print only its path")
    asked = parser.parse_args()
    LOGS.mkdir(parents=True, exist_ok=True)
    if asked.print_uv:
        with contextlib.redirect_stdout(sys.stderr):
            status = set_up([step for step in STEPS if step.name == "uv"], is_whole=False)
        print(BUILD / "bin" / "uv")
        return status
    wanted = [step for step in STEPS if (step.name in asked.only if asked.only else step.is_usual)]
    return set_up(wanted, is_whole=asked.only is None)


def set_up(wanted: Sequence[Step], *, is_whole: bool) -> int:
    """Do these steps; 0 when all are done. A part of the setup is no figure of the whole and leaves no report."""
    started = time.monotonic()
    results, failures = run_all(wanted)
    total_seconds = time.monotonic() - started
    for step in wanted:
        if step.name in failures:
            explain(step, failures[step.name])
    if failures:
        return 1
    if is_whole:
        report(results, total_seconds)
    show(f"setup done in {total_seconds:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

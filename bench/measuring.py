"""What the benchmarks share: what a process costs, what a run leaves, and the tests' builders on the path."""

from __future__ import annotations

import contextlib
import datetime as dt
import http.client
import json
import os
import platform
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "dev/cluster")]

CPUCLOCK_SCHED = 2
SHARED_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Folder for a run's files that no disk shall slow down."""


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, its threads that ended with it: its own clock (clock_getcpuclockid(3)).

    /proc/PID/stat counts ticks of 10 ms, and who wakes for less between them may be seen by none.
    """
    return time.clock_gettime((~pid << 3) | CPUCLOCK_SCHED)


def rss_mib(pid: int) -> float:
    """Resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def free_port() -> int:
    """A port of the loopback on which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def scraped(port: int) -> str:
    """The text of /metrics."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        connection.request("GET", "/metrics", headers={"Accept-Encoding": "identity"})
        return connection.getresponse().read().decode()


def series(text: str) -> int:
    """How many samples a scrape holds."""
    return sum(1 for line in text.splitlines() if not line.startswith("#"))


def write(name: str, figures: Mapping[str, float], units: Mapping[str, str], **more: object) -> None:
    """Leaves build/bench/NAME.json: the figures, their units, the machine and the date."""
    place = ROOT / "build/bench" / f"{name}.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "load": round(os.getloadavg()[0], 2)}
    date = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    content = {"figures": figures, **more, "units": units, "machine": machine, "date": date}
    place.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def show(figures: Mapping[str, float]) -> None:
    """The figures for people, a line each."""
    for name, figure in figures.items():
        print(f"{name:20} {figure}")

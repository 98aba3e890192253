"""Control groups of the pods. Servers stay in the group in which they were started.

With version 1 the kubelet's cgroupRoot must exist beforehand in every hierarchy, its cpuset filled from the top. runc
makes its folders on the version 2 side of a hybrid machine as well, so that side is swept too. A machine with version 2
alone takes the last branch of make(), which has not been run (docs/sources.md).
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
SWEEP_SECONDS = 5.0


def hierarchies() -> tuple[Path, ...]:
    """The root of every hierarchy, version 2's too."""
    if (ROOT / "cgroup.controllers").exists():
        return (ROOT,)
    return tuple(sorted(place for place in ROOT.iterdir() if place.is_dir() and not place.is_symlink()))


def make(cgroup: str, node: str) -> None:
    """/CGROUP/NODE in every version 1 hierarchy, or in the one of version 2."""
    for hierarchy in hierarchies():
        if hierarchy.name == "unified":
            continue
        parent = hierarchy
        for name in (cgroup, node):
            place = parent / name
            if (parent / "cgroup.subtree_control").exists():
                (parent / "cgroup.subtree_control").write_text("+cpuset +cpu +memory +pids")
            place.mkdir(exist_ok=True)
            if (place / "cpuset.cpus").exists() and hierarchy is not ROOT:
                for file in ("cpuset.cpus", "cpuset.mems"):
                    (place / file).write_text((parent / file).read_text())
                (place / "cgroup.clone_children").write_text("1")
            parent = place


def remove(cgroup: str) -> None:
    """Take the cluster's groups away, bottom up; processes that the kernel is still ending get a few seconds."""
    until = time.monotonic() + SWEEP_SECONDS
    while remaining(cgroup) and time.monotonic() < until:
        for place in remaining(cgroup):
            for folder, _, _ in os.walk(place, topdown=False):
                with contextlib.suppress(OSError):  # still busy: the next round
                    Path(folder).rmdir()
        if remaining(cgroup):
            time.sleep(0.02)


def remaining(cgroup: str) -> tuple[Path, ...]:
    """The cluster's groups that are there."""
    return tuple(place for hierarchy in hierarchies() if (place := hierarchy / cgroup).exists())

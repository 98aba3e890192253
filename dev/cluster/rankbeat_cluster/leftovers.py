"""What a cluster left behind: the machine before it against the machine after it.

Other clusters may come and go meanwhile, so a difference counts only where it bears the cluster's marks: its
namespaces, its state folder, its cgroup. Interfaces of the host bear none and count always: no cluster makes one.
"""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rankbeat_cluster import cgroups

if TYPE_CHECKING:
    from rankbeat_cluster.state import State

KINDS = ("pid", "mnt", "net")


@dataclass(frozen=True, slots=True)
class Marks:
    """By what a cluster's things are known. namespaces: links such as net:[4026532281]."""

    folder: str
    cgroup: str
    namespaces: frozenset[str]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The machine at one moment. processes: by pid, their namespaces and command line."""

    processes: frozenset[tuple[int, tuple[str, ...], str]]
    mounts: frozenset[str]
    interfaces: frozenset[str]
    cgroup_folders: frozenset[str]


def marks(folder: Path, running: State) -> Marks:
    """Of a cluster that is up, taken before it goes."""
    own = frozenset(_namespaces(os.getpid()))
    found = {link for each in running.nodes for link in _namespaces(each.holder.pid)}
    for pid in _pids():  # pods have namespaces of their own; their pid namespaces are told by the node's cgroup
        with contextlib.suppress(OSError):
            if f"/{running.cgroup}/" in Path(f"/proc/{pid}/cgroup").read_text():
                found.update(_namespaces(pid))
    return Marks(str(folder.resolve()), running.cgroup, frozenset(found) - own)


def snapshot() -> Snapshot:
    """The machine now."""
    processes = set()
    for pid in _pids():
        with contextlib.suppress(OSError):  # ended while we look
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            processes.add((pid, _namespaces(pid), words))
    folders = {str(place) for top in cgroups.hierarchies() for place in top.iterdir() if place.is_dir()}
    return Snapshot(
        frozenset(processes),
        frozenset(line.split(maxsplit=2)[2] for line in Path("/proc/self/mountinfo").read_text().splitlines()),
        frozenset(name for _, name in socket.if_nameindex()),
        frozenset(folders),
    )


def leftovers(before: Snapshot, after: Snapshot, of: Marks) -> tuple[str, ...]:
    """One line for each thing of the cluster that is there after it and was not before."""
    lines = [
        f"process {pid}: {words}"
        for pid, namespaces, words in sorted(after.processes - before.processes)
        if of.namespaces.intersection(namespaces) or of.folder in words
    ]
    lines += [f"mount {line}" for line in sorted(after.mounts - before.mounts) if of.folder in line]
    lines += [f"interface {name}" for name in sorted(after.interfaces - before.interfaces)]
    lines += [f"cgroup {place}" for place in sorted(after.cgroup_folders - before.cgroup_folders) if of.cgroup in place]
    if Path(of.folder).exists():
        lines.append(f"folder {of.folder}")
    return tuple(lines)


def _pids() -> list[int]:
    return [int(place.name) for place in Path("/proc").iterdir() if place.name.isdigit()]


def _namespaces(pid: int) -> tuple[str, ...]:
    return tuple(str(Path(f"/proc/{pid}/ns/{kind}").readlink()) for kind in KINDS)

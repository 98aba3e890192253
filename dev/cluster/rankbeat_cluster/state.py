"""What is known about a cluster between two commands: one JSON file in its state folder."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from rankbeat_cluster import errors
from rankbeat_cluster.servers import Server

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# Folders that a node covers with its own (node.py): a state folder below one of them would vanish inside the node.
COVERED = ("/run", "/var/lib", "/var/log", "/var/run", "/proc", "/sys", "/dev")


@dataclass(frozen=True, slots=True)
class Node:
    """One node: its pid 1 (holder) and the unshare program whose death ends it.

    containerd: where its image store lies on disk.
    """

    name: str
    number: int
    unshare: Server
    holder: Server
    containerd: str

    @property
    def address(self) -> str:
        """Its address on the bridge."""
        return node_address(self.number)

    @property
    def pod_range(self) -> str:
        """The addresses of its pods."""
        return f"10.91.{self.number}.0/24"


@dataclass(frozen=True, slots=True)
class State:
    """One cluster. relays: the relay's program by the port that it listens on, on 127.0.0.1 of the host."""

    name: str
    cgroup: str
    port: int = 0
    nodes: tuple[Node, ...] = ()
    servers: Mapping[str, Server] = field(default_factory=dict)
    relays: Mapping[int, Server] = field(default_factory=dict)

    def with_server(self, name: str, server: Server) -> State:
        """The same with one more server; names read SERVER or SERVER-NODE."""
        return replace(self, servers={**self.servers, name: server})


def node_address(number: int) -> str:
    """The bridge address of the node with this number, 1 for the first."""
    return f"10.90.0.{number}"


def new(name: str, folder: Path) -> State:
    """A cluster of which nothing runs yet.

    Raises: ClusterError when the folder would be hidden inside a node.
    """
    place = str(folder.resolve())
    if any(place == covered or place.startswith(covered + "/") for covered in COVERED):
        raise errors.ClusterError(f"state folder {place} lies under one of {COVERED}, which each node has for itself")
    return State(name, f"rankbeat-{name}-{hashlib.sha256(place.encode()).hexdigest()[:6]}")


def save(folder: Path, state: State) -> None:
    """Write the state; a reader finds the old file or the new one."""
    fresh = folder / ".cluster.json"
    fresh.write_text(json.dumps(asdict(state), indent=1))
    fresh.replace(folder / "cluster.json")


def load(folder: Path) -> State | None:
    """The cluster of a folder, or None where none was started."""
    try:
        found = json.loads((folder / "cluster.json").read_text())
    except FileNotFoundError:
        return None
    nodes = tuple(
        Node(**{**each, "unshare": Server(**each["unshare"]), "holder": Server(**each["holder"])})
        for each in found["nodes"]
    )
    running = {name: Server(**each) for name, each in found["servers"].items()}
    relays = {int(port): Server(**each) for port, each in found["relays"].items()}
    return State(found["name"], found["cgroup"], found["port"], nodes, running, relays)

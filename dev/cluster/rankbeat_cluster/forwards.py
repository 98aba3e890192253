"""Relays from the host's loopback into the first node: the apiserver's, and any that one asks for."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from rankbeat_cluster import errors, ports, programs, servers

if TYPE_CHECKING:
    from pathlib import Path

    from rankbeat_cluster.state import State


def forward(folder: Path, state: State, port: int, target: str, *, dies_with_us: bool = False) -> State:
    """The state with a relay from 127.0.0.1:port to target (ADDRESS:PORT); an older relay at that port is replaced.

    Raises: ClusterError when somebody else listens at the port; NotInTime.
    """
    if port in state.relays:
        servers.end(state.relays[port])
    elif not ports.is_free(port):
        raise errors.ClusterError(f"port {port} of 127.0.0.1 is taken by another program: choose another one")
    log = folder / "log" / f"relay-{port}.log"
    command = [sys.executable, "-m", "rankbeat_cluster.relay", str(port), str(state.nodes[0].holder.pid), target]
    path = str(programs.REPO / "dev" / "cluster")
    relay = servers.start(command, log, dies_with_us=dies_with_us, env={"PYTHONPATH": path})
    servers.wait(f"relay at port {port}", lambda: not ports.is_free(port), 20, {log: relay})
    return replace(state, relays={**state.relays, port: relay})

"""A whole cluster: up, down, and what one does with it in between."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rankbeat_cluster import api, cgroups, errors, forwards, images, node, programs, servers, state
from rankbeat_cluster import start as starting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rankbeat_cluster.state import Node, State

DEFAULT_FOLDER = programs.REPO / "build" / "cluster"


def _quiet(line: str) -> None:
    """Say nothing."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster, known by its state folder."""

    folder: Path

    @property
    def state(self) -> State:
        """What runs, as last saved.

        Raises: ClusterError when nothing was started here.
        """
        found = state.load(self.folder)
        if found is None:
            raise errors.ClusterError(f"no cluster in {self.folder}: start one with `make cluster-up`")
        return found

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig; its server is a port of the host's loopback."""
        return self.folder / "kubeconfig"

    @property
    def api(self) -> api.Api:
        """The apiserver and the admin's certificate."""
        return api.Api(f"https://127.0.0.1:{self.state.port}", self.folder / "pki")

    def node(self, name: str | None = None) -> Node:
        """A node by name (node-1, ...), the first without.

        Raises: ClusterError.
        """
        found = [each for each in self.state.nodes if name in (None, each.name)]
        if not found:
            raise errors.ClusterError(f"no node {name!r}: there are {[each.name for each in self.state.nodes]}")
        return found[0]

    def inside(self, command: Sequence[str], node_name: str | None = None) -> list[str]:
        """The command line, for subprocess, that runs `command` inside a node, in the same working folder.

        The program gets SIGTERM when the process that was started from this line dies, so terminate() ends both.
        """
        return node.inside(self.node(node_name), ["env", f"--chdir={Path.cwd()}", *command])

    def load_images(self, archives: Sequence[Path]) -> int:
        """Import image archives into every node; how many were not there yet."""
        return images.load_all(archives, self.state.nodes)

    def forward(self, port: int, target: str) -> None:
        """Show target (ADDRESS:PORT as a node reaches it: Service, pod, node) at 127.0.0.1:port of the host."""
        state.save(self.folder, forwards.forward(self.folder, self.state, port, target))

    def dead_parts(self) -> tuple[str, ...]:
        """Names of holders, servers and relays that do not run."""
        found = self.state
        parts = {f"holder-{each.name}": each.holder for each in found.nodes} | dict(found.servers)
        parts |= {f"relay-{port}": relay for port, relay in found.relays.items()}
        return tuple(name for name, server in parts.items() if not servers.is_running(server))

    def is_healthy(self) -> bool:
        """Whether every part runs, the apiserver is ready, and so is every node."""
        nodes = self.state.nodes
        return (
            bool(nodes)
            and not self.dead_parts()
            and api.is_ok(self.api, "/readyz")
            and all(api.is_node_ready(self.api, each.name) for each in nodes)
        )

    def restart_server(self, name: str) -> None:
        """Kill one server (apiserver, kubelet-node-1, ...) and start it with the same command line."""
        found = self.state
        server = found.servers[name]
        with open(f"/proc/{server.pid}/cmdline", encoding="utf-8") as file:  # noqa: PTH123 - not a real file
            command = file.read().rstrip("\0").split("\0")
        inside = servers.children(server)
        servers.end(server)
        # It outlives the nsenter that started it for a moment, and holds its port.
        servers.wait(f"{name} ended", lambda: not any(servers.is_running(one) for one in inside), 60)
        log = self.folder / "log" / f"{name}.log"
        again = servers.start(command, log)
        state.save(self.folder, found.with_server(name, again))
        if name == "apiserver":
            servers.wait("apiserver ready", lambda: api.is_ok(self.api, "/readyz"), 60, {log: again})


def up(wanted: starting.Wanted, say: Callable[[str], None] = _quiet) -> Cluster:
    """The cluster of wanted.folder, started unless it runs already; what is left of a dead one is removed first.

    Raises: ClusterError, after which everything that had been started is gone, and the logs are there.
    """
    running = Cluster(wanted.folder)
    if state.load(wanted.folder) is not None:
        if running.is_healthy():
            return _as_wanted(running, wanted, say)
        say(f"cluster {wanted.name!r} is dead or ill ({', '.join(running.dead_parts()) or 'not ready'}): removing it")
    down(wanted.folder)
    wanted.folder.mkdir(parents=True, exist_ok=True)
    if any(wanted.folder.iterdir()):  # `down` removes the whole folder
        raise errors.ClusterError(f"folder {wanted.folder} holds other things: name an empty one")
    going = starting.Start(replace(wanted, folder=wanted.folder.resolve()), say)
    try:
        starting.run(going)
    except BaseException:
        end(going.state, wanted.folder)
        raise
    return Cluster(going.wanted.folder)


def _as_wanted(running: Cluster, wanted: starting.Wanted, say: Callable[[str], None]) -> Cluster:
    if (there := len(running.state.nodes)) != wanted.nodes:
        raise errors.ClusterError(
            f"cluster {wanted.name!r} is up with {there} nodes, not {wanted.nodes}: `make cluster-down` first"
        )
    say(f"cluster {wanted.name!r} is up already")
    running.load_images(wanted.images)
    return running


def end(found: State, folder: Path) -> None:
    """Kill every program of a cluster and remove its control groups; the state folder stays."""
    for each in found.nodes:
        servers.end(each.unshare)
        servers.end(each.holder)  # gone with unshare; named in case unshare was killed by somebody
    for server in (*found.servers.values(), *found.relays.values()):
        servers.end(server)
    cgroups.remove(found.cgroup)
    if left := cgroups.remaining(found.cgroup):
        raise errors.ClusterError(f"control groups of {found.name!r} in {folder} are still busy: {left}")


def down(folder: Path) -> bool:
    """Remove a cluster and its state folder, not the image stores in the cache; whether there was one."""
    found = state.load(folder)
    if found is not None:
        end(found, folder)
        shutil.rmtree(folder)
    return found is not None


@contextlib.contextmanager
def cluster(wanted: starting.Wanted) -> Iterator[Cluster]:
    """A cluster that ends with the context, or with this program however that ends."""
    running = up(replace(wanted, dies_with_us=True))
    try:
        yield running
    finally:
        down(running.folder)


def exec_in_node(
    running: Cluster, command: Sequence[str], node_name: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program inside a node to its end, output captured."""
    return subprocess.run(running.inside(command, node_name), capture_output=True, text=True, check=False)

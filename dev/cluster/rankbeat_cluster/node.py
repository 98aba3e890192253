"""A node: the namespaces of one process, in which everything of that node runs and with which everything ends.

The holder is pid 1 of its own pid, mount and network namespaces. It ignores SIGCHLD, so orphans are reaped, and sleeps.
SIGKILL to the unshare program kills the holder and so every process of the node; mounts, bridge and pods' network
namespaces vanish with the namespaces. No folder is made on the host outside the state folder.
"""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from rankbeat_cluster import controlplane, errors, programs, servers, state, stores

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankbeat_cluster.state import Node

DISK_FOLDERS = ("var/lib/kubelet", "var/lib/cni", "var/log/pods", "var/log/containers")


def hold(log: Path, lock: int | None, *, dies_with_us: bool) -> tuple[servers.Server, servers.Server]:
    """New namespaces: the unshare program and the holder, which keep the lock's descriptor open."""
    command = [
        programs.installed("unshare"), "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
        "--propagation", "private", "--", "env", "--ignore-signal=CHLD", "sleep", "infinity",
    ]  # fmt: skip
    unshare = servers.start(command, log, dies_with_us=dies_with_us, keep_open=lock)
    servers.wait("namespaces of a node", lambda: _is_sleeping(unshare.pid), 10, {log: unshare})
    return unshare, servers.children(unshare)[0]


def _is_sleeping(pid: int) -> bool:
    """Whether the holder has reached its last exec: only then its namespaces and mounts are complete."""
    try:
        return any(Path(f"/proc/{child}/comm").read_text().strip() == "sleep" for child in servers.children_pids(pid))
    except FileNotFoundError:
        return False


def inside(node: Node, command: Sequence[str], *, signal: str = "TERM") -> list[str]:
    """The command line that runs `command` inside a node.

    nsenter forks and does not pass signals on: `signal` reaches the program when nsenter dies, so that ending the pid
    that one started ends the program.
    """
    return [
        programs.installed("nsenter"), f"--target={node.holder.pid}", "--net", "--mount", "--pid", "--",
        programs.installed("setpriv"), "--pdeathsig", signal, "--", *command,
    ]  # fmt: skip


def shell(node: Node, script: str) -> None:
    """Run a shell script inside a node.

    Raises: ClusterError with what it printed.
    """
    done = subprocess.run(inside(node, ["sh", "-eu", "-c", script]), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise errors.ClusterError(f"in node {node.name}: {(done.stdout + done.stderr).strip()}\nscript:\n{script}")


def furnish(node: Node, folder: Path) -> None:
    """Give a node its own /run, /var/lib and /var/log, with disk folders of the cluster's state bound into them."""
    binds = {place: folder / node.name / place.replace("/", "-") for place in DISK_FOLDERS}
    binds["var/lib/containerd"] = Path(node.containerd)
    for source in binds.values():
        source.mkdir(parents=True, exist_ok=True)
    script = ["mount --make-rshared /"]
    script += [f"mount -t tmpfs -o mode=755 tmpfs {place}" for place in ("/run", "/var/lib", "/var/log")]
    script.append("mkdir -p /run/netns /run/lock /run/containerd")
    for place, source in binds.items():
        script += [f"mkdir -p /{place}", f"mount --bind '{source}' /{place}"]
    script += ["sysctl -qw net.ipv4.ip_forward=1 || echo 1 > /proc/sys/net/ipv4/ip_forward", "ip link set lo up"]
    shell(node, "\n".join(script))


def connect(nodes: Sequence[Node]) -> None:
    """The bridge in the first node, a cable from each further node, and routes to pods and Services.

    Without any route to the Service range a node's own traffic to a Service is refused before it is translated.
    """
    first = nodes[0]
    shell(first, f"ip link add fab0 type bridge\nip addr add {first.address}/24 dev fab0\nip link set fab0 up")
    for node in nodes[1:]:
        cable = f"cable{node.number}"
        # By the host's pid of the other holder, so only the network namespace is entered.
        _host_ip(first, f"link add {cable} type veth peer name up0 netns {node.holder.pid}")
        shell(first, f"ip link set {cable} master fab0 up")
        shell(node, f"ip addr add {node.address}/24 dev up0\nip link set up0 up")
    for node in nodes:
        device = "fab0" if node is first else "up0"
        others = [other for other in nodes if other is not node]
        routes = [f"ip route add {other.pod_range} via {other.address}" for other in others]
        shell(node, "\n".join([*routes, f"ip route add {controlplane.SERVICE_RANGE} dev {device}"]))


def _host_ip(node: Node, words: str) -> None:
    command = [programs.installed("nsenter"), f"--target={node.holder.pid}", "--net", "--", "ip", *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise errors.ClusterError(f"ip {words}: {done.stderr.strip()}")


def is_running(node: Node) -> bool:
    """Whether the node's namespaces are held."""
    return servers.is_running(node.holder)


def make(number: int, folder: Path, *, keep_images: bool, dies_with_us: bool) -> Node:
    """A held and furnished node, not yet connected; its name is node-NUMBER."""
    name = f"node-{number}"
    own = contextlib.nullcontext((folder / name / "containerd", None))
    with stores.claim() if keep_images else own as (store, lock):
        unshare, holder = hold(folder / "log" / f"holder-{name}.log", lock, dies_with_us=dies_with_us)
    made = state.Node(name, number, unshare, holder, str(store))
    try:
        furnish(made, folder)
    except BaseException:
        servers.end(unshare)
        raise
    return made

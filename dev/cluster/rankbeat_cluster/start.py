"""The start of a cluster, part by part, each printed with its seconds."""

from __future__ import annotations

import functools
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rankbeat_cluster import (
    addons,
    api,
    cgroups,
    clock,
    controlplane,
    errors,
    forwards,
    images,
    kubelet,
    node,
    pki,
    servers,
    state,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from rankbeat_cluster.state import Node, State

READY_SECONDS = 120.0
FIRST_HOST_PORT = 16443


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one asks for.

    port: of the host's loopback, for the apiserver; 0 takes the first free one from 16443.
    keep_images: the nodes' image stores lie in the cache, where the next start finds them.
    images: archives that the start imports beside its own three.
    """

    folder: Path
    name: str = "main"
    nodes: int = 1
    port: int = 0
    keep_images: bool = True
    dies_with_us: bool = False
    images: tuple[Path, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)


class Start:
    """One start as it goes on; `state` is saved after each change, so that a broken start can be removed."""

    def __init__(self, wanted: Wanted, say: Callable[[str], None]) -> None:
        self.wanted = wanted
        self.say = say
        self.began = time.monotonic()
        self.state = state.new(wanted.name, wanted.folder)
        self.plane = controlplane.ControlPlane(wanted.folder, address=state.node_address(1))

    @property
    def api(self) -> api.Api:
        """The apiserver as the host sees it."""
        return api.Api(f"https://127.0.0.1:{self.state.port}", self.plane.pki)

    def done(self, what: str) -> None:
        """Print one finished part with the seconds since the start."""
        self.say(f"  {time.monotonic() - self.began:5.1f} s  {what}")

    def put(self, changed: State) -> None:
        """Keep the state, here and on disk."""
        self.state = changed
        state.save(self.wanted.folder, changed)

    def server(self, name: str, target: Node, command: list[str]) -> None:
        """Start one server inside a node."""
        log = self.wanted.folder / "log" / f"{name}.log"
        self.put(self.state.with_server(name, servers.start(node.inside(target, command, signal="KILL"), log)))

    def wait(self, what: str, is_so: Callable[[], bool]) -> None:
        """Wait for a part while all servers run, then print it."""
        logs = self.wanted.folder / "log"
        servers.wait(
            what, is_so, READY_SECONDS, {logs / f"{name}.log": each for name, each in self.state.servers.items()}
        )
        self.done(what)


def run(start: Start) -> None:
    """Everything, in the order in which each part can begin."""
    start.put(start.state)
    make_nodes(start)
    start_control_plane(start)
    for each in start.state.nodes:
        etc = etc_folder(start, each)
        start.server(f"containerd-{each.name}", each, kubelet.containerd(each, etc))
        start.server(f"chronyd-{each.name}", each, clock.chronyd(each, etc))
    with ThreadPoolExecutor(1) as pool:  # unpacking keeps one core busy while the apiserver starts on the other
        importing = pool.submit(import_images, start)
        start.wait("apiserver ready", lambda: api.is_ok(start.api, "/readyz"))
        start_clients(start)
        importing.result()
    wait_ready(start)


def make_nodes(start: Start) -> None:
    """Certificates, namespaces, network and control groups of every node."""
    wanted = start.wanted
    numbers = range(1, wanted.nodes + 1)
    controlplane.make_files(start.plane, {f"node-{number}": state.node_address(number) for number in numbers})
    for number in numbers:
        made = node.make(number, wanted.folder, keep_images=wanted.keep_images, dies_with_us=wanted.dies_with_us)
        start.put(replace(start.state, nodes=(*start.state.nodes, made)))
        cgroups.make(start.state.cgroup, made.name)
    node.connect(start.state.nodes)
    start.done(f"certificates, namespaces and network of {wanted.nodes} node{'s' if wanted.nodes > 1 else ''}")


def start_control_plane(start: Start) -> None:
    """Etcd and the apiserver in the first node, and the way to it from the host."""
    first = start.state.nodes[0]
    start.server("etcd", first, controlplane.etcd(start.plane))
    start.server("apiserver", first, controlplane.apiserver(start.plane))
    target = f"{start.plane.address}:{start.plane.apiserver_port}"
    wanted = start.wanted
    for port in [wanted.port] if wanted.port else range(FIRST_HOST_PORT, FIRST_HOST_PORT + 100):
        try:
            start.put(forwards.forward(wanted.folder, start.state, port, target, dies_with_us=wanted.dies_with_us))
        except errors.ClusterError:
            if wanted.port or port == FIRST_HOST_PORT + 99:
                raise
            continue
        start.put(replace(start.state, port=port))
        break
    pki.kubeconfig(start.plane.pki, "admin", start.api.server, wanted.folder / "kubeconfig")


def start_clients(start: Start) -> None:
    """Everything that talks to the apiserver and gives up when it is not there."""
    first = start.state.nodes[0]
    start.server("controller-manager", first, controlplane.controller_manager(start.plane))
    start.server("scheduler", first, controlplane.scheduler(start.plane))
    for each in start.state.nodes:
        etc, keys = etc_folder(start, each), start.plane.pki
        labels = start.wanted.labels
        start.server(f"kubelet-{each.name}", each, kubelet.kubelet(each, keys, etc, start.state.cgroup, labels))
        start.server(f"kube-proxy-{each.name}", each, kubelet.kube_proxy(each, keys, etc))


def import_images(start: Start) -> None:
    """The cluster's own images and those asked for, once containerd listens."""
    archives = [images.pause(), images.coredns(), images.busybox(), *start.wanted.images]
    for each in start.state.nodes:
        server = f"containerd-{each.name}"
        needs = {start.wanted.folder / "log" / f"{server}.log": start.state.servers[server]}
        servers.wait("containerd answers", functools.partial(images.answers, each), 30, needs)
    count = images.load_all(archives, start.state.nodes)
    start.done(f"images: {count} imported, {len(archives) * len(start.state.nodes) - count} there already")


def wait_ready(start: Start) -> None:
    """Return when pods can be created, scheduled and find each other by name."""
    target = start.api
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    start.wait("default ServiceAccount", lambda: api.is_ok(target, account))
    addons.apply_dns(target)
    for each in start.state.nodes:
        start.wait(f"{each.name} Ready", functools.partial(api.is_node_ready, target, each.name))
    start.wait("CoreDNS Ready", lambda: addons.is_dns_ready(target))
    start.wait("OpenAPI", lambda: api.is_ok(target, "/openapi/v2"))


def etc_folder(start: Start, each: Node) -> Path:
    """Where a node's configuration files lie."""
    place = start.wanted.folder / "etc" / each.name
    place.mkdir(parents=True, exist_ok=True)
    return place

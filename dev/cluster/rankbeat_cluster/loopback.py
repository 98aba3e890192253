"""A control plane without nodes for quick tests: etcd, apiserver and controller-manager on 127.0.0.1, up in 5 s.

No namespaces, no root needed. Webhooks work with `clientConfig.url: https://127.0.0.1:PORT/...`.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rankbeat_cluster import api, controlplane, pki, ports, servers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

READY_SECONDS = 90.0


@dataclass
class LoopbackControlPlane:
    """A running control plane: its kubeconfig, and the apiserver's stop and restart."""

    plane: controlplane.ControlPlane
    running: dict[str, servers.Server] = field(default_factory=dict)

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig."""
        return self.plane.folder / "kubeconfig"

    @property
    def server(self) -> str:
        """The apiserver's URL."""
        return f"https://127.0.0.1:{self.plane.apiserver_port}"

    @property
    def api(self) -> api.Api:
        """The apiserver and the admin's certificate."""
        return api.Api(self.server, self.plane.pki)

    def stop(self) -> None:
        """Kill the apiserver, and nothing else: clients see refused connections; what is stored stays."""
        servers.end(self.running.pop("apiserver"))

    def restart(self) -> None:
        """Start the apiserver again, after stop() or while it runs, and wait until it is ready (about 3 s)."""
        if "apiserver" in self.running:
            self.stop()
        servers.wait("apiserver's port free", lambda: ports.is_free(self.plane.apiserver_port), READY_SECONDS, {})
        self._start("apiserver", controlplane.apiserver(self.plane))
        self._wait("apiserver ready", "/readyz")

    def _start(self, name: str, command: list[str]) -> None:
        self.running[name] = servers.start(command, self.plane.log(name), dies_with_us=True)

    def _wait(self, what: str, path: str) -> None:
        needs = {self.plane.log(name): server for name, server in self.running.items()}
        servers.wait(what, lambda: api.is_ok(self.api, path), READY_SECONDS, needs)

    def begin(self) -> None:
        """Start everything; back when objects can be created and kubectl apply works."""
        self._start("etcd", controlplane.etcd(self.plane))
        self._start("apiserver", controlplane.apiserver(self.plane))
        self._wait("apiserver ready", "/readyz")
        self._start("controller-manager", controlplane.controller_manager(self.plane))
        self._wait("default ServiceAccount", "/api/v1/namespaces/default/serviceaccounts/default")
        self._wait("OpenAPI", "/openapi/v2")

    def end(self) -> None:
        """Kill every program of it."""
        for server in reversed(self.running.values()):
            servers.end(server)
        self.running.clear()


@contextlib.contextmanager
def control_plane(state_dir: Path, base_port: int) -> Iterator[LoopbackControlPlane]:
    """A ready control plane that ends with the context, or with this program however that ends.

    state_dir: an empty folder. base_port: the first of ten free ports (ports.block gives one).
    """
    state_dir.mkdir(parents=True, exist_ok=True)
    plane = controlplane.ControlPlane(
        state_dir,
        apiserver_port=base_port,
        etcd_port=base_port + 1,
        etcd_peer_port=base_port + 2,
        controller_manager_port=base_port + 3,
    )
    controlplane.make_files(plane, {})
    running = LoopbackControlPlane(plane)
    pki.kubeconfig(plane.pki, "admin", running.server, running.kubeconfig)
    try:
        running.begin()
        yield running
    finally:
        running.end()

"""Command lines of etcd, kube-apiserver, kube-controller-manager, kube-scheduler (docs/sources.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rankbeat_cluster import pki, programs

if TYPE_CHECKING:
    from pathlib import Path

SERVICE_RANGE = "10.92.0.0/16"


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """Where one control plane keeps its files and listens.

    address: what it advertises; 127.0.0.1 for a control plane without nodes.
    """

    folder: Path
    address: str = "127.0.0.1"
    apiserver_port: int = 6443
    etcd_port: int = 2379
    etcd_peer_port: int = 2380
    controller_manager_port: int = 10257
    scheduler_port: int = 10259

    @property
    def pki(self) -> Path:
        """The folder of certificates."""
        return self.folder / "pki"

    @property
    def is_loopback(self) -> bool:
        """Whether there are no nodes."""
        return self.address == "127.0.0.1"

    def log(self, name: str) -> Path:
        """Where a server's output goes."""
        return self.folder / "log" / f"{name}.log"


def make_files(plane: ControlPlane, nodes: dict[str, str]) -> None:
    """Certificates and the kubeconfigs of the control plane's own programs."""
    pki.make(plane.pki, nodes)
    (plane.folder / "etc").mkdir(exist_ok=True)
    for client, file in {"admin": "local-admin", "scheduler": "scheduler"}.items():
        pki.kubeconfig(plane.pki, client, f"https://127.0.0.1:{plane.apiserver_port}",
                       plane.folder / "etc" / f"{file}.kubeconfig")  # fmt: skip


def etcd(plane: ControlPlane) -> list[str]:
    """Etcd on loopback; no fsync, since the data is thrown away."""
    client, peer = f"http://127.0.0.1:{plane.etcd_port}", f"http://127.0.0.1:{plane.etcd_peer_port}"
    return [
        programs.built("etcd"),
        f"--data-dir={plane.folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
        "--logger=zap",
    ]


def apiserver(plane: ControlPlane) -> list[str]:
    """kube-apiserver with the admission and authorization of a real cluster."""
    keys = plane.pki
    return [
        programs.built("kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{plane.etcd_port}",
        f"--bind-address={'127.0.0.1' if plane.is_loopback else '0.0.0.0'}",
        f"--advertise-address={plane.address}",
        *(["--endpoint-reconciler-type=none"] if plane.is_loopback else []),
        f"--secure-port={plane.apiserver_port}",
        f"--client-ca-file={keys / 'ca.crt'}",
        f"--tls-cert-file={keys / 'apiserver.crt'}",
        f"--tls-private-key-file={keys / 'apiserver.key'}",
        f"--kubelet-client-certificate={keys / 'apiserver-kubelet-client.crt'}",
        f"--kubelet-client-key={keys / 'apiserver-kubelet-client.key'}",
        f"--kubelet-certificate-authority={keys / 'ca.crt'}",
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={keys / 'service-accounts.key'}",
        f"--service-account-signing-key-file={keys / 'service-accounts.key'}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--requestheader-client-ca-file={keys / 'front-proxy-ca.crt'}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-username-headers=X-Remote-User",
        f"--proxy-client-cert-file={keys / 'front-proxy-client.crt'}",
        f"--proxy-client-key-file={keys / 'front-proxy-client.key'}",
    ]


def controller_manager(plane: ControlPlane) -> list[str]:
    """kube-controller-manager as admin: without an account per controller the start is 4-5 s shorter."""
    kubeconfig = plane.folder / "etc" / "local-admin.kubeconfig"
    return [
        programs.built("kube-controller-manager"),
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={plane.controller_manager_port}",
        "--leader-elect=false",
        "--use-service-account-credentials=false",
        f"--root-ca-file={plane.pki / 'ca.crt'}",
        f"--service-account-private-key-file={plane.pki / 'service-accounts.key'}",
        f"--cluster-signing-cert-file={plane.pki / 'ca.crt'}",
        f"--cluster-signing-key-file={plane.pki / 'ca.key'}",
    ]


def scheduler(plane: ControlPlane) -> list[str]:
    """kube-scheduler."""
    kubeconfig = plane.folder / "etc" / "scheduler.kubeconfig"
    return [
        programs.built("kube-scheduler"),
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={plane.scheduler_port}",
        "--leader-elect=false",
    ]

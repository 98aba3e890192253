"""What makes a node of namespaces a Kubernetes node: containerd, CNI, kubelet, kube-proxy (docs/sources.md)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rankbeat_cluster import pki, programs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rankbeat_cluster.state import Node

CLUSTER_DNS = "10.92.0.10"
POD_RANGE = "10.91.0.0/16"
PAUSE_IMAGE = "localhost/pause:1"
API = "https://10.90.0.1:6443"


def _write(place: Path, content: object) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
    return place


def containerd(node: Node, etc: Path) -> list[str]:
    """Containerd with Debian's CNI plugins and runc, images from `ctr images import` only."""
    cni_folder = etc / "cni"
    _write(cni_folder / "10-rankbeat.conflist", _cni(node))
    config = f"""version = 2
oom_score = 0
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE_IMAGE}"
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{programs.CNI_BIN}"
conf_dir = "{cni_folder}"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
"""
    return [programs.installed("containerd"), f"--config={_write(etc / 'containerd.toml', config)}"]


def _cni(node: Node) -> Mapping[str, object]:
    ipam = {
        "type": "host-local",
        "ranges": [[{"subnet": node.pod_range}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "hairpinMode": True,
        "ipMasq": False,
        "ipam": ipam,
    }
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}, "snat": False}
    return {"cniVersion": "0.4.0", "name": "rankbeat", "plugins": [bridge, portmap]}


def kubelet(node: Node, keys: Path, etc: Path, cgroup: str, labels: Mapping[str, str]) -> list[str]:
    """The kubelet, for cgroup version 1 as well."""
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}/{node.name}",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "resolvConf": "",
        "clusterDNS": [CLUSTER_DNS],
        "clusterDomain": "cluster.local",
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "enforceNodeAllocatable": [],
        "oomScoreAdj": 0,
        "failSwapOn": False,
        "serializeImagePulls": False,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(keys / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(keys / f"kubelet-{node.name}.crt"),
        "tlsPrivateKeyFile": str(keys / f"kubelet-{node.name}.key"),
    }
    kubeconfig = pki.kubeconfig(keys, f"kubelet-{node.name}", API, etc / "kubelet.kubeconfig")
    return [
        programs.built("kubelet"),
        f"--config={_write(etc / 'kubelet.json', config)}",
        f"--kubeconfig={kubeconfig}",
        f"--hostname-override={node.name}",
        f"--node-ip={node.address}",
        *([f"--node-labels={','.join(f'{key}={value}' for key, value in labels.items())}"] if labels else []),
    ]


def kube_proxy(node: Node, keys: Path, etc: Path) -> list[str]:
    """kube-proxy in nftables mode, without sysctl writes."""
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": POD_RANGE,
        "hostnameOverride": node.name,
        "clientConnection": {"kubeconfig": str(pki.kubeconfig(keys, "proxy", API, etc / "proxy.kubeconfig"))},
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "nftables": {"minSyncPeriod": "100ms"},
    }
    return [programs.built("kube-proxy"), f"--config={_write(etc / 'proxy.json', config)}"]

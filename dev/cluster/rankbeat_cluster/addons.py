"""CoreDNS as the cluster's DNS: names of the cluster; every other name does not exist, at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankbeat_cluster import api, kubelet

if TYPE_CHECKING:
    from collections.abc import Mapping

# CoreDNS runs plugins in the order built into the program, so `template` needs a server block of its own; each
# directive stands on a line of its own (docs/sources.md).
COREFILE = """cluster.local:53 in-addr.arpa:53 {
    errors
    kubernetes cluster.local in-addr.arpa {
        ttl 1
    }
}
.:53 {
    errors
    health
    ready
    template ANY ANY . {
        rcode NXDOMAIN
    }
}
"""
DEPLOYMENT = "/apis/apps/v1/namespaces/kube-system/deployments/coredns"
LABELS = {"k8s-app": "kube-dns"}


def _named(api_version: str, kind: str, *, namespace: str = "") -> dict[str, object]:
    metadata = {"name": "coredns", **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _container() -> Mapping[str, object]:
    ports = [{"containerPort": 53, "protocol": each, "name": f"dns-{each.lower()}"} for each in ("UDP", "TCP")]
    return {
        "name": "coredns",
        "image": "localhost/coredns:1",
        "imagePullPolicy": "Never",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "ports": ports,
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns", "readOnly": True}],
    }


def _access() -> Mapping[str, Mapping[str, object]]:
    rbac = "rbac.authorization.k8s.io"
    rules = [
        {"apiGroups": [""], "resources": ["services", "endpoints", "pods", "namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    subject = {"kind": "ServiceAccount", "name": "coredns", "namespace": "kube-system"}
    role = {"apiGroup": rbac, "kind": "ClusterRole", "name": "coredns"}
    return {
        "/api/v1/namespaces/kube-system/serviceaccounts/coredns": _named(
            "v1", "ServiceAccount", namespace="kube-system"
        ),
        f"/apis/{rbac}/v1/clusterroles/coredns": _named(f"{rbac}/v1", "ClusterRole") | {"rules": rules},
        f"/apis/{rbac}/v1/clusterrolebindings/coredns": _named(f"{rbac}/v1", "ClusterRoleBinding")
        | {"roleRef": role, "subjects": [subject]},
    }


def _workload() -> Mapping[str, Mapping[str, object]]:
    core = "/api/v1/namespaces/kube-system"
    ports = [{"name": f"dns-{each.lower()}", "port": 53, "protocol": each} for each in ("UDP", "TCP")]
    pod = {
        "serviceAccountName": "coredns",
        "dnsPolicy": "Default",
        "tolerations": [{"operator": "Exists"}],
        "containers": [_container()],
        "volumes": [{"name": "config", "configMap": {"name": "coredns"}}],
    }
    template = {"metadata": {"labels": LABELS}, "spec": pod}
    service = {"clusterIP": kubelet.CLUSTER_DNS, "selector": LABELS, "ports": ports}
    return {
        f"{core}/configmaps/coredns": _named("v1", "ConfigMap", namespace="kube-system")
        | {"data": {"Corefile": COREFILE}},
        f"{core}/services/kube-dns": {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": LABELS},
            "spec": service,
        },
        DEPLOYMENT: _named("apps/v1", "Deployment", namespace="kube-system")
        | {"spec": {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": template}},
    }


def apply_dns(target: api.Api) -> None:
    """Everything that the cluster's DNS consists of."""
    for path, manifest in {**_access(), **_workload()}.items():
        api.apply(target, path, manifest)


def is_dns_ready(target: api.Api) -> bool:
    """Whether CoreDNS answers."""
    return api.is_condition_true(api.get(target, DEPLOYMENT), "Available")

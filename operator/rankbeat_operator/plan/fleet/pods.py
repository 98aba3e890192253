"""What the fleet's pods have in common: names, owners, identities, security contexts."""

from collections.abc import Mapping
from dataclasses import dataclass

from rankbeat_contract import names
from rankbeat_operator.model.fleet import Fleet, Placement
from rankbeat_operator.model.manifests import Manifest

NON_ROOT_UID = 65532
API_ACCESS_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
IDENTITY_PATH = "/var/run/secrets/rankbeat"
CA_CONFIG_MAP = "rankbeat-ca"

RESTRICTED: Manifest = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "runAsUser": NON_ROOT_UID,
    "runAsGroup": NON_ROOT_UID,
    "seccompProfile": {"type": "RuntimeDefault"},
}


@dataclass(frozen=True, slots=True)
class Release:
    """Where the fleet lives. owner_uid: UID of ConfigMap rankbeat-fleet, whose deletion takes the fleet with it."""

    namespace: str
    owner_uid: str


def metadata(name: str, fleet: Fleet, release: Release) -> Manifest:
    return {
        "name": name,
        "namespace": release.namespace,
        "labels": labels(name, fleet),
        "ownerReferences": [owner(release)],
    }


def owner(release: Release) -> Manifest:
    """Of everything that the operator makes in the release namespace: the chart's ConfigMap rankbeat-fleet."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": names.FLEET_CONFIG_MAP, "uid": release.owner_uid}


def labels(name: str, fleet: Fleet) -> Mapping[str, str]:
    own = {"app.kubernetes.io/managed-by": names.OPERATOR, "app.kubernetes.io/part-of": "rankbeat"}
    return {**fleet.labels, **own, **selector(name)}


def selector(name: str) -> Mapping[str, str]:
    return {"app.kubernetes.io/name": name, names.LABEL_COMPONENT: name.removeprefix("rankbeat-")}


def template(name: str, fleet: Fleet, placement: Placement, rest: Manifest) -> Manifest:
    """A pod template without a token. rest: containers, volumes and what else is its own."""
    spec: dict[str, object] = {
        "serviceAccountName": name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "nodeSelector": {"kubernetes.io/os": "linux", **placement.node_selector},
        "tolerations": list(placement.tolerations),
        "imagePullSecrets": [{"name": secret} for secret in fleet.image_pull_secrets],
        **rest,
    }
    if placement.priority_class_name:
        spec["priorityClassName"] = placement.priority_class_name
    return {"metadata": {"labels": labels(name, fleet)}, "spec": spec}


def daemon_set(name: str, fleet: Fleet, release: Release, pod_template: Manifest) -> Manifest:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": metadata(name, fleet, release),
        "spec": {
            "selector": {"matchLabels": selector(name)},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
            "template": pod_template,
        },
    }


def api_access() -> Manifest:
    """Volume with what an in-cluster client looks for: a token for the API server, its CA, the namespace."""
    return {
        "name": "api-access",
        "projected": {
            "defaultMode": 0o444,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": _field("metadata.namespace")}]}},
            ],
        },
    }


def identity() -> Manifest:
    """Volume with a token that only the aggregator takes, and the CA by which the aggregator is known."""
    return {
        "name": "identity",
        "projected": {
            "defaultMode": 0o444,
            "sources": [
                {"serviceAccountToken": {"audience": names.AUDIENCE, "expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": CA_CONFIG_MAP, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            ],
        },
    }


SCRATCH_MOUNT: Manifest = {"name": "tmp", "mountPath": "/tmp"}  # noqa: S108 in the pod


def mount(volume: str, path: str) -> Manifest:
    return {"name": volume, "mountPath": path, "readOnly": True}


def field_env(name: str, path: str) -> Manifest:
    return {"name": name, "valueFrom": {"fieldRef": _field(path)}}


def probe(path: str, port: int, period_seconds: int = 10, scheme: str = "") -> Manifest:
    """scheme: empty for HTTP."""
    asked = {"path": path, "port": port, **({"scheme": scheme} if scheme else {})}
    return {"httpGet": asked, "periodSeconds": period_seconds, "timeoutSeconds": 5}


def scratch() -> Manifest:
    """The one place that a program on a read-only root may write to."""
    return {"name": "tmp", "emptyDir": {"sizeLimit": "16Mi"}}


def _field(path: str) -> Manifest:
    return {"apiVersion": "v1", "fieldPath": path}

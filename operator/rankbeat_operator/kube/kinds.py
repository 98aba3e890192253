"""Paths of the kinds that the operator reads and writes: known beforehand, so nothing is discovered."""

from dataclasses import dataclass

from rankbeat_contract import names
from rankbeat_operator.model.manifests import Manifest


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object."""

    api_version: str
    kind: str
    plural: str
    is_namespaced: bool = True

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        """Path of an object, or of all in a namespace; without a namespace, of all in the cluster."""
        root = "/api" if "/" not in self.api_version else "/apis"
        scope = f"/namespaces/{namespace}" if self.is_namespaced and namespace else ""
        rest = "".join(f"/{part}" for part in (name, subresource) if part)
        return f"{root}/{self.api_version}{scope}/{self.plural}{rest}"


MONITORS = Kind(f"{names.GROUP}/{names.VERSION}", names.KIND, names.PLURAL)
PODS = Kind("v1", "Pod", "pods")
JOBS = Kind("batch/v1", "Job", "jobs")
EVENTS = Kind("v1", "Event", "events")
NAMESPACES = Kind("v1", "Namespace", "namespaces", is_namespaced=False)
CONFIG_MAPS = Kind("v1", "ConfigMap", "configmaps")
SECRETS = Kind("v1", "Secret", "secrets")
SERVICES = Kind("v1", "Service", "services")
DEPLOYMENTS = Kind("apps/v1", "Deployment", "deployments")
DAEMON_SETS = Kind("apps/v1", "DaemonSet", "daemonsets")
WEBHOOKS = Kind(
    "admissionregistration.k8s.io/v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    is_namespaced=False,
)

_ALL = (MONITORS, PODS, JOBS, EVENTS, NAMESPACES, CONFIG_MAPS, SECRETS, SERVICES, DEPLOYMENTS, DAEMON_SETS, WEBHOOKS)
_BY_NAME = {(kind.api_version, kind.kind): kind for kind in _ALL}


def of(manifest: Manifest) -> Kind:
    """The kind of an object."""
    return _BY_NAME[manifest["apiVersion"], manifest["kind"]]

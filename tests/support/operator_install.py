"""The chart's rights and install values in a release namespace of a real control plane, as an operator meets them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from kube import Kube

REPO = Path(__file__).resolve().parents[2]
HELM = REPO / "build/bin/helm"
RIGHTS = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}


def rendered(namespace: str, *settings: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The chart's objects by kind and name. settings: values, as --set takes them."""
    command = [str(HELM), "template", "rankbeat", str(REPO / "charts/helm/rankbeat"), "--namespace", namespace]
    options = [part for setting in settings for part in ("--set", setting)]
    text = subprocess.run([*command, *options], capture_output=True, text=True, check=True, timeout=60).stdout
    return {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(text) if one}


def install(kube: Kube, *settings: str) -> str:
    """A release namespace with the chart's CRD, rights, values and webhook configuration."""
    release = kube.namespace()
    kube.apply(yaml.safe_load((REPO / "crds" / "trainingmonitors.rankbeat.io.yaml").read_text()))
    for (kind, name), manifest in rendered(release, *settings).items():
        if kind in RIGHTS or name in {"rankbeat-fleet", "rankbeat-injection"}:
            if not kind.startswith(("Cluster", "Mutating")):
                manifest["metadata"]["namespace"] = release
            kube.apply(manifest)
    return release


def write_fleet(objects: dict[tuple[str, str], dict[str, Any]], folder: Path) -> None:
    """The install values where operator_process looks for them."""
    (folder / "fleet").mkdir()
    (folder / "fleet/fleet.yaml").write_text(objects["ConfigMap", "rankbeat-fleet"]["data"]["fleet.yaml"])


def uninstall(kube: Kube) -> None:
    """What is of no namespace and would meet the next test."""
    kube.resource("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration").delete(name="rankbeat-injection")


def operators_kubeconfig(kube: Kube, release: str, folder: Path) -> Path:
    """A kubeconfig of ServiceAccount rankbeat-operator."""
    token = a_token(kube, release, [])
    kubeconfig = yaml.safe_load(kube.kubeconfig.read_text())
    kubeconfig["users"] = [{"name": user["name"], "user": {"token": token}} for user in kubeconfig["users"]]
    place = folder / "kubeconfig"
    place.write_text(yaml.safe_dump(kubeconfig))
    return place


def a_token(kube: Kube, release: str, audiences: list[str]) -> str:
    """A token of ServiceAccount rankbeat-operator, for the API server if audiences is empty."""
    path = f"/api/v1/namespaces/{release}/serviceaccounts/rankbeat-operator/token"
    spec = {"expirationSeconds": 3600, "audiences": audiences}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    answer = kube.dynamic.request("post", path, body=body, serialize=False)
    return str(json.loads(answer.data)["status"]["token"])

"""The account of container `devices` on a real API server, with the rights that the chart gives it and no others."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from kube import Kube

ROOT = Path(__file__).parents[2]


def make(kube: Kube, folder: Path, *settings: str) -> str:
    """token and ca.crt of a fresh account in folder, as a pod finds them; the API server's address."""
    namespace = kube.namespace()
    command = ["template", "rankbeat", str(ROOT / "charts/helm/rankbeat"), "--show-only", "templates/rbac.yaml"]
    chosen = [word for one in settings for word in ("--set", one)]
    rendered = subprocess.run(
        [ROOT / "build/bin/helm", *command, "--namespace", namespace, *chosen],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    for one in yaml.safe_load_all(rendered):
        if one and one["metadata"]["name"] == "rankbeat-devices":
            name = f"rankbeat-devices-{namespace}" if one["kind"].startswith("Cluster") else "rankbeat-devices"
            changed = {**one, "metadata": {**one["metadata"], "name": name}}
            if one["kind"] == "ServiceAccount":
                changed["metadata"]["namespace"] = namespace
            if "roleRef" in one:
                changed["roleRef"] = {**one["roleRef"], "name": name}
            kube.apply(changed)
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/rankbeat-devices/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token = kube.dynamic.request("post", account, body=body)
    (folder / "token").write_text(token["status"]["token"])
    cluster = yaml.safe_load(kube.kubeconfig.read_text())["clusters"][0]["cluster"]
    authority = cluster.get("certificate-authority-data")
    text = base64.b64decode(authority) if authority else Path(cluster["certificate-authority"]).read_bytes()
    (folder / "ca.crt").write_bytes(text)
    return str(cluster["server"])

"""The webhook's program and the chart's templates for it on a real control plane."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

import webhook_builders as build
from kubernetes import client
from rankbeat_contract import names
from rankbeat_webhook import __main__ as program

if TYPE_CHECKING:
    from collections.abc import Callable

    import kube as clients
    from rankbeat_cluster import loopback

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts/helm/rankbeat"
HELM = ROOT / "build/bin/helm"
RELEASE = "rankbeat-system"
OPERATOR = f"system:serviceaccount:{RELEASE}:rankbeat-operator"
SIDECAR = {"image": "rankbeat/node:test", "pullSecrets": ["mirror"], "resources": {"cpu": "100m", "memory": "128Mi"}}
CLUSTER_WIDE = ("Cluster", "Validating", "Mutating")


def chart(folder: Path, *templates: str) -> Path:
    """The chart with these templates only."""
    (folder / "templates").mkdir(parents=True)
    for name in ("Chart.yaml", "values.yaml"):
        shutil.copy(CHART / name, folder / name)
    for name in ("_helpers.tpl", *templates):
        shutil.copy(CHART / "templates" / name, folder / "templates" / name)
    return folder


def helm(*arguments: str) -> str:
    """What the real Helm prints."""
    return subprocess.run([HELM, *arguments], capture_output=True, text=True, check=True, timeout=60).stdout


def apply_release(kube: clients.Kube, folder: Path) -> dict[str, Any]:
    """Namespace, CRD, accounts and policies are applied; the MutatingWebhookConfiguration is only returned."""
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": RELEASE}})
    kube.apply(agent_sign())
    kube.apply(yaml.safe_load((ROOT / "crds/trainingmonitors.rankbeat.io.yaml").read_text()))
    templates = chart(folder / "chart", "rbac.yaml", "webhook-configuration.yaml", "admission-policies.yaml")
    configuration: dict[str, Any] = {}
    for one in yaml.safe_load_all(helm("template", "rankbeat", str(templates), "--namespace", RELEASE)):
        if one["kind"] == "MutatingWebhookConfiguration":
            configuration = one
            continue
        if not one["kind"].startswith(CLUSTER_WIDE):
            one["metadata"].setdefault("namespace", RELEASE)
        kube.apply(one)
    return configuration


def agent_sign() -> dict[str, Any]:
    """The agent's ConfigMap of the release namespace, which the operator writes last."""
    name = names.AGENT_CONFIG_MAP_PREFIX + program.settings("64Mi").agent
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": RELEASE}}


def delete_admission(kube: clients.Kube) -> None:
    """Nothing of ours takes part in admission any more."""
    for kind in ("MutatingWebhookConfiguration", "ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"):
        resource = kube.resource("admissionregistration.k8s.io/v1", kind)
        for each in resource.get().items:
            if "rankbeat" in each.metadata.name:
                resource.delete(name=each.metadata.name)


def wait(what: str, is_so: Callable[[], bool], seconds: float = 30.0) -> float:
    """Seconds until is_so; polls, since the API server activates what it is given in its own time."""
    begun = time.monotonic()
    while not is_so():
        assert time.monotonic() - begun < seconds, f"not after {seconds} s: {what}"
        time.sleep(0.05)
    return time.monotonic() - begun


class Program:
    """python -m rankbeat_webhook with the rights of its ServiceAccount, at port and port + 1 (ports.block)."""

    def __init__(self, folder: Path, kubeconfig: Path, port: int) -> None:
        self.port, self.metrics_port = port, port + 1
        self.pem = build.write_certificate(folder)
        self.log = folder / "log"
        places = ["--namespace", RELEASE, "--kubeconfig", kubeconfig, "--certificates", folder]
        ports = ["--address", "127.0.0.1", "--port", self.port, "--metrics-port", self.metrics_port]
        sidecar = ["--sidecar", json.dumps(SIDECAR)]
        self.command = [sys.executable, "-m", "rankbeat_webhook", *map(str, (*places, *ports)), *sidecar]
        self.command += ["--drain-seconds", "0"]

    def begin(self) -> None:
        """Start it."""
        with self.log.open("a") as log:
            self.process = subprocess.Popen(self.command, stderr=log)

    def start(self) -> None:
        """Start it; back when it is ready."""
        self.begin()
        wait(f"webhook ready, see {self.log}", lambda: self.get("/readyz") is not None)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Its exit status."""
        self.process.send_signal(number)
        return self.process.wait(timeout=20)

    def get(self, path: str) -> str | None:
        """The body of a probe, None unless it answers 200."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}{path}", timeout=5) as answer:
                text: str = answer.read().decode()
                return text
        except OSError:
            return None

    def calls(self) -> float:
        """Requests that reached it."""
        found = re.search(r"rankbeat_webhook_request_seconds_count (\S+)", self.get("/metrics") or "")
        assert found is not None
        return float(found[1])


def account_kubeconfig(kube: clients.Kube, plane: loopback.LoopbackControlPlane, folder: Path) -> Path:
    """A kubeconfig with a token of ServiceAccount rankbeat-webhook."""
    accounts = client.CoreV1Api(kube.api_client)
    asked = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[]))
    answer = accounts.create_namespaced_service_account_token("rankbeat-webhook", RELEASE, asked)
    assert answer.status is not None
    admin = yaml.safe_load(plane.kubeconfig.read_text())
    admin["users"][0]["user"] = {"token": answer.status.token}
    path = folder / "kubeconfig"
    path.write_text(json.dumps(admin))
    return path

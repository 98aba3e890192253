"""What tests of the operator's own program put into a real API server, and what they read back."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from kubernetes.dynamic.exceptions import DynamicApiError, NotFoundError

if TYPE_CHECKING:
    from kube import Kube
    from operator_process import OperatorProcess


def a_job(namespace: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    template = {"rankbeat.io/monitor": "llm"} if labels is None else labels
    container = {"name": "train", "image": "localhost/train:1", "command": ["msrun", "train.py"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "llm", "namespace": namespace},
        "spec": {
            "suspend": True,
            "template": {
                "metadata": {"labels": template},
                "spec": {"restartPolicy": "Never", "containers": [container]},
            },
        },
    }


def a_job_as_the_webhook_leaves_it(namespace: str, state: str, result: str, agent: str = "") -> dict[str, Any]:
    """Job llm, which runs, with what the webhook would write on its pods; there is no kubelet to start them."""
    annotation = {"monitor": "llm", "result": result, "message": "", "agent": agent, "container": "train"}
    job = a_job(namespace, labels={"rankbeat.io/monitor": "llm", "rankbeat.io/state": state})
    job["spec"]["template"]["metadata"]["annotations"] = {"rankbeat.io/injection": json.dumps(annotation)}
    job["spec"]["suspend"] = False
    return job


A_START_ERROR = {
    "phase": "Failed",
    "containerStatuses": [
        {
            "name": "train",
            "image": "localhost/train:1",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": {
                "terminated": {
                    "exitCode": 128,
                    "reason": "StartError",
                    "startedAt": "1970-01-01T00:00:00Z",
                    "finishedAt": "2026-11-30T06:00:03Z",
                }
            },
        }
    ],
}


class Refusal:
    """A policy of the API server against our ConfigMaps in one namespace."""

    def __init__(self, kube: Kube) -> None:
        self.kube = kube
        self.made: list[dict[str, Any]] = []

    def begin(self, namespace: str, reason: str) -> None:
        """Back when it is in force. reason decides the answer's status."""
        self.made = list(a_refusal(namespace, reason))
        for manifest in self.made:
            self.kube.apply(manifest)
        ends = time.monotonic() + 20
        while not self.is_in_force(namespace):
            assert time.monotonic() < ends, "the policy is not in force after 20 s"
            time.sleep(0.2)

    def is_in_force(self, namespace: str) -> bool:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "rankbeat-agent-probe"}}
        try:
            self.kube.resource("v1", "ConfigMap").create(body=body, namespace=namespace, dry_run="All")
        except DynamicApiError:
            return True
        return False

    def end(self) -> None:
        while self.made:
            manifest = self.made.pop()
            self.kube.resource(manifest["apiVersion"], manifest["kind"]).delete(name=manifest["metadata"]["name"])


def a_refusal(namespace: str, reason: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A policy against our ConfigMaps in one namespace. reason decides the status: 413 is tried again, 403 settled."""
    api_version, metadata = "admissionregistration.k8s.io/v1", {"name": f"refuse-{namespace}"}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    policy = {
        "apiVersion": api_version,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata,
        "spec": {
            "matchConstraints": {
                "resourceRules": [rule],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            },
            "validations": [{"expression": "!object.metadata.name.startsWith('rankbeat-agent-')", "reason": reason}],
        },
    }
    binding = {
        "apiVersion": api_version,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": metadata,
        "spec": {"policyName": metadata["name"], "validationActions": ["Deny"]},
    }
    return policy, binding


def opt_in(kube: Kube, namespace: str) -> None:
    labels = {"rankbeat.io/inject": "enabled"}
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}})


def pod_names(kube: Kube, namespace: str) -> list[str]:
    return [pod.metadata.name for pod in kube.resource("v1", "Pod").get(namespace=namespace).items]


def read(kube: Kube, api_version: str, kind: str, namespace: str | None, name: str) -> dict[str, Any]:
    try:
        return kube.resource(api_version, kind).get(name=name, namespace=namespace).to_dict()
    except NotFoundError:
        return {}


def exists(kube: Kube, api_version: str, kind: str, namespace: str | None, name: str) -> bool:
    return bool(read(kube, api_version, kind, namespace, name))


def status_if(kube: Kube, namespace: str, is_met: Any) -> Any:
    status = read(kube, "rankbeat.io/v1alpha1", "TrainingMonitor", namespace, "llm").get("status")
    return status if status and is_met(status) else None


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["reason"]) for c in status.get("conditions") or ()}


def mode(status: dict[str, Any]) -> str:
    return status["injection"]["mode"]


def event_reasons(kube: Kube, namespace: str) -> list[str]:
    return [event.reason for event in kube.resource("v1", "Event").get(namespace=namespace).items]


def agents(kube: Kube, namespace: str) -> list[str]:
    found = kube.resource("v1", "ConfigMap").get(namespace=namespace, label_selector="rankbeat.io/component=agent")
    return [config_map.metadata.name for config_map in found.items]


def has_data(config_map: dict[str, Any], text: str) -> dict[str, Any] | None:
    return config_map if text in config_map["data"]["monitor.json"] else None


def ca_bundle(kube: Kube) -> str:
    found = read(kube, "admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", None, "rankbeat-injection")
    return found["webhooks"][0]["clientConfig"].get("caBundle", "")


def versions(kube: Kube, *namespaces: str) -> dict[str, str]:
    """resourceVersion of everything that the operator writes; generation where others write a status."""
    kinds = (("v1", "ConfigMap"), ("v1", "Secret"), ("v1", "Service"), ("rankbeat.io/v1alpha1", "TrainingMonitor"))
    found = [
        (kind, item)
        for api_version, kind in kinds
        for namespace in namespaces
        for item in kube.resource(api_version, kind).get(namespace=namespace).items
    ]
    workloads = {
        f"{kind}/{item.metadata.name}": item.metadata.generation
        for kind in ("Deployment", "DaemonSet")
        for namespace in namespaces
        for item in kube.resource("apps/v1", kind).get(namespace=namespace).items
    }
    return workloads | {
        f"{kind}/{item.metadata.namespace}/{item.metadata.name}": item.metadata.resourceVersion for kind, item in found
    }


def wait_for_reconciles(operator: OperatorProcess, scope: str, more: int) -> None:
    """Until the operator has reconciled everything in a scope so many times more."""
    goal = reconciles(operator, scope) + more * max(1, int(gauge(operator, "rankbeat_operator_monitors")))
    operator.until(f"{more} reconciles of {scope}", lambda: reconciles(operator, scope) >= goal)


def reconciles(operator: OperatorProcess, scope: str) -> int:
    return int(gauge(operator, f'rankbeat_operator_reconciles_total{{scope="{scope}",result="success"}}'))


def gauge(operator: OperatorProcess, series: str) -> float:
    lines = page(operator, "metrics").splitlines()
    return next((float(line.removeprefix(series)) for line in lines if line.startswith(series + " ")), 0.0)


def page(operator: OperatorProcess, path: str) -> str:
    """What the operator answers, "" while it does not listen yet."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{operator.port}/{path}", timeout=5) as answer:
            return answer.read().decode()
    except urllib.error.URLError:
        return ""

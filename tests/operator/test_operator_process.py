"""The operator's own program against a real API server."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from kubernetes.dynamic.exceptions import DynamicApiError, NotFoundError

import operator_process
from operator_builders import a_monitor_manifest
from rankbeat_operator.kube import files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube import Kube
    from operator_process import OperatorProcess

pytestmark = pytest.mark.controlplane

MERGE = "application/merge-patch+json"
REPO = Path(__file__).resolve().parents[2]
FLEET = "images: {node: rankbeat/node:test, aggregator: rankbeat/aggregator:test}\nclock: {servers: [ntp.local]}\n"


@pytest.fixture(scope="module")
def crd(kube: Kube) -> None:
    kube.apply(yaml.safe_load((REPO / "crds" / "trainingmonitors.rankbeat.io.yaml").read_text()))
    definitions = kube.resource("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    for event in definitions.watch(field_selector="metadata.name=trainingmonitors.rankbeat.io", timeout=30):
        conditions = (event["raw_object"].get("status") or {}).get("conditions") or ()
        if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
            return


@pytest.fixture(scope="module")
def release(kube: Kube) -> Iterator[str]:
    """A release namespace as the chart leaves it."""
    namespace = kube.namespace()
    kube.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "rankbeat-fleet", "namespace": namespace},
            "data": {"injection": "enabled", "fleet.yaml": FLEET},
        }
    )
    kube.apply(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "rankbeat-injection"},
            "webhooks": [
                {
                    "name": "pods.rankbeat.io",
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "failurePolicy": "Ignore",
                    "clientConfig": {
                        "service": {"name": "rankbeat-webhook", "namespace": namespace, "path": "/v1/pods"}
                    },
                    "rules": [],
                }
            ],
        }
    )
    yield namespace
    kube.resource("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration").delete(name="rankbeat-injection")


@pytest.fixture(scope="module")
def operator(
    crd: None, kube: Kube, release: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    folder = tmp_path_factory.mktemp("operator")
    (folder / "fleet").mkdir()
    (folder / "fleet" / "fleet.yaml").write_text(FLEET)
    with operator_process.running(kube.kubeconfig, release, folder) as running:
        yield running


def test_a_monitor_gets_its_configuration_the_agent_and_a_status(operator, kube):
    namespace = kube.namespace()
    monitor = kube.apply(a_monitor_manifest(namespace=namespace, sampling={"interval": 50})).to_dict()
    kube.apply(a_job(namespace))

    status = operator.until("status with a job", lambda: status_if(kube, namespace, lambda s: "job" in s))

    configuration = read(kube, "v1", "ConfigMap", namespace, "rankbeat-config-llm")
    assert configuration["data"] == {"monitor.json": '{"denseFirstSteps": 100, "intervalSteps": 50}'}
    owner = configuration["metadata"]["ownerReferences"]
    assert [(o["kind"], o["name"], o["uid"]) for o in owner] == [("TrainingMonitor", "llm", monitor["metadata"]["uid"])]
    agent = read(kube, "v1", "ConfigMap", namespace, f"rankbeat-agent-{status['injection']['agent']}")
    assert (agent["immutable"], "ownerReferences" in agent["metadata"]) == (True, False)
    assert agent["data"].keys() == files.installed_agent().data.keys()
    assert status["injection"]["mode"] == "enabled"
    assert conditions(status)["TargetFound"] == ("True", "Found")


def test_pods_that_nobody_opted_in_are_said_to_be_with_the_label_to_set(operator, kube):
    namespace = kube.namespace()
    kube.apply(a_monitor_manifest(namespace=namespace))
    kube.apply(a_job(namespace, labels={}))

    status = operator.until(
        "NotOptedIn",
        lambda: status_if(kube, namespace, lambda s: conditions(s).get("Injected") == ("False", "NotOptedIn")),
    )

    message = next(c["message"] for c in status["conditions"] if c["type"] == "Injected")
    assert "add the label rankbeat.io/monitor: llm to the pod template" in message
    assert f"kubectl label namespace {namespace} rankbeat.io/inject=enabled" in message
    operator.until("an event", lambda: "NotOptedIn" in event_reasons(kube, namespace))


def test_a_monitor_of_a_job_that_is_not_there_says_so_and_finds_it_when_it_comes(operator, kube):
    namespace = kube.namespace()
    kube.apply(a_monitor_manifest(namespace=namespace))
    operator.until(
        "JobNotFound",
        lambda: status_if(kube, namespace, lambda s: conditions(s)["TargetFound"] == ("False", "JobNotFound")),
    )

    kube.apply(a_job(namespace))

    operator.until(
        "Found", lambda: status_if(kube, namespace, lambda s: conditions(s)["TargetFound"] == ("True", "Found"))
    )


def test_a_namespace_that_opts_in_has_the_agent_before_any_monitor(operator, kube):
    namespace = kube.namespace(labels={"rankbeat.io/inject": "enabled"})

    operator.until("the agent", lambda: agents(kube, namespace))


def test_a_reconcile_of_what_is_as_it_should_be_writes_nothing(operator, kube, release):
    namespace = kube.namespace()
    kube.apply(a_monitor_manifest(namespace=namespace))
    kube.apply(a_job(namespace))
    operator.until(
        "Found", lambda: status_if(kube, namespace, lambda s: conditions(s)["TargetFound"] == ("True", "Found"))
    )
    operator.until("fleet", lambda: exists(kube, "apps/v1", "Deployment", release, "rankbeat-aggregator"))
    operator.until("bundle", lambda: ca_bundle(kube))
    wait_for_reconciles(operator, "monitor", 2)
    before = versions(kube, namespace, release)

    fleets = reconciles(operator, "fleet")
    wait_for_reconciles(operator, "monitor", 2)
    operator.until("fleet again", lambda: reconciles(operator, "fleet") >= fleets + 2)

    assert versions(kube, namespace, release) == before


def test_a_users_own_fields_are_kept_and_ours_are_restored(operator, kube):
    namespace = kube.namespace()
    kube.apply(a_monitor_manifest(namespace=namespace))
    operator.until("configuration", lambda: exists(kube, "v1", "ConfigMap", namespace, "rankbeat-config-llm"))
    kube.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "rankbeat-config-llm", "namespace": namespace, "annotations": {"team": "a"}},
            "data": {"monitor.json": "{}"},
        },
        field_manager="kubectl",
    )

    restored = operator.until(
        "restored", lambda: has_data(read(kube, "v1", "ConfigMap", namespace, "rankbeat-config-llm"), "intervalSteps")
    )

    assert restored["metadata"]["annotations"] == {"team": "a"}


def test_an_agent_that_somebody_replaced_is_restored(operator, kube):
    namespace = kube.namespace(labels={"rankbeat.io/inject": "enabled"})
    name = operator.until("the agent", lambda: agents(kube, namespace))[0]
    data = read(kube, "v1", "ConfigMap", namespace, name)["data"]
    kube.resource("v1", "ConfigMap").delete(name=name, namespace=namespace)
    kube.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace, "labels": {"rankbeat.io/component": "agent"}},
            "data": {"sitecustomize.py": "print('not ours')"},
        }
    )

    operator.until("restored", lambda: read(kube, "v1", "ConfigMap", namespace, name).get("data") == data)


def test_the_fleet_and_its_certificates_are_there(operator, kube, release):
    for api_version, kind, name in (
        ("apps/v1", "DaemonSet", "rankbeat-node"),
        ("apps/v1", "Deployment", "rankbeat-aggregator"),
        ("v1", "Service", "rankbeat-aggregator"),
        ("v1", "Secret", "rankbeat-webhook-tls"),
        ("v1", "Secret", "rankbeat-aggregator-tls"),
        ("v1", "ConfigMap", "rankbeat-ca"),
    ):
        operator.until(name, lambda: exists(kube, api_version, kind, release, name))  # noqa: B023 asked before the next

    assert not exists(kube, "apps/v1", "DaemonSet", release, "rankbeat-devices")
    operator.until("bundle", lambda: ca_bundle(kube))


def test_nothing_carries_a_finalizer(operator, kube):
    namespace = kube.namespace(labels={"rankbeat.io/inject": "enabled"})
    kube.apply(a_monitor_manifest(namespace=namespace))
    kube.apply(a_job(namespace))
    operator.until("status", lambda: status_if(kube, namespace, lambda s: "job" in s))

    monitor = read(kube, "rankbeat.io/v1alpha1", "TrainingMonitor", namespace, "llm")
    config_maps = kube.resource("v1", "ConfigMap").get(namespace=namespace).to_dict()["items"]

    assert [o["metadata"].get("finalizers") for o in (monitor, *config_maps)] == [None] * (1 + len(config_maps))
    assert "annotations" not in monitor["metadata"]


def test_the_operator_says_how_it_is(operator):
    assert operator.until("an answer", lambda: page(operator, "healthz")) == "ok"


def test_a_pod_that_cannot_start_opens_the_breaker_at_once_and_the_annotation_closes_it(operator, kube):
    namespace = kube.namespace()
    kube.apply(a_monitor_manifest(namespace=namespace))
    planned = operator.until("plan", lambda: status_if(kube, namespace, lambda s: "injection" in s))
    agent = planned["injection"]["agent"]
    kube.apply(a_job_as_the_webhook_leaves_it(namespace, "injected", "Injected", agent))
    pod = operator.until("the pod", lambda: pod_names(kube, namespace))[0]
    body = {"metadata": {"name": pod}, "status": A_START_ERROR}
    kube.resource("v1", "Pod").status.patch(body=body, namespace=namespace, content_type=MERGE)

    started = time.monotonic()
    blocked = operator.until("blocked", lambda: status_if(kube, namespace, lambda s: mode(s) == "blocked"))
    assert time.monotonic() - started < 5
    breaker = blocked["injection"]["breaker"]
    assert (breaker["reason"], breaker["agent"]) == ("StartError", agent)
    assert conditions(blocked)["Injected"] == ("False", "BreakerOpen")

    body = {"metadata": {"name": "llm", "annotations": {"rankbeat.io/reset-breaker": "1"}}}
    kube.resource("rankbeat.io/v1alpha1", "TrainingMonitor").patch(body=body, namespace=namespace, content_type=MERGE)
    operator.until("enabled", lambda: status_if(kube, namespace, lambda s: mode(s) == "enabled"))
    wait_for_reconciles(operator, "monitor", 2)
    assert status_if(kube, namespace, lambda s: mode(s) == "enabled")


def test_watches_alone_bring_every_change(crd, kube, release, tmp_path):
    namespace = kube.namespace()
    with operator_process.running(kube.kubeconfig, release, tmp_path, RANKBEAT_RESYNC_SECONDS="3600") as operator:
        operator.until("the only resync", lambda: reconciles(operator, "certificates"))
        time.sleep(2)

        kube.apply(a_monitor_manifest(namespace=namespace))
        operator.until("a status", lambda: status_if(kube, namespace, lambda s: "JobNotFound" in str(s)))
        kube.apply(a_job_as_the_webhook_leaves_it(namespace, "skipped", "ShellNotProven"))
        operator.until("the job", lambda: status_if(kube, namespace, lambda s: "job" in s))
        operator.until("the pod", lambda: status_if(kube, namespace, lambda s: "ShellNotProven" in str(s)))
        other = kube.namespace(labels={"rankbeat.io/inject": "enabled"})
        operator.until("the agent", lambda: agents(kube, other))


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


@pytest.fixture
def refusal(kube: Kube) -> Iterator[Refusal]:
    refusal = Refusal(kube)
    yield refusal
    refusal.end()


def test_the_release_namespace_has_the_agent_only_after_every_other_namespace(operator, kube, release, refusal):
    """A webhook of this version is ready once it is there: seen in a real run, pods started with an empty volume."""
    sign = operator.until("the sign", lambda: agents(kube, release))
    namespace, monitored = kube.namespace(), kube.namespace()
    refusal.begin(namespace, "RequestEntityTooLarge")
    opt_in(kube, namespace)
    kube.apply(a_monitor_manifest(namespace=monitored))

    kube.resource("v1", "ConfigMap").delete(name=sign[0], namespace=release)

    operator.until("one is waited for", lambda: "namespaces_without_it=1" in operator.log.read_text())
    operator.until("another has it", lambda: agents(kube, monitored))
    assert (agents(kube, namespace), agents(kube, release)) == ([], [])
    refusal.end()
    operator.until("the sign again", lambda: agents(kube, release) == sign)
    assert agents(kube, namespace) == sign


def test_a_namespace_that_refuses_the_agent_holds_nobody_up(operator, kube, release, refusal):
    sign = operator.until("the sign", lambda: agents(kube, release))
    namespace = kube.namespace()
    refusal.begin(namespace, "Forbidden")
    opt_in(kube, namespace)

    kube.resource("v1", "ConfigMap").delete(name=sign[0], namespace=release)

    operator.until("the sign again", lambda: agents(kube, release) == sign)
    assert agents(kube, namespace) == []


def opt_in(kube: Kube, namespace: str) -> None:
    labels = {"rankbeat.io/inject": "enabled"}
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}})


def test_a_replaced_agent_stays_while_webhooks_of_the_old_version_may_inject_it(operator, kube):
    namespace = kube.namespace(labels={"rankbeat.io/inject": "enabled"})
    old = {"name": "rankbeat-agent-0000000000", "namespace": namespace}
    ours = {"app.kubernetes.io/managed-by": "rankbeat-operator", "rankbeat.io/component": "agent"}
    kube.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**old, "labels": ours}})
    operator.until("the new one", lambda: len(agents(kube, namespace)) == 2)

    wait_for_reconciles(operator, "monitor", 2)

    assert old["name"] in agents(kube, namespace)


def test_a_namespace_made_again_under_its_name_has_the_agent_at_once(crd, kube, release, tmp_path):
    namespace = kube.namespace(labels={"rankbeat.io/inject": "enabled"})
    with operator_process.running(kube.kubeconfig, release, tmp_path, RANKBEAT_RESYNC_SECONDS="3600") as operator:
        operator.until("the agent", lambda: agents(kube, namespace))
        kube.resource("v1", "Namespace").delete(name=namespace)
        operator.until("its end", lambda: not exists(kube, "v1", "Namespace", None, namespace))

        metadata = {"name": namespace, "labels": {"rankbeat.io/inject": "enabled"}}
        kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})

        operator.until("the agent again", lambda: agents(kube, namespace))


def test_a_namespace_with_a_monitor_can_be_deleted_while_the_operator_is_down(crd, kube, release, tmp_path):
    namespace = kube.namespace()
    with operator_process.running(kube.kubeconfig, release, tmp_path) as operator:
        kube.apply(a_monitor_manifest(namespace=namespace))
        operator.until("status", lambda: status_if(kube, namespace, lambda s: "conditions" in s))

    kube.resource("v1", "Namespace").delete(name=namespace)

    ends = time.monotonic() + 40
    while exists(kube, "v1", "Namespace", None, namespace):
        assert time.monotonic() < ends, f"namespace {namespace} still exists"
        time.sleep(0.5)


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


def a_job_as_the_webhook_leaves_it(namespace: str, state: str, result: str, agent: str = "") -> dict[str, Any]:
    """Job llm, which runs, with what the webhook would write on its pods; there is no kubelet to start them."""
    annotation = {"monitor": "llm", "result": result, "message": "", "agent": agent, "container": "train"}
    job = a_job(namespace, labels={"rankbeat.io/monitor": "llm", "rankbeat.io/state": state})
    job["spec"]["template"]["metadata"]["annotations"] = {"rankbeat.io/injection": json.dumps(annotation)}
    job["spec"]["suspend"] = False
    return job


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

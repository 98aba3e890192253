"""The operator's own program against a real API server: monitors, the fleet, the breaker."""

from __future__ import annotations

import time

import pytest

import operator_process
from operator_builders import a_monitor_manifest
from operator_cluster import (
    A_START_ERROR,
    a_job,
    a_job_as_the_webhook_leaves_it,
    agents,
    ca_bundle,
    conditions,
    event_reasons,
    exists,
    has_data,
    mode,
    page,
    pod_names,
    read,
    reconciles,
    status_if,
    versions,
    wait_for_reconciles,
)
from rankbeat_operator.kube import files

pytestmark = pytest.mark.controlplane

MERGE = "application/merge-patch+json"


def test_a_monitor_gets_its_configuration_the_agent_and_a_status(operator, kube):
    namespace = kube.namespace()
    monitor = kube.apply(a_monitor_manifest(namespace=namespace, sampling={"interval": 50})).to_dict()
    kube.apply(a_job(namespace))

    status = operator.until("status with a job", lambda: status_if(kube, namespace, lambda s: "job" in s))

    configuration = read(kube, "v1", "ConfigMap", namespace, "rankbeat-config-llm")
    written = '{"sampling": {"denseFirstSteps": 100, "intervalSteps": 50}, "version": 2}'
    assert configuration["data"] == {"monitor.json": written}
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

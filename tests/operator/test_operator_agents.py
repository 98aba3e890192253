"""The operator's own program against a real API server: the agent in every opted-in namespace."""

from __future__ import annotations

import time

import pytest

import operator_process
from operator_builders import a_monitor_manifest
from operator_cluster import (
    agents,
    exists,
    opt_in,
    read,
    status_if,
    wait_for_reconciles,
)

pytestmark = pytest.mark.controlplane


def test_a_namespace_that_opts_in_has_the_agent_before_any_monitor(operator, kube):
    namespace = kube.namespace(labels={"rankbeat.io/inject": "enabled"})

    operator.until("the agent", lambda: agents(kube, namespace))


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

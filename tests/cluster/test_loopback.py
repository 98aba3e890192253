"""The control plane without nodes: what quick tests may lean on."""

import itertools

import pytest
from kubernetes.dynamic.exceptions import NotFoundError, UnprocessibleEntityError

pytestmark = pytest.mark.controlplane


def test_an_object_can_be_made_read_changed_and_deleted(kube):
    namespace = kube.namespace()
    config_maps = kube.resource("v1", "ConfigMap")
    named = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "limits", "namespace": namespace}}

    kube.apply(named | {"data": {"hang": "20s"}})
    kube.apply(named | {"data": {"hang": "30s"}})

    assert config_maps.get(name="limits", namespace=namespace).data.to_dict() == {"hang": "30s"}
    config_maps.delete(name="limits", namespace=namespace)
    with pytest.raises(NotFoundError):
        config_maps.get(name="limits", namespace=namespace)


def test_each_namespace_is_fresh(kube):
    first, second = kube.namespace(), kube.namespace(labels={"rankbeat.io/opt-in": "true"})

    namespaces = kube.resource("v1", "Namespace")

    assert first != second
    assert namespaces.get(name=second).metadata.labels["rankbeat.io/opt-in"] == "true"


def test_the_server_says_the_version_that_the_go_module_pins(kube):
    version = kube.dynamic.version["kubernetes"]

    assert version["gitVersion"].startswith("v1.36.")
    assert (version["major"], version["minor"]) == ("1", "36")


def test_controllers_run(kube):
    namespace = kube.namespace()
    pod = {"containers": [{"name": "c", "image": "localhost/pause:1"}], "restartPolicy": "Never"}
    kube.apply(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "train", "namespace": namespace},
            "spec": {"completions": 2, "parallelism": 2, "template": {"spec": pod}},
        }
    )

    pods = kube.resource("v1", "Pod")
    seen = {event["object"].metadata.name for event in _first(pods.watch(namespace=namespace, timeout=30), 2)}

    assert len(seen) == 2


def test_custom_resources_are_validated_by_their_rules(kube):
    rule = {"rule": "self.min <= self.max", "message": "min must not exceed max"}
    numbers = {"min": {"type": "integer"}, "max": {"type": "integer"}}
    spec = {"type": "object", "properties": numbers, "x-kubernetes-validations": [rule]}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    }
    kube.apply(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "ranges.test.rankbeat.io"},
            "spec": {
                "group": "test.rankbeat.io",
                "scope": "Namespaced",
                "names": {"kind": "Range", "plural": "ranges", "singular": "range"},
                "versions": [version],
            },
        }
    )
    definitions = kube.resource("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    for event in definitions.watch(field_selector="metadata.name=ranges.test.rankbeat.io", timeout=30):
        conditions = (event["object"].status or {}).get("conditions") or []
        if any(each.type == "Established" and each.status == "True" for each in conditions):
            break
    bad = {
        "apiVersion": "test.rankbeat.io/v1",
        "kind": "Range",
        "metadata": {"name": "wrong", "namespace": kube.namespace()},
        "spec": {"min": 2, "max": 1},
    }

    with pytest.raises(UnprocessibleEntityError, match="min must not exceed max"):
        kube.apply(bad)


def test_after_a_stop_and_a_restart_what_was_stored_is_there(control_plane, kube):
    namespace = kube.namespace()

    control_plane.stop()
    control_plane.restart()

    assert kube.resource("v1", "Namespace").get(name=namespace).metadata.name == namespace


def _first(events, count):
    return list(itertools.islice(events, count))

"""The schema of TrainingMonitor, asked of a real API server: what it refuses, and in which words."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import ApiException

import crd_support
from crd_support import created, refusal
from operator_builders import a_monitor_manifest
from rankbeat_webhook.patch import decisions

if TYPE_CHECKING:
    from kube import Kube

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def monitors(kube: Kube) -> Any:
    return crd_support.established(kube)


def test_the_shortest_monitor_is_taken_and_needs_no_defaults(monitors):
    spec = created(monitors)["spec"]

    assert set(spec) == {"workloadRef"}


def test_a_monitor_with_every_field_is_taken(monitors):
    limits = ("hang", "rankMissing", "initComm", "build", "load", "callbacks", "checkpoint", "eval", "between")
    spec = created(
        monitors,
        podSelector={
            "matchLabels": {"app": "llm"},
            "matchExpressions": [
                {"key": "role", "operator": "In", "values": ["worker"]},
                {"key": "debug", "operator": "DoesNotExist"},
            ],
        },
        experiment="llm-7b-lr1e4",
        paused=True,
        sampling={"interval": 50, "denseFirstSteps": 10},
        injection={"shell": "/bin/bash", "container": "train"},
        alerts={"limits": dict.fromkeys((*limits, "recovering"), "1h30m")},
    )["spec"]

    assert spec["sampling"] == {"interval": 50, "denseFirstSteps": 10}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            {
                "workloadRef": {"apiVersion": "batch/v1", "kind": "Job", "name": "a"},
                "podSelector": {"matchLabels": {"a": "b"}},
            },
            "exactly one of the two",
            id="both targets",
        ),
        pytest.param({"workloadRef": None}, "exactly one of the two", id="no target"),
        pytest.param({"podSelector": {}}, "would select every pod", id="empty selector"),
        pytest.param({"podSelector": {"matchLabels": {}}}, "would select every pod", id="empty labels"),
        pytest.param(
            {"podSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            "write values with",
            id="In without values",
        ),
        pytest.param(
            {"podSelector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}},
            "none with Exists",
            id="Exists with values",
        ),
        pytest.param(
            {"workloadRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}},
            'supported values: \\"Job\\"',
            id="another kind",
        ),
        pytest.param(
            {"workloadRef": {"apiVersion": "batch/v1", "kind": "Job", "name": "LLM"}},
            "write the name of a Job",
            id="name",
        ),
        pytest.param({"experiment": "7b"}, "for example llm-7b-lr1e4", id="experiment begins with a digit"),
        pytest.param({"experiment": "a/b"}, "for example llm-7b-lr1e4", id="experiment with a slash"),
        pytest.param({"sampling": {"interval": 0}}, "write auto, or a number", id="interval 0"),
        pytest.param({"sampling": {"interval": "often"}}, "write auto, or a number", id="interval word"),
        pytest.param({"sampling": {"interval": "50"}}, "without quotes", id="interval in quotes"),
        pytest.param({"sampling": {"denseFirstSteps": -1}}, "greater than or equal to 0", id="dense first steps"),
        pytest.param({"injection": {"shell": "bash"}}, "absolute path of a shell", id="shell without a path"),
        pytest.param({"injection": {"shell": "/bin/sh -x"}}, "absolute path of a shell", id="shell with arguments"),
        pytest.param({"injection": {"container": "Train_1"}}, "name of a container", id="container"),
        pytest.param({"alerts": {"limits": {"hang": "4s"}}}, "a duration from 5s to 720h", id="hang too short"),
        pytest.param(
            {"alerts": {"limits": {"hang": "5 seconds"}}}, "a duration from 5s to 720h", id="hang no duration"
        ),
        pytest.param({"alerts": {"limits": {"hang": "721h"}}}, "a duration from 5s to 720h", id="hang too long"),
        pytest.param({"alerts": {"limits": {"eval": "900ms"}}}, "a duration from 1s to 720h", id="eval too short"),
        pytest.param({"alerts": {"limits": {"rankMissing": ""}}}, "a duration from 1s to 720h", id="empty limit"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_to_write(monitors, spec, message):
    assert message in refusal(monitors, **spec)


def test_a_name_that_is_no_label_value_is_refused(monitors):
    manifest = a_monitor_manifest("n" * 64, "default", podSelector={"matchLabels": {"app": "llm"}})

    with pytest.raises(ApiException) as refused:
        monitors.create(body=manifest, namespace="default")

    assert "at most 63 characters" in refused.value.body


def test_the_target_of_a_monitor_stays(monitors):
    made = created(monitors)
    changed = {**made, "spec": {"podSelector": {"matchLabels": {"app": "llm"}}}}

    with pytest.raises(ApiException) as refused:
        monitors.replace(body=changed, namespace="default")

    assert "the target of a monitor cannot be changed" in refused.value.body


def test_everything_but_the_target_may_change(monitors):
    made = created(monitors)
    changed = {**made, "spec": {**made["spec"], "paused": True, "alerts": {"limits": {"hang": "8s"}}}}

    assert monitors.replace(body=changed, namespace="default").spec.paused is True


def test_a_status_does_not_count_as_a_change_of_the_spec(monitors):
    made = created(monitors)
    status = {"status": {"step": 7, "loss": "2.31"}}

    after = monitors.status.patch(
        body={**status, "metadata": {"name": made["metadata"]["name"]}},
        namespace="default",
        content_type="application/merge-patch+json",
    ).to_dict()

    assert (after["status"], after["metadata"]["generation"]) == (status["status"], 1)


def test_kubectl_get_shows_the_job_at_a_glance(kube, monitors):
    made = created(monitors)
    conditions = [a_condition("Ready", "False", "NotOptedIn"), a_condition("Injected", "True", "Injected")]
    status = {
        "job": {"name": "llm"},
        "ranks": {"summary": "2/2"},
        "step": 512,
        "loss": "2.31",
        "phase": "train",
        "alerts": "hang",
        "conditions": conditions,
    }
    monitors.status.patch(
        body={"status": status, "metadata": {"name": made["metadata"]["name"]}},
        namespace="default",
        content_type="application/merge-patch+json",
    )

    answer = kube.dynamic.request(
        "get",
        f"/apis/rankbeat.io/v1alpha1/namespaces/default/trainingmonitors/{made['metadata']['name']}",
        header_params={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"},
        serialize=False,
    )

    table = json.loads(answer.data)
    shown = dict(zip((c["name"] for c in table["columnDefinitions"]), table["rows"][0]["cells"], strict=True))
    assert shown.pop("Age")
    assert shown == {
        "Name": made["metadata"]["name"],
        "Job": "llm",
        "Ranks": "2/2",
        "Step": 512,
        "Loss": "2.31",
        "Ready": "False",
        "Alerts": "hang",
        "Phase": "train",
        "Injected": "True",
        "Reason": "NotOptedIn",
    }


def a_condition(kind: str, status: str, reason: str) -> dict[str, str]:
    time = "2026-11-30T06:00:00Z"
    return {"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": time}


def test_every_field_is_described():
    schema = crd_support.schema()

    assert list(undescribed(schema["properties"]["spec"], "spec")) == []
    assert list(undescribed(schema["properties"]["status"], "status")) == []


def test_every_field_that_a_user_writes_has_an_example_or_its_values():
    assert list(without_example(crd_support.schema()["properties"]["spec"], "spec")) == []


def without_example(schema: dict[str, Any], path: str) -> Any:
    for name, field in schema.get("properties", {}).items():
        says = any(word in field["description"] for word in ("Example", "Default", "default"))
        if not says and "enum" not in field and "properties" not in field:
            yield f"{path}.{name}"
        yield from without_example(field.get("items", field), f"{path}.{name}")


def test_the_manual_says_which_container_the_webhook_takes():
    schema = crd_support.schema()
    text = schema["properties"]["spec"]["properties"]["injection"]["properties"]["container"]["description"]

    wanted = (*decisions._USUAL_NAMES, *decisions._ACCELERATORS)
    assert [name for name in wanted if name not in text] == []


def undescribed(schema: dict[str, Any], path: str) -> Any:
    if not schema.get("description"):
        yield path
    for name, field in schema.get("properties", {}).items():
        yield from undescribed(field, f"{path}.{name}")
    if schema.get("type") == "array" and schema["items"].get("type") == "object":
        for name, field in schema["items"].get("properties", {}).items():
            yield from undescribed(field, f"{path}[].{name}")

"""Which monitor a pod of an opted-in namespace belongs to, and whether its Job would retry it."""

import pytest

import webhook_builders as build
from rankbeat_webhook.model import pods
from rankbeat_webhook.patch import selection


def selects(spec, **pod):
    return selection.selects(build.a_monitor(spec=spec), pods.pod("team-a", build.a_pod(**pod)))


JOB_LLM = {"workloadRef": {"apiVersion": "batch/v1", "kind": "Job", "name": "llm"}}
OTHER_OWNER = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "llm", "uid": "x", "controller": True}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        ({"labels": {}}, False),
        ({"labels": {}, "owner": build.a_job_owner("llm-2")}, False),
        ({"labels": {"job-name": "llm"}, "owner": build.a_job_owner("llm-2")}, False),
        ({"labels": {}, "owner": OTHER_OWNER}, False),
        ({"labels": {}, "owner": build.a_job_owner() | {"controller": False}}, False),
        ({"labels": {}, "owner": build.a_job_owner()}, True),
        ({"labels": {"batch.kubernetes.io/job-name": "llm"}}, True),
        ({"labels": {"job-name": "llm"}}, True),
    ],
    ids=[
        "bare",
        "another Job",
        "a label against the owner",
        "Volcano",
        "no controller",
        "its Job",
        "label",
        "old label",
    ],
)
def test_a_workload_ref_means_the_pods_of_that_job(pod, expected):
    assert selects(JOB_LLM, **pod) is expected


def expression(operator, *values):
    return {"podSelector": {"matchExpressions": [{"key": "role", "operator": operator, "values": list(values)}]}}


@pytest.mark.parametrize(
    ("spec", "labels", "expected"),
    [
        ({"podSelector": {}}, {"role": "worker"}, False),
        ({"podSelector": {"matchLabels": {"role": "worker", "app": "x"}}}, {"role": "worker"}, False),
        ({"podSelector": {"matchLabels": {"role": "worker"}}}, {"role": "worker", "app": "x"}, True),
        (expression("In", "a", "b"), {"role": "c"}, False),
        (expression("In", "a", "b"), {}, False),
        (expression("In", "a", "b"), {"role": "b"}, True),
        (expression("NotIn", "a"), {"role": "a"}, False),
        (expression("NotIn", "a"), {}, True),
        (expression("Exists"), {}, False),
        (expression("Exists"), {"role": ""}, True),
        (expression("DoesNotExist"), {"role": ""}, False),
        (expression("DoesNotExist"), {}, True),
        (expression("Gt", "1"), {"role": "2"}, False),
    ],
)
def test_a_pod_selector_means_what_kubernetes_means_but_an_empty_one_selects_nothing(spec, labels, expected):
    assert selects(spec, labels=labels) is expected


FAIL_ON_CODES = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [1]}}]}
IGNORE_DISRUPTION = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"backoffLimit": 0}, False),
        ({"backoffLimit": 6, "parallelism": 7, "completions": 7}, False),
        ({"backoffLimit": 6, "podFailurePolicy": FAIL_ON_CODES}, False),
        ({"backoffLimit": 2147483647, "backoffLimitPerIndex": 0, "parallelism": 8}, False),
        ({"backoffLimit": 1, "backoffLimitPerIndex": 1, "parallelism": 8}, False),
        ({}, True),
        ({"backoffLimit": 1}, True),
        ({"backoffLimit": 6, "parallelism": 6}, True),
        ({"backoffLimit": 2, "parallelism": 16, "completions": 2}, True),
        ({"backoffLimit": 6, "podFailurePolicy": IGNORE_DISRUPTION}, True),
        ({"backoffLimitPerIndex": 1, "parallelism": 8, "completions": 8}, True),
    ],
)
def test_a_job_allows_a_retry_when_its_whole_first_wave_may_fail(spec, expected):
    assert build.a_job(**spec).allows_retry is expected

"""Injection on the real cluster: who is injected, who is not, and that nobody is hurt."""

import json
import time

import pytest

from product import RELEASE_NAMESPACE, Product, a_job, a_monitor, elapsed, wait
from rankbeat_contract import names
from rankbeat_demo import cluster

pytestmark = [pytest.mark.demo, pytest.mark.timeout(600)]


def pod_of(product: Product, namespace: str, job: str) -> dict:
    """The newest pod of a Job."""

    def newest() -> dict | None:
        pods = product.list("pods", namespace, f"batch.kubernetes.io/job-name={job}")
        return max(pods, key=lambda pod: pod["metadata"]["creationTimestamp"], default=None)

    return wait(f"a pod of {job}", newest)


def result_of(pod: dict) -> str:
    annotation = pod["metadata"].get("annotations", {}).get(names.ANNOTATION_INJECTION)
    return json.loads(annotation)["result"] if annotation else "untouched"


def running(product: Product, namespace: str, job: str) -> dict:
    def found() -> dict | None:
        pod = pod_of(product, namespace, job)
        return pod if pod["status"].get("phase") in {"Running", "Succeeded"} else None

    return wait(f"{job} running", found, 90)


def monitor_says(product: Product, namespace: str, monitor: str, *words: str) -> None:
    """`kubectl describe` teaches: all words stand in it, as soon as the operator has seen the pod."""

    def stand_there() -> bool:
        described = product.kubectl("-n", namespace, "describe", "tmon", monitor)
        return all(word in described for word in words)

    wait(f"{', '.join(words)} in the monitor", stand_there, 30)


def test_job_and_monitor_in_one_apply_are_injected_every_time(product: Product):
    namespace = product.namespace("twenty")
    jobs = [f"job-{number}" for number in range(20)]

    for job in jobs:
        product.apply(a_job(job, namespace), a_monitor(job, namespace))
    results = {job: result_of(pod_of(product, namespace, job)) for job in jobs}
    product.kubectl("delete", "namespace", namespace, "--wait=false")

    assert results == dict.fromkeys(jobs, names.INJECTED)


def test_a_pod_in_a_restricted_namespace_starts_and_keeps_its_qos_class(product: Product):
    namespace = product.namespace("restricted", **{"pod-security.kubernetes.io__enforce": "restricted"})
    resources = {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"cpu": "10m", "memory": "32Mi"}}
    secure = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
        "readOnlyRootFilesystem": True,
    }

    product.apply(a_job("strict", namespace, container={"securityContext": secure, "resources": resources}))
    pod = running(product, namespace, "strict")

    assert (result_of(pod), pod["status"]["qosClass"]) == (names.INJECTED, "Guaranteed")


def test_process_one_differs_only_as_promised(product: Product):
    namespace = product.namespace("environ")
    settings = {"pod": {"hostname": "same", "terminationGracePeriodSeconds": 0}}
    command = {"command": ["sh", "-c", "exec sleep 3600"], "env": [{"name": "MINE", "value": "a b $(NOT) \" ' \n c"}]}
    product.apply(
        a_job("with", namespace, container=command, **settings),
        a_job("without", namespace, container=command, labels={"rankbeat.io/inject": "disabled"}, **settings),
    )

    def environment(job: str) -> dict[str, str]:
        pod = running(product, namespace, job)["metadata"]["name"]
        text = product.kubectl("-n", namespace, "exec", pod, "--", "cat", "/proc/1/environ")
        return dict(entry.split("=", 1) for entry in text.split("\0") if "=" in entry)

    ours, plain = environment("with"), environment("without")

    allowed = {"PYTHONPATH", "PWD", "OLDPWD", "SHLVL", "_"}
    changed = {key for key in ours.keys() | plain.keys() if ours.get(key) != plain.get(key)}
    assert {key for key in changed if key not in allowed and not key.startswith("RANKBEAT_")} == set()
    assert ours["MINE"] == plain["MINE"]


def test_an_image_without_a_shell_fails_once_and_then_starts_without_us(product: Product):
    namespace = product.namespace("no-shell")
    container = {"image": "localhost/pause:1", "command": ["/pause"]}
    product.apply(a_job("pause", namespace, container=container, backoffLimit=3), a_monitor("pause", namespace))

    pod = running(product, namespace, "pause")

    assert result_of(pod) == names.REASON_BREAKER_OPEN
    monitor_says(product, namespace, "pause", names.REASON_BREAKER_OPEN, names.ANNOTATION_BREAKER)


def test_an_image_without_a_shell_and_without_retries_is_never_wrapped(product: Product):
    namespace = product.namespace("no-retry")
    container = {"image": "localhost/pause:1", "command": ["/pause"]}
    product.apply(a_job("pause", namespace, container=container, backoffLimit=0), a_monitor("pause", namespace))

    pod = running(product, namespace, "pause")

    assert result_of(pod) == names.REASON_SHELL_NOT_PROVEN
    monitor_says(product, namespace, "pause", names.REASON_SHELL_NOT_PROVEN)


def test_a_policy_that_pins_the_command_opens_the_breaker_and_training_starts(product: Product):
    namespace = product.namespace("pinned")
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "pin-command"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
                ]
            },
            "validations": [
                {"expression": "size(object.spec.containers[0].command) == 3", "message": "the command is pinned here"}
            ],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "pin-command"},
        "spec": {
            "policyName": "pin-command",
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}},
        },
    }
    product.apply(policy, binding)

    def is_in_force() -> bool:
        """The API server takes new policies up every second or so."""
        probe = ("run", "probe", "--image=localhost/busybox:1", "--dry-run=server", "--command", "--", "true")
        try:
            product.kubectl("-n", namespace, *probe)
        except cluster.CommandError as error:
            return "pinned here" in str(error)
        return False

    wait("the policy in force", is_in_force, 30)

    product.apply(a_job("pinned", namespace), a_monitor("pinned", namespace))

    assert result_of(running(product, namespace, "pinned")) == names.REASON_BREAKER_OPEN
    monitor_says(product, namespace, "pinned", names.REASON_BREAKER_OPEN)


def test_an_exact_quota_is_kept(product: Product):
    namespace = product.namespace("quota")
    resources = {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"cpu": "10m", "memory": "32Mi"}}
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "exact", "namespace": namespace},
        "spec": {"hard": {"limits.cpu": "10m", "limits.memory": "32Mi", "pods": "1", "requests.memory": "32Mi"}},
    }
    product.apply(quota)

    product.apply(a_job("exact", namespace, container={"resources": resources}), a_monitor("exact", namespace))

    assert result_of(running(product, namespace, "exact")) == names.INJECTED


def admissions(product: Product) -> float:
    """Admission requests that the webhook's replicas have answered, read from the replicas themselves."""
    total = 0.0
    for pod in product.list("pods", RELEASE_NAMESPACE, "rankbeat.io/component=webhook"):
        place = f"{pod['metadata']['name']}:{names.PORT_WEBHOOK_METRICS}"
        text = product.kubectl("get", "--raw", f"/api/v1/namespaces/{RELEASE_NAMESPACE}/pods/{place}/proxy/metrics")
        total += sum(
            float(line.rsplit(" ", 1)[1])
            for line in text.splitlines()
            if line.startswith("rankbeat_webhook_injections_total")
        )
    return total


def test_a_pod_that_did_not_opt_in_never_reaches_the_webhook(product: Product):
    before = admissions(product)

    product.apply(a_job("plain", "default", labels={}))
    pod = running(product, "default", "plain")
    product.kubectl("delete", "job", "plain", "--wait=false")

    assert result_of(pod) == "untouched"
    assert admissions(product) == before


def test_with_the_webhook_down_pods_start_at_once_and_the_monitor_says_so(product: Product):
    namespace = product.namespace("webhook-down")

    with product.scaled("rankbeat-webhook", 0, 2):
        product.apply(a_monitor("late", namespace))
        seconds = elapsed(lambda: (product.apply(a_job("late", namespace)), pod_of(product, namespace, "late")))
        pod = running(product, namespace, "late")

        assert result_of(pod) == "untouched"
        assert seconds < 2 + 8  # the webhook's time-out, and what kubectl and the Job controller take at most
        condition = wait(
            "condition Injected",
            lambda: (
                (found := product.conditions(namespace, "late").get("Injected"))
                and found["status"] == "False"
                and found
            ),
            40,
        )
    assert "webhook" in condition["message"].lower()


def test_the_kill_switch_works_within_ten_seconds(product: Product):
    namespace = product.namespace("switched-off")

    def switch(value: str) -> None:
        patch = json.dumps({"data": {names.KILL_SWITCH_KEY: value}})
        product.kubectl(
            "-n", RELEASE_NAMESPACE, "patch", "configmap", names.FLEET_CONFIG_MAP, "--type=merge", "-p", patch
        )

    switch("disabled")
    try:
        time.sleep(10)
        product.apply(a_job("off", namespace))
        pod = running(product, namespace, "off")
    finally:
        switch("enabled")

    assert result_of(pod) == names.REASON_KILL_SWITCH

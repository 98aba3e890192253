"""How pods start and end: msrun's traps with and without their fixes, and the sidecar. Real msrun in real pods."""

import json
import time

import pytest

from product import Product, a_job, a_monitor, elapsed, wait
from rankbeat_contract import names
from training_jobs import trainer

pytestmark = [pytest.mark.demo, pytest.mark.timeout(900)]

GRACE_SECONDS = 60
FIX = {"fix": ["join", "signals", "exitCode", "nodeRank"]}
MSRUN = ["msrun", "--worker_num=2", "--master_port=8118", "--log_dir=/tmp/msrun"]
SCRIPT = ["/opt/train/train.py", "--steps", "100000", "--step-milliseconds", "5"]
IN_ONE_POD = ["--local_worker_num=2", "--master_addr=127.0.0.1"]
TRAINING = [*MSRUN, *IN_ONE_POD, "--join=True", *SCRIPT]
WITHOUT_JOIN = [*MSRUN, *IN_ONE_POD, *SCRIPT]
LINES = 'i=0; while true; do i=$((i+1)); echo "[Monitor] step: $i, loss: 0.5"; sleep 0.2; done'


def a_training(name: str, namespace: str, command: list[str] | None = None) -> dict[str, object]:
    """One pod with two real ranks under msrun as process 1, which nobody retries."""
    made = trainer("exec " + " ".join(TRAINING))
    container = made["container"] if command is None else {**made["container"], "command": command}
    pod = {**made["pod"], "terminationGracePeriodSeconds": GRACE_SECONDS}
    return a_job(name, namespace, container=container, pod=pod, backoffLimit=0)


@pytest.fixture(scope="module")
def namespace(product: Product) -> str:
    return product.namespace("launch")


def pod_of(product: Product, namespace: str, job: str) -> dict:
    def found() -> dict | None:
        pods = product.list("pods", namespace, f"batch.kubernetes.io/job-name={job}")
        return max(pods, key=lambda pod: pod["metadata"]["creationTimestamp"], default=None)

    return wait(f"a pod of {job}", found)


def training(product: Product, namespace: str, job: str, command: list[str] | None = None, **spec: object) -> str:
    """The name of the pod of a job that trains."""
    product.apply(a_monitor(job, namespace, **spec))
    wait("the webhook knows the monitor", lambda: product.conditions(namespace, job), 30)
    product.apply(a_training(job, namespace, command))
    pod = pod_of(product, namespace, job)["metadata"]["name"]
    wait(f"{job} trains", lambda: "step 50" in product.kubectl("-n", namespace, "logs", pod, "--tail=-1"), 240)
    return pod


def gone(product: Product, namespace: str, job: str) -> None:
    """Ends a job and its pods, so that the node has room for the next."""
    product.kubectl("-n", namespace, "delete", "job", job, "--cascade=foreground", "--timeout=60s")


def tier_of(product: Product, namespace: str, monitor: str) -> str | None:
    """As the monitor's status tells it, of its only pod."""
    tiers = product.get("tmon", monitor, namespace).get("status", {}).get("tiers") or [{}]
    return tiers[0].get("tier")


def launch_safe(product: Product, namespace: str, monitor: str) -> tuple[str, str]:
    condition = product.conditions(namespace, monitor)["LaunchSafe"]
    return condition["status"], condition["message"]


def ended(product: Product, namespace: str, pod: str) -> tuple[str, int]:
    """Phase and exit code of a pod that has ended."""

    def found() -> tuple[str, int] | None:
        status = product.get("pod", pod, namespace)["status"]
        state = status["containerStatuses"][0]["state"].get("terminated")
        return (status["phase"], state["exitCode"]) if state and status["phase"] in {"Succeeded", "Failed"} else None

    return wait(f"{pod} ended", found, 60)


def delete_seconds(product: Product, namespace: str, pod: str, limit: float) -> float:
    """Seconds until a deleted pod is gone, limit if it is not gone by then."""
    product.kubectl("-n", namespace, "delete", "pod", pod, "--wait=false")
    begun = time.monotonic()
    while time.monotonic() - begun < limit:
        if not product.kubectl("-n", namespace, "get", "pod", pod, "--ignore-not-found", "-o", "name").strip():
            return time.monotonic() - begun
        time.sleep(0.2)
    return limit


def interrupt(product: Product, namespace: str, pod: str) -> None:
    product.kubectl("-n", namespace, "exec", pod, "-c", "train", "--", "sh", "-c", "kill -INT 1")


def test_the_traps_are_found_and_the_deletion_of_a_pod_waits_for_nothing(product: Product, namespace: str):
    pod = training(product, namespace, "careless")

    status, message = wait("judged", lambda: launch_safe(product, namespace, "careless"), 30)
    assert status == "False"
    assert "write spec.msrun.fix: [signals, exitCode] and recreate the pods" in message

    assert delete_seconds(product, namespace, pod, 15) == 15  # SIGTERM is ignored: still there
    product.kubectl("-n", namespace, "delete", "pod", pod, "--grace-period=0", "--force")
    product.kubectl("-n", namespace, "delete", "job", "careless", "--wait=false")


def test_a_mended_pod_ends_in_seconds_instead_of_its_grace_period(product: Product, namespace: str):
    pod = training(product, namespace, "mended", msrun=FIX)

    status, message = wait("judged", lambda: launch_safe(product, namespace, "mended"), 30)
    assert status == "True", message

    seconds = delete_seconds(product, namespace, pod, GRACE_SECONDS)
    product.kubectl("-n", namespace, "delete", "job", "mended", "--wait=false")

    assert seconds < 15
    print(f"deleted in {seconds:.1f} s of a grace period of {GRACE_SECONDS} s")


def test_an_aborted_job_counts_as_succeeded_without_the_fix(product: Product, namespace: str):
    """The trap itself. If this fails, msrun has been mended upstream."""
    pod = training(product, namespace, "aborted")

    interrupt(product, namespace, pod)

    assert ended(product, namespace, pod) == ("Succeeded", 0)


def test_an_aborted_job_has_failed_with_the_fix(product: Product, namespace: str):
    pod = training(product, namespace, "stopped", msrun=FIX)

    interrupt(product, namespace, pod)

    assert ended(product, namespace, pod) == ("Failed", 130)
    job = product.get("job", "stopped", namespace)
    wait("the Job has failed", lambda: product.get("job", "stopped", namespace)["status"].get("failed") == 1, 30)
    assert not job["status"].get("succeeded")


def test_without_join_a_pod_ends_before_its_training_and_with_the_fix_it_trains_on(product: Product, namespace: str):
    unjoined = ["sh", "-c", "exec " + " ".join(WITHOUT_JOIN)]
    product.apply(a_monitor("unjoined", namespace))
    wait("the webhook knows the monitor", lambda: product.conditions(namespace, "unjoined"), 30)
    product.apply(a_training("unjoined", namespace, unjoined))
    pod = pod_of(product, namespace, "unjoined")["metadata"]["name"]

    assert ended(product, namespace, pod) == ("Succeeded", 0)
    assert "write spec.msrun.fix: [join, signals, exitCode]" in launch_safe(product, namespace, "unjoined")[1]

    training(product, namespace, "joined", unjoined, msrun=FIX)
    gone(product, namespace, "joined")


def test_pods_of_an_indexed_job_get_the_rank_of_their_index(product: Product, namespace: str):
    """Two pods of one rank each, started without --node_rank."""
    service = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"rankbeat.io/monitor": "indexed"}}
    named = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "indexed", "namespace": namespace}}
    start = [*MSRUN, "--local_worker_num=1", f"--master_addr=indexed-0.indexed.{namespace}.svc", *SCRIPT]
    made = trainer("exec " + " ".join(start))
    indexed = {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimit": 0}
    product.apply({**named, "spec": service}, a_monitor("indexed", namespace, msrun=FIX))
    wait("the webhook knows the monitor", lambda: product.conditions(namespace, "indexed"), 30)
    product.apply(
        a_job("indexed", namespace, container=made["container"], pod={**made["pod"], "subdomain": "indexed"}, **indexed)
    )

    def ranks() -> dict[str, str] | None:
        pods = product.list("pods", namespace, "batch.kubernetes.io/job-name=indexed")
        index = {
            p["metadata"]["name"]: p["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] for p in pods
        }
        shown = product.prometheus.vector(f'{names.RANK_INFO}{{namespace="{namespace}",monitor="indexed"}}')
        found = {index[labels["pod"]]: labels["rank"] for labels, _ in shown if labels["pod"] in index}
        return found if len(found) == 2 and "" not in found.values() else None

    found = wait("both ranks are seen", ranks, 240)
    gone(product, namespace, "indexed")

    assert found == {"0": "0", "1": "1"}


def test_a_pod_that_cannot_have_the_agent_trains_with_the_tier_perf_file(product: Product, namespace: str):
    pod = training(product, namespace, "perf", TRAINING, tiers=["perfFile"])

    annotation = product.get("pod", pod, namespace)["metadata"]["annotations"][names.ANNOTATION_INJECTION]
    assert json.loads(annotation)["result"] == names.INJECTED_PERF_FILE
    shown = ["exec", pod, "-c", "train", "--", "sh", "-c", f"cat {names.PERF_PATH}/perf_ms_*_1.log"]
    lines = product.kubectl("-n", namespace, *shown).splitlines()
    series = f'{names.RANK_TIER}{{namespace="{namespace}",monitor="perf",tier="{names.TIER_PERF_FILE}"}}'
    wait("both ranks are seen by their files", lambda: len(product.prometheus.vector(series)) == 2, 60)
    wait("the status says so", lambda: tier_of(product, namespace, "perf") == names.TIER_PERF_FILE, 30)
    product.kubectl("-n", namespace, "delete", "job", "perf", "--wait=false")
    product.kubectl("-n", namespace, "delete", "pod", pod, "--grace-period=0", "--force")

    assert "GLOBAL RANKID:1" in lines
    assert sum(line.startswith("STEPTIME:") for line in lines) >= 50


SECURE = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
    "readOnlyRootFilesystem": True,
}


def a_sidecar(volume: dict[str, object]) -> dict[str, object]:
    return {"collector": {"mode": "sidecar"}, "outputs": {"volume": volume, "files": [{"format": "jsonl"}]}}


def test_a_pod_with_a_sidecar_ends_when_its_training_does(product: Product):
    namespace = product.namespace("sidecar", **{"pod-security.kubernetes.io__enforce": "restricted"})
    resources = {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"cpu": "10m", "memory": "32Mi"}}
    container = {
        "command": ["sh", "-c", "sleep 15"],
        "securityContext": SECURE,
        "resources": resources,
        "volumeMounts": [{"name": "out", "mountPath": "/out"}],
    }
    pod = {
        "volumes": [{"name": "out", "emptyDir": {}}],
        "securityContext": {"fsGroup": 65532},
        "terminationGracePeriodSeconds": 30,
    }
    product.apply(a_monitor("beside", namespace, **a_sidecar({"name": "out"})))
    wait("the webhook knows the monitor", lambda: product.conditions(namespace, "beside"), 30)

    product.apply(a_job("beside", namespace, container=container, pod=pod))

    def running() -> dict | None:
        found = pod_of(product, namespace, "beside")
        beside = found["status"].get("initContainerStatuses", [{}])[0]
        return found if beside.get("started") and found["status"]["phase"] == "Running" else None

    found = wait("both run", running, 90)
    assert json.loads(found["metadata"]["annotations"][names.ANNOTATION_INJECTION])["sidecar"]["result"] == "Injected"
    assert found["status"]["qosClass"] == "Guaranteed"
    wait("said so", lambda: product.conditions(namespace, "beside")["Sidecar"]["status"] == "True", 30)
    name = found["metadata"]["name"]
    seconds = elapsed(lambda: ended(product, namespace, name))
    assert ended(product, namespace, name) == ("Succeeded", 0)
    assert seconds < 40
    wait("the Job is complete", lambda: product.get("job", "beside", namespace)["status"].get("succeeded") == 1, 30)


def test_pod_security_refuses_a_host_path_and_the_monitor_says_so_and_training_starts(product: Product):
    namespace = product.namespace("host-path", **{"pod-security.kubernetes.io__enforce": "restricted"})
    product.apply(a_monitor("strict", namespace, **a_sidecar({"hostPath": {"path": "/var/runs"}})))
    wait("the webhook knows the monitor", lambda: product.conditions(namespace, "strict"), 30)

    product.apply(a_job("strict", namespace, container={"securityContext": SECURE}))

    wait("training starts", lambda: pod_of(product, namespace, "strict")["status"].get("phase") == "Running", 120)
    events = product.list("events", namespace)
    refused = [each["message"] for each in events if each["reason"] == "FailedCreate"]
    assert any('restricted volume types (volume "rankbeat-outputs"' in each for each in refused)
    condition = product.conditions(namespace, "strict")["Injected"]
    assert (condition["status"], condition["reason"]) == ("False", names.REASON_BREAKER_OPEN)
    assert "hostPath" in condition["message"]


def test_a_program_that_is_no_mindspore_is_seen_by_the_loss_lines_of_its_log(product: Product, namespace: str):
    product.apply(a_monitor("lines", namespace, tiers=["logTail"]))
    wait("the webhook knows the monitor", lambda: product.conditions(namespace, "lines"), 30)
    product.apply(a_job("lines", namespace, container={"command": ["sh", "-c", LINES]}, backoffLimit=0))

    wait("the status says so", lambda: tier_of(product, namespace, "lines") == names.TIER_LOG_TAIL, 120)
    loss = f'{names.RANK_LOSS}{{namespace="{namespace}",monitor="lines"}}'
    ((labels, value),) = wait("its loss is seen", lambda: product.prometheus.vector(loss), 60)
    gone(product, namespace, "lines")

    assert (labels.get("rank", ""), value) == ("", 0.5)

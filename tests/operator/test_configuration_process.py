"""The operator's own program and a monitor's configuration, against a real API server."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.dynamic.exceptions import NotFoundError

import crd_support
import operator_process
import verdict_server
from operator_builders import a_monitor_manifest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube import Kube
    from operator_process import OperatorProcess
    from verdict_server import VerdictServer

pytestmark = pytest.mark.controlplane

KUBECTL = Path(__file__).resolve().parents[2] / "build" / "bin" / "kubectl"
MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def monitors(kube: Kube) -> Any:
    return crd_support.established(kube)


@pytest.fixture(scope="module")
def release(kube: Kube) -> str:
    namespace = kube.namespace()
    fleet = "images: {node: a/b:c, aggregator: a/b:c}\nclock: {servers: [ntp.local]}\n"
    data = {"injection": "enabled", "fleet.yaml": fleet}
    metadata = {"name": "rankbeat-fleet", "namespace": namespace}
    kube.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    return namespace


@pytest.fixture(scope="module")
def aggregator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VerdictServer]:
    with verdict_server.running(tmp_path_factory.mktemp("aggregator")) as server:
        yield server


@pytest.fixture
def operator(
    kube: Kube, monitors: Any, release: str, aggregator: VerdictServer, tmp_path: Path
) -> Iterator[OperatorProcess]:
    with operator_process.running(kube.kubeconfig, release, tmp_path, **aggregator.environment) as running:
        yield running


def a_job(kube: Kube, namespace: str, name: str = "llm") -> str:
    """A suspended Job; its UID."""
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "train", "image": "x"}]}}
    made = kube.apply(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"suspend": True, "template": template},
        }
    )
    return str(made.to_dict()["metadata"]["uid"])


def a_verdict(namespace: str, uid: str, step: int) -> dict[str, Any]:
    """Job llm is at step, a step a second."""
    return {
        "namespace": namespace, "monitor": "llm", "job": "llm", "job_uid": uid, "attempt": 1, "ranks_expected": 1,
        "ranks_reporting": 1, "step": step, "step_interval_seconds": 1.0, "phase": "train", "incidents": [],
    }  # fmt: skip


def configured(kube: Kube, namespace: str) -> dict[str, Any]:
    """What the agent would read, {} before there is any."""
    try:
        found = kube.resource("v1", "ConfigMap").get(name="rankbeat-config-llm", namespace=namespace).to_dict()
    except NotFoundError:
        return {}
    return json.loads(found["data"]["monitor.json"])


def set_interval(monitors: Any, namespace: str, interval: int) -> None:
    body = {"metadata": {"name": "llm"}, "spec": {"sampling": {"interval": interval}}}
    monitors.patch(body=body, namespace=namespace, content_type=MERGE)


def step(monitors: Any, namespace: str) -> int | None:
    status = monitors.get(name="llm", namespace=namespace).to_dict().get("status") or {}
    return status.get("step")


def condition(monitors: Any, namespace: str, name: str, kind: str) -> dict[str, Any]:
    status = monitors.get(name=name, namespace=namespace).to_dict().get("status") or {}
    return next((c for c in status.get("conditions") or () if c["type"] == kind), {})


def test_a_changed_sampling_holds_from_a_step_that_a_restart_of_the_operator_does_not_move(
    kube, monitors, release, aggregator, operator, tmp_path_factory
):
    namespace = kube.namespace()
    kube.apply(a_monitor_manifest(namespace=namespace, sampling={"interval": 50}))
    uid = a_job(kube, namespace)
    aggregator.jobs = [a_verdict(namespace, uid, 500)]
    operator.until("configuration", lambda: configured(kube, namespace))
    operator.until("step 500", lambda: step(monitors, namespace) == 500)

    set_interval(monitors, namespace, 7)

    expected = {
        "version": 2,
        "sampling": {"intervalSteps": 7, "denseFirstSteps": 100},
        "change": {"fromStep": 681, "previous": {"intervalSteps": 50, "denseFirstSteps": 100}},
    }
    operator.until("the change", lambda: configured(kube, namespace) == expected)
    operator.until("what is said of it", lambda: condition(monitors, namespace, "llm", "SamplingInForce"))
    operator.process.terminate()
    operator.process.wait(20)
    aggregator.jobs = [a_verdict(namespace, uid, 600)]
    folder = tmp_path_factory.mktemp("second")
    with operator_process.running(kube.kubeconfig, release, folder, **aggregator.environment) as second:
        second.until("step 600", lambda: step(monitors, namespace) == 600)
        assert configured(kube, namespace) == expected
        aggregator.jobs = [a_verdict(namespace, uid, 900)]
        del expected["change"]
        second.until("its end", lambda: configured(kube, namespace) == expected)
        second.until("its silence", lambda: not condition(monitors, namespace, "llm", "SamplingInForce"))


def test_a_bare_configuration_is_translated_and_what_is_refused_is_said(kube, monitors, operator):
    namespace = kube.namespace()
    bare = {"step_interval": 25, "metrics": ["grad_norm"], "enbale": True}

    kube.apply(a_monitor_manifest(namespace=namespace, monitorConfig=bare))

    found = operator.until("configuration", lambda: configured(kube, namespace))
    assert (found["sampling"]["intervalSteps"], found["signals"][-1]) == (25, "gradNorm")
    told = operator.until("condition", lambda: condition(monitors, namespace, "llm", "ConfigurationTranslated"))
    assert (told["status"], told["reason"]) == ("False", "KeysRefused")
    assert "did you mean 'enable'?" in told["message"]


def test_two_jobs_of_one_experiment_are_both_observed_and_told_of_each_other(kube, monitors, operator):
    namespace = kube.namespace()
    for name in ("llm", "bert"):
        a_job(kube, namespace, name)
        kube.apply(a_monitor_manifest(name, namespace, experiment="run-1"))

    for name, other in (("llm", "bert"), ("bert", "llm")):
        told = operator.until(
            "conflict",
            lambda name=name: (
                (found := condition(monitors, namespace, name, "ExperimentUnique")).get("status") == "False" and found
            ),
        )
        assert told["message"].startswith(f"TrainingMonitor {other} of another job has spec.experiment 'run-1' too")
        assert condition(monitors, namespace, name, "TargetFound")["status"] == "True"


def test_a_monitor_nested_as_deep_as_the_server_takes_it_keeps_no_other_from_being_observed(
    kube, monitors, operator, tmp_path
):
    namespace, depth = kube.namespace(), 9_900
    manifest = json.dumps(a_monitor_manifest("deep", namespace, monitorConfig={"interval": "DEEP"}))
    (tmp_path / "deep.json").write_text(manifest.replace('"DEEP"', '{"a":' * depth + "1" + "}" * depth))
    path = f"/apis/rankbeat.io/v1alpha1/namespaces/{namespace}/trainingmonitors"
    command = [KUBECTL, "--kubeconfig", kube.kubeconfig, "create", "--raw", path, "-f", tmp_path / "deep.json"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)

    try:
        kube.apply(a_monitor_manifest(namespace=namespace))

        operator.until("the other's configuration", lambda: configured(kube, namespace))
        told = operator.until("the other's status", lambda: condition(monitors, namespace, "llm", "TargetFound"))
        assert told["reason"] == "JobNotFound"
    finally:
        monitors.delete(name="deep", namespace=namespace)

"""The operator's own program against a real API server: what is asked for and not there, by condition and event."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import crd_support
import operator_process
import verdict_server
from operator_builders import a_monitor_manifest
from operator_cluster import a_job_as_the_webhook_leaves_it, event_reasons, pod_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube import Kube
    from operator_process import OperatorProcess
    from verdict_server import VerdictServer

pytestmark = pytest.mark.controlplane

KUBECTL = Path(__file__).resolve().parents[2] / "build" / "bin" / "kubectl"
ASKED = {
    "collector": {"mode": "sidecar"},
    "outputs": {
        "volume": {"persistentVolumeClaim": {"claimName": "shared"}},
        "directory": "runs",
        "files": [{"format": "jsonl"}],
    },
    "signals": ["loss", "attentionEntropy"],
    "attention": {"cells": ["*.attention.softmax", "*.attn.prob"]},
}


@pytest.fixture(scope="module")
def monitors(kube: Kube) -> Any:
    return crd_support.established(kube)


@pytest.fixture(scope="module")
def aggregator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VerdictServer]:
    with verdict_server.running(tmp_path_factory.mktemp("aggregator")) as server:
        yield server


@pytest.fixture
def operator(kube: Kube, monitors: Any, aggregator: VerdictServer, tmp_path: Path) -> Iterator[OperatorProcess]:
    release = kube.namespace()
    fleet = "images: {node: a/b:c, aggregator: a/b:c}\nclock: {servers: [ntp.local]}\n"
    metadata = {"name": "rankbeat-fleet", "namespace": release}
    data = {"injection": "enabled", "fleet.yaml": fleet}
    kube.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    with operator_process.running(kube.kubeconfig, release, tmp_path, **aggregator.environment) as running:
        yield running


def a_job_with_a_sidecar(kube: Kube, namespace: str) -> str:
    """Job llm, whose pod has the agent and the sidecar as the webhook would say it; its UID."""
    job = a_job_as_the_webhook_leaves_it(namespace, "injected", "Injected", "1f3c5e7a9b")
    metadata = job["spec"]["template"]["metadata"]
    said = json.loads(metadata["annotations"]["rankbeat.io/injection"])
    said["sidecar"] = {"result": "Injected", "message": ""}
    metadata["annotations"]["rankbeat.io/injection"] = json.dumps(said)
    return str(kube.apply(job).to_dict()["metadata"]["uid"])


def a_verdict(namespace: str, uid: str, **more: Any) -> dict[str, Any]:
    return {
        "namespace": namespace, "monitor": "llm", "job": "llm", "job_uid": uid, "attempt": 1, "ranks_expected": 1,
        "ranks_reporting": 1, "step": 500, "step_interval_seconds": 1.0, "phase": "train", "incidents": [], **more,
    }  # fmt: skip


def condition(monitors: Any, namespace: str, kind: str) -> dict[str, Any]:
    status = monitors.get(name="llm", namespace=namespace).to_dict().get("status") or {}
    return next((c for c in status.get("conditions") or () if c["type"] == kind), {})


def said(monitors: Any, namespace: str, kind: str) -> tuple[str, str]:
    found = condition(monitors, namespace, kind)
    return (found.get("status", ""), found.get("reason", ""))


def test_outputs_and_taps_in_trouble_are_told_by_kubectl_describe_and_end_with_it(kube, monitors, aggregator, operator):
    namespace = kube.namespace()
    kube.apply(a_monitor_manifest(namespace=namespace, **ASKED))
    uid = a_job_with_a_sidecar(kube, namespace)
    (pod,) = operator.until("a pod", lambda: pod_names(kube, namespace))
    aggregator.jobs = [a_verdict(namespace, uid, outputs={}, taps=None)]
    operator.until("nothing known", lambda: said(monitors, namespace, "OutputsWritten") == ("Unknown", "NoReports"))
    assert said(monitors, namespace, "TapsInstalled") == ("Unknown", "NoSamples")

    full = {pod: {"troubles": ["full"], "rows_written": 9, "rows_lost": 3}}
    taps = {"ranks": 1, "ranks_refusing": 1, "refused": 1, "unresolved_paths": [1]}
    aggregator.jobs = [a_verdict(namespace, uid, outputs=full, taps=taps)]
    operator.until("VolumeFull", lambda: said(monitors, namespace, "OutputsWritten") == ("False", "VolumeFull"))
    operator.until("events", lambda: {"VolumeFull", "PathsUnresolved"} <= set(event_reasons(kube, namespace)))
    command = [KUBECTL, "--kubeconfig", kube.kubeconfig, "describe", "tmon", "llm", "-n", namespace]
    described = " ".join(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())

    assert f"1 of 1 pods ({pod}): /rankbeat/outputs/runs (runs of PersistentVolumeClaim shared) is full" in described
    assert "no cell of the network has the path spec.attention.cells[1] '*.attn.prob'" in described

    well = {pod: {"troubles": [], "rows_written": 12, "rows_lost": 3}}
    aggregator.jobs = [a_verdict(namespace, uid, outputs=well, taps={**taps, "refused": 0, "unresolved_paths": []})]
    operator.until("Written", lambda: said(monitors, namespace, "OutputsWritten") == ("True", "Written"))
    assert said(monitors, namespace, "TapsInstalled") == ("True", "Installed")

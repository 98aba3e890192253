"""The operator with the rights that the chart gives it, and no others; and with the real aggregator."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.dynamic.exceptions import NotFoundError

import operator_process
from operator_builders import a_monitor_manifest
from operator_install import a_token, install, operators_kubeconfig, uninstall
from rankbeat_contract import names
from rankbeat_operator.kube import pki

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kube import Kube

pytestmark = pytest.mark.controlplane


@pytest.fixture
def release(kube: Kube) -> Iterator[str]:
    yield install(kube)
    uninstall(kube)


def test_the_charts_rights_are_enough(kube: Kube, release: str, tmp_path: Path):
    namespace = kube.namespace()
    fleet = tmp_path / "fleet"
    fleet.mkdir()
    (fleet / "fleet.yaml").write_text("images: {node: n, aggregator: a}\n")

    with operator_process.running(operators_kubeconfig(kube, release, tmp_path), release, tmp_path) as operator:
        kube.apply(a_monitor_manifest(namespace=namespace))
        operator.until("status", lambda: "JobNotFound" in str(monitor(kube, namespace)))
        operator.until("fleet", lambda: exists(kube, "apps/v1", "DaemonSet", release, "rankbeat-node"))
        operator.until("certificates", lambda: exists(kube, "v1", "Secret", release, "rankbeat-aggregator-tls"))
        time.sleep(3)
        log = operator.log.read_text()

    assert [line for line in log.splitlines() if "403" in line or "forbidden" in line.lower()] == []
    assert operator.process.returncode == 0


def test_operator_and_aggregator_understand_each_other(kube: Kube, release: str, tmp_path: Path):
    namespace = kube.namespace()
    kubeconfig = operators_kubeconfig(kube, release, tmp_path)
    with aggregator(kube, release, tmp_path) as url:
        environment = {"RANKBEAT_AGGREGATOR_URL": url, "RANKBEAT_CA_FILE": str(tmp_path / "ca.crt")}
        with operator_process.running(kubeconfig, release, tmp_path, **environment) as operator:
            (tmp_path / "token").write_text(a_token(kube, release, [names.AUDIENCE]))
            kube.apply(a_monitor_manifest(namespace=namespace))

            found = operator.until("status", lambda: reachable(monitor(kube, namespace)))

    assert (found["status"], found["reason"]) == ("True", "Answers")


@contextlib.contextmanager
def aggregator(kube: Kube, release: str, folder: Path) -> Iterator[str]:
    """The real aggregator on localhost, with a certificate of an authority in folder."""
    signer = pki.authority(time.time())
    pair = pki.serving(signer, ("localhost",), time.time())
    texts = {"ca.crt": signer.certificate, "tls.crt": pair.certificate, "tls.key": pair.key}
    for name, text in texts.items():
        (folder / name).write_text(text)
    port, metrics_port = operator_process.free_port(), operator_process.free_port()
    arguments = {
        "port": port,
        "metrics-port": metrics_port,
        "tls-cert": folder / "tls.crt",
        "tls-key": folder / "tls.key",
        "reporter-user": f"system:serviceaccount:{release}:rankbeat-node",
        "reader-user": f"system:serviceaccount:{release}:rankbeat-operator",
        "kubeconfig": kube.kubeconfig,
    }
    command = [sys.executable, "-m", "rankbeat_aggregator", *(f"--{name}={value}" for name, value in arguments.items())]
    with (folder / "aggregator.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield f"https://localhost:{port}"
        finally:
            process.terminate()


def reachable(found: Any) -> Any:
    conditions = (found.get("status") or {}).get("conditions") or ()
    return next((c for c in conditions if c["type"] == "AggregatorReachable" and c["status"] == "True"), None)


def monitor(kube: Kube, namespace: str) -> Any:
    return kube.resource("rankbeat.io/v1alpha1", "TrainingMonitor").get(name="llm", namespace=namespace).to_dict()


def exists(kube: Kube, api_version: str, kind: str, namespace: str, name: str) -> bool:
    try:
        kube.resource(api_version, kind).get(name=name, namespace=namespace)
    except NotFoundError:
        return False
    return True

"""A release namespace as the chart leaves it, and the operator's own program in it: one for each module."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

import operator_process
from operator_cluster import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube import Kube
    from operator_process import OperatorProcess

REPO = Path(__file__).resolve().parents[2]
FLEET = "images: {node: rankbeat/node:test, aggregator: rankbeat/aggregator:test}\nclock: {servers: [ntp.local]}\n"


@pytest.fixture(scope="module")
def crd(kube: Kube) -> None:
    kube.apply(yaml.safe_load((REPO / "crds" / "trainingmonitors.rankbeat.io.yaml").read_text()))
    definitions = kube.resource("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    for event in definitions.watch(field_selector="metadata.name=trainingmonitors.rankbeat.io", timeout=30):
        conditions = (event["raw_object"].get("status") or {}).get("conditions") or ()
        if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
            return


@pytest.fixture(scope="module")
def release(kube: Kube) -> Iterator[str]:
    """A release namespace as the chart leaves it."""
    namespace = kube.namespace()
    kube.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "rankbeat-fleet", "namespace": namespace},
            "data": {"injection": "enabled", "fleet.yaml": FLEET},
        }
    )
    kube.apply(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "rankbeat-injection"},
            "webhooks": [
                {
                    "name": "pods.rankbeat.io",
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "failurePolicy": "Ignore",
                    "clientConfig": {
                        "service": {"name": "rankbeat-webhook", "namespace": namespace, "path": "/v1/pods"}
                    },
                    "rules": [],
                }
            ],
        }
    )
    yield namespace
    kube.resource("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration").delete(name="rankbeat-injection")


@pytest.fixture(scope="module")
def operator(
    crd: None, kube: Kube, release: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    folder = tmp_path_factory.mktemp("operator")
    (folder / "fleet").mkdir()
    (folder / "fleet" / "fleet.yaml").write_text(FLEET)
    with operator_process.running(kube.kubeconfig, release, folder) as running:
        yield running


@pytest.fixture
def refusal(kube: Kube) -> Iterator[Refusal]:
    refusal = Refusal(kube)
    yield refusal
    refusal.end()

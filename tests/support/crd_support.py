"""TrainingMonitors at a real API server: created, or refused and why."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from kubernetes.client import ApiException

from operator_builders import a_monitor_manifest

if TYPE_CHECKING:
    from kube import Kube

CRD = Path(__file__).resolve().parents[2] / "crds" / "trainingmonitors.rankbeat.io.yaml"
names = (f"crd-{number}" for number in itertools.count())


def schema() -> dict[str, Any]:
    """The schema of the one version."""
    return yaml.safe_load(CRD.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def established(kube: Kube) -> Any:
    """The resource of TrainingMonitors, once the API server serves it.

    Raises: TimeoutError.
    """
    kube.apply(yaml.safe_load(CRD.read_text()))
    definitions = kube.resource("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    name = "metadata.name=trainingmonitors.rankbeat.io"
    for event in definitions.watch(field_selector=name, timeout=30):
        conditions = (event["raw_object"].get("status") or {}).get("conditions") or ()
        if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
            return kube.resource("rankbeat.io/v1alpha1", "TrainingMonitor")
    raise TimeoutError("the CRD was not established within 30 s")


def created(monitors: Any, /, **spec: Any) -> Any:
    """A new monitor as the API server keeps it."""
    return monitors.create(body=a_monitor_manifest(next(names), "default", **spec), namespace="default").to_dict()


def refusal(monitors: Any, /, **spec: Any) -> str:
    """Why the API server refuses a monitor."""
    with pytest.raises(ApiException) as refused:
        created(monitors, **spec)
    assert refused.value.status == 422
    return str(refused.value.body)

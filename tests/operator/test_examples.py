"""The examples do what they say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import crd_support
from rankbeat_contract import monitor as contract
from rankbeat_contract import translation

if TYPE_CHECKING:
    from kube import Kube

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").rglob("*.yaml"))
MONITORS = [path for path in EXAMPLES if "kind: TrainingMonitor\n" in path.read_text()]


def manifest(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text())


@pytest.mark.parametrize("path", MONITORS, ids=lambda path: path.name)
def test_nothing_that_an_example_asks_for_is_refused(path):
    spec = manifest(path)["spec"]

    assert translation.effective(spec).refused == ()
    assert contract.settings(spec).signals_without_place == ()
    assert contract.agent_configuration(contract.settings(spec))["version"] == 2


@pytest.fixture(scope="module")
def monitors(kube: Kube) -> Any:
    return crd_support.established(kube)


@pytest.mark.controlplane
@pytest.mark.parametrize("path", MONITORS, ids=lambda path: path.name)
def test_an_example_is_taken_whole_by_the_api_server(kube, monitors, path):
    example = manifest(path)
    namespace = kube.namespace()
    body = {**example, "metadata": {**example["metadata"], "namespace": namespace}}

    taken = monitors.create(body=body, namespace=namespace).to_dict()

    assert taken["spec"] == example["spec"]

"""What the operator makes in the release namespace goes with the install, its Secrets too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import operator_install
import operator_process
from operator_cluster import exists, read, reconciles

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kube import Kube
    from operator_process import OperatorProcess

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(180)]

SETTINGS = (
    *("devices.exporter=builtin", "metrics.tls.enabled=true", "metrics.tls.clientAuth.enabled=true"),
    "metrics.bearerToken.enabled=true",
)
SECRETS = {
    *("rankbeat-ca-key", "rankbeat-webhook-tls", "rankbeat-aggregator-tls"),
    *("rankbeat-metrics-tls", "rankbeat-metrics-client-tls", "rankbeat-metrics-token"),
}


@pytest.fixture
def release(kube: Kube) -> Iterator[str]:
    yield operator_install.install(kube, *SETTINGS)
    operator_install.uninstall(kube)


@pytest.fixture
def operator(kube: Kube, release: str, tmp_path: Path) -> Iterator[OperatorProcess]:
    operator_install.write_fleet(operator_install.rendered(release, *SETTINGS), tmp_path)
    kubeconfig = operator_install.operators_kubeconfig(kube, release, tmp_path)
    with operator_process.running(kubeconfig, release, tmp_path) as running:
        running.until("every Secret", lambda: owners(kube, release).keys() == SECRETS)
        yield running


def owners(kube: Kube, release: str) -> dict[str, list[Any]]:
    """Of the Secrets, by name."""
    found = kube.resource("v1", "Secret").get(namespace=release).to_dict()["items"]
    return {one["metadata"]["name"]: one["metadata"].get("ownerReferences") or [] for one in found}


def wait_for_two_reconciles(operator: OperatorProcess) -> None:
    rounds = reconciles(operator, "certificates")
    operator.until("two reconciles more", lambda: reconciles(operator, "certificates") >= rounds + 2)


def test_with_the_charts_configmap_all_of_it_goes_and_nothing_is_made_again(kube, release, operator):
    """`helm uninstall` deletes the chart's ConfigMap, and Kubernetes' garbage collector what it owns."""
    kube.resource("v1", "ConfigMap").delete(name="rankbeat-fleet", namespace=release)

    operator.until("no Secret is left", lambda: not owners(kube, release))
    operator.until("nor the bundle", lambda: not exists(kube, "v1", "ConfigMap", release, "rankbeat-ca"))
    operator.until("nor a pod's template", lambda: not exists(kube, "apps/v1", "DaemonSet", release, "rankbeat-node"))
    wait_for_two_reconciles(operator)

    assert owners(kube, release) == {}


def test_what_an_older_release_left_without_an_owner_is_taken_over_as_it_is(kube, release, operator):
    before = {name: read(kube, "v1", "Secret", release, name)["data"] for name in SECRETS}
    for name in SECRETS:
        kube.resource("v1", "Secret").patch(
            name=name,
            namespace=release,
            body={"metadata": {"ownerReferences": None}},
            content_type="application/merge-patch+json",
        )

    operator.until("all are owned", lambda: all(owners(kube, release).values()))

    assert {name: read(kube, "v1", "Secret", release, name)["data"] for name in SECRETS} == before

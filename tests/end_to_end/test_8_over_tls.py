"""/metrics of the devices over TLS, by an upgrade of the release; then the release uninstalled, and nothing left.

Last of these tests: the product is gone after them. They leave a demo alone that was up before (RANKBEAT_RUNNING).
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from product import RELEASE_NAMESPACE, Product, wait
from rankbeat_cluster.cluster import Cluster
from rankbeat_contract import names
from rankbeat_demo import cluster, install

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.demo,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(os.environ.get("RANKBEAT_RUNNING")), reason="the running demo would be gone"),
]

SETTINGS = ("metrics.tls.enabled", "metrics.tls.clientAuth.enabled", "metrics.bearerToken.enabled")
SUCCESS = f'{names.NODE_COLLECTOR_SUCCESS}{{collector="accelerators"}}'
PROBES_SECONDS = 35
"""Three liveness probes, after which a container whose probe fails is killed."""


def helm(*arguments: str) -> None:
    cluster.run(cluster.program("helm"), *arguments, "--namespace", RELEASE_NAMESPACE, timeout_seconds=240)


@pytest.fixture(scope="module")
def upgraded(product: Product) -> Iterator[float]:
    """When the release began to serve over TLS."""
    settings = [word for name in SETTINGS for word in ("--set", f"{name}=true")]
    helm("upgrade", install.RELEASE, str(install.CHART), "--reuse-values", *settings, "--wait", "--timeout", "3m")
    wait("the devices' pod has the files", lambda: has_files(product), 60)
    product.kubectl(
        *("-n", RELEASE_NAMESPACE, "rollout", "status", "daemonset/rankbeat-devices", "--timeout=120s"),
        timeout_seconds=130,
    )
    return time.time()


def has_files(product: Product) -> bool:
    spec = product.get("daemonset", "rankbeat-devices", RELEASE_NAMESPACE)["spec"]["template"]["spec"]
    return "metrics" in {volume["name"] for volume in spec["volumes"]}


def devices_pod(product: Product) -> dict:
    found = product.list("pods", RELEASE_NAMESPACE, "rankbeat.io/component=devices")
    (pod,) = (one for one in found if "deletionTimestamp" not in one["metadata"])
    return pod


def test_devices_that_are_well_alert_nobody(product: Product):
    wait("they are measured", lambda: product.prometheus.vector(f"{SUCCESS} == 1"), 60)

    assert product.prometheus.vector('ALERTS{component="devices"}') == ()


def test_the_bundled_prometheus_scrapes_the_devices_over_tls(product: Product, upgraded: float):
    fresh = f"timestamp({SUCCESS} == 1) > {upgraded}"

    wait("accelerators are measured and scraped", lambda: product.prometheus.vector(fresh), 90)

    assert product.prometheus.by_label('up{job="rankbeat-devices"}', "job") == {"rankbeat-devices": 1.0}


def test_the_kubelets_probes_go_on(product: Product, upgraded: float):
    time.sleep(max(0.0, upgraded + PROBES_SECONDS - time.time()))

    statuses = {one["name"]: one for one in devices_pod(product)["status"]["containerStatuses"]}

    assert (statuses["devices"]["ready"], statuses["devices"]["restartCount"]) == (True, 0)


def test_who_brings_nothing_reads_nothing(product: Product, upgraded: float):
    address = f"{devices_pod(product)['status']['podIP']}:{names.PORT_DEVICES}"
    asked = (
        "import ssl, urllib.request as u\n"
        f"try: print(u.urlopen('https://{address}/metrics', context=ssl._create_unverified_context()).status)\n"
        "except u.HTTPError as error: print(error.code)\n"
    )

    command = Cluster(cluster.state()).inside((sys.executable, "-c", asked))

    def status() -> str:
        """Empty while nobody listens yet."""
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30).stdout.strip()

    assert wait("an answer", status, 30) == "403"


def test_uninstalled_it_leaves_no_object_in_its_namespace(product: Product, upgraded: float):
    helm("uninstall", install.RELEASE, "--wait")

    kinds = "secrets,configmaps,services,deployments,daemonsets,pods"
    selector = "app.kubernetes.io/part-of=rankbeat"

    def left() -> list[str]:
        found = product.kubectl("-n", RELEASE_NAMESPACE, "get", kinds, "-l", selector, "-o", "name").split()
        return [one for one in found if not one.startswith("configmap/rankbeat-agent-")]

    with contextlib.suppress(TimeoutError):
        wait("nothing is left", lambda: not left(), 120)
    assert left() == []
    secrets = json.loads(product.kubectl("-n", RELEASE_NAMESPACE, "get", "secrets", "-o", "json"))["items"]
    assert [one["metadata"]["name"] for one in secrets] == []

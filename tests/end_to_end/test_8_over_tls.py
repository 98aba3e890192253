"""/metrics of the nodes over TLS, by an upgrade of the release; then the release uninstalled, and nothing left.

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
DAEMON_SETS = ("rankbeat-devices", "rankbeat-node")
SERVED = {
    "devices": ("devices", names.PORT_DEVICES),
    "collector": ("node", names.PORT_COLLECTOR),
    "clock": ("node", names.PORT_CLOCK),
}
"""Component and port by container."""
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
    for name in DAEMON_SETS:
        wait(f"{name} has the files", lambda: has_files(product, name), 60)  # noqa: B023 asked before the next
        product.kubectl(
            *("-n", RELEASE_NAMESPACE, "rollout", "status", f"daemonset/{name}", "--timeout=120s"),
            timeout_seconds=130,
        )
    return time.time()


def has_files(product: Product, daemon_set: str) -> bool:
    spec = product.get("daemonset", daemon_set, RELEASE_NAMESPACE)["spec"]["template"]["spec"]
    return "metrics" in {volume["name"] for volume in spec["volumes"]}


def pod_of(product: Product, component: str) -> dict:
    found = product.list("pods", RELEASE_NAMESPACE, f"rankbeat.io/component={component}")
    (pod,) = (one for one in found if "deletionTimestamp" not in one["metadata"])
    return pod


def test_devices_that_are_well_alert_nobody(product: Product):
    wait("they are measured", lambda: product.prometheus.vector(f"{SUCCESS} == 1"), 60)

    assert product.prometheus.vector('ALERTS{component="devices"}') == ()


def test_the_bundled_prometheus_scrapes_the_nodes_over_tls(product: Product, upgraded: float):
    for shown in (f"{SUCCESS} == 1", names.NODE_CLOCK_TRUSTED, "rankbeat_collector_pods_known == 1"):
        fresh = f"timestamp({shown}) > {upgraded}"
        wait(f"{shown} is scraped", lambda: product.prometheus.vector(fresh), 90)  # noqa: B023 asked before the next

    ports = {str(port) for _, port in SERVED.values()}
    targets = product.prometheus.by_label('up{job="rankbeat-nodes"} == 1', "instance")
    assert {address.rpartition(":")[2] for address in targets} == ports


def test_the_kubelets_probes_go_on(product: Product, upgraded: float):
    time.sleep(max(0.0, upgraded + PROBES_SECONDS - time.time()))

    pods = [pod_of(product, component) for component in ("devices", "node")]
    statuses = {one["name"]: one for pod in pods for one in pod["status"]["containerStatuses"]}

    assert {name: (statuses[name]["ready"], statuses[name]["restartCount"]) for name in SERVED} == dict.fromkeys(
        SERVED, (True, 0)
    )


@pytest.mark.parametrize("container", SERVED)
def test_who_brings_nothing_reads_nothing(product: Product, upgraded: float, container: str):
    component, port = SERVED[container]
    address = f"{pod_of(product, component)['status']['podIP']}:{port}"
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

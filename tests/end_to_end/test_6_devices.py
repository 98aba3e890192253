"""Ranks and their chips in one query, a chip that is held down, and what is left of a pod that has ended.

The kubelet allots chips of a device plugin of ours (rankbeat_cluster.device_plugin); their figures come from the double
of the NPU driver's library that the demo puts on the node. Everything between is the product.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from typing import TYPE_CHECKING

import pytest

import dashboards
from product import Product, a_job, a_monitor, wait
from rankbeat_cluster.cluster import Cluster
from rankbeat_contract import names
from rankbeat_demo import cluster, install, pages
from training_jobs import trainer

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.demo, pytest.mark.timeout(900)]

RESOURCE = "huawei.com/Ascend910"
CHIPS = ("Ascend910-0", "Ascend910-1")
SCRIPT = f"{install.DRIVER_ROOT}/lib64/driver/dcmi_double.txt"
BUSY = "utilization 93\nfrequency 1800\nfrequency_max 1800\n"
THROTTLED = f"{BUSY}1/0 frequency 800\n"
ROUND_SECONDS = 5
SCRAPE_SECONDS = 2
TRAINING = [
    *("msrun", "--worker_num=2", "--local_worker_num=2", "--master_addr=127.0.0.1", "--master_port=8118"),
    *("--join=True", "--log_dir=/tmp/msrun", "/opt/train/train.py", "--steps", "100000", "--step-milliseconds", "20"),
]
JOIN = """
  max by (node, vendor, device, uuid, model) (rankbeat_node_accelerator_frequency_hertz{namespace="%(namespace)s"})
* on (node, vendor, device) group_right (uuid, model)
  ( rankbeat_node_accelerator_holder{namespace="%(namespace)s"}
  * on (node, namespace, pod, local_rank) group_left (rank, monitor)
    rankbeat_rank_info{namespace="%(namespace)s"} )
"""


def script(text: str) -> None:
    """What the double answers from now on."""
    write = f"printf '%s' '{text}' > {SCRIPT}.new && mv {SCRIPT}.new {SCRIPT}"
    subprocess.run(on_node("sh", "-c", write), check=True, timeout=30)


def on_node(*command: str) -> list[str]:
    """The command line that runs it in the node's namespaces."""
    return Cluster(cluster.state()).inside(command)


@pytest.fixture(scope="module")
def chips(product: Product) -> Iterator[None]:
    """Two busy chips that the kubelet can allot."""
    words = [word for chip in CHIPS for word in ("--device", chip)]
    program = [sys.executable, "-m", "rankbeat_cluster.device_plugin", "--resource", RESOURCE, *words]
    path = cluster.ROOT / "dev/cluster"
    plugin = subprocess.Popen(on_node("env", f"PYTHONPATH={path}", *program))
    try:
        script(BUSY)
        wait("the kubelet offers two chips", lambda: allocatable(product) == str(len(CHIPS)), 60)
        yield
    finally:
        plugin.terminate()
        plugin.wait(10)
        subprocess.run(on_node("rm", "-f", SCRIPT), check=True, timeout=30)


def allocatable(product: Product) -> str | None:
    (node,) = json.loads(product.kubectl("get", "nodes", "-o", "json"))["items"]
    return node["status"]["allocatable"].get(RESOURCE)


@pytest.fixture(scope="module")
def training(product: Product, chips: None) -> tuple[str, str]:
    """Namespace and pod of a job whose two ranks train on two chips."""
    namespace = product.namespace("chips")
    made = trainer("exec " + " ".join(TRAINING), **{RESOURCE: str(len(CHIPS))})
    product.apply(a_monitor("chips", namespace))
    wait("the webhook knows the monitor", lambda: product.conditions(namespace, "chips"), 30)
    product.apply(a_job("chips", namespace, **made, backoffLimit=0))
    selector = "batch.kubernetes.io/job-name=chips"
    name = wait("its pod", lambda: product.list("pods", namespace, selector), 60)[0]["metadata"]["name"]
    wait("both ranks train", lambda: len(ranks(product, namespace)) == 2, 240)
    return namespace, name


def ranks(product: Product, namespace: str) -> dict[str, float]:
    return dict(product.prometheus.by_label(f'{names.RANK_STEP}{{namespace="{namespace}"}} > 10', "rank"))


def joined(product: Product, namespace: str) -> dict[str, tuple[str, ...]]:
    """Rank -> device, source, node, pod and container, by one query."""
    wanted = ("device", "source", "node", "pod", "container")
    found = product.prometheus.vector(JOIN % {"namespace": namespace})
    return {labels["rank"]: tuple(labels[name] for name in wanted) for labels, _ in found}


def alerts(product: Product, namespace: str) -> list[dict]:
    """AcceleratorSuspected as it stands in Prometheus for this namespace."""
    with urllib.request.urlopen(f"{product.prometheus.address}/api/v1/alerts", timeout=5) as answer:
        found = json.load(answer)["data"]["alerts"]
    wanted = {"alertname": "AcceleratorSuspected", "namespace": namespace}
    return [one for one in found if wanted.items() <= one["labels"].items()]


def test_one_query_joins_every_rank_with_its_chip(product: Product, training: tuple[str, str]):
    namespace, pod = training

    found = wait("both ranks are joined", lambda: (rows := joined(product, namespace)) and len(rows) == 2 and rows, 60)

    assert found == {
        "0": ("0", "kubelet", "node-1", pod, "train"),
        "1": ("1", "kubelet", "node-1", pod, "train"),
    }


def test_chips_that_run_alike_make_nobody_suspect(product: Product, training: tuple[str, str]):
    namespace, _ = training
    recorded = f'rank:rankbeat_node_accelerator_frequency:ratio{{namespace="{namespace}"}}'

    wait("frequencies are judged", lambda: len(product.prometheus.vector(recorded)) == 2, 60)

    assert dict(product.prometheus.by_label(recorded, "rank")) == {"0": 1.0, "1": 1.0}
    assert alerts(product, namespace) == []


def test_a_chip_that_is_held_down_is_suspected_by_rank_node_and_pod_and_convicted_of_nothing(
    product: Product, training: tuple[str, str]
):
    namespace, pod = training

    script(THROTTLED)
    began = time.monotonic()

    def firing() -> dict | None:
        return next((one for one in alerts(product, namespace) if one["state"] == "firing"), None)

    alert = wait("it is suspected", firing, 120)
    print(f"suspected {time.monotonic() - began:.0f} s after the chip was held down")
    assert alert["labels"]["severity"] == "warning"
    assert alert["annotations"]["suspects"] == f"rank 1 on node-1 ({pod}), huawei 1 at 44.44% of its rated frequency"
    assert "Suspected, not proven" in alert["annotations"]["description"]
    levels = product.prometheus.by_label(f'{names.JOB_INCIDENT_LEVEL}{{namespace="{namespace}"}}', "kind")
    assert set(levels.values()) == {0.0}, levels
    assert product.prometheus.vector(f'{names.JOB_SUSPECT}{{namespace="{namespace}"}}') == ()
    assert not [page for page in pages.read_pages(install.deliveries()) if page.labels.get("namespace") == namespace]


def test_every_query_of_the_dashboards_row_returns_data(product: Product, training: tuple[str, str]):
    namespace, _ = training
    asked = dashboards.queries(namespace, "chips")[dashboards.DEVICES_ROW]

    seen = {
        title: wait(title, lambda expr=expr: product.prometheus.vector(f"last_over_time(({expr})[10m:5s])"), 60)
        for title, expr in asked.items()
    }

    assert len(asked) == 6
    assert {title for title, found in seen.items() if not found} == set()


def test_the_ticket_names_the_suspect(product: Product, training: tuple[str, str]):
    namespace, pod = training

    def ticket() -> dict | None:
        deliveries = install.deliveries()  # which is there from the first delivery on
        for line in deliveries.read_text().splitlines() if deliveries.exists() else ():
            delivery = json.loads(line)
            for alert in delivery["body"]["alerts"] if delivery["path"] == "/ticket" else ():
                if alert["labels"].get("namespace") == namespace:
                    return alert
        return None

    assert pod in wait("the ticket is delivered", ticket, 60)["annotations"]["suspects"]


def test_a_pods_series_end_within_one_interval_after_it(product: Product, training: tuple[str, str]):
    namespace, pod = training
    of_pod = f'{{__name__=~"rankbeat_node_accelerator_.+", namespace="{namespace}"}}'
    assert product.prometheus.vector(of_pod)

    product.kubectl("-n", namespace, "delete", "job", "chips", "--wait=false")
    product.kubectl("-n", namespace, "delete", "pod", pod, "--grace-period=0", "--force", "--ignore-not-found")
    ended = time.monotonic()
    wait("they end", lambda: not product.prometheus.vector(of_pod), 60)
    seconds = time.monotonic() - ended

    print(f"series ended {seconds:.1f} s after the pod")
    assert seconds < ROUND_SECONDS + 2 * SCRAPE_SECONDS
    devices = product.prometheus.by_label("rankbeat_node_accelerator_temperature_celsius", "device")
    assert sorted(devices) == ["0", "1"], "the chips themselves are still there"


def test_the_vendors_annotation_outranks_the_kubelets_pick(product: Product, chips: None):
    """As where Volcano schedules: the kubelet picked one chip, the container was given the other."""
    namespace = product.namespace("given")
    product.apply(a_job("given", namespace, container={"resources": {"limits": {RESOURCE: "1"}}}))

    def holder() -> dict[str, str] | None:
        found = product.prometheus.vector(f'{names.NODE_ACCELERATOR_HOLDER}{{namespace="{namespace}"}}')
        return dict(found[0][0]) if len(found) == 1 else None

    picked = wait("the kubelet's pick is shown", holder, 60)
    given = {"0": "1", "1": "0"}[picked["device"]]
    notes = [f"huawei.com/AscendReal=Ascend910-{given}", f"huawei.com/kltDev=Ascend910-{picked['device']}"]
    product.kubectl("-n", namespace, "annotate", "pod", picked["pod"], *notes)

    shown = wait("the chip really given is shown", lambda: (one := holder()) and one["device"] == given and one, 30)

    assert (picked["source"], shown["source"]) == ("kubelet", "ascend_real")
    assert product.prometheus.vector("rankbeat_node_accelerator_holder_conflicts_total > 0") == ()
    product.kubectl("-n", namespace, "delete", "job", "given", "--wait=false")

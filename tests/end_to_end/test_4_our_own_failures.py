"""Our parts die while a job trains: the job goes on, the numbers come back right, nobody is paged."""

import time

import pytest

from product import RELEASE_NAMESPACE, Product, wait
from rankbeat_contract import names
from rankbeat_demo import install, pages

pytestmark = [pytest.mark.demo, pytest.mark.timeout(600)]

JOB = '{namespace="training",monitor="llm"}'
PUSH_SECONDS = 2.0
"""node.pushInterval of values-demo.yaml."""
SCRAPE_SECONDS = 2.0
DISCOVERY_SECONDS = 5.0
"""refresh_interval of the bundled Prometheus: it scrapes a collector's new address no earlier."""


def step(product: Product) -> float:
    """The newest step of the demo's job by its own log: nothing of ours in between."""
    ring = product.kubectl("-n", "training", "logs", "job/llm", "--tail=20")
    found = [int(word) for line in ring.splitlines() if "step" in line for word in line.split() if word.isdigit()]
    return max(found, default=0)


@pytest.fixture
def trains(product: Product) -> None:
    wait(
        "the demo's job trains with both ranks",
        lambda: (
            product.prometheus.number(f"min(rate({names.RANK_STEP}{JOB}[10s]))") > 0
            and product.get("tmon", "llm", "training")["status"]["ranks"]["summary"] == "2/2"
        ),
        240,
    )


@pytest.mark.parametrize(
    "component", [names.NODE, names.AGGREGATOR, names.OPERATOR], ids=["collector", "aggregator", "operator"]
)
def test_it_dies_and_training_goes_on_and_nobody_is_paged(product: Product, trains: None, component: str):
    selector = f"rankbeat.io/component={component.removeprefix('rankbeat-')}"
    before = product.prometheus.number(f"min({names.RANK_STEP}{JOB})")
    paged = len(pages.read_pages(install.deliveries()))
    old = {pod["metadata"]["uid"] for pod in product.list("pods", RELEASE_NAMESPACE, selector)}

    product.kubectl("-n", RELEASE_NAMESPACE, "delete", "pods", "-l", selector, "--grace-period=0", "--force")

    def is_back() -> bool:
        new = product.list("pods", RELEASE_NAMESPACE, selector)
        return bool(new) and all(
            pod["metadata"]["uid"] not in old
            and all(one["ready"] for one in pod["status"].get("containerStatuses", [{"ready": False}]))
            for pod in new
        )

    def numbers_are_back() -> bool:
        reporting = product.prometheus.number(f"{names.JOB_RANKS_REPORTING}{JOB}")
        return reporting == 2 and product.prometheus.number(f"min({names.RANK_STEP}{JOB})") > before

    wait(f"{component} is back", is_back, 90)
    wait(
        f"the numbers are back after {component}",
        numbers_are_back,
        2 * PUSH_SECONDS + 3 * (DISCOVERY_SECONDS + SCRAPE_SECONDS),
    )
    time.sleep(2 * PUSH_SECONDS + 2 * SCRAPE_SECONDS)  # both figures come from after the return
    ranks_step = product.prometheus.number(f"min({names.RANK_STEP}{JOB})")
    jobs_step = product.prometheus.number(f"{names.JOB_STEP_MIN}{JOB}")
    time.sleep(20)  # an alert that is going to fire has had its time

    per_push = product.prometheus.number(f"avg(rate({names.RANK_STEP}{JOB}[10s]))") * (
        2 * PUSH_SECONDS + SCRAPE_SECONDS
    )
    assert abs(ranks_step - jobs_step) <= per_push
    assert len(pages.read_pages(install.deliveries())) == paged


def test_nothing_was_lost_that_is_not_counted(product: Product, trains: None):
    """Every step of the run has left a record; those that nobody read are in the counter."""
    lost = product.prometheus.number(f"sum({names.RANK_RECORDS_LOST}{JOB})")

    assert lost == 0

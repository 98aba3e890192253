"""Real training, with us and without us: the same weights, the same log, the same exit."""

import re

import pytest

from product import Product, a_monitor, wait
from rankbeat_contract import names
from training_jobs import final_lines, has_teardown_crash, log_of, training_job

pytestmark = [pytest.mark.demo, pytest.mark.timeout(900)]


def exit_code(product: Product, namespace: str, job: str) -> int:
    """Exit code of the job's first pod, once it has ended."""

    def ended() -> dict | None:
        pods = product.list("pods", namespace, f"batch.kubernetes.io/job-name={job}")
        first = min(pods, key=lambda pod: pod["metadata"]["creationTimestamp"])
        return first["status"]["containerStatuses"][0]["state"].get("terminated")

    return wait(f"{job} ended", ended, 120)["exitCode"]


def own_lines(text: str) -> list[str]:
    """What the training program itself prints, sorted, since ranks interleave."""
    return sorted(line for line in text.splitlines() if re.match(r"(rank|step|epoch)\b", line.strip()))


@pytest.fixture(scope="module", params=["graph", "pynative"])
def mode(request: pytest.FixtureRequest) -> str:
    """MindSpore's mode of execution."""
    return request.param


@pytest.fixture(scope="module")
def namespace(product: Product, mode: str) -> str:
    return product.namespace(f"same-{mode}")


def test_training_with_us_ends_with_the_same_weights_and_the_same_log(product: Product, namespace: str, mode: str):
    product.apply(training_job("plain", namespace, mode, labels={"rankbeat.io/inject": "disabled"}))
    plain = log_of(product, namespace, "plain")

    product.apply(training_job("watched", namespace, mode), a_monitor("watched", namespace))
    wait(
        "both ranks of the watched job seen",
        lambda: len(product.prometheus.vector(f'rankbeat_step{{namespace="{namespace}",monitor="watched"}} > 0')) == 2,
        180,
    )
    watched = log_of(product, namespace, "watched")

    assert final_lines(watched) == final_lines(plain)
    assert own_lines(watched) == own_lines(plain)
    codes = {job: exit_code(product, namespace, job) for job in ("plain", "watched")}
    assert {job: code for job, code in codes.items() if code and not has_teardown_crash(plain + watched)} == {}


def test_the_last_step_and_loss_of_a_finished_job_are_right(product: Product, namespace: str):
    """After test_training...: Prometheus holds what the job's own log said."""
    series = f'{{namespace="{namespace}",monitor="watched"}}'
    log = log_of(product, namespace, "watched")

    steps = {
        labels["rank"]: value
        for labels, value in product.prometheus.vector(f"max_over_time({names.RANK_STEP}{series}[10m])")
    }
    assert steps == {"0": 200, "1": 200}
    logged = {rank: float(loss) for rank, loss in re.findall(r"rank (\d+) final loss (\S+) weights", log)}
    seen = product.prometheus.vector(f"last_over_time({names.RANK_LOSS}{series}[10m])")
    assert {labels["rank"]: pytest.approx(value, rel=1e-5) for labels, value in seen} == logged


def test_a_job_that_ends_well_opens_no_incident(product: Product, namespace: str):
    level = product.prometheus.vector(f'max_over_time({names.JOB_INCIDENT_LEVEL}{{namespace="{namespace}"}}[15m]) > 0')

    assert level == ()

"""Files of a real training pod: a sidecar writes them, `rankbeat.load` reads them, they say what the job's log says."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import rankbeat
from product import Product, a_monitor, wait
from training_jobs import log_of, training_job

pytestmark = [pytest.mark.demo, pytest.mark.timeout(900)]

FORMATS = ("jsonl", "csv", "protobuf", "tensorboard")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the node, which is this machine, that the training pod's user may write."""
    place = tmp_path_factory.mktemp("outputs")
    for each in (place, *place.parents[:2]):
        each.chmod(0o777)
    return place


@pytest.fixture(scope="module")
def log(product: Product, folder: Path) -> Iterator[str]:
    """The log of a job of two ranks that has ended, its outputs in folder."""
    namespace = product.namespace("outputs")
    outputs = {
        "volume": {"hostPath": {"path": str(folder)}},
        "ranks": "all",
        "files": [{"format": form, "path": f"{{experiment}}/{form}/{{rank}}"} for form in FORMATS],
    }
    monitor = a_monitor(
        "written",
        namespace,
        experiment="written",
        collector={"mode": "sidecar"},
        signals=["loss", "memory", "run"],
        sampling={"interval": 10},
        outputs=outputs,
    )
    product.apply(monitor)
    wait("the webhook knows the monitor", lambda: product.conditions(namespace, "written"), 30)
    product.apply(training_job("written", namespace))
    text = log_of(product, namespace, "written")
    wait(
        "the job is over, and its sidecar",
        lambda: (
            product.get("job", "written", namespace)["status"].get("succeeded") == 1
            or product.get("job", "written", namespace)["status"].get("failed")
        ),
        120,
    )
    yield text
    product.kubectl("delete", "namespace", namespace, "--wait=false")


@pytest.mark.parametrize("form", FORMATS)
def test_the_last_loss_in_the_files_is_the_one_in_the_log(log: str, folder: Path, form: str):
    logged = {int(rank): float(loss) for rank, loss in re.findall(r"rank (\d+) final loss (\S+) weights", log)}

    losses = rankbeat.load(folder / "written" / form, ranks=logged).dropna(subset=["loss"])
    last = losses.groupby("rank")[["step", "loss"]].last()
    read = {rank: (row.step, row.loss) for rank, row in last.iterrows()}

    assert read == {rank: (200, pytest.approx(loss, rel=1e-5)) for rank, loss in logged.items()}


def test_every_step_is_there_once_for_each_rank(log: str, folder: Path):
    frame = rankbeat.load(folder / "written" / "jsonl")

    steps = frame[frame["rank"] >= 0].dropna(subset=["step_interval_seconds"]).groupby("rank")["step"]

    assert {rank: (len(found), found.max(), found.is_unique) for rank, found in steps} == {
        0: (199, 200, True),  # the first step has no interval
        1: (199, 200, True),
    }


def test_the_run_is_described_beside_them(log: str, folder: Path):
    runs = [json.loads(path.read_text()) for path in (folder / "written").glob("run-*.json")]

    assert len(runs) == 2
    assert all("/opt/train/train.py" in " ".join(run["argv"]) for run in runs)

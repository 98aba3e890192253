"""The product, installed once for all end-to-end tests by the demo itself.

RANKBEAT_RUNNING=1 takes the demo that is up already, and leaves it up: for work on a single test.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

import product as products
from rankbeat_cluster import leftovers, state
from rankbeat_demo import cluster, install
from rankbeat_demo.prometheus import Prometheus


def demo_program(verb: str, timeout_seconds: float) -> None:
    """What `make demo` and `make demo-down` run."""
    path = os.pathsep.join(str(cluster.ROOT / "dev" / name) for name in ("cluster", "images", "demo"))
    command = [sys.executable, "-m", "rankbeat_demo", verb]
    environment = {**os.environ, "PYTHONPATH": path}
    subprocess.run(command, check=True, timeout=timeout_seconds, env=environment, cwd=cluster.ROOT)


@pytest.fixture(scope="session")
def product() -> Iterator[products.Product]:
    """Rankbeat after `make demo`: a job was monitored, hung, and paged somebody."""
    prometheus = Prometheus(f"http://127.0.0.1:{install.PROMETHEUS_PORT}")
    if os.environ.get("RANKBEAT_RUNNING"):
        yield products.Product(json.loads((cluster.BUILD / "demo.json").read_text()), prometheus)
        return
    demo_program("down", 120)
    before, marks = leftovers.snapshot(), None
    try:
        demo_program("up", 900)
        demo = json.loads((cluster.BUILD / "demo.json").read_text())
        running = state.load(cluster.state())
        assert running is not None
        marks = leftovers.marks(cluster.state(), running)
        yield products.Product(demo, prometheus)
    finally:
        demo_program("down", 120)
    assert leftovers.leftovers(before, leftovers.snapshot(), marks) == (), "make demo-down leaves something behind"

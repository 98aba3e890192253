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


@pytest.fixture(scope="session")
def product() -> Iterator[products.Product]:
    """Rankbeat after `make demo`: a job was monitored, hung, and paged somebody."""
    prometheus = Prometheus(f"http://127.0.0.1:{install.PROMETHEUS_PORT}")
    if os.environ.get("RANKBEAT_RUNNING"):
        yield products.Product(json.loads((cluster.BUILD / "demo.json").read_text()), prometheus)
        return
    command = [sys.executable, "-m", "rankbeat_demo"]
    subprocess.run([*command, "down"], check=True, timeout=120)
    before, marks = leftovers.snapshot(), None
    try:
        done = subprocess.run([*command, "up"], check=False, timeout=900)
        demo = json.loads((cluster.BUILD / "demo.json").read_text())
        assert done.returncode == 0, "make demo failed, see above"
        running = state.load(cluster.state())
        assert running is not None
        marks = leftovers.marks(cluster.state(), running)
        yield products.Product(demo, prometheus)
    finally:
        subprocess.run([*command, "down"], check=True, timeout=120)
    assert leftovers.leftovers(before, leftovers.snapshot(), marks) == (), "make demo-down leaves something behind"

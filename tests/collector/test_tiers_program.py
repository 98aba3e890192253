"""The program itself with lower tiers: what it serves of pods without a ring."""

from __future__ import annotations

import contextlib
import http.client
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import tier_support as support

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import sys
import tier_support as support
from rankbeat_collector import __main__ as program
pods = (
    support.a_tier_pod(),
    support.a_tier_pod(name="log-0", uid="uid-log-0", monitor="log", job_uid="job-2", tiers=("logTail",)),
)
sys.exit(program.main(sys.argv[1:], lambda: pods))
"""


def scraped(port: int, until: str) -> str:
    """The /metrics text once it holds until."""
    deadline, text = time.monotonic() + 15, ""
    while time.monotonic() < deadline:
        with (
            contextlib.suppress(OSError),
            contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as connection,
        ):
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
            if until in text:
                return text
        time.sleep(0.05)
    raise AssertionError(text)


def test_the_program_serves_the_same_series_with_the_tier_of_each_rank(tmp_path: Path) -> None:
    node = support.Node(tmp_path)
    (node.perf_folder(support.a_tier_pod()) / "perf_ms_17_1.log").write_text(support.perf_text(rank=3, steps=7))
    log = node.log_folder(support.a_tier_pod(name="log-0", uid="uid-log-0"))
    (log / "0.log").write_text(support.cri(support.graph_lines([10, 20])))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--node", "n1", "--host", "127.0.0.1", "--port", str(port), "--kubelet-root", str(tmp_path)]
    command = [sys.executable, "-c", PROGRAM, *options, "--pod-logs", str(tmp_path / "logs")]

    with subprocess.Popen(command, env={"PYTHONPATH": str(support.FOLDER)}) as child:
        try:
            text = scraped(port, "log_tail")
        finally:
            child.kill()

    seen_by = 'tier="perf_file",timing="dispatch"'
    assert f'rankbeat_rank_tier{{monitor="llm",namespace="team-a",node="n1",rank="3",{seen_by}}} 1.0' in text
    assert 'rankbeat_step{monitor="llm",namespace="team-a",node="n1",rank="3"} 7.0' in text
    seen_by = 'tier="log_tail",timing="dispatch"'
    assert f'rankbeat_rank_tier{{monitor="log",namespace="team-a",node="n1",rank="",{seen_by}}} 1.0' in text
    assert 'rankbeat_loss{monitor="log",namespace="team-a",node="n1",rank=""} 2.5' in text
    assert 'rankbeat_collector_rings{node="n1"} 0.0' in text

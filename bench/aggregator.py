"""What the aggregator costs, and how soon it says what it sees: 1,024 and 8,192 ranks of one job, 8 on a node.

The real program in its own process takes real HTTPS pushes on loopback, one connection per node, every 5 s, and is
scraped every 5 s; only the API server is played (its client is imported, so that its memory counts). Every rank
finishes a step per second. Then one rank does not enter the next step: `verdict_seconds` is from the moment at which
the limit in force (6 s) is over to level 2 on /metrics; waiting for the next push, every 5 s, is part of it. Leaves
build/bench/aggregator.json.
usage: aggregator.py [--ranks N ...] [--seconds N]
"""

import argparse
import asyncio
import json
import os
import ssl
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import measuring
from measuring import cpu_seconds, rss_mib

from aggregator_builders import TRUSTED, a_pod, a_rank
from rankbeat_cluster import pki

RANKS_PER_NODE = 8
PUSH_SECONDS = 5.0
STEP_SECONDS = 1.0
LIMIT_SECONDS = 5.0
WARM_UP_SECONDS = 10.5
LONGEST_WARM_UP_SECONDS = 40.0
FIRST_STEP = 1000

PROGRAM = """
import asyncio, sys, threading
from pathlib import Path
from rankbeat_aggregator.server import kubernetes_api, run
from rankbeat_aggregator.server.app import Users
from rankbeat_aggregator.server.service import Clock
from rankbeat_aggregator.server.tls import Certificate, Files
from rankbeat_aggregator.server.tokens import Identity

class Source:
    def listed(self):
        return {("team-a", "llm"): {"alerts": {"limits": {"hang": "5s"}}}}, "1"
    def watched(self, version, changed):
        threading.Event().wait()

async def main():
    outside = run.Outside(lambda token: Identity("reporter", token), Source(), Users("reporter", "reader"), Clock())
    folder = Path(sys.argv[1])
    certificate = Certificate(Files(folder / "tls.crt", folder / "tls.key"))
    async with run.running(run.Listen("127.0.0.1", 0, 0), certificate, outside) as program:
        print(program.port, program.metrics_port, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@dataclass(frozen=True, slots=True)
class Place:
    """The program that is measured."""

    pid: int
    port: int
    metrics_port: int
    trust: ssl.SSLContext


class Training:
    """A job whose ranks finish a step per second until one of them stops."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self.began = time.monotonic()
        self.stopped: float | None = None

    def report(self, node: int, sent: int) -> bytes:
        """What a node says now; sent: its newest step that it has said."""
        now = time.monotonic()
        until = min(now, self.stopped or now)
        steps = int((until - self.began) / STEP_SECONDS)
        age = now - (self.began + steps * STEP_SECONDS)
        step = FIRST_STEP + steps
        rows = [
            [number, STEP_SECONDS, 0.001, STEP_SECONDS - 0.001] for number in range(max(sent, step - 200) + 1, step + 1)
        ]
        ranks = [self._rank(node * RANKS_PER_NODE + local, step, age, rows) for local in range(RANKS_PER_NODE)]
        return json.dumps({
            "node": f"n{node}", "sent_wall": time.time(), "interval_seconds": PUSH_SECONDS, "clock": TRUSTED,
            "exchange": {"offset_seconds": 0.0, "delay_seconds": 0.002}, "pods": [a_pod(ranks[0])], "ranks": ranks,
        }).encode()  # fmt: skip

    def _rank(self, rank: int, step: int, age: float, rows: list[list[float]]) -> dict[str, object]:
        has_arrived = self.stopped is None or rank != self.ranks - 1
        return a_rank(
            rank,
            pod=f"llm-{rank // RANKS_PER_NODE}",
            pod_uid=f"pod-{rank // RANKS_PER_NODE}",
            world_size=self.ranks,
            claimed_age_seconds=time.monotonic() - self.began + 60.0,
            phase_age_seconds=age,
            step=step,
            step_age_seconds=age,
            entered_step=step + 1 if has_arrived else step,
            updated_age_seconds=age,
            longest_interval_seconds=STEP_SECONDS,
            steps=rows,
            scalars=[[step, "loss", 2.0]],
        )


async def push(place: Place, training: Training, node: int, http: aiohttp.ClientSession, nodes: int) -> None:
    """One node's pushes, spread over the interval, until cancelled."""
    due = time.monotonic() + PUSH_SECONDS * node / nodes
    sent = FIRST_STEP
    while True:
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        body = training.report(node, sent)
        headers = {"Authorization": f"Bearer n{node}"}
        url = f"https://127.0.0.1:{place.port}/v1/reports"
        async with http.post(url, data=body, headers=headers, ssl=place.trust) as answer:
            if answer.status == 200:
                sent = FIRST_STEP + int((time.monotonic() - training.began) / STEP_SECONDS)
            elif answer.status != 503:  # a thousand tokens in the first second: collectors come again too
                answer.raise_for_status()
        due += PUSH_SECONDS


async def scraped(place: Place, http: aiohttp.ClientSession) -> str:
    async with http.get(f"http://127.0.0.1:{place.metrics_port}/metrics") as answer:
        return await answer.text()


async def measured(place: Place, ranks: int, seconds: float) -> dict[str, float]:
    """The figures at one size."""
    training, nodes = Training(ranks), ranks // RANKS_PER_NODE
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30)
    async with aiohttp.ClientSession(connector=connector) as http, asyncio.TaskGroup() as tasks:
        pushes = [tasks.create_task(push(place, training, node, http, nodes)) for node in range(nodes)]
        await asyncio.sleep(WARM_UP_SECONDS)
        while f"rankbeat_aggregator_ranks {float(ranks)}" not in await scraped(place, http):
            assert time.monotonic() - training.began < LONGEST_WARM_UP_SECONDS, "not all ranks are known"
            await asyncio.sleep(0.5)
        begun, before = time.monotonic(), cpu_seconds(place.pid)
        while time.monotonic() - begun < seconds:
            await asyncio.sleep(min(PUSH_SECONDS, seconds))
            text = await scraped(place, http)
        cores = (cpu_seconds(place.pid) - before) / (time.monotonic() - begun)
        verdict = await verdict_seconds(place, training, http)
        for one in pushes:
            one.cancel()
    return {
        "ranks": ranks, "cores": round(cores, 3), "rss_mib": round(rss_mib(place.pid), 1),
        "series": measuring.series(text), "verdict_seconds": round(verdict, 2),
    }  # fmt: skip


async def verdict_seconds(place: Place, training: Training, http: aiohttp.ClientSession) -> float:
    """Stops one rank; seconds from the end of the limit to the page's level."""
    training.stopped = time.monotonic()
    steps = int((training.stopped - training.began) / STEP_SECONDS)
    progress = training.began + steps * STEP_SECONDS
    # The limit in force: 6 x the median interval of a second exceeds the monitor's 5 s.
    due = progress + max(LIMIT_SECONDS, 6 * STEP_SECONDS)
    while time.monotonic() < due + 30:
        text = await scraped(place, http)
        if any('kind="hang"' in line and line.endswith(" 2.0") for line in text.splitlines()):
            assert f'rank="{training.ranks - 1}"' in text, "another rank is suspected"
            return time.monotonic() - due
        await asyncio.sleep(0.1)
    raise TimeoutError("no verdict within 30 s of the limit")


def run(ranks: int, seconds: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pki.issue(pki.authority(folder, "ca"), folder / "tls", ("rankbeat-aggregator", ""), (), ("127.0.0.1",))
        with subprocess.Popen(
            [sys.executable, "-c", PROGRAM, name],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONWARNINGS": ""},
        ) as program:
            try:
                assert program.stdout is not None
                port, metrics_port = map(int, program.stdout.readline().split())
                trust = ssl.create_default_context(cafile=str(folder / "ca.crt"))
                place = Place(program.pid, port, metrics_port, trust)
                return asyncio.run(measured(place, ranks, seconds))
            finally:
                program.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1024, 8192])
    parser.add_argument("--seconds", type=float, default=5.0)
    given = parser.parse_args()
    rows = [run(ranks, given.seconds) for ranks in given.ranks]
    units = {"cores": "CPU seconds per second", "rss_mib": "MiB", "verdict_seconds": "s after the limit"}
    measuring.write("aggregator", rows[-1], units, rows=rows)
    print("".join(f"{name:>16}" for name in rows[0]))
    for row in rows:
        print("".join(f"{value:>16}" for value in row.values()))


if __name__ == "__main__":
    main()

"""How fast the webhook answers: AdmissionReviews of a 16-device training pod, posted over HTTPS to the real server.

The server runs in its own process, its caches hold MONITORS monitors and as many Jobs; no API server takes part, so the
figures are the webhook's own. pods_per_second: CLIENTS clients that never pause. p99_ms, median_ms: PACE pods a second.
failed_pods: answers without the expected patch. Leaves build/bench/webhook.json.
usage: webhook.py [SECONDS]
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import ssl
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import measuring
from aiohttp import web
from measuring import cpu_seconds

import webhook_builders as build
from rankbeat_webhook import __main__ as program
from rankbeat_webhook import server, watch

MONITORS = 1000
CLIENTS = 16
"""Connections at once; the API server keeps one HTTP/2 connection or a few HTTP/1.1 ones."""
PACE = 50
"""Pods a second while the latency is measured: a gang of a thousand pods in 20 s (a Job's default is far slower)."""
WARM_UP_SECONDS = 1.0


def training_pod() -> dict[str, object]:
    """The pod of a MindSpore job on 16 NPUs, as its owner would write it."""
    env = [{"name": f"HCCL_{number}", "value": "x" * 40} for number in range(30)]
    mounts = [{"name": f"v{number}", "mountPath": f"/data/{number}"} for number in range(6)]
    container = build.a_container(
        "ascend", command=["msrun", "train.py"], env=env, volumeMounts=mounts,
        resources={"limits": {"huawei.com/Ascend910": "16", "cpu": "96", "memory": "768Gi"}},
    )  # fmt: skip
    return build.a_pod(
        container, owner=build.a_job_owner(), volumes=[{"name": f"v{number}", "emptyDir": {}} for number in range(6)]
    )


def caches() -> watch.Caches:
    """Caches that are full and follow nothing."""
    filled = watch.caches(None, "rankbeat-system")  # type: ignore[arg-type]
    for number in range(MONITORS):
        filled.monitors._values[f"team-{number}/llm"] = build.a_monitor(f"m{number}")  # noqa: SLF001
        filled.jobs._values[f"job-{number}"] = build.a_job()  # noqa: SLF001
    filled.jobs._values[build.JOB_UID] = build.a_job(backoffLimit=6)  # noqa: SLF001
    return filled


async def _serve(folder: str, port: multiprocessing.Queue[int]) -> None:
    certificates = server.Certificates(Path(folder))
    certificates.refresh()
    reviews = server.Reviews(program.settings("64Mi"), caches().view, server.Metrics(dict))
    runner = web.AppRunner(reviews.app(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=certificates.context).start()
    port.put(runner.addresses[0][1])
    await asyncio.sleep(3600)


def serve(folder: str, port: multiprocessing.Queue[int]) -> None:
    """The server's process."""
    asyncio.run(_serve(folder, port))


@dataclass
class Sample:
    """What one phase saw."""

    latencies: list[float] = field(default_factory=list)
    failed: int = 0

    def milliseconds(self, percent: int) -> float:
        """A percentile of the latencies."""
        return round(statistics.quantiles(self.latencies, n=100)[percent - 1] * 1000, 2)


async def post(session: aiohttp.ClientSession, url: str, body: bytes, sample: Sample) -> None:
    """One pod; an answer without a patch counts as failed."""
    begun = time.perf_counter()
    async with session.post(url, data=body) as answer:
        text = await answer.read()
    sample.latencies.append(time.perf_counter() - begun)
    sample.failed += b'"patch"' not in text


async def saturated(session: aiohttp.ClientSession, url: str, body: bytes, seconds: float) -> Sample:
    """CLIENTS clients, each posting one pod after the other."""
    sample = Sample()
    end = time.perf_counter() + seconds

    async def client() -> None:
        while time.perf_counter() < end:
            await post(session, url, body, sample)

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return sample


async def paced(session: aiohttp.ClientSession, url: str, body: bytes, seconds: float) -> Sample:
    """PACE pods a second, however long the answers take."""
    sample = Sample()
    async with asyncio.TaskGroup() as group:
        begun = time.perf_counter()
        for number in range(int(seconds * PACE)):
            await asyncio.sleep(max(0.0, begun + number / PACE - time.perf_counter()))
            group.create_task(post(session, url, body, sample))
    return sample


async def measured(url: str, certificate: str, seconds: float, pid: int) -> dict[str, float]:
    """The figures."""
    body = json.dumps(build.a_review(training_pod())).encode()
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=certificate), limit=CLIENTS)
    async with aiohttp.ClientSession(connector=connector) as session:
        await saturated(session, url, body, WARM_UP_SECONDS)
        used, begun = cpu_seconds(pid), time.perf_counter()
        full = await saturated(session, url, body, seconds)
        lasted, used = time.perf_counter() - begun, cpu_seconds(pid) - used
        calm = await paced(session, url, body, seconds)
    pods = len(full.latencies)
    return {
        "pods_per_second": round(pods / lasted, 1),
        "p99_ms": calm.milliseconds(99),
        "median_ms": calm.milliseconds(50),
        "p99_saturated_ms": full.milliseconds(99),
        "cpu_ms_per_pod": round(used / pods * 1000, 3),
        "failed_pods": full.failed + calm.failed,
        "pods": pods + len(calm.latencies),
        "clients": CLIENTS,
        "paced_per_second": PACE,
        "monitors": MONITORS,
    }


def figures(seconds: float) -> dict[str, float]:
    """The figures of a server in a process of its own."""
    context = multiprocessing.get_context("spawn")
    port: multiprocessing.Queue[int] = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        certificate = build.write_certificate(Path(folder)).decode()
        process = context.Process(target=serve, args=(folder, port), daemon=True)
        process.start()
        try:
            url = f"https://127.0.0.1:{port.get(timeout=30)}/v1/pods"
            return asyncio.run(measured(url, certificate, seconds, process.pid or 0))
        finally:
            process.kill()
            process.join()


def main() -> int:
    """Measure and write the file; 1 if a pod got no patch."""
    found = figures(float(sys.argv[1]) if len(sys.argv) > 1 else 4.0)
    measuring.write("webhook", found, {"pods_per_second": "1/s", "*_ms": "milliseconds"})
    measuring.show(found)
    return 1 if found["failed_pods"] else 0


if __name__ == "__main__":
    sys.exit(main())

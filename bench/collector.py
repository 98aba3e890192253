"""What the node collector costs: CPU and memory for 8 ranks at 10 steps/s, and how memory grows over 10^6 steps.

The real program in its own process reads real rings on tmpfs, pushes to a real HTTPS server every 5 s and is scraped
every 5 s; only the API server is left out (its client is imported, so its memory counts). A second pod has no ring: the
step files of 8 ranks, at the same rate, are its lower tier; a third pod has a log of loss lines, one rank's, rotated at
10 MiB. In the growth run a fast writer waits for the reader, so that all steps are read.
Leaves build/bench/collector.json.
usage: collector.py [--seconds N] [--steps N]
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import measuring
import rank_rings
from measuring import cpu_seconds, rss_mib, scraped
from rank_rings import RANKS, STEPS_PER_SECOND, write_block

import report_receiver as receiver
import ring_support as support
import tier_support as tiers
from rankbeat_contract import names

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRAPE_SECONDS = 5.0
WARM_UP_SECONDS = 6.0
LOG_BYTES = 10 << 20
BLOCK = 1000
"""Steps of one rank that the fast writer writes at once: a poll takes up to 2,048."""

PROGRAM = """
import sys
from kubernetes.client.api_client import ApiClient
from kubernetes.client.configuration import Configuration
from kubernetes.config.incluster_config import load_incluster_config
from rankbeat_collector import __main__ as program
from rankbeat_collector import pods
from rankbeat_collector.model.pods import Pod
client = ApiClient(Configuration())
pods = tuple(
    Pod("team-a", f"llm-{index}", f"uid-llm-{index}", f"m{index}", "llm", f"job-{index}", False, "Running",
        container="train", tiers=tiers)
    for index, tiers in enumerate(((), ("perfFile",), ("logTail",)))
)
sys.exit(program.main(sys.argv[1:], lambda: pods))
"""


def value(text: str, name: str) -> float:
    """Sum of a metric over its labels."""
    return sum(
        float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith((name + "{", name + " "))
    )


@contextlib.contextmanager
def collecting(folder: Path, poll_seconds: float) -> Iterator[tuple[int, int]]:
    """The program's process id, once it reports, and its port."""
    certificate = receiver.a_certificate()
    (folder / "ca.crt").write_bytes(certificate.certificate)
    (folder / "token").write_text("token", encoding="ascii")
    port = measuring.free_port()
    with receiver.receiving(certificate, folder) as aggregator:
        options = {
            "--node": "n1",
            "--host": "127.0.0.1",
            "--port": port,
            "--kubelet-root": folder,
            "--pod-logs": folder / "logs",
            "--poll-interval": poll_seconds,
            "--aggregator-url": aggregator.url,
            "--ca-file": folder / "ca.crt",
            "--token-file": folder / "token",
        }
        command = [sys.executable, "-c", PROGRAM, *(str(part) for option in options.items() for part in option)]
        with subprocess.Popen(command) as child:
            try:
                aggregator.wait_for_reports(1)
                yield child.pid, port
            finally:
                child.terminate()
                child.wait(10)


class LowerTiers:
    """What the second and third pod write: step files of RANKS ranks, and a log of one rank's loss lines."""

    def __init__(self, folder: Path) -> None:
        node = tiers.Node(folder)
        step_files, pod_log = (support.a_pod(f"llm-{index}") for index in (1, 2))
        place = node.perf_folder(step_files, "rankbeat-perf", ".")
        self._files = [place / f"perf_ms_{17 + rank}_{rank}.log" for rank in range(RANKS)]
        for rank, file in enumerate(self._files):
            file.write_text(tiers.perf_text(rank), encoding="ascii")
        self._log = node.log_folder(pod_log) / "0.log"
        self._log.write_text(tiers.cri(tiers.MSRUN_LINES), encoding="utf-8")
        self._begun = int(time.time() * 1000) - 1_000_000

    def write(self, first: int, count: int) -> None:
        """Steps first to first + count, from 0."""
        rows = (self._begun + 2 * step for step in range(first, first + count))
        text = "".join(f"STEPTIME:{begin},{begin + 1}\n" for begin in rows)
        for file in self._files:
            with file.open("a", encoding="ascii") as opened:
                opened.write(text)
        with self._log.open("a", encoding="utf-8") as opened:
            opened.write(tiers.cri(tiers.graph_lines(range(first + 1, first + count + 1))))
            is_due = opened.tell() > LOG_BYTES
        if is_due:
            self._log.rename(self._log.with_name(f"0.log.{first}"))
            for old in sorted(self._log.parent.glob("0.log.*"), key=lambda path: path.stat().st_mtime)[:-2]:
                old.unlink()
            self._log.touch()


def steady(folder: Path, seconds: float) -> dict[str, float]:
    """CPU and memory at STEPS_PER_SECOND, two scalars each tenth step."""
    lower = LowerTiers(folder)
    writers = rank_rings.writers(support.ring_folder(folder, support.a_pod()))
    with collecting(folder, 0.5) as (pid, port):
        begun = next_scrape = time.monotonic()
        measured_from, cpu = begun, 0.0
        for step in itertools.count():
            now = time.monotonic()
            if now - begun < WARM_UP_SECONDS:
                measured_from, cpu = now, cpu_seconds(pid)
            elif now - measured_from > seconds:
                break
            lower.write(step, 1)
            for writer in writers:
                writer.step(step)
                if step % 10 == 0:
                    writer.scalar(step, "loss", 1.0 / (1 + step))
                    writer.scalar(step, "resident_memory_bytes", 1e9)
            if now > next_scrape:
                text = scraped(port)
                next_scrape = now + SCRAPE_SECONDS
            time.sleep(max(0.0, begun + (step + 1) / STEPS_PER_SECOND - time.monotonic()))
        used = cpu_seconds(pid) - cpu
        return {
            "cores": round(used / (time.monotonic() - measured_from), 5),
            "rss_mib": round(rss_mib(pid), 1),
            "series": measuring.series(text),
        }


def growth(folder: Path, steps: int) -> dict[str, float]:
    """Memory before and after steps steps, all ranks together; before, what is kept of each rank is full."""
    lower = LowerTiers(folder)
    writers = rank_rings.writers(support.ring_folder(folder, support.a_pod()))
    ranks = 2 * RANKS + 1
    with collecting(folder, 0.05) as (pid, port):
        for writer in writers:
            write_block(writer, 0, BLOCK)
        lower.write(0, BLOCK)
        time.sleep(WARM_UP_SECONDS)
        scraped(port)
        before = rss_mib(pid)
        for first in range(BLOCK, BLOCK + steps // RANKS, BLOCK):
            for writer in writers:
                write_block(writer, first, BLOCK)
            lower.write(first, BLOCK)
            # A ring counts steps from 0 here, the lower tiers from 1.
            while value(scraped(port), names.RANK_STEP) < ranks * (first + BLOCK) - RANKS:
                time.sleep(0.02)
        time.sleep(WARM_UP_SECONDS)
        lost = value(scraped(port), "rankbeat_collector_records_lost_total")
        return {
            "rss_growth_mib": round(rss_mib(pid) - before, 2),
            "growth_steps": steps,
            "growth_steps_lost": lost,
        }


def main() -> int:
    """Measure and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0, help="of the steady run")
    parser.add_argument("--steps", type=int, default=1_000_000, help="of the growth run, all ranks together")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(dir=measuring.SHARED_MEMORY) as one,
        tempfile.TemporaryDirectory(dir=measuring.SHARED_MEMORY) as other,
    ):
        figures = {"ranks": RANKS, **steady(Path(one), given.seconds), **growth(Path(other), given.steps)}
    units = {"cores": "CPU seconds per second", "rss_mib": "MiB", "rss_growth_mib": "MiB"}
    measuring.write("collector", figures, units)
    measuring.show(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What the accelerators' exporter costs, and whether a scrape ever waits for a driver: 16 chips.

The real programs of pod rankbeat-devices in their own processes, vendor, its child and the serving part, over the C
double of libdcmi.so, whose calls take 1 to 10 ms each, and 100 to 150 where a bandwidth is measured. `cores` and
`rss_mib` are of the three together (pages that processes share are counted for each) at an interval of 5 s, scraped
every 5 s, with loads that differ from one collection to the next; CPU that the double itself burns is in it, and the
waking of 90 calls a collection that sleep: without latencies it is `cores_instant`. `scrape_p99_ms`: scrapes of which
each finds a new collection, four collections a second. `rss_growth_mib`: of the three together over 10^5 scrapes back
to back, after 65 s (the slowest calls are made once a minute) and a tenth as many scrapes to warm up. `hang_delay_ms`:
the longest scrape while no call of the driver returns, and the child is killed and replaced, minus the healthy median.
No peer runs here: npu-exporter needs a driver. Leaves build/bench/exporter.json.
usage: exporter.py [--seconds N] [--scrapes N]
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import importlib.util
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import measuring
from measuring import ROOT, cpu_seconds, rss_mib, scraped

if TYPE_CHECKING:
    from collections.abc import Iterator

CARDS, CHIPS_IN_CARD = 8, 2
CHANGING = (
    *((f"{kind}utilization", 60, 100) for kind in ("", "vector_", "cube_", "overall_")),
    ("frequency", 1500, 1800), ("power", 2000, 3500), ("temperature", 50, 70), ("hbm_used", 40_000, 60_000),
)  # fmt: skip
"""Keys of the double's script, with the lowest and the highest number."""
INTERVAL_SECONDS = 5.0
FAST_INTERVAL_SECONDS = 0.25
FAST_SCRAPES = 400
WARM_UP_SECONDS = 12.0
GROWTH_WARM_UP_SECONDS = 65.0
HANG_SECONDS = 15.0
HANG_PAUSE_SECONDS = 0.02
INVENTORY = f"cards {' '.join(map(str, range(CARDS)))}\nchips {CHIPS_IN_CARD}\nutilization 93\n"
SLOW = INVENTORY + (ROOT / "dev/doubles/dcmi/realistic.txt").read_text(encoding="utf-8") + "\n"
HUNG = INVENTORY + "hang *\n"


class Exporter(NamedTuple):
    """The running programs: their process ids, the child's too, and the port of /metrics."""

    vendor: int
    devices: int
    port: int

    def pids(self) -> tuple[int, ...]:
        children = Path(f"/proc/{self.vendor}/task/{self.vendor}/children").read_text(encoding="ascii").split()
        threads = Path(f"/proc/{self.vendor}/task")
        for task in threads.iterdir():
            children += (task / "children").read_text(encoding="ascii").split()
        return (self.vendor, self.devices, *{int(child) for child in children})


def built(folder: Path) -> Path:
    """A driver root with the double."""
    spec = importlib.util.spec_from_file_location("rankbeat_doubles", ROOT / "dev/doubles/build.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError("dev/doubles/build.py")
    doubles = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(doubles)
    doubles.build_dcmi(folder)
    return folder


def write_script(folder: Path, text: str) -> None:
    fresh = folder / "script.new"
    fresh.write_text(text, encoding="ascii")
    fresh.replace(folder / "script.txt")


@contextlib.contextmanager
def exporting(folder: Path, interval_seconds: float) -> Iterator[Exporter]:
    """Both programs, once all chips are served."""
    port = measuring.free_port()
    environment = {**os.environ, "DCMI_DOUBLE_SCRIPT": str(folder / "script.txt")}
    path = folder / "vendor.sock"
    program = (sys.executable, "-m", "rankbeat_exporter")
    vendor = (*program, "vendor", "--npu-driver-root", str(folder / "driver"), "--socket", str(path))
    interval = f"{interval_seconds * 1000:g}ms"
    devices = (*program, "devices", "--socket", str(path), "--port", str(port), "--node", "n1", "--interval", interval)
    log = (folder / "log.txt").open("ab")
    with (
        log,
        subprocess.Popen(vendor, env=environment, stderr=log) as one,
        subprocess.Popen(devices, env=environment, stderr=log) as other,
    ):
        try:
            deadline = time.monotonic() + 60
            while not shows_all_chips(port):
                if time.monotonic() > deadline:
                    raise TimeoutError((folder / "log.txt").read_text(encoding="utf-8")[-2000:])
                time.sleep(0.1)
            yield Exporter(one.pid, other.pid, port)
        finally:
            for process in (other, one):
                process.terminate()
                process.wait(20)


def shows_all_chips(port: int) -> bool:
    wanted = f'rankbeat_node_accelerators{{node="n1",vendor="huawei"}} {CARDS * CHIPS_IN_CARD}.0'
    with contextlib.suppress(OSError):  # nobody listens yet
        return wanted in scraped(port)
    return False


def scrape_ms(connection: http.client.HTTPConnection) -> float:
    """How long one scrape took, to the last byte."""
    begin = time.perf_counter()
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    answer.read()
    if answer.status != 200:
        raise ValueError(f"a scrape answered {answer.status}")
    return (time.perf_counter() - begin) * 1000


def other_loads() -> str:
    """Figures that differ from one collection to the next, chip by chip, as those of a training do."""
    drawn = random.Random()
    return "".join(
        f"{card}/{chip} {key} {drawn.randint(lowest, highest)}\n"
        for card in range(CARDS)
        for chip in range(CHIPS_IN_CARD)
        for key, lowest, highest in CHANGING
    )


def steady(folder: Path, seconds: float, script: str) -> dict[str, float]:
    """CPU and memory at the default interval."""
    write_script(folder, script)
    with exporting(folder, INTERVAL_SECONDS) as exporter:
        time.sleep(WARM_UP_SECONDS)
        pids = exporter.pids()
        begin, before = time.monotonic(), sum(map(cpu_seconds, pids))
        while time.monotonic() - begin < seconds:
            text = scraped(exporter.port)
            write_script(folder, script + other_loads())
            time.sleep(INTERVAL_SECONDS)
        used, took = sum(map(cpu_seconds, pids)) - before, time.monotonic() - begin
        return {
            "cores": round(used / took, 5),
            "rss_mib": round(sum(map(rss_mib, pids)), 1),
            "processes": len(pids),
            "series": measuring.series(text),
        }


def fresh_scrapes(folder: Path) -> dict[str, float]:
    """Scrapes that each find a new collection."""
    write_script(folder, INVENTORY)
    with exporting(folder, FAST_INTERVAL_SECONDS) as exporter:
        connection = http.client.HTTPConnection("127.0.0.1", exporter.port, timeout=10)
        took = []
        for _ in range(FAST_SCRAPES):
            took.append(scrape_ms(connection))
            time.sleep(1.2 * FAST_INTERVAL_SECONDS)
        connection.close()
    return {
        "scrape_p99_ms": round(statistics.quantiles(took, n=100)[98], 2),
        "scrape_median_ms": round(statistics.median(took), 2),
    }


def growth(folder: Path, scrapes: int) -> dict[str, float]:
    """Memory before and after many scrapes on connections that are kept for a thousand; both after the warm-up."""
    write_script(folder, INVENTORY)
    with exporting(folder, INTERVAL_SECONDS) as exporter:
        warm = time.monotonic() + GROWTH_WARM_UP_SECONDS
        while time.monotonic() < warm:
            take(exporter.port, 100)
            time.sleep(1)
        take(exporter.port, scrapes // 10)
        before = sum(map(rss_mib, exporter.pids()))
        took = take(exporter.port, scrapes)
        after = sum(map(rss_mib, exporter.pids()))
    return {
        "rss_growth_mib": round(after - before, 2),
        "growth_scrapes": scrapes,
        "busy_p99_ms": round(statistics.quantiles(took, n=100)[98], 2),
    }


def take(port: int, scrapes: int) -> list[float]:
    took: list[float] = []
    for first in range(0, scrapes, 1000):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
            took += [scrape_ms(connection) for _ in range(min(1000, scrapes - first))]
    return took


def hang(folder: Path) -> dict[str, float]:
    """Scrapes before and while the driver hangs; it is named meanwhile."""
    write_script(folder, INVENTORY)
    with exporting(folder, INTERVAL_SECONDS) as exporter:
        connection = http.client.HTTPConnection("127.0.0.1", exporter.port, timeout=10)
        healthy = statistics.median(scrape_ms(connection) for _ in range(300))
        write_script(folder, HUNG)
        begin, hung = time.monotonic(), []
        while time.monotonic() - begin < HANG_SECONDS:
            hung.append(scrape_ms(connection))
            time.sleep(HANG_PAUSE_SECONDS)
        connection.close()
        text = scraped(exporter.port)
        write_script(folder, INVENTORY)
    if 'reason="DriverHung"' not in text and "call_failures_total{" not in text:
        raise ValueError("the hang was not seen")
    return {"hang_delay_ms": round(max(max(hung) - healthy, 0.0), 2), "hang_scrapes": len(hung)}


def main() -> int:
    """Measure and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="of the steady run")
    parser.add_argument("--scrapes", type=int, default=100_000, help="of the growth run")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        built(folder / "driver")
        figures = {
            "chips": CARDS * CHIPS_IN_CARD,
            **steady(folder, given.seconds, SLOW),
            "cores_instant": steady(folder, given.seconds / 2, INVENTORY)["cores"],
            **fresh_scrapes(folder),
            **growth(folder, given.scrapes),
            **hang(folder),
        }
    units = {
        "cores": "CPU seconds per second", "rss_mib": "MiB", "rss_growth_mib": "MiB", "scrape_p99_ms": "ms",
        "hang_delay_ms": "ms",
    }  # fmt: skip
    measuring.write("exporter", figures, units)
    measuring.show(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())

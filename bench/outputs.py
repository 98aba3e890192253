"""What the collector beside a job costs with every output on: CPU and memory for 8 ranks at 10 steps/s, and its growth.

The real program in its own process reads real rings on tmpfs and writes all ranks and the summary as JSON lines, CSV,
protobuf and TensorBoard events, encrypted, audited, rotated at 1 MiB, and posts every row to a real HTTP server. In the
growth run a fast writer waits for the reader. Leaves build/bench/outputs.json.
usage: outputs.py [--seconds N] [--steps N]
"""

from __future__ import annotations

import argparse
import contextlib
import http.server
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import measuring
import rank_rings
from measuring import cpu_seconds, rss_mib
from rank_rings import RANKS, STEPS_PER_SECOND, write_block

if TYPE_CHECKING:
    from collections.abc import Iterator

WARM_UP_SECONDS = 6.0
BLOCK = 500
FORMATS = ("jsonl", "csv", "protobuf", "tensorboard")


class _Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[int]:
    """The program's process id."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    limits = {"maxFileBytes": 1 << 20, "maxTotalBytes": 64 << 20}
    outputs = {
        "ranks": "all",
        "files": [{"format": kind, **limits} for kind in FORMATS],
        "http": {"url": f"http://127.0.0.1:{server.server_address[1]}/rows"},
        "encrypted": True,
        "audit": True,
    }
    (folder / "monitor.json").write_text(json.dumps({"experiment": "bench", "outputs": outputs}), encoding="utf-8")
    (folder / "key").write_bytes(os.urandom(32))
    options = {"rings": "rings", "out": "out", "config": "monitor.json", "encryption-key-file": "key"}
    options["status-file"] = "status.json"
    command = [sys.executable, "-m", "rankbeat_collector", "sidecar"]
    command += [f"--{name}={folder / place}" for name, place in options.items()]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stderr=log) as child:
        try:
            yield child.pid
        finally:
            child.terminate()
            child.wait(30)
            server.shutdown()


def rows_written(folder: Path) -> int:
    """Rows in the slowest format, by the program's own count."""
    try:
        status = json.loads((folder / "status.json").read_text(encoding="utf-8"))
        return min(int(each["rows_written"]) for each in status["writing"]["outputs"].values())
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def steady(folder: Path, seconds: float) -> dict[str, float]:
    """CPU and memory at STEPS_PER_SECOND, five scalars each tenth step."""
    writers = rank_rings.writers(folder / "rings")
    with writing(folder) as pid:
        begun = measured_from = time.monotonic()
        cpu = 0.0
        for step in itertools.count(1):
            now = time.monotonic()
            if now - begun < WARM_UP_SECONDS:
                measured_from, cpu = now, cpu_seconds(pid)
            elif now - measured_from > seconds:
                break
            for writer in writers:
                writer.step(step)
                if step % 10 == 0:
                    for name in ("loss", "learning_rate", "grad_norm", "loss_scale", "resident_memory_bytes"):
                        writer.scalar(step, name, 1.0 / step)
            time.sleep(max(0.0, begun + step / STEPS_PER_SECOND - time.monotonic()))
        used = cpu_seconds(pid) - cpu
        return {
            "cores": round(used / (time.monotonic() - measured_from), 4),
            "rss_mib": round(rss_mib(pid), 1),
            "rows_written": rows_written(folder),
            "written_mib": round(sum(each.stat().st_size for each in (folder / "out").rglob("*.*")) / 2**20, 1),
        }


def growth(folder: Path, steps: int) -> dict[str, float]:
    """Memory before and after steps steps, all ranks together; before, every buffer was full once."""
    writers = rank_rings.writers(folder / "rings")
    before = 0.0
    with writing(folder) as pid:
        for number, first in enumerate(range(0, steps // RANKS, BLOCK)):
            for writer in writers:
                write_block(writer, first, BLOCK)
            while rows_written(folder) < (RANKS + 1) * first:
                time.sleep(0.1)
            if number == steps // RANKS // BLOCK // 4:
                before = rss_mib(pid)
        return {"rss_growth_mib": round(rss_mib(pid) - before, 2), "growth_steps": steps * 3 // 4}


def main() -> int:
    """Measure and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0, help="of the steady run")
    parser.add_argument("--steps", type=int, default=200_000, help="of the growth run, all ranks together")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(dir=measuring.SHARED_MEMORY) as one,
        tempfile.TemporaryDirectory(dir=measuring.SHARED_MEMORY) as other,
    ):
        figures = {"ranks": RANKS, **steady(Path(one), given.seconds), **growth(Path(other), given.steps)}
    units = {"cores": "CPU seconds per second", "rss_mib": "MiB", "rss_growth_mib": "MiB", "written_mib": "MiB"}
    measuring.write("outputs", figures, units)
    measuring.show(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())

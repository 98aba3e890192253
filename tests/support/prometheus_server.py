"""The Prometheus of our own image, as a process of a test."""

from __future__ import annotations

import contextlib
import json
import subprocess
import tarfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from operator_process import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).resolve().parents[2]


def program(folder: Path) -> Path:
    """The image's binary, unpacked into folder once.

    Raises: FileNotFoundError before `make setup` has written the image.
    """
    unpacked = folder / "usr/bin/prometheus"
    if not unpacked.exists():
        layers = json.loads((ROOT / "build/images.json").read_text())["prometheus"]["layers"]
        (layer,) = (one["path"] for one in layers if one["name"] == "prometheus")
        with tarfile.open(layer) as tar:
            tar.extract("usr/bin/prometheus", folder, filter="data")
    return unpacked


@contextlib.contextmanager
def running(binary: Path, folder: Path, configuration: Mapping[str, Any]) -> Iterator[PrometheusServer]:
    """Prometheus with that configuration; folder gets its files."""
    folder.mkdir(exist_ok=True)
    (folder / "prometheus.yml").write_text(yaml.safe_dump(dict(configuration)))
    port = free_port()
    command = [
        *(binary, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"),
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield PrometheusServer(port, folder / "log")
        finally:
            process.terminate()


class PrometheusServer:
    """A running Prometheus."""

    def __init__(self, port: int, log: Path) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self.log = log

    def target(self, health: str, *, seconds: float = 30) -> dict[str, Any]:
        """Its one target, when it is `up` or `down`.

        Raises: AssertionError with what it was instead, and Prometheus' log.
        """
        ends, found = time.monotonic() + seconds, {}
        while time.monotonic() < ends:
            found = next(iter(self._answer("/api/v1/targets").get("activeTargets", ())), {})
            if found.get("health") == health:
                return found
            time.sleep(0.2)
        raise AssertionError(f"no target that is {health}, but {found}; log:\n{self.log.read_text()[-3000:]}")

    def labels(self, expression: str) -> list[dict[str, str]]:
        """Labels of what an instant query finds."""
        return [one["metric"] for one in self._answer(f"/api/v1/query?query={expression}")["result"]]

    def _answer(self, path: str) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(self.address + path, timeout=5) as answer:
                return dict(json.load(answer)["data"])
        except (urllib.error.URLError, ConnectionError):
            return {}

"""The real operator as a process of its own, against a real control plane."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

WAIT_SECONDS = 40.0


@contextlib.contextmanager
def running(kubeconfig: Path, namespace: str, folder: Path, **environment: str) -> Iterator[OperatorProcess]:
    """A running operator. folder: holds its log, its fleet folder `fleet` and its token."""
    (folder / "fleet").mkdir(exist_ok=True)
    (folder / "token").write_text("token")
    port = free_port()
    own = {
        "KUBECONFIG": str(kubeconfig),
        "RANKBEAT_NAMESPACE": namespace,
        "RANKBEAT_FLEET_DIR": str(folder / "fleet"),
        "RANKBEAT_AGGREGATOR_URL": "https://127.0.0.1:9",
        "RANKBEAT_TOKEN_FILE": str(folder / "token"),
        "RANKBEAT_PORT": str(port),
        "RANKBEAT_RESYNC_SECONDS": "3",
    }
    with (folder / "operator.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "rankbeat_operator"],
            env={**os.environ, **own, **environment},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield OperatorProcess(process, folder / "operator.log", port)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class OperatorProcess:
    """A running operator."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, port: int) -> None:
        self.process = process
        self.log = log
        self.port = port

    def until(self, what: str, value: Callable[[], Any]) -> Any:
        """The first true value, asked for ten times a second.

        Raises: AssertionError with the operator's log after WAIT_SECONDS, or if it ended.
        """
        ends = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < ends and self.process.poll() is None:
            found = value()
            if found:
                return found
            time.sleep(0.1)
        raise AssertionError(f"{what} did not happen, exit {self.process.poll()}; log:\n{self.log.read_text()[-6000:]}")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])

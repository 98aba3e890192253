"""Vendors' command line tools, run so that one that hangs costs its time-out and no more."""

from __future__ import annotations

import logging
import os
import selectors
import signal
import subprocess
import time
from typing import TYPE_CHECKING

from rankbeat_exporter.model import accelerator
from rankbeat_exporter.model.accelerator import ToolText
from rankbeat_exporter.sources.unkillable import Unkillable

if TYPE_CHECKING:
    from pathlib import Path

_log = logging.getLogger(__name__)

MAX_BYTES = 1 << 16
"""Of an output; the vendor's own exporter allows 1 MiB."""
KILL_SECONDS = 1.0
NOT_FOUND = "not_found"
TIMED_OUT = "timed_out"
TOO_LONG = "too_long"


class Tools:
    """Runs one tool at a time, and none while a process is left that SIGKILL does not end, in the same driver."""

    def __init__(self, library_path: str, timeout_seconds: float, unkillable: Unkillable | None = None) -> None:
        """library_path: LD_LIBRARY_PATH, as the tools need the driver's libraries."""
        self._library_path = library_path
        self._timeout_seconds = timeout_seconds
        self._unkillable = unkillable or Unkillable()

    def run(self, path: Path, command: str) -> ToolText:
        """What the command prints. Its first word is the tool's name, path the file; arguments have no spaces."""
        if self._unkillable.left():
            return ToolText(command, accelerator.CHILD_UNKILLABLE)
        try:
            process = subprocess.Popen(
                (str(path), *command.split()[1:]),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, "LD_LIBRARY_PATH": self._library_path},
                start_new_session=True,
            )
        except OSError as error:
            _log.debug("tool does not start command=%r", command, exc_info=True)
            return ToolText(command, NOT_FOUND if isinstance(error, FileNotFoundError) else f"errno_{error.errno}")
        reason, output = self._output(process)
        if not reason and process.returncode:
            reason = f"exit_{process.returncode}"
        return ToolText(command, reason, output)

    def _output(self, process: subprocess.Popen[bytes]) -> tuple[str, str]:
        """(reason, text): the text is empty where it did not come to its end."""
        deadline = time.monotonic() + self._timeout_seconds
        received = b""
        pipe = process.stdout
        if pipe is None:
            raise RuntimeError(process.args)
        with pipe, selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            reason = ""
            while not reason:
                left = deadline - time.monotonic()
                if left <= 0 or not selector.select(left):
                    reason = TIMED_OUT
                elif not (chunk := os.read(pipe.fileno(), 65536)):
                    break
                else:
                    received += chunk
                    reason = TOO_LONG if len(received) > MAX_BYTES else ""
        try:
            process.wait(0 if reason else max(deadline - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            reason = reason or TIMED_OUT
            self._kill(process)
        return reason, "" if reason else received.decode("utf-8", "replace")

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        """The tool and what it started."""
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            _log.debug("tool is gone already pid=%d", process.pid)
        try:
            process.wait(KILL_SECONDS)
        except subprocess.TimeoutExpired:
            self._unkillable.note(process, "tool")

"""One child process calls the vendor's library, so that a driver that hangs takes the child with it and nobody else."""

from __future__ import annotations

import logging
import os
import selectors
import subprocess
import sys
import time
from dataclasses import replace
from typing import IO, TYPE_CHECKING

from rankbeat_exporter.errors import CannotMeasure, InvalidSnapshot
from rankbeat_exporter.model import accelerator
from rankbeat_exporter.model.accelerator import Snapshot
from rankbeat_exporter.parsing import vendor
from rankbeat_exporter.sources import dcmi

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_log = logging.getLogger(__name__)

REQUEST = b"collect\n"
KILL_SECONDS = 1.0

Child = subprocess.Popen[bytes]


class VendorChild:
    """Asks the child for a snapshot within a deadline; kills and replaces it where it is late.

    A child in uninterruptible sleep cannot be killed: while one is left, no other is started.
    """

    def __init__(self, start: Callable[[], Child], deadline_seconds: float) -> None:
        self._start = start
        self._deadline_seconds = deadline_seconds
        self._child: Child | None = None
        self._doomed: Child | None = None
        self._starts = 0

    def snapshot(self) -> Snapshot:
        """What the library says now, or why it says nothing. Takes the deadline and KILL_SECONDS at most."""
        if self._doomed is not None:
            if self._doomed.poll() is None:
                return Snapshot(accelerator.CHILD_UNKILLABLE, f"pid {self._doomed.pid}", restarts=self._restarts)
            _close(self._doomed)
            self._doomed = None
        try:
            found = vendor.snapshot(self._answer(time.monotonic() + self._deadline_seconds))
        except (CannotMeasure, InvalidSnapshot) as error:
            self._discard()
            reason = error.reason if isinstance(error, CannotMeasure) else accelerator.INVALID_SNAPSHOT
            _log.warning("vendor child replaced reason=%s detail=%r", reason, str(error))
            found = Snapshot(reason, str(error))
        return replace(found, restarts=self._restarts)

    def close(self) -> None:
        self._discard()
        if self._doomed is not None and self._doomed.poll() is not None:
            _close(self._doomed)

    @property
    def _restarts(self) -> int:
        return max(self._starts - 1, 0)

    def _answer(self, deadline: float) -> bytes:
        child = self._child
        if child is None:
            child = self._child = self._start()
            self._starts += 1
        request, answers = child.stdin, child.stdout
        if request is None or answers is None:
            raise CannotMeasure(accelerator.CHILD_DIED, "without pipes")
        try:
            request.write(REQUEST)
            request.flush()
        except OSError as error:
            raise CannotMeasure(accelerator.CHILD_DIED, str(error)) from error
        return _line(answers, deadline)

    def _discard(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        try:
            child.wait(KILL_SECONDS)
        except subprocess.TimeoutExpired:
            self._doomed = child
            _log.error("vendor child cannot be killed pid=%d", child.pid)
            return
        _close(child)


def _close(child: Child) -> None:
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except OSError:
                _log.debug("pipe of a dead child", exc_info=True)


def _line(answers: IO[bytes], deadline: float) -> bytes:
    """Bytes up to the newline.

    Raises: CannotMeasure(DriverHung | ChildDied).
    """
    received = b""
    with selectors.DefaultSelector() as selector:
        selector.register(answers, selectors.EVENT_READ)
        while not received.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not selector.select(left):
                raise CannotMeasure(accelerator.DRIVER_HUNG, "no answer within the deadline")
            chunk = os.read(answers.fileno(), 65536)
            if not chunk or len(received) > vendor.MAX_BYTES:
                raise CannotMeasure(accelerator.CHILD_DIED, "its pipe ended" if not chunk else "it wrote without end")
            received += chunk
    return received


def start_child(driver_root: Path) -> Child:
    """A child that loads the library below driver_root, with the library's neighbours on its search path."""
    environment = {**os.environ, "LD_LIBRARY_PATH": dcmi.library_search_path(driver_root)}
    command = [sys.executable, "-m", "rankbeat_exporter", "vendor-child", "--npu-driver-root", str(driver_root)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)


def serve_requests(driver_root: Path) -> None:
    """The child: one snapshot for each request on stdin, until its end. A missing library is looked for each time."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a vendor's library prints must not get into the answers
    library: dcmi.Dcmi | None = None
    for _ in sys.stdin.buffer:
        try:
            library = library or dcmi.Dcmi(dcmi.library_paths(driver_root))
            found = Snapshot("", chips=library.chips())
        except CannotMeasure as error:
            found = Snapshot(error.reason, error.detail)
        answers.write(vendor.snapshot_bytes(found))
        answers.flush()

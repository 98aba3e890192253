"""The child process that calls a vendor's library: raw answers on request, and a last word about a call that hangs.

sources.vendor_supervisor starts, asks and kills it: `python -m rankbeat_exporter.sources.vendor_child VENDOR
NPU_DRIVER_ROOT CALL_SECONDS`. It is a program of its own so that a node's memory does not hold the others twice.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rankbeat_exporter import LOG_FORMAT
from rankbeat_exporter.errors import CannotMeasure
from rankbeat_exporter.model import accelerator
from rankbeat_exporter.model.accelerator import VENDOR_NVIDIA, Event, Snapshot
from rankbeat_exporter.parsing import vendor as snapshots
from rankbeat_exporter.sources.call_watch import CallWatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from rankbeat_exporter.model.accelerator import RawChip


def serve_requests(vendor: str, npu_driver_root: Path, call_seconds: float) -> None:
    """One snapshot for each request on stdin, until its end. A missing library is looked for each time."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a vendor's library prints must not get into the answers
    turn = threading.Lock()
    writer = snapshots.Writer()

    def answer(found: Snapshot) -> None:
        turn.acquire()
        answers.write(writer.line(found))
        answers.flush()
        if not found.hung:
            turn.release()  # after the last word, about a call that hangs, the parent kills this process

    def late(call: str) -> None:
        # An XID and a call that hangs often come together: this is the last chance to tell of it.
        events = opened.new_events() if opened else ()
        answer(Snapshot(accelerator.DRIVER_HUNG, f"{call} did not return", hung=call, events=events))

    watch = CallWatch(call_seconds, late)
    opened: _Opened | None = None
    for request in sys.stdin.buffer:
        try:
            left_out = tuple(json.loads(request)["leave_out"])
            opened = opened or _opened(vendor, npu_driver_root, watch, left_out)
            chips = opened.chips(left_out)
            found = Snapshot("", chips=chips, events=opened.new_events())
        except CannotMeasure as error:
            found = Snapshot(error.reason, error.detail)
        answer(found)


class _Opened(NamedTuple):
    """A vendor's library: chips reads all devices but for the calls to be left out, or raises CannotMeasure."""

    chips: Callable[[tuple[str, ...]], tuple[RawChip, ...]]
    new_events: Callable[[], tuple[Event, ...]] = tuple


def _opened(vendor: str, npu_driver_root: Path, watch: CallWatch, left_out: tuple[str, ...]) -> _Opened:
    """Raises: CannotMeasure."""
    if vendor == VENDOR_NVIDIA:
        import logging  # noqa: PLC0415 - it and pynvml where there are GPUs only

        from rankbeat_exporter.sources import nvml  # noqa: PLC0415

        logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
        gpus = nvml.Nvml(watch)
        return _Opened(gpus.chips, gpus.new_events)
    from rankbeat_exporter.sources import dcmi, dcmi_places  # noqa: PLC0415 - its layouts, where there are NPUs only

    return _Opened(dcmi.Dcmi(dcmi_places.library_paths(npu_driver_root), watch, left_out).chips)


def main() -> None:
    """Serves until its standard input ends; SIGINT at a terminal is for the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    vendor, npu_driver_root, call_seconds = sys.argv[1:]
    serve_requests(vendor, Path(npu_driver_root), float(call_seconds))


if __name__ == "__main__":
    main()

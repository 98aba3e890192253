"""One child process per vendor's library: a driver that hangs takes its child with it and nobody else.

What the child does stands in sources.vendor_child.
"""

from __future__ import annotations

import json
import logging
import os
import selectors
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import IO, TYPE_CHECKING

from rankbeat_exporter.errors import CannotMeasure, InvalidSnapshot
from rankbeat_exporter.model import accelerator
from rankbeat_exporter.model.accelerator import VENDOR_HUAWEI, VENDOR_NONE, VENDOR_NVIDIA, Event, Snapshot
from rankbeat_exporter.parsing import vendor as snapshots
from rankbeat_exporter.sources import dcmi_places, driver_roots, nvml_places
from rankbeat_exporter.sources.ascend_tools import AscendTools
from rankbeat_exporter.sources.unkillable import Child, Unkillable, close_pipes

if TYPE_CHECKING:
    from collections.abc import Callable

    from rankbeat_exporter.sources.driver_roots import DriverRoots

_log = logging.getLogger(__name__)

LEFT_OUT_SECONDS = 300.0
"""A call that hung is not made for so long: what else the driver says is worth more than asking again."""
KILL_SECONDS = 1.0
CALL_SHARE = 0.5
"""Of the deadline of a collection, for one call: the child names the call that hangs before it is killed."""


class VendorChildren:
    """A child for each vendor that is, or once was, on this node."""

    def __init__(
        self, roots: DriverRoots, vendors: tuple[str, ...], deadline_seconds: float, *, asks_tools: bool = True
    ) -> None:
        """vendors: those that the node must have; empty: what is found, looked for at each request."""
        self._roots = roots
        self._vendors = vendors
        self._deadline_seconds = deadline_seconds
        self._children: dict[str, VendorChild] = {}
        self._unkillable = {vendor: Unkillable() for vendor in (VENDOR_HUAWEI, VENDOR_NVIDIA)}
        self._asks_tools = asks_tools
        self._npu_tools = AscendTools(roots.npu, unkillable=self._unkillable[VENDOR_HUAWEI])

    def snapshots(self) -> tuple[Snapshot, ...]:
        """One of each vendor, taken at the same time; where there is none, one that says so."""
        for vendor in self._vendors or driver_roots.present_vendors(self._roots):
            if vendor not in self._children:
                start = partial(start_child, vendor, self._roots, self._deadline_seconds * CALL_SHARE)
                self._children[vendor] = VendorChild(start, self._deadline_seconds, vendor, self._unkillable[vendor])
        if not self._children:
            return (Snapshot(accelerator.LIBRARY_NOT_FOUND, "no vendor's driver is here", vendor=VENDOR_NONE),)
        children = tuple(self._children.values())
        if len(children) == 1:
            found: tuple[Snapshot, ...] = (children[0].snapshot(),)
        else:
            with ThreadPoolExecutor(len(children)) as pool:
                found = tuple(pool.map(VendorChild.snapshot, children))
        if not self._asks_tools:
            return found
        return tuple(self._npu_tools.completed(one) if one.vendor == VENDOR_HUAWEI else one for one in found)

    def is_stuck(self) -> bool:
        """Whether a child or a tool is left that cannot be killed: another in its place would be one too many."""
        return any(one.left() for one in self._unkillable.values())

    def close(self) -> None:
        self._npu_tools.close()
        for child in self._children.values():
            child.close()


class VendorChild:
    """Asks the child for a snapshot within a deadline; kills and replaces it where it is late.

    A child in uninterruptible sleep cannot be killed: while one or a tool is left so, no other is started.
    """

    def __init__(
        self,
        start: Callable[[], Child],
        deadline_seconds: float,
        vendor: str = VENDOR_HUAWEI,
        unkillable: Unkillable | None = None,
    ) -> None:
        self._vendor = vendor
        self._events: dict[tuple[str, str, int], Event] = {}
        self._reader = snapshots.Reader()
        self._start = start
        self._deadline_seconds = deadline_seconds
        self._child: Child | None = None
        self._unkillable = unkillable or Unkillable()
        self._starts = 0
        self._left_out: dict[str, float] = {}

    def snapshot(self) -> Snapshot:
        """What the library says now, or why it says nothing. Takes the deadline and KILL_SECONDS at most."""
        if self._child is None and (left := self._unkillable.left()):
            return self._whole(Snapshot(accelerator.CHILD_UNKILLABLE, f"pid {left[0].pid}"))
        try:
            found = self._reader.snapshot(self._answer(time.monotonic() + self._deadline_seconds))
            if found.hung:
                _log.warning("call hangs, left out for %.0f s call=%r", LEFT_OUT_SECONDS, found.hung)
                self._left_out[found.hung] = time.monotonic() + LEFT_OUT_SECONDS
                self._discard()
        except (CannotMeasure, InvalidSnapshot) as error:
            self._discard()
            reason = error.reason if isinstance(error, CannotMeasure) else accelerator.INVALID_SNAPSHOT
            _log.warning("vendor child replaced reason=%s detail=%r", reason, str(error))
            found = Snapshot(reason, str(error))
        return self._whole(found)

    def _whole(self, found: Snapshot) -> Snapshot:
        """With what outlives a child: its number, and the events of all children. A child tells each event once."""
        for event in found.events:
            key = (event.device, event.uuid, event.code)
            before = self._events.get(key)
            self._events[key] = replace(event, count=event.count + (before.count if before else 0))
        events = tuple(self._events.values())
        unkillable = len(self._unkillable.left())
        return replace(found, restarts=self._restarts, vendor=self._vendor, events=events, unkillable=unkillable)

    def close(self) -> None:
        """A child that is not stuck ends by itself: GPUs froze whose users were killed (docs/sources.md, NVML)."""
        if self._child is not None and self._child.stdin is not None:
            self._child.stdin.close()
            try:
                self._child.wait(KILL_SECONDS)
            except subprocess.TimeoutExpired:
                _log.warning("vendor child does not end by itself pid=%d", self._child.pid)
        self._discard()
        self._unkillable.left()

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
            request.write(self._request())
            request.flush()
        except OSError as error:
            raise CannotMeasure(accelerator.CHILD_DIED, str(error)) from error
        return _line(answers, deadline)

    def _request(self) -> bytes:
        now = time.monotonic()
        self._left_out = {call: until for call, until in self._left_out.items() if until > now}
        return json.dumps({"leave_out": list(self._left_out)}).encode() + b"\n"

    def _discard(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        try:
            child.wait(KILL_SECONDS)
        except subprocess.TimeoutExpired:
            self._unkillable.note(child, "vendor child")
            return
        close_pipes(child)


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
            if not chunk or len(received) > snapshots.MAX_BYTES:
                raise CannotMeasure(accelerator.CHILD_DIED, "its pipe ended" if not chunk else "it wrote without end")
            received += chunk
    return received


def start_child(vendor: str, roots: DriverRoots, call_seconds: float = 0.0) -> Child:
    """A child that loads the vendor's library, with the library's neighbours on its search path.

    call_seconds: how long one call may take; 0 watches none.
    """
    search_path = (
        nvml_places.library_search_path(roots.nvidia, os.environ.get("LD_LIBRARY_PATH", ""))
        if vendor == VENDOR_NVIDIA
        else dcmi_places.library_search_path(roots.npu)
    )
    command = [sys.executable, "-m", "rankbeat_exporter.sources.vendor_child"]
    command += [vendor, str(roots.npu), f"{call_seconds:g}"]
    environment = {**os.environ, "LD_LIBRARY_PATH": search_path}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)

"""What npu-smi and hccn_tool say beside the library, asked in a thread of its own: they take a second and more."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rankbeat_exporter.model import accelerator
from rankbeat_exporter.parsing import ascend, npu_smi_reading
from rankbeat_exporter.sources import dcmi_places
from rankbeat_exporter.sources.tools import Tools

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rankbeat_exporter.model.accelerator import Snapshot, ToolText
    from rankbeat_exporter.sources.unkillable import Unkillable

_log = logging.getLogger(__name__)

INTERVAL_SECONDS = 30.0
TIMEOUT_SECONDS = 5.0
FRESH_INTERVALS = 3
WITHOUT_LIBRARY = frozenset({accelerator.LIBRARY_NOT_FOUND, accelerator.LIBRARY_UNLOADABLE, accelerator.INIT_FAILED})
"""Reasons for which npu-smi is asked in the library's place. Not a driver that hangs: it would hang the tool too."""
ANSWERED_BY_LIBRARY = {"net_health": "network_health", "stat": "packets"}
"""Questions to hccn_tool that the library's call answers, where it does."""


class _Kept(NamedTuple):
    text: ToolText
    asked: float


class AscendTools:
    """Completes snapshots with the tools' newest texts."""

    def __init__(
        self,
        driver_root: Path,
        interval_seconds: float = INTERVAL_SECONDS,
        device_nodes: Path = Path("/dev"),
        unkillable: Unkillable | None = None,
    ) -> None:
        self._driver_root = driver_root
        self._device_nodes = device_nodes
        self._interval_seconds = interval_seconds
        self._tools = Tools(dcmi_places.library_search_path(driver_root), TIMEOUT_SECONDS, unkillable)
        self._snapshot: Snapshot | None = None
        self._kept: dict[str, _Kept] = {}
        self._told: dict[str, float] = {}
        self._wake = threading.Event()
        self._is_stopped = False
        self._thread: threading.Thread | None = None

    def completed(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with texts; without a reason where npu-smi stands in for the library. Waits for nothing."""
        self._snapshot = snapshot
        if self._thread is None and (self._path("hccn_tool") or self._path("npu-smi")):
            self._thread = threading.Thread(target=self._run, daemon=True, name="ascend-tools")
            self._thread.start()
        now = time.monotonic()
        limit = FRESH_INTERVALS * self._interval_seconds
        fresh = {command: kept for command, kept in self._kept.copy().items() if now - kept.asked <= limit}
        texts = tuple(kept.text for kept in fresh.values())
        repeated = tuple(command for command, kept in fresh.items() if self._told.get(command) == kept.asked)
        self._told = {command: kept.asked for command, kept in fresh.items()}
        completed = replace(snapshot, texts=texts, repeated_texts=repeated)
        has_table = any(text.command == npu_smi_reading.INFO and not text.reason for text in texts)
        if snapshot.reason in WITHOUT_LIBRARY and has_table:
            return replace(completed, reason="", detail=f"npu-smi in place of the library: {snapshot.reason}")
        return completed

    def close(self) -> None:
        self._is_stopped = True
        self._wake.set()

    def _path(self, tool: str) -> Path | None:
        """On the host, or in a container that has the driver's folder."""
        found = shutil.which(tool)
        local = (Path("/usr/local/bin") / tool, Path("/usr/local/sbin") / tool)
        places = (self._driver_root / "tools" / tool, *((Path(found),) if found else ()), *local)
        return next((place for place in places if place.exists()), None)

    def _run(self) -> None:
        while not self._is_stopped:
            begin = time.monotonic()
            try:
                self._round()
            except Exception:  # noqa: BLE001 - a door: what a tool prints must not end the vendor part
                _log.exception("tools failed")
            self._wake.wait(max(self._interval_seconds - (time.monotonic() - begin), 1.0))

    def _round(self) -> None:
        snapshot = self._snapshot
        if snapshot is None:
            return
        asked = set()
        for command in self._commands(snapshot):
            if self._is_stopped:
                return
            path = self._path(command.split()[0])
            if path is not None:
                self._kept[command] = _Kept(self._tools.run(path, command), time.monotonic())
                asked.add(command)
        for command in set(self._kept) - asked:
            self._kept.pop(command)

    def _commands(self, snapshot: Snapshot) -> Iterator[str]:
        """What to ask now."""
        if snapshot.reason not in WITHOUT_LIBRARY:
            yield from _hccn_commands(snapshot)
            return
        texts: dict[str, ToolText] = {}
        for command in npu_smi_commands(texts, self._device_nodes):
            yield command
            if command in self._kept:
                texts[command] = self._kept[command].text


def npu_smi_commands(texts: Mapping[str, ToolText], device_nodes: Path) -> Iterator[str]:
    """What to ask npu-smi. texts holds its answers so far, read after each: the NPUs stand in the first one."""
    yield npu_smi_reading.INFO
    yield npu_smi_reading.MAPPING
    info, mapping = (
        texts[command].output if command in texts else "" for command in (npu_smi_reading.INFO, npu_smi_reading.MAPPING)
    )
    if not npu_smi_reading.has_physical_ids(info, mapping):
        yield from map(npu_smi_reading.remap_command, _physical_ids(device_nodes))
    for npu in npu_smi_reading.npus(info):
        for command in npu_smi_reading.SECTION_COMMANDS:
            yield npu_smi_reading.section_command(npu, command)


def _hccn_commands(snapshot: Snapshot) -> Iterator[str]:
    """Of hccn_tool what the library does not say."""
    for chip in snapshot.chips:
        physical = chip.answers.get("physical_id")
        if physical is None or physical.code or "ub_ports" in chip.answers:
            continue  # hccn_tool of 950 takes other arguments, a port at a time
        for question in ascend.HCCN_QUESTIONS:
            answer = chip.answers.get(ANSWERED_BY_LIBRARY.get(question, ""))
            if answer is None or answer.code:
                yield ascend.hccn_command(str(physical.values[0]), question)


def _physical_ids(device_nodes: Path) -> list[int]:
    """Those of the NPUs that this process can reach: /dev/davinciN bears the physical id."""
    names = (path.name.removeprefix("davinci") for path in device_nodes.glob("davinci[0-9]*"))
    return sorted(int(name) for name in names if name.isdecimal())

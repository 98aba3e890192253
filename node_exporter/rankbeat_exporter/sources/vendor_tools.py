"""The vendors' own tools, for people's comparison only: no metric is made of what they print here."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rankbeat_exporter.errors import CannotMeasure
from rankbeat_exporter.model.accelerator import VENDOR_NVIDIA, Snapshot, ToolText
from rankbeat_exporter.parsing import ascend, npu_smi_devices, npu_smi_reading, nvidia_smi
from rankbeat_exporter.sources import ascend_tools, dcmi_places
from rankbeat_exporter.sources.tools import Tools

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rankbeat_exporter.model.accelerator import Failure
    from rankbeat_exporter.model.comparison import ToolDevice
    from rankbeat_exporter.sources.driver_roots import DriverRoots

TOOL_NOT_FOUND = "ToolNotFound"
TOOL_FAILED = "ToolFailed"
SECONDS = 30.0
_NPU_PLACES = ("/usr/local/bin", "/usr/local/sbin")
"""As Ascend Docker Runtime's table of default mounts has it, by product (docs/node-exporter.md)."""
_DEVICE_NODES = Path("/dev")


class Said(NamedTuple):
    """command: as a person would type it. not_understood: what else was asked in vain, and why."""

    command: str
    devices: tuple[ToolDevice, ...]
    not_understood: tuple[Failure, ...] = ()


def said(vendor: str, tool: Path | None, roots: DriverRoots) -> Said:
    """What the vendor's tools say of all devices. tool: where it is, if not on PATH.

    Raises: CannotMeasure(ToolNotFound | ToolFailed).
    """
    if vendor == VENDOR_NVIDIA:
        return _nvidia_said(_given(tool) or _found("nvidia-smi", ()))
    return _npu_said(_given(tool) or _found("npu-smi", (*_NPU_PLACES, str(roots.npu / "tools"))), roots)


def _nvidia_said(tool: Path) -> Said:
    tools = Tools(os.environ.get("LD_LIBRARY_PATH", ""), SECONDS)
    text = tools.run(tool, " ".join(("nvidia-smi", *nvidia_smi.QUERY)))
    return Said(text.command, _some(nvidia_smi.devices(_printed(text)), text.command))


def _npu_said(tool: Path, roots: DriverRoots) -> Said:
    """npu-smi in full, and hccn_tool where it is found: whatever there is a parser for."""
    tools = Tools(dcmi_places.library_search_path(roots.npu), SECONDS)
    texts: dict[str, ToolText] = {}
    for command in ascend_tools.npu_smi_commands(texts, _DEVICE_NODES):
        texts[command] = tools.run(tool, command)
        _printed(texts[npu_smi_reading.INFO])
    for npu in npu_smi_reading.npus(texts[npu_smi_reading.INFO].output):
        for kind in npu_smi_devices.MORE:
            command = npu_smi_reading.section_command(npu, kind)
            texts[command] = tools.run(tool, command)
    for path, command in _hccn_commands(texts, tool, roots):
        texts[command] = tools.run(path, command)
    read = ascend.readings(Snapshot("", texts=tuple(texts.values())))
    devices = npu_smi_devices.devices(read.accelerators, texts)
    commands = "npu-smi info [-m; -t health|ecc|usages|common|memory -i NPU]"
    return Said(commands, _some(devices, commands), read.failures)


def _hccn_commands(texts: dict[str, ToolText], npu_smi: Path, roots: DriverRoots) -> Iterator[tuple[Path, str]]:
    try:
        tool = _found("hccn_tool", (str(npu_smi.parent), *_NPU_PLACES, str(roots.npu / "tools")))
    except CannotMeasure:
        return
    for one in ascend.readings(Snapshot("", texts=tuple(texts.values()))).accelerators:
        if one.device.isdecimal():
            yield from ((tool, ascend.hccn_command(one.device, question)) for question in ascend.HCCN_QUESTIONS)


def _some(devices: tuple[ToolDevice, ...], command: str) -> tuple[ToolDevice, ...]:
    if not devices:
        raise CannotMeasure(TOOL_FAILED, f"{command} printed no device that is understood")
    return devices


def _given(tool: Path | None) -> Path | None:
    if tool is not None and not tool.exists():
        raise CannotMeasure(TOOL_NOT_FOUND, f"no such file: {tool}")
    return tool


def _found(name: str, folders: tuple[str, ...]) -> Path:
    path = shutil.which(name) or next((f"{folder}/{name}" for folder in folders if Path(folder, name).exists()), None)
    if path is None:
        raise CannotMeasure(TOOL_NOT_FOUND, f"{name} is not on PATH: run this on the node itself, or give --tool")
    return Path(path)


def _printed(text: ToolText) -> str:
    if text.reason:
        first = next(iter(text.output.strip().splitlines()), "without output")
        raise CannotMeasure(TOOL_FAILED, f"{text.command}: {text.reason}, {first[:200]}")
    return text.output

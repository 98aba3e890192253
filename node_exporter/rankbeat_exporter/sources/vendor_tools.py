"""The vendors' own tools, for people's comparison only: no metric is made of what they print here."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rankbeat_exporter.errors import CannotMeasure
from rankbeat_exporter.model.accelerator import VENDOR_NVIDIA
from rankbeat_exporter.parsing import npu_smi_devices, nvidia_smi

if TYPE_CHECKING:
    from rankbeat_exporter.model.comparison import ToolDevice

_log = logging.getLogger(__name__)

TOOL_NOT_FOUND = "ToolNotFound"
TOOL_FAILED = "ToolFailed"
SECONDS = 30.0
_NPU_PLACES = ("/usr/local/bin/npu-smi", "/usr/local/sbin/npu-smi")
"""As Ascend Docker Runtime's table of default mounts has it, by product (docs/node-exporter.md)."""


class Said(NamedTuple):
    """command: as a person would type it."""

    command: str
    devices: tuple[ToolDevice, ...]


def said(vendor: str, tool: Path | None) -> Said:
    """What the vendor's tool says of all devices. tool: where it is, if not on PATH.

    Raises: CannotMeasure(ToolNotFound | ToolFailed).
    """
    if vendor == VENDOR_NVIDIA:
        return _nvidia_said((_found("nvidia-smi", (), tool), *nvidia_smi.QUERY))
    return _npu_said((_found("npu-smi", _NPU_PLACES, tool), "info"))


def _nvidia_said(command: tuple[str, ...]) -> Said:
    return Said(" ".join(command), _some(nvidia_smi.devices(_printed(command)), command))


def _npu_said(command: tuple[str, ...]) -> Said:
    devices = npu_smi_devices.devices(_printed(command))
    for npu in dict.fromkeys(place.npu for place in devices):
        for kind in npu_smi_devices.MORE:
            try:
                text = _printed((*command, "-t", kind, "-i", str(npu)))
            except CannotMeasure as error:
                _log.info("left out: %s", error)
                continue
            devices = npu_smi_devices.with_more(devices, npu, kind, text)
    return Said(f"{' '.join(command)} [-t common|memory -i NPU]", _some(tuple(devices.values()), command))


def _some(devices: tuple[ToolDevice, ...], command: tuple[str, ...]) -> tuple[ToolDevice, ...]:
    if not devices:
        raise CannotMeasure(TOOL_FAILED, f"{' '.join(command)} printed no device that is understood")
    return devices


def _found(name: str, places: tuple[str, ...], tool: Path | None) -> str:
    if tool is not None:
        return str(tool)
    path = shutil.which(name) or next((place for place in places if Path(place).exists()), None)
    if path is None:
        raise CannotMeasure(TOOL_NOT_FOUND, f"{name} is not on PATH: run this on the node itself, or give --tool")
    return path


def _printed(command: tuple[str, ...]) -> str:
    """What it prints. One that hangs in its driver cannot be killed, and is not waited for."""
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
    except OSError as error:
        raise CannotMeasure(TOOL_FAILED, f"{command[0]}: {error.strerror}") from error
    try:
        printed, _ = child.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired as error:
        child.kill()
        raise CannotMeasure(TOOL_FAILED, f"{' '.join(command)} did not end within {SECONDS:g} s") from error
    text = printed.decode("utf-8", "replace")
    if child.returncode:
        first = next(iter(text.strip().splitlines()), "")
        raise CannotMeasure(TOOL_FAILED, f"{' '.join(command)} ended with {child.returncode}: {first[:200]}")
    return text

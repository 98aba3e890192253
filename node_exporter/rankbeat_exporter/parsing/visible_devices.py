"""Texts that name devices: environment variables and a device plugin's ids (docs/devices.md)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rankbeat_exporter.model.accelerator import VENDOR_HUAWEI, VENDOR_NVIDIA

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_CHARACTERS = 1024
"""The vendor's own exporter reads no longer value."""
MAX_NUMBER = 1023

_RANGE = re.compile(r"([0-9]{1,4})-([0-9]{1,4})")
_NUMBER = re.compile(r"[0-9]{1,4}")
_WHOLE = re.compile(r"[A-Za-z][A-Za-z0-9.]*-([0-9]{1,4})(?:_[A-Za-z0-9_.-]+)?")
"""Ascend910-3, npu-3, Ascend910-3_suffix: physical id 3."""
_VIRTUAL = re.compile(r"[A-Za-z][A-Za-z0-9.]*-[0-9]+c(?:\.[A-Za-z0-9]+)*-[0-9]{1,4}-([0-9]{1,4})(?:_[A-Za-z0-9_.-]+)?")
"""Ascend910-2c-111-0: virtual device 111 with two cores of physical id 0."""
_SHARED = re.compile(r"[A-Za-z][A-Za-z0-9.]*-([0-9]{1,4})-[0-9]{1,4}(?:_[A-Za-z0-9_.-]+)?")
"""Ascend310P-0-99: share 99 of physical id 0."""
_NVIDIA_NUMBER = re.compile(r"(?:nvidia)?([0-9]{1,4})")
"""0 and nvidia0: an index. A MIG instance is named by its UUID."""


def ascend_numbers(text: str) -> tuple[int, ...]:
    """Physical ids that ASCEND_VISIBLE_DEVICES names, ascending, each once.

    Five shapes: `0,1,2`, `0-3`, `0-3,5,7`, `Ascend910-0,Ascend910-1`, `npu-0,npu-1`. As in the vendor's exporter a
    piece that is none of these is skipped, a range from high to low names nothing, and a text of over MAX_CHARACTERS or
    with `=` in it names nothing at all.
    """
    if len(text) > MAX_CHARACTERS or "=" in text:
        return ()
    found: set[int] = set()
    for piece in (piece.strip() for piece in text.split(",")):
        if span := _RANGE.fullmatch(piece):
            found.update(range(int(span[1]), min(int(span[2]), MAX_NUMBER) + 1))
        elif _NUMBER.fullmatch(piece):
            found.add(int(piece))
        elif (number := ascend_number(piece)) is not None:
            found.add(number)
    return tuple(sorted(found))


def ascend_number(device_id: str) -> int | None:
    """Physical id in a device plugin's id, whatever its prefix; None where it has no such shape."""
    for shape in (_WHOLE, _VIRTUAL, _SHARED):
        if found := shape.fullmatch(device_id):
            return int(found[1])
    return None


def nvidia_names(text: str) -> tuple[str, ...]:
    """What NVIDIA_VISIBLE_DEVICES names: indices and UUIDs. `all`, `none` and `void` name no device."""
    if len(text) > MAX_CHARACTERS or text.strip() in {"all", "none", "void"}:
        return ()
    return tuple(dict.fromkeys(piece.strip() for piece in text.split(",") if piece.strip()))


def keys(vendor: str, device_ids: Iterable[str]) -> tuple[str, ...]:
    """By what the devices are to be found: an NPU's physical id, a GPU's index or UUID.

    Ids of no known shape stay as they are: they are missed rather than taken for another device.
    """
    read = {VENDOR_HUAWEI: _npu_key, VENDOR_NVIDIA: _gpu_key}[vendor]
    return tuple(dict.fromkeys(read(one) for one in device_ids))


def _npu_key(device_id: str) -> str:
    number = ascend_number(device_id)
    return device_id if number is None else str(number)


def _gpu_key(device_id: str) -> str:
    bare = device_id.partition("::")[0]  # GPU-...::3 is one of the replicas of a shared GPU
    found = _NVIDIA_NUMBER.fullmatch(bare)
    return found[1] if found else bare

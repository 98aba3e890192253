"""Accelerators of a node: raw answers of a vendor's library, and what they mean in base units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

VENDOR_HUAWEI = "huawei"

LIBRARY_NOT_FOUND = "LibraryNotFound"
LIBRARY_UNLOADABLE = "LibraryUnloadable"
INIT_FAILED = "InitFailed"
INVENTORY_FAILED = "InventoryFailed"
DRIVER_HUNG = "DriverHung"
CHILD_DIED = "ChildDied"
CHILD_UNKILLABLE = "ChildUnkillable"
SOCKET_UNAVAILABLE = "SocketUnavailable"
INVALID_SNAPSHOT = "InvalidSnapshot"
STALE = "Stale"

CODE_NO_FUNCTION = -99998
"""The library lacks the symbol (the number that the vendor's own wrapper uses, docs/sources.md, DCMI)."""


class Answer(NamedTuple):
    """What one call gave: its return code and, where that is 0, raw values in the order of the C structure."""

    code: int
    values: tuple[int | str, ...] = ()


@dataclass(frozen=True, slots=True)
class RawChip:
    """One chip as the library numbers it, and each call's answer by the call's short name (sources.dcmi.CALLS)."""

    card: int
    device: int
    answers: dict[str, Answer]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One collection of the vendor part. reason is empty where the inventory was read; restarts counts children."""

    reason: str
    detail: str = ""
    chips: tuple[RawChip, ...] = ()
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One chip's reading. None, or an absent key, is unknown; error_codes is None where they could not be read."""

    device: str
    uuid: str
    model: str
    pci_address: str
    card: int
    chip: int
    figures: dict[str, float]
    error_codes: tuple[int, ...] | None


class Failure(NamedTuple):
    """A call that gave nothing usable: code is its return code, or the sentinel that it answered, as text."""

    call: str
    code: str

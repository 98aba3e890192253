"""Accelerators of a node: raw answers of a vendor's library, and what they mean in base units."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

VENDOR_HUAWEI = "huawei"
VENDOR_NVIDIA = "nvidia"
VENDOR_NONE = ""
"""Of the snapshot from a node where no vendor's driver was found."""
VENDORS = (VENDOR_HUAWEI, VENDOR_NVIDIA)

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

CODE_MALFORMED = -99996
"""The call gave what is no number or text."""
CODE_NO_FUNCTION = -99998
"""The library lacks the symbol (the number that the vendor's own wrapper uses, docs/sources.md, DCMI)."""
CODE_HUNG = -99997
"""The call did not return within its deadline a while ago, and is left out since (a number of ours)."""


class Answer(NamedTuple):
    """What one call gave: its return code and, where that is 0, raw values in the order of the C structure."""

    code: int
    values: tuple[int | str, ...] = ()


@dataclass(frozen=True, slots=True)
class RawChip:
    """One chip as the library numbers it, and each call's answer by the call's short name.

    Huawei: card and the chip in it (sources.dcmi). NVIDIA: the GPU's index and 0, or the number from 1 of one of its
    MIG instances (sources.nvml).
    """

    card: int
    device: int
    answers: dict[str, Answer]
    repeated: tuple[str, ...] = field(default=(), compare=False)
    """Keys of answers that an earlier collection got: shown again, counted no more."""


class ToolText(NamedTuple):
    """What a vendor's tool printed: its name and arguments, and why there is no output, if there is none."""

    command: str
    reason: str
    output: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """Errors of one device with the same code, XIDs of a GPU: how often, and when last by this node's clock."""

    device: str
    uuid: str
    model: str
    code: int
    count: int
    last_seconds: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One collection from one vendor's library.

    reason is empty where the inventory was read; restarts counts children. events: since the vendor part started, also
    of devices that are listed no more.
    """

    reason: str
    detail: str = ""
    chips: tuple[RawChip, ...] = ()
    restarts: int = 0
    vendor: str = VENDOR_HUAWEI
    events: tuple[Event, ...] = ()
    unkillable: int = 0
    """Children that do not die of SIGKILL."""
    hung: str = ""
    """The call that did not return within its deadline, where that is known."""
    texts: tuple[ToolText, ...] = ()
    """Beside the library's answers, or in their place where the library is not to be had."""
    repeated_texts: tuple[str, ...] = ()
    """Commands of texts that an earlier collection had: shown again, counted no more."""
    chips_json: str = field(default="", compare=False)
    """The chips as they came, to be passed on."""


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One chip's reading. None, or an absent key, is unknown; error_codes is None where they could not be read.

    parts: figures that have one more label, by its value. instance_of: the device that this is a MIG instance of.
    """

    device: str
    uuid: str
    model: str
    pci_address: str
    card: int
    chip: int
    figures: dict[str, float]
    error_codes: tuple[int, ...] | None
    parts: dict[str, dict[str, float]] = field(default_factory=dict)
    instance_of: str = ""
    rows: dict[str, dict[tuple[str, ...], float]] = field(default_factory=dict)
    """Figures that have several more labels, by their values in the metric's order."""
    card_power_watts: float | None = None
    """Power of the card that the chip shares with others."""


class Failure(NamedTuple):
    """A call that gave nothing usable: code is its return code, or the sentinel that it answered, as text."""

    call: str
    code: str


LIBRARY, TOOL = "library", "tool"


class Readings(NamedTuple):
    """All of a vendor's devices, each call of this collection that gave nothing usable, and LIBRARY or TOOL."""

    accelerators: tuple[Accelerator, ...]
    failures: tuple[Failure, ...]
    source: str = LIBRARY

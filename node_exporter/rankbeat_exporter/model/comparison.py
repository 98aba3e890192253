"""What the exporter reads beside what the vendor's own tool prints."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

AGREES = "agrees"
DIFFERS = "DIFFERS"
ONLY_OURS = "only ours"
ONLY_TOOL = "only the tool's"


@dataclass(frozen=True, slots=True)
class ToolDevice:
    """A device as a tool prints it, figures in base units under the exporter's names; what it leaves out is absent."""

    device: str
    uuid: str = ""
    pci_address: str = ""
    model: str = ""
    figures: dict[str, float] = field(default_factory=dict)


class Row(NamedTuple):
    """One figure of one device. low and high: ours before and after the tool ran; None where one side lacks it."""

    device: str
    figure: str
    low: float | None
    high: float | None
    tool: float | None
    tolerance: float
    verdict: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rows of a vendor's devices. unmatched: devices that one side has and the other lacks, as text."""

    rows: tuple[Row, ...]
    unmatched: tuple[str, ...] = ()

    @property
    def compared(self) -> int:
        return sum(row.verdict in {AGREES, DIFFERS} for row in self.rows)

    @property
    def agrees(self) -> bool:
        return not self.unmatched and all(row.verdict != DIFFERS for row in self.rows)

"""What the pods hold of a node's accelerators, as of one collection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rankbeat_exporter.model.assignment import Assignment

if TYPE_CHECKING:
    from rankbeat_exporter.model.collection import Collection

NOTHING_HELD = Assignment()


@dataclass(frozen=True, slots=True)
class PodsView:
    """conflicts: how often each kind began, by vendor and kind."""

    assignment: Assignment = NOTHING_HELD
    conflicts: tuple[tuple[tuple[str, str], int], ...] = ()
    collections: tuple[Collection, ...] = ()

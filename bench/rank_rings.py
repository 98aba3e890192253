"""The rings of a benchmark's ranks: one pod of them, written as fast as asked."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import measuring  # noqa: F401 - puts tests/support on the path

import ring_support as support
from rankbeat_contract import ring

if TYPE_CHECKING:
    from pathlib import Path

RANKS = 8
STEPS_PER_SECOND = 10


def writers(folder: Path) -> list[support.RingWriter]:
    """A ring in the folder for each of RANKS ranks."""
    folder.mkdir(exist_ok=True)
    found = []
    for rank in range(RANKS):
        writer = support.RingWriter(folder / f"r{rank}.ring", capacity=ring.records_capacity(ring.DEFAULT_BYTES))
        writer.state(rank=rank, world_size=RANKS)
        found.append(writer)
    return found


def write_block(writer: support.RingWriter, first: int, count: int) -> None:
    """Steps first to first + count, then one state that counts them."""
    now, capacity = time.monotonic_ns(), writer.header.capacity
    for sequence in range(first, first + count):
        part = ring.pack_record_fields(ring.KIND_STEP, 0, 0, 1, sequence, sequence, now, -1, -1, 0.02, 0.001, 0.019)
        writer.put(part, ring.record_offset(sequence, capacity))
    last = first + count
    writer.state(step=last - 1, entered_step=last, step_mono_ns=now, written=last)

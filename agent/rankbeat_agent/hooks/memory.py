"""Memory of this process and of its device's allocator, bytes."""

import os
import sys
from typing import Any, Callable, Iterator, NamedTuple, Optional, Tuple

from rankbeat_contract import names

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_GIB = 1 << 30
OUT_OF_MEMORY = (
    "out of memory",
    "memory not enough",
    "memory isn't enough",
    "allocate memory failed",
    "alloc device memory failed",
    "allocate device memory failed",
)
"""What MindSpore's allocators say when the device's memory is used up, in lower case (its messages, 2.10)."""


class Device(NamedTuple):
    """MindSpore's allocator statistics."""

    figures: Tuple[Tuple[str, Callable[[], int]], ...]
    limit: Callable[[], Optional[int]]


def _limit(target: str) -> Optional[int]:
    """What the pool may take at most: the smaller of the device's memory and what the job allows itself."""
    mindspore = sys.modules["mindspore"]
    context = mindspore.context
    properties: Any = mindspore.hal.get_device_properties(context.get_context("device_id"), target)
    device_bytes = int(getattr(properties, "total_memory", 0) or 0)
    if not device_bytes:  # unknown before the device is in use
        return None
    return min(device_bytes, int(float(context.get_context("max_device_memory")) * _GIB))


def device() -> Optional[Device]:
    """The allocator of this job's device, None on CPU, where MindSpore reports zeros."""
    mindspore = sys.modules["mindspore"]
    target = mindspore.context.get_context("device_target")
    runtime = getattr(mindspore, "runtime", None)
    if target == "CPU" or runtime is None:
        return None
    figures = (
        (names.SCALAR_DEVICE_MEMORY_ALLOCATED, runtime.memory_allocated),
        (names.SCALAR_DEVICE_MEMORY_PEAK, runtime.max_memory_allocated),
        (names.SCALAR_DEVICE_MEMORY_RESERVED, runtime.memory_reserved),
    )
    return Device(figures, lambda: _limit(target))


def values(statm: int, allocator: Optional[Device]) -> Iterator[Tuple[str, float]]:
    """Names and bytes of what is known now. statm: descriptor of /proc/self/statm."""
    yield names.SCALAR_RESIDENT_MEMORY, int(os.pread(statm, 64, 0).split()[1]) * PAGE_BYTES
    if allocator is None:
        return
    for name, read in allocator.figures:
        value = read()
        if value > 0:
            yield name, value
    limit = allocator.limit()
    if limit:
        yield names.SCALAR_DEVICE_MEMORY_LIMIT, limit


def is_out_of_memory(error: Optional[BaseException]) -> bool:
    """Whether an exception says that the device's memory is used up; its text goes nowhere."""
    if isinstance(error, MemoryError):
        return True
    text = str(error).lower() if isinstance(error, RuntimeError) else ""
    return any(phrase in text for phrase in OUT_OF_MEMORY)

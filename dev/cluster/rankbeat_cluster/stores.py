"""Image stores of nodes (containerd's folders) that outlive their clusters, so that images are imported once.

They form a pool: a node takes the first one that no other node has. The lock's descriptor is inherited by the node's
holder, so a store is free again when its node is gone, however it went.
"""

from __future__ import annotations

import contextlib
import fcntl
from typing import TYPE_CHECKING

from rankbeat_cluster import programs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def claim() -> Iterator[tuple[Path, int]]:
    """A store that is nobody's, and the lock's descriptor: who inherits it before the context ends keeps the store."""
    pool = programs.CACHE / "containerd"
    pool.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        with (pool / f"store-{number}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                number += 1
                continue
            yield pool / f"store-{number}", lock.fileno()
            return

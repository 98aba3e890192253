"""Blocks of ten TCP ports on loopback, one holder each on the whole machine.

"Bind to port 0, close, use again" races between clusters that start at the same time; a lock file per block does not.
The range lies below Linux's ephemeral ports (32768 and up).
"""

from __future__ import annotations

import contextlib
import fcntl
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rankbeat_cluster import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST = 21000
SIZE = 10
BLOCKS = 500


def is_free(port: int) -> bool:
    """Whether nobody listens at a port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@contextlib.contextmanager
def block() -> Iterator[int]:
    """The first port of a block that is ours until the context ends or this program does."""
    folder = Path(tempfile.gettempdir()) / "rankbeat-ports"
    folder.mkdir(exist_ok=True)
    for base_port in range(FIRST, FIRST + SIZE * BLOCKS, SIZE):
        with (folder / str(base_port)).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            if all(is_free(port) for port in range(base_port, base_port + SIZE)):
                yield base_port
                return
    raise errors.ClusterError(f"no free block of ports from {FIRST}: something holds all locks in {folder}")

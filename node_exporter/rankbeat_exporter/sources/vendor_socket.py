"""Snapshots from the vendor part: connecting to its unix socket is the request, end of file the end of the answer."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

from rankbeat_exporter.errors import CannotMeasure, InvalidSnapshot
from rankbeat_exporter.model import accelerator
from rankbeat_exporter.parsing import vendor

if TYPE_CHECKING:
    from pathlib import Path

    from rankbeat_exporter.model.accelerator import Snapshot


def snapshots(path: Path, timeout_seconds: float, reader: vendor.Reader) -> tuple[Snapshot, ...]:
    """What the vendor part says now, one of each vendor. reader: the same each time.

    Raises: CannotMeasure(SocketUnavailable | InvalidSnapshot).
    """
    try:
        text = _received(path, time.monotonic() + timeout_seconds)
    except OSError as error:
        raise CannotMeasure(accelerator.SOCKET_UNAVAILABLE, f"{path}: {error}") from error
    try:
        return reader.snapshots(text)
    except InvalidSnapshot as error:
        raise CannotMeasure(accelerator.INVALID_SNAPSHOT, str(error)) from error


def _received(path: Path, deadline: float) -> bytes:
    received = b""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.settimeout(max(deadline - time.monotonic(), 0.001))
        channel.connect(str(path))
        while len(received) <= vendor.MAX_BYTES:
            channel.settimeout(max(deadline - time.monotonic(), 0.001))
            chunk = channel.recv(65536)
            if not chunk:
                break
            received += chunk
    return received

"""The vendor part's unix socket: one client at a time, each gets one snapshot of each vendor."""

from __future__ import annotations

import logging
import os
import socket
import threading
from typing import TYPE_CHECKING

from rankbeat_exporter.parsing import vendor

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rankbeat_exporter.model.accelerator import Snapshot

_log = logging.getLogger(__name__)

SOCKET_MODE = 0o660
CLIENT_TIMEOUT_SECONDS = 2.0


class VendorServer:
    """Listens on path, mode 0660, group of the folder where that has the setgid bit (a pod's fsGroup)."""

    def __init__(self, path: Path, snapshots: Callable[[], tuple[Snapshot, ...]]) -> None:
        self._path = path
        self._snapshots = snapshots
        self._stopped = threading.Event()
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        mask = os.umask(0o777 & ~SOCKET_MODE)
        try:
            self._listener.bind(str(path))
        finally:
            os.umask(mask)
        self._listener.listen(4)
        _log.info("serving socket=%s", path)

    def serve(self) -> None:
        """Answers until stop() is called."""
        while not self._stopped.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                if self._stopped.is_set():
                    break
                raise
            with client:
                self._answer(client)

    def stop(self) -> None:
        self._stopped.set()
        try:
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept
        except OSError:
            _log.debug("listener is down already", exc_info=True)
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def _answer(self, client: socket.socket) -> None:
        client.settimeout(CLIENT_TIMEOUT_SECONDS)
        try:
            client.sendall(b"".join(map(vendor.snapshot_bytes, self._snapshots())))
        except OSError:
            _log.debug("client went away", exc_info=True)
        except Exception:  # noqa: BLE001 - a door: one failed snapshot must not end the vendor part
            _log.exception("snapshot failed")

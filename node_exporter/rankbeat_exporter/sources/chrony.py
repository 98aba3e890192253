"""chronyd's own view of the clock: its tracking report, by its command socket or its command port.

chronyc is not asked: it is in no image of ours, its text is for people, and it needs the same socket.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rankbeat_exporter.errors import CannotMeasure
from rankbeat_exporter.model.clock import REFUSED, TIMEOUT
from rankbeat_exporter.parsing import chrony
from rankbeat_exporter.sources import sntp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rankbeat_exporter.parsing.chrony import Tracking

COMMAND_PORT = 323
TIMEOUT_SECONDS = 1.0


class Chronyd:
    """A running chronyd: the absolute path of its command socket, or host[:port] of its command port (read only).

    A socket's folder must be writable, and be mounted under the path that it has on the node: chronyd answers to the
    name of the asking socket, as it sees it itself.
    """

    def __init__(self, place: str) -> None:
        self._path = Path(place) if place.startswith("/") else None
        self._target = None if self._path else sntp.host_port(place, COMMAND_PORT)

    def tracking(self) -> Tracking:
        """The report.

        Raises: CannotMeasure(SocketNotFound | NotPermitted | Refused | Timeout | NetworkError | BadReply).
        """
        sequence = secrets.randbits(32)
        try:
            with self._channel() as channel:
                channel.send(chrony.tracking_request(sequence))
                return chrony.tracking(_reply(channel, sequence))
        except FileNotFoundError as error:
            raise CannotMeasure("SocketNotFound", str(error)) from error
        except PermissionError as error:
            raise CannotMeasure("NotPermitted", str(error)) from error
        except ConnectionRefusedError as error:
            raise CannotMeasure(REFUSED, str(error)) from error
        except TimeoutError as error:
            raise CannotMeasure(TIMEOUT, "chronyd does not answer") from error
        except OSError as error:
            raise CannotMeasure("NetworkError", str(error)) from error

    @contextmanager
    def _channel(self) -> Iterator[socket.socket]:
        if self._target is not None:
            family = socket.AF_INET6 if ":" in self._target[0] else socket.AF_INET
            with socket.socket(family, socket.SOCK_DGRAM) as channel:
                channel.connect(self._target)
                yield channel
        elif self._path is not None:
            own = self._path.with_name(f"rankbeat.{os.getpid()}.sock")
            own.unlink(missing_ok=True)
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
                try:
                    channel.bind(str(own))
                    own.chmod(0o666)  # chronyd answers as a user of its own
                    channel.connect(str(self._path))
                    yield channel
                finally:
                    own.unlink(missing_ok=True)


def _reply(channel: socket.socket, sequence: int) -> bytes:
    """The answer to this question; what answers another does not extend the wait."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        channel.settimeout(max(deadline - time.monotonic(), 1e-6))
        packet = channel.recv(1024)
        if chrony.is_reply(packet, sequence):
            return packet

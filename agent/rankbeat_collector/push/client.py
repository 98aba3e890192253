"""One POST over TLS with a deadline; the certificate authority and the token may change at any time."""

import http.client
import json
import socket
import ssl
import threading
import time
import urllib.parse
from pathlib import Path
from typing import Dict, Mapping, NamedTuple, Optional, Tuple

from rankbeat_collector.errors import RejectedError, SettingsError

_MAX_ANSWER = 64 << 10
_CLOSED = (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError, http.client.BadStatusLine)
"""How a connection that the other side closed while it was idle shows itself."""


class Answer(NamedTuple):
    """The aggregator's answer to an accepted report, and when it was sent and received by our clock."""

    body: Mapping[str, object]
    sent_wall: float
    received_wall: float


class Client:
    """Posts reports; keeps one connection."""

    def __init__(self, url: str, ca_file: str, token_file: str) -> None:
        """Raises: SettingsError if url is no https URL."""
        parts = urllib.parse.urlsplit(url)
        if parts.scheme != "https" or not parts.hostname:
            raise SettingsError("--aggregator-url", f"{url!r} is no https URL, write https://HOST:PORT")
        self._host, self._port = parts.hostname, parts.port or 443
        self._path = parts.path.rstrip("/") + "/v1/reports"
        self._ca_file, self._token_file = Path(ca_file), Path(token_file)
        self._authority = ""
        self._context: Optional[ssl.SSLContext] = None
        self._connection: Optional[http.client.HTTPSConnection] = None

    def post(self, report: Dict[str, object], deadline_seconds: float) -> Answer:
        """Sends a report, stamps its `sent_wall`.

        Raises: RejectedError for any status but 200, OSError (also ssl.SSLError) or http.client.HTTPException.
        """
        connection, is_fresh = self._connected(deadline_seconds)
        deadline = threading.Timer(deadline_seconds, self.abort)
        deadline.daemon = True
        deadline.start()
        until = time.monotonic() + deadline_seconds
        try:
            try:
                return self._exchange(connection, report)
            except _CLOSED:
                if is_fresh or time.monotonic() > until:
                    raise
            self.close()
            connection, _ = self._connected(deadline_seconds)
            return self._exchange(connection, report)
        except (OSError, http.client.HTTPException, ValueError):
            self.close()
            raise
        finally:
            deadline.cancel()

    def _connected(self, timeout_seconds: float) -> Tuple[http.client.HTTPSConnection, bool]:
        """A connection, not necessarily open yet, and whether it is a fresh one."""
        authority = self._ca_file.read_text(encoding="ascii")
        if authority != self._authority or self._context is None:
            self._context = ssl.create_default_context(cadata=authority)
            self._authority = authority
            self.close()
        if self._connection is not None:
            return self._connection, False
        self._connection = http.client.HTTPSConnection(
            self._host, self._port, timeout=timeout_seconds, context=self._context
        )
        return self._connection, True

    def _exchange(self, connection: http.client.HTTPSConnection, report: Dict[str, object]) -> Answer:
        token = self._token_file.read_text(encoding="ascii").strip()
        if not token or not token.isprintable():  # http.client's own message would hold the token
            raise ValueError(f"{str(self._token_file)!r} holds no token")
        if connection.sock is None:
            connection.connect()  # before the clock is read: the handshake is no part of the exchange
        sent_wall = time.time()
        body = json.dumps({**report, "sent_wall": sent_wall}, separators=(",", ":")).encode()
        sent_wall = time.time()
        connection.request(
            "POST", self._path, body, {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        )
        answer = connection.getresponse()
        received_wall = time.time()
        text = answer.read(_MAX_ANSWER)
        if not answer.isclosed():
            self.close()  # more than an aggregator says
        if answer.status != 200:
            raise RejectedError(answer.status, text[:300].decode("utf-8", "replace"))
        said = json.loads(text)
        return Answer(said if isinstance(said, dict) else {}, sent_wall, received_wall)

    def abort(self) -> None:
        """Ends an exchange that is under way, from another thread."""
        connection = self._connection
        sock = None if connection is None else connection.sock
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                return

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def local_clock(host: str, port: int, timeout_seconds: float) -> object:
    """What the clock service of this pod says, None if it cannot be reached."""
    connection = http.client.HTTPConnection(host, port, timeout=timeout_seconds)
    try:
        connection.request("GET", "/v1/clock")
        answer = connection.getresponse()
        return json.loads(answer.read(_MAX_ANSWER)) if answer.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()

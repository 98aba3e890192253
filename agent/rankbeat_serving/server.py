"""HTTP for a scraper, plain or TLS: GET /metrics, /healthz, and what a program adds."""

from __future__ import annotations

import contextlib
import gzip
import json
import logging
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import TYPE_CHECKING, Union

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rankbeat_serving.files import AccessFiles

_log = logging.getLogger(__name__)

Answer = tuple[int, str, bytes]
"""Status, content type and body."""
Page = Callable[[], Answer]
OPEN_PAGES = frozenset({"/healthz"})
"""For whoever asks: the kubelet's probe has neither token nor certificate, and there is nothing to read."""
MAX_CONNECTIONS = 32
"""More are closed at once: each costs a thread."""
IDLE_SECONDS = 10.0
"""Then a connection is closed on which nothing comes."""
ALERT_SECONDS = 1.0
REQUEST_SECONDS = 20.0
"""Then one is closed whatever comes: from the end of an answer, or the connection's begin, to the end of the next."""

Request = Union[socket.socket, tuple[bytes, socket.socket]]
"""What socketserver calls one: of a TCP server it is the connection."""


class HttpServer(ThreadingHTTPServer):
    """Serves pages by path; IPv4 and IPv6 where the kernel has both. pages and files may be replaced meanwhile."""

    request_queue_size = 64

    def __init__(
        self,
        port: int,
        pages: Mapping[str, Page],
        address: str = "",
        files: AccessFiles | None = None,
        *,
        compresses: bool = False,
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        """files: None for plain HTTP without a token. compresses: for who accepts it.

        Raises: OSError if the port is taken.
        """
        is_dual = not address and socket.has_dualstack_ipv6()
        self.address_family = socket.AF_INET6 if is_dual or ":" in address else socket.AF_INET
        self.pages = dict(pages)
        self.files = files
        self.compresses = compresses
        self.request_seconds = request_seconds
        self._places = threading.BoundedSemaphore(MAX_CONNECTIONS)
        super().__init__((address, port), _Handler)
        _log.info("serving port=%d tls=%s", self.server_port, bool(files and files.context()))

    def server_bind(self) -> None:
        """http.server would ask the resolver for this host's name, which nobody here reads, and may wait for it."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        TCPServer.server_bind(self)
        self.server_port = int(self.server_address[1])

    def start(self) -> None:
        """Serves in a thread of its own."""
        threading.Thread(target=self.serve_forever, daemon=True, name="http").start()

    def serve_forever(self, poll_interval: float | None = None) -> None:
        """Until shutdown(); asleep while nobody comes."""
        super().serve_forever(poll_interval)  # type: ignore[arg-type] # its selector waits for ever with None

    def shutdown(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes it
        super().shutdown()

    def process_request(self, request: Request, client_address: object) -> None:
        if not self._places.acquire(blocking=False):
            _log.warning("connection closed, there are %d already client=%s", MAX_CONNECTIONS, client_address)
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._places.release()
            raise

    def process_request_thread(self, request: Request, client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def finish_request(self, request: Request, client_address: object) -> None:
        """In the connection's own thread: who does not finish the handshake keeps nobody else waiting."""
        context = self.files.context() if self.files else None
        if context is None or not isinstance(request, socket.socket):
            super().finish_request(request, client_address)
            return
        request.settimeout(IDLE_SECONDS)
        with context.wrap_socket(request, server_side=True, do_handshake_on_connect=False) as channel:
            with _cut_off(channel, self.request_seconds):
                try:
                    channel.do_handshake()
                except OSError:
                    _let_read(channel)
                    raise
            super().finish_request(channel, client_address)

    def handle_error(self, request: object, client_address: object) -> None:
        """A scraper that went away, or whose handshake failed, is no event for the log: both are an OSError."""
        del request
        level = logging.DEBUG if isinstance(sys.exc_info()[1], OSError) else logging.ERROR
        _log.log(level, "request failed client=%s", client_address, exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: HttpServer
    protocol_version = default_request_version = "HTTP/1.1"
    server_version, sys_version = "rankbeat", ""
    timeout = IDLE_SECONDS
    disable_nagle_algorithm = True  # else a body waits 40 ms for the acknowledgement of its headers

    def handle_one_request(self) -> None:
        with _cut_off(self.connection, self.server.request_seconds):
            super().handle_one_request()

    def do_GET(self) -> None:
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # nobody reads the body: it would be taken for the next request
        status, content_type, body = self._answer(self.path.partition("?")[0])
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        if self.server.compresses and "gzip" in self.headers.get("Accept-Encoding", ""):
            body = gzip.compress(body, 1)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        if status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - its name there
        _log.debug(f"client=%s {format}", self.client_address, *arguments)

    def _answer(self, path: str) -> Answer:
        page = self.server.pages.get(path)
        if page is None:
            return 404, "text/plain", b"not found\n"
        try:
            return (None if path in OPEN_PAGES else self._refusal()) or page()
        except Exception:  # noqa: BLE001 - a door: an answer of 500 instead of a closed connection
            _log.exception("page failed path=%s", path)
            return 500, "text/plain", b"internal error\n"

    def _refusal(self) -> Answer | None:
        files = self.server.files
        if files is None:
            return None
        certificate = getattr(self.request, "getpeercert", None)
        if files.asks_for_client and not (certificate and certificate()):
            return 403, "text/plain", b"a client certificate of the configured CA is needed\n"
        if not files.is_allowed(self.headers.get("Authorization", "")):
            return 401, "text/plain", b"a bearer token is needed\n"
        return None


def _let_read(channel: socket.socket) -> None:
    """Time for the client to read the alert that says what is wrong with its certificate.

    A connection that is closed with bytes unread is reset, and the alert is lost to who writes while it comes.
    """
    with contextlib.suppress(OSError):
        socket.socket.shutdown(channel, socket.SHUT_WR)
        channel.settimeout(ALERT_SECONDS)
        while socket.socket.recv(channel, 65536):
            pass


@contextlib.contextmanager
def _cut_off(channel: socket.socket, seconds: float) -> Iterator[None]:
    """Meanwhile the connection lives for so long at most."""

    def shut_down() -> None:
        with contextlib.suppress(OSError):
            # Not that of ssl's class, which another thread is inside of.
            socket.socket.shutdown(channel, socket.SHUT_RDWR)

    timer = threading.Timer(seconds, shut_down)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def json_page(value: Callable[[], object]) -> Page:
    """A value as JSON."""
    return lambda: (200, "application/json", json.dumps(value()).encode())


def health_page(is_alive: Callable[[], bool]) -> Page:
    """/healthz: whether the program collects at all; whether it can measure is the metrics' business."""
    return lambda: (200, "text/plain", b"ok\n") if is_alive() else (503, "text/plain", b"no collection ended lately\n")

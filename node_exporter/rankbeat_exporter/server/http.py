"""HTTP for a scraper, plain or TLS: GET /metrics, /healthz, and what a program adds."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Callable, Mapping
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rankbeat_exporter.sources.web_files import WebFiles

_log = logging.getLogger(__name__)

Page = Callable[[], tuple[int, str, bytes]]
"""Status, content type and body of an answer."""
OPEN_PAGES = frozenset({"/healthz"})
"""For whoever asks: the kubelet's probe has neither token nor certificate, and there is nothing to read."""
MAX_CONNECTIONS = 32
"""More are closed at once: each costs a thread."""

MAX_LINE_BYTES = 8192
MAX_HEADERS = 64
_REASONS = {
    200: "OK", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
    500: "Internal Server Error", 503: "Service Unavailable",
}  # fmt: skip

Answer = tuple[int, str, bytes]
Request = socket.socket | tuple[bytes, socket.socket]
"""What socketserver calls one: of a TCP server it is the connection."""


class HttpServer(ThreadingTCPServer):
    """Serves pages by path; IPv4 and IPv6 where the kernel has both. pages and files may be replaced meanwhile."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port: int, pages: Mapping[str, Page], address: str = "", files: WebFiles | None = None) -> None:
        """files: None for plain HTTP without a token."""
        is_dual = not address and socket.has_dualstack_ipv6()
        self.address_family = socket.AF_INET6 if is_dual or ":" in address else socket.AF_INET
        self.pages = dict(pages)
        self.files = files
        self._places = threading.BoundedSemaphore(MAX_CONNECTIONS)
        super().__init__((address, port), _Handler)
        _log.info("serving port=%d tls=%s", self.server_address[1], bool(files and files.context()))

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    @property
    def server_port(self) -> int:
        return int(self.server_address[1])

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
        request.settimeout(_Handler.timeout)
        with context.wrap_socket(request, server_side=True) as channel:
            super().finish_request(channel, client_address)

    def handle_error(self, request: object, client_address: object) -> None:
        """A scraper that went away, or whose handshake failed, is no event for stderr."""
        del request
        _log.debug("request failed client=%s", client_address, exc_info=True)


class _Handler(StreamRequestHandler):
    """Requests of one connection. http.server would do it too, and take 7 MiB: e-mail headers, an HTTP client, TLS."""

    server: HttpServer
    timeout = 10.0
    wbufsize = -1  # headers and body in one segment: apart, Nagle and the delayed acknowledgement cost 40 ms a scrape
    disable_nagle_algorithm = True

    def handle(self) -> None:
        while True:
            line = self.rfile.readline(MAX_LINE_BYTES)
            if not line:
                return
            request = line.decode("latin-1").split()
            headers = self._headers()
            if len(request) != 3 or not request[2].startswith("HTTP/1.") or headers is None:
                self._send((400, "text/plain", b"this is no request\n"), is_last=True)
                return
            is_last = request[2] == "HTTP/1.0" or "close" in headers.get("connection", "").lower()
            is_last = is_last or request[0] != "GET" or headers.get("content-length", "0") != "0"
            if request[0] == "GET":
                answer = self._answer(request[1].partition("?")[0], headers.get("authorization", ""))
            else:
                answer = (405, "text/plain", b"write GET\n")
            _log.debug("request=%s %s status=%d client=%s", request[0], request[1], answer[0], self.client_address)
            self._send(answer, is_last=is_last)
            if is_last or "transfer-encoding" in headers:
                return

    def _headers(self) -> dict[str, str] | None:
        """By lower-case name; None where they are too long or too many."""
        headers: dict[str, str] = {}
        for _ in range(MAX_HEADERS):
            line = self.rfile.readline(MAX_LINE_BYTES)
            if line in {b"\r\n", b"\n"}:
                return headers
            name, colon, value = line.decode("latin-1").partition(":")
            if not colon or not line.endswith(b"\n"):
                return None
            headers[name.strip().lower()] = value.strip()
        return None

    def _send(self, answer: Answer, *, is_last: bool) -> None:
        status, content_type, body = answer
        head = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Unknown')}", "Server: rankbeat"]
        head += [f"Content-Type: {content_type}", f"Content-Length: {len(body)}"]
        head += ["WWW-Authenticate: Bearer"] * (status == 401) + ["Connection: close"] * is_last
        self.wfile.write("\r\n".join((*head, "", "")).encode("latin-1"))
        self.wfile.write(body)
        self.wfile.flush()

    def _answer(self, path: str, authorization: str) -> Answer:
        page = self.server.pages.get(path)
        if page is None:
            return 404, "text/plain", b"not found\n"
        try:
            return (None if path in OPEN_PAGES else self._refusal(authorization)) or page()
        except Exception:  # noqa: BLE001 - a door: an answer of 500 instead of a closed connection
            _log.exception("page failed path=%s", path)
            return 500, "text/plain", b"internal error\n"

    def _refusal(self, authorization: str) -> Answer | None:
        files = self.server.files
        if files is None:
            return None
        certificate = getattr(self.request, "getpeercert", None)
        if files.asks_for_client and not (certificate and certificate()):
            return 403, "text/plain", b"a client certificate of the configured CA is needed\n"
        if not files.is_allowed(authorization):
            return 401, "text/plain", b"a bearer token is needed\n"
        return None


def json_page(value: Callable[[], object]) -> Page:
    """A value as JSON."""
    return lambda: (200, "application/json", json.dumps(value()).encode())


def health_page(is_alive: Callable[[], bool]) -> Page:
    """/healthz: whether the program collects at all; whether it can measure is the metrics' business."""
    return lambda: (200, "text/plain", b"ok\n") if is_alive() else (503, "text/plain", b"no collection ended lately\n")

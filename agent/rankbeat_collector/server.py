"""/metrics and /healthz. A client may be slow or hostile: each has a thread, a deadline, and few are served at once."""

import functools
import gzip
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Tuple

from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import CollectorRegistry

_MAX_CLIENTS = 16
_DEADLINE_SECONDS = 10.0
"""From the connection to the end of the answer: Prometheus' own default for a scrape."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, address: Tuple[str, int], handler: Callable[..., BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._free = threading.BoundedSemaphore(_MAX_CLIENTS)
        super().__init__(address, handler)

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        deadline = threading.Timer(_DEADLINE_SECONDS, _close, (request,))
        deadline.daemon = True
        deadline.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            deadline.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no event."""


def _close(request: socket.socket) -> None:
    try:
        request.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


class _Handler(BaseHTTPRequestHandler):
    timeout = 5.0
    server_version = "rankbeat-collector"
    sys_version = ""

    def __init__(
        self, registry: CollectorRegistry, is_healthy: Callable[[], bool], request: Any, address: Any, server: _Server
    ) -> None:
        self._registry = registry
        self._is_healthy = is_healthy
        super().__init__(request, address, server)

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            encoder, content_type = choose_encoder(self.headers.get("Accept", ""))
            self._answer(200, content_type, encoder(self._registry))
        elif path == "/healthz" and self._is_healthy():
            self._answer(200, "text/plain", b"ok\n")
        elif path == "/healthz":
            self._answer(503, "text/plain", b"the poll loop is stale\n")
        else:
            self._answer(404, "text/plain", b"/metrics and /healthz are here\n")

    def _answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        if "gzip" in self.headers.get("Accept-Encoding", ""):
            body = gzip.compress(body, 1)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """A scrape is no event."""


def started(
    address: Tuple[str, int], registry: CollectorRegistry, is_healthy: Callable[[], bool]
) -> ThreadingHTTPServer:
    """A server that answers in threads of its own. address: "" is any address of either family.

    Raises: OSError if the port is taken.
    """
    host, port = address
    anywhere = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"  # noqa: S104 - scraped from other nodes
    server = _Server((host or anywhere, port), functools.partial(_Handler, registry, is_healthy))
    threading.Thread(target=server.serve_forever, name="server", daemon=True).start()
    return server

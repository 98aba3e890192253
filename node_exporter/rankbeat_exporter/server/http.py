"""Plain HTTP for a scraper: GET /metrics, /healthz, and what a program adds."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

_log = logging.getLogger(__name__)

Page = Callable[[], tuple[int, str, bytes]]
"""Status, content type and body of an answer."""


class HttpServer(ThreadingHTTPServer):
    """Serves pages by path; IPv4 and IPv6 where the kernel has both."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port: int, pages: Mapping[str, Page], address: str = "") -> None:
        is_dual = not address and socket.has_dualstack_ipv6()
        self.address_family = socket.AF_INET6 if is_dual or ":" in address else socket.AF_INET
        self.pages = dict(pages)
        super().__init__((address, port), _Handler)
        _log.info("serving port=%d", self.server_address[1])

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # HTTPServer.server_bind would ask the DNS for our own name.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "", self.server_address[1]

    def handle_error(self, request: object, client_address: object) -> None:
        """A scraper that went away is no event for stderr."""
        del request
        _log.debug("request failed client=%s", client_address, exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: HttpServer
    protocol_version = "HTTP/1.1"
    timeout = 10.0
    wbufsize = -1  # headers and body in one segment: apart, Nagle and the delayed acknowledgement cost 40 ms a scrape
    disable_nagle_algorithm = True
    server_version = "rankbeat"
    sys_version = ""

    def do_GET(self) -> None:
        page = self.server.pages.get(self.path.partition("?")[0])
        try:
            status, content_type, body = page() if page else (404, "text/plain", b"not found\n")
        except Exception:  # noqa: BLE001 - a door: an answer of 500 instead of a closed connection
            _log.exception("page failed path=%s", self.path)
            status, content_type, body = 500, "text/plain", b"internal error\n"
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        _log.debug(format, *args)


def metrics_page(collector: Collector) -> Page:
    """/metrics of one collector."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return lambda: (200, CONTENT_TYPE_LATEST, generate_latest(registry))


def json_page(value: Callable[[], object]) -> Page:
    """A value as JSON."""
    return lambda: (200, "application/json", json.dumps(value()).encode())


def health_page(is_alive: Callable[[], bool]) -> Page:
    """/healthz: whether the program collects at all; whether it can measure is the metrics' business."""
    return lambda: (200, "text/plain", b"ok\n") if is_alive() else (503, "text/plain", b"no collection ended lately\n")

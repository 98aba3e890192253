"""A real HTTPS server that takes reports as the aggregator does, with a certificate of its own authority."""

from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
import json
import socket
import ssl
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@dataclass(frozen=True)
class Certificate:
    """A self-signed certificate for 127.0.0.1 that is its own authority."""

    certificate: bytes
    key: bytes


def a_certificate() -> Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "rankbeat-aggregator")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Certificate(
        made.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


@dataclass
class Receiver:
    """What came in, and how to answer."""

    url: str = ""
    reports: list[dict[str, Any]] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    status: int = 200
    clock_ahead_seconds: float = 0.0
    pause_seconds: float = 0.0
    connections: list[socket.socket] = field(default_factory=list)
    arrived: threading.Condition = field(default_factory=threading.Condition)

    def wait(self, until: Callable[[], bool], seconds: float = 10.0) -> None:
        """Waits until something holds that a request may change."""
        with self.arrived:
            assert self.arrived.wait_for(until, seconds), f"{len(self.reports)} reports, tokens {self.tokens}"

    def wait_for_reports(self, count: int) -> list[dict[str, Any]]:
        self.wait(lambda: len(self.reports) >= count)
        return self.reports


@contextlib.contextmanager
def receiving(certificate: Certificate, folder: Path, port: int = 0) -> Iterator[Receiver]:
    """A running server on 127.0.0.1. folder: where its certificate may lie."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            with receiver.arrived:
                receiver.connections.append(self.request)
                receiver.arrived.notify_all()
            super().setup()

        def do_POST(self) -> None:
            received = time.time() + receiver.clock_ahead_seconds
            report = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            time.sleep(receiver.pause_seconds)
            with receiver.arrived:
                status = receiver.status
                receiver.tokens.append(self.headers["Authorization"])
                if status == 200:
                    receiver.reports.append(report)
                receiver.arrived.notify_all()
            sent = time.time() + receiver.clock_ahead_seconds
            body = json.dumps(
                {"received_wall": received, "sent_wall": sent} if status == 200 else {"error": "not now"}
            ).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *args: object) -> None:
            pass

    pem = folder / f"receiver-{id(receiver)}.pem"
    pem.write_bytes(certificate.key + certificate.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    server = Server(("127.0.0.1", port), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    receiver.url = f"https://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield receiver
    finally:
        for connection in receiver.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        server.shutdown()
        thread.join()
        server.server_close()

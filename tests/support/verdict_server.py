"""An aggregator that answers with what a test says, over TLS."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from rankbeat_operator.kube import pki

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class VerdictServer:
    """jobs: those of /v1/verdicts, changed at will."""

    def __init__(self, url: str, ca_file: Path) -> None:
        self.url = url
        self.ca_file = ca_file
        self.jobs: list[dict[str, Any]] = []

    @property
    def environment(self) -> dict[str, str]:
        """Makes an operator ask here."""
        return {"RANKBEAT_AGGREGATOR_URL": self.url, "RANKBEAT_CA_FILE": str(self.ca_file)}


@contextlib.contextmanager
def running(folder: Path) -> Iterator[VerdictServer]:
    """The server, its certificates in folder."""
    signer = pki.authority(time.time())
    pair = pki.serving(signer, ("localhost",), time.time())
    for name, text in (("ca.crt", signer.certificate), ("tls.crt", pair.certificate), ("tls.key", pair.key)):
        (folder / name).write_text(text)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    answers: list[VerdictServer] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"started_wall": 0.0, "nodes": [], "jobs": answers[0].jobs}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("localhost", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    answers.append(VerdictServer(f"https://localhost:{server.server_address[1]}", folder / "ca.crt"))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield answers[0]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

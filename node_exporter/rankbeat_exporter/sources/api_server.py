"""The API server over one connection of the standard library: GET with the pod's own token, read anew as it rotates.

The official client is left aside: its import alone costs more than all the rest of the program.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rankbeat_exporter.errors import CannotMeasure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CREDENTIALS = Path("/var/run/secrets/kubernetes.io/serviceaccount")
API_UNAVAILABLE = "ApiUnavailable"
API_REFUSED = "ApiRefused"
MAX_BYTES = 64 << 20


class Server(NamedTuple):
    """Where it listens, and the folder with token and ca.crt."""

    host: str
    port: int
    credentials: Path = CREDENTIALS


def in_cluster(environment: Mapping[str, str] = os.environ) -> Server | None:
    """The server that the kubelet names in a container's environment; None outside a cluster."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    return Server(host, int(port)) if host and port and port.isdigit() else None


def document(server: Server, path: str, timeout_seconds: float) -> dict[str, object]:
    """The JSON object at path.

    Raises: CannotMeasure(ApiUnavailable | ApiRefused).
    """
    answer, connection = opened(server, path, timeout_seconds)
    try:
        given = json.loads(answer.read(MAX_BYTES))
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise CannotMeasure(API_UNAVAILABLE, f"{path}: {error}") from error
    finally:
        connection.close()
    return given if isinstance(given, dict) else {}


def lines(server: Server, path: str, silence_seconds: float) -> Iterator[dict[str, object]]:
    """JSON objects, one a line, as a watch sends them, until the server ends it or is silent for too long.

    Raises: CannotMeasure as document.
    """
    answer, connection = opened(server, path, silence_seconds)
    try:
        while line := answer.readline(MAX_BYTES):
            given = json.loads(line)
            if isinstance(given, dict):
                yield given
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise CannotMeasure(API_UNAVAILABLE, f"{path}: {error}") from error
    finally:
        connection.close()


def opened(
    server: Server, path: str, timeout_seconds: float
) -> tuple[http.client.HTTPResponse, http.client.HTTPSConnection]:
    """An answer with status 200, not yet read, and its connection to close.

    Raises: CannotMeasure as document.
    """
    try:
        context = ssl.create_default_context(cafile=str(server.credentials / "ca.crt"))
        token = (server.credentials / "token").read_text().strip()
    except (OSError, ssl.SSLError) as error:
        raise CannotMeasure(API_UNAVAILABLE, f"credentials in {server.credentials}: {error}") from error
    connection = http.client.HTTPSConnection(server.host, server.port, timeout=timeout_seconds, context=context)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}", "Accept": "application/json"})
        answer = connection.getresponse()
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        raise CannotMeasure(API_UNAVAILABLE, f"{path}: {error}") from error
    if answer.status != http.client.OK:
        reason = f"{path}: {answer.status} {answer.reason}"
        connection.close()
        raise CannotMeasure(API_REFUSED, reason)
    return answer, connection

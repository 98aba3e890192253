"""The few requests that starting a cluster needs, with the standard library and the admin's certificate."""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.parse
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rankbeat_cluster import errors

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Api:
    """An apiserver at `server` (https://HOST:PORT) and the folder of certificates to reach it with."""

    server: str
    pki: Path


def request(api: Api, method: str, path: str, body: Mapping[str, object] | None = None) -> tuple[int, bytes]:
    """Status and body of one request; (0, b"") when nobody answers."""
    context = ssl.create_default_context(cafile=str(api.pki / "ca.crt"))
    context.load_cert_chain(str(api.pki / "admin.crt"), str(api.pki / "admin.key"))
    place = urllib.parse.urlsplit(api.server)
    connection = http.client.HTTPSConnection(place.hostname or "", place.port, timeout=TIMEOUT_SECONDS, context=context)
    headers = {"Content-Type": "application/apply-patch+yaml" if method == "PATCH" else "application/json"}
    try:
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()


def is_ok(api: Api, path: str) -> bool:
    """Whether a GET answers 200."""
    return request(api, "GET", path)[0] == http.HTTPStatus.OK


def get(api: Api, path: str) -> dict[str, object]:
    """The object at path; empty when it is not there or nobody answers."""
    status, body = request(api, "GET", path)
    found: dict[str, object] = json.loads(body) if status == http.HTTPStatus.OK else {}
    return found


def apply(api: Api, path: str, manifest: Mapping[str, object]) -> None:
    """Server-side apply of one object.

    Raises: ClusterError with the server's answer.
    """
    status, body = request(api, "PATCH", f"{path}?fieldManager=rankbeat-cluster&force=true", manifest)
    if status not in {http.HTTPStatus.OK, http.HTTPStatus.CREATED}:
        raise errors.ClusterError(f"apply of {path} answered {status}: {body.decode(errors='replace')[:500]}")


def is_node_ready(api: Api, name: str) -> bool:
    """Whether a node's Ready condition is True."""
    return is_condition_true(get(api, f"/api/v1/nodes/{name}"), "Ready")


def is_condition_true(found: Mapping[str, object], kind: str) -> bool:
    """Whether status.conditions holds `kind` with status True."""
    status = found.get("status")
    conditions = status.get("conditions", []) if isinstance(status, dict) else []
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)

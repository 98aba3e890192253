"""/metrics and /healthz over a real socket."""

from __future__ import annotations

import contextlib
import http.client
from typing import TYPE_CHECKING

import pytest
from prometheus_client import Gauge
from prometheus_client.registry import CollectorRegistry

from rankbeat_collector import server

if TYPE_CHECKING:
    from collections.abc import Iterator

HEALTHY = [True]


@pytest.fixture
def port() -> Iterator[int]:
    registry = CollectorRegistry()
    Gauge("rankbeat_step", "step", registry=registry).set(5)
    running = server.started(("127.0.0.1", 0), registry, lambda: HEALTHY[0])
    yield running.server_address[1]
    running.shutdown()
    running.server_close()


def get(port: int, path: str, **headers: str) -> tuple[int, str, bytes]:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read()


def test_metrics_are_prometheus_text(port: int) -> None:
    status, kind, body = get(port, "/metrics")

    assert (status, kind.split(";")[0]) == (200, "text/plain")
    assert body == b"# HELP rankbeat_step step\n# TYPE rankbeat_step gauge\nrankbeat_step 5.0\n"


def test_a_stale_poll_loop_is_not_healthy(port: int) -> None:
    healthy = get(port, "/healthz")[0]
    HEALTHY[0] = False
    try:
        stale = get(port, "/healthz")[0]
    finally:
        HEALTHY[0] = True

    assert (healthy, stale) == (200, 503)


def test_nothing_else_is_there(port: int) -> None:
    assert get(port, "/etc/passwd")[0] == 404

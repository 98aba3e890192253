"""A real aggregator on real TLS, in this process; only the API server may be played by a function."""

import asyncio
import contextlib
import io
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rankbeat_aggregator.server import run
from rankbeat_aggregator.server.app import Users
from rankbeat_aggregator.server.run import Listen, Outside, Running
from rankbeat_aggregator.server.service import Clock
from rankbeat_aggregator.server.tls import Certificate, Files
from rankbeat_aggregator.server.tokens import Identity
from rankbeat_cluster import pki

REPORTER = "system:serviceaccount:rankbeat:rankbeat-node"
READER = "system:serviceaccount:rankbeat:rankbeat-operator"


@dataclass
class Reviewer:
    """An API server's knowledge of tokens, and whether it answers."""

    known: dict[str, Identity] = field(
        default_factory=lambda: {
            "n0": Identity(REPORTER, "n0"),
            "n1": Identity(REPORTER, "n1"),
            "old": Identity(REPORTER, None),
            "operator": Identity(READER, None),
            "other": Identity("system:serviceaccount:team-a:default", "n0"),
        }
    )
    is_down: bool = False
    asked: list[str] = field(default_factory=list)

    def __call__(self, token: str) -> Identity | None:
        self.asked.append(token)
        if self.is_down:
            raise ConnectionRefusedError(111, "Connection refused")
        return self.known.get(token)


@dataclass
class NoMonitors:
    """An API server that does not speak of monitors."""

    def listed(self) -> tuple[dict[tuple[str, str], Mapping[str, object]], str]:
        raise ConnectionRefusedError(111, "Connection refused")

    def watched(self, version: str, changed: Callable[..., None]) -> None:
        raise AssertionError(version)


def a_certificate(folder: Path) -> Files:
    """A certificate for 127.0.0.1 of an authority in folder/ca.crt."""
    folder.mkdir(exist_ok=True)
    authority = pki.authority(folder, "ca")
    pki.issue(authority, folder / "tls", ("rankbeat-aggregator", ""), ("rankbeat-aggregator",), ("127.0.0.1",))
    return Files(folder / "tls.crt", folder / "tls.key")


@dataclass
class Client:
    """Speaks to a running aggregator as collectors and the operator do."""

    program: Running
    http: aiohttp.ClientSession
    authority: Path
    reviewer: Any
    certificate: Certificate

    async def post(self, body: object, token: str | None = "n0") -> tuple[int, dict[str, Any]]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.ask("POST", "/v1/reports", token, io.BytesIO(data))

    async def verdicts(self, token: str | None = "operator") -> tuple[int, dict[str, Any]]:
        return await self.ask("GET", "/v1/verdicts", token)

    async def ask(
        self, method: str, path: str, token: str | None, data: io.BytesIO | None = None
    ) -> tuple[int, dict[str, Any]]:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        trust = ssl.create_default_context(cafile=str(self.authority))
        url = f"https://127.0.0.1:{self.program.port}{path}"
        async with self.http.request(method, url, data=data, headers=headers, ssl=trust) as answer:
            return answer.status, json.loads(await answer.read())

    async def plain(self, path: str) -> tuple[int, str]:
        async with self.http.get(f"http://127.0.0.1:{self.program.metrics_port}{path}") as answer:
            return answer.status, await answer.text()


@contextlib.asynccontextmanager
async def serving(folder: Path, outside: Outside) -> AsyncIterator[Client]:
    certificate = Certificate(a_certificate(folder))
    async with (
        run.running(Listen("127.0.0.1", 0, 0), certificate, outside) as program,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(20)) as http,
    ):
        yield Client(program, http, folder / "ca.crt", outside.review, certificate)


@pytest.fixture
def in_thread() -> Callable[..., Any]:
    """Runs a blocking function beside the event loop."""
    return asyncio.to_thread


@pytest.fixture
def serve() -> Callable[..., Any]:
    """Runs an aggregator in a world of the test's own."""
    return serving


@pytest.fixture
async def aggregator(tmp_path: Path) -> AsyncIterator[Client]:
    """A running aggregator whose API server is a Reviewer."""
    reviewer = Reviewer()
    outside = Outside(reviewer, NoMonitors(), Users(REPORTER, READER), Clock())
    async with serving(tmp_path / "tls", outside) as client:
        yield client

"""The HTTP surface: reports in, verdicts out, metrics and health beside them."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from rankbeat_aggregator.errors import Forbidden, InvalidReport, ReviewUnavailable
from rankbeat_aggregator.model import report as reports
from rankbeat_aggregator.server import verdicts
from rankbeat_aggregator.server.service import Service
from rankbeat_aggregator.server.tokens import Identity, Tokens

log = logging.getLogger(__name__)

BODY_BYTES = 8 << 20
REQUEST_SECONDS = 20.0
"""Deadline of one request: a report's body may come over a bad link, a connection held open may not."""
STUCK_SECONDS = 10.0
"""Not healthy if the last judgement is older: the loop runs every second."""


@dataclass(frozen=True, slots=True)
class Users:
    """Who may do what."""

    reporter: str
    reader: str


class Handlers:
    """Requests of the TLS port."""

    def __init__(self, service: Service, tokens: Tokens, users: Users) -> None:
        self._service = service
        self._tokens = tokens
        self._users = users

    async def post_reports(self, request: web.Request) -> web.Response:
        return await self._guarded(request, self._users.reporter, self._report)

    async def get_verdicts(self, request: web.Request) -> web.Response:
        return await self._guarded(request, self._users.reader, self._verdicts)

    async def _guarded(
        self,
        request: web.Request,
        user: str,
        handle: Callable[[web.Request, Identity], Awaitable[web.Response]],
    ) -> web.Response:
        counted = self._service.counts.reports if handle == self._report else None
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                return await handle(request, await self._allowed(request, user))
        except (Forbidden, InvalidReport, ReviewUnavailable, TimeoutError, web.HTTPRequestEntityTooLarge) as error:
            status, result = _refusal(error)
            if counted is not None:
                counted[result] += 1
            log.warning(
                "event=refused path=%s remote=%s status=%d error=%s", request.path, request.remote, status, error
            )
            return web.json_response({"error": _words(error)}, status=status)

    async def _allowed(self, request: web.Request, user: str) -> Identity:
        identity = await self._tokens.identity(request.headers.get("Authorization", ""))
        if identity.user != user:
            raise Forbidden(403, f"{identity.user!r} may not do this, {user!r} may")
        return identity

    async def _report(self, request: web.Request, identity: Identity) -> web.Response:
        body = await request.read()
        receipt = self._service.receipt()
        try:
            report = reports.parse(json.loads(body))
        except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
            raise InvalidReport(field="body", reason="is no JSON") from error
        if identity.node is None:
            self._service.counts.without_node_claim += 1
        elif identity.node != report.node:
            raise Forbidden(403, f"the token belongs to node {identity.node!r}, the report to {report.node!r}")
        self._service.accept(report, receipt)
        return web.json_response({"received_wall": receipt.wall, "sent_wall": self._service.clock.wall()})

    async def _verdicts(self, _request: web.Request, _identity: Identity) -> web.Response:
        return web.json_response(verdicts.answer(self._service))


def _refusal(error: Exception) -> tuple[int, str]:
    match error:
        case Forbidden():
            return error.status, "unauthenticated" if error.status == 401 else "forbidden"
        case InvalidReport():
            return 422, "invalid"
        case web.HTTPRequestEntityTooLarge():
            return 413, "too_large"
        case ReviewUnavailable():
            return 503, "unavailable"
        case _:
            return 408, "timeout"


def _words(error: Exception) -> str:
    match error:
        case web.HTTPRequestEntityTooLarge():
            return f"body is larger than {BODY_BYTES} bytes, send fewer steps and scalars"
        case TimeoutError():
            return f"request took longer than {REQUEST_SECONDS:g} s, send it again"
        case _:
            return str(error)


def secured(service: Service, tokens: Tokens, users: Users) -> web.Application:
    """The application of the TLS port."""
    handlers = Handlers(service, tokens, users)
    application = web.Application(client_max_size=BODY_BYTES)
    application.add_routes(
        [web.post("/v1/reports", handlers.post_reports), web.get("/v1/verdicts", handlers.get_verdicts)]
    )
    return application


def plain(service: Service, registry: CollectorRegistry) -> web.Application:
    """The application of the metrics port."""

    async def metrics(_request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def healthz(_request: web.Request) -> web.Response:
        judged = service.counts.evaluation_mono
        is_healthy = judged is not None and service.clock.mono() - judged < STUCK_SECONDS
        return web.Response(text="ok\n" if is_healthy else "judging is stuck\n", status=200 if is_healthy else 503)

    application = web.Application()
    application.add_routes([web.get("/metrics", metrics), web.get("/healthz", healthz)])
    return application

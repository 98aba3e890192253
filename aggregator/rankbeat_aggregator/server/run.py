"""The running program: listeners, loops, and their end."""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass

from aiohttp import web
from prometheus_client import CollectorRegistry

from rankbeat_aggregator.server import app, monitors
from rankbeat_aggregator.server.app import Users
from rankbeat_aggregator.server.metrics import Metrics
from rankbeat_aggregator.server.service import Clock, Service
from rankbeat_aggregator.server.tls import Certificate
from rankbeat_aggregator.server.tokens import Review, Tokens

log = logging.getLogger(__name__)

CERTIFICATE_SECONDS = 5.0
SHUTDOWN_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Listen:
    """Where to listen; port 0 takes a free one."""

    host: str
    port: int
    metrics_port: int


@dataclass(frozen=True, slots=True)
class Outside:
    """The world that the program runs in."""

    review: Review
    source: monitors.Source
    users: Users
    clock: Clock


@dataclass(frozen=True, slots=True)
class Running:
    """A program that runs."""

    service: Service
    port: int
    metrics_port: int


@contextlib.asynccontextmanager
async def running(listen: Listen, certificate: Certificate, outside: Outside) -> AsyncIterator[Running]:
    """Runs the program until the block is left."""
    watch = monitors.Watch(outside.source, outside.clock.mono)
    service = Service(watch.settings, outside.clock)
    tokens = Tokens(outside.review, outside.clock.mono)
    registry = CollectorRegistry()
    registry.register(Metrics(service, watch))
    watch.start()
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(watch.stop)
        stack.callback(tokens.close)
        secured = app.secured(service, tokens, outside.users)
        port = await stack.enter_async_context(_listener(secured, listen.host, listen.port, certificate.context))
        metrics_port = await stack.enter_async_context(
            _listener(app.plain(service, registry), listen.host, listen.metrics_port, None)
        )
        async with asyncio.TaskGroup() as tasks:
            loops = [tasks.create_task(service.run()), tasks.create_task(_follow(certificate))]
            try:
                yield Running(service, port, metrics_port)
            finally:
                for loop in loops:
                    loop.cancel()


async def _follow(certificate: Certificate) -> None:
    while True:
        await asyncio.sleep(CERTIFICATE_SECONDS)
        certificate.refresh()


@contextlib.asynccontextmanager
async def _listener(
    application: web.Application, host: str, port: int, context: ssl.SSLContext | None
) -> AsyncIterator[int]:
    """Serves the application; gives its port."""
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, ssl_context=context).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()

"""HTTPS for the API server (/v1/pods) and plain HTTP for kubelet and Prometheus (/healthz, /readyz, /metrics)."""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import logging
import ssl
import time
from typing import TYPE_CHECKING, NamedTuple

import prometheus_client
from aiohttp import web
from prometheus_client import core, registry

from rankbeat_contract import metrics as table
from rankbeat_contract import names
from rankbeat_webhook import errors
from rankbeat_webhook.model import plans, pods, raw
from rankbeat_webhook.patch import decisions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

log = logging.getLogger(__name__)

PODS_PATH = "/v1/pods"
BODY_BYTES = 3 << 20
"""The API server's own limit of a request."""
DEADLINE_SECONDS = 1.5
"""The API server gives up after 2 s (timeoutSeconds)."""
SETTLE_SECONDS = 0.5
"""How long a decision may wait for caches that are only late: a Job's first pod follows it within milliseconds."""
SETTLE_STEP_SECONDS = 0.02
STALE_SECONDS = 60.0
"""Age from which a cache is said to be stale; watches renew their contact every watch.WATCH_SECONDS."""

RESULTS = {names.INJECTED: "injected", plans.NOT_SELECTED: "untouched", names.REASON_ALREADY_INJECTED: "untouched"}
"""Label result of a decision; every other is skipped."""


class Metrics:
    """What the webhook counts, and the age of each cache at the moment of the scrape.

    ages: seconds since the API server last answered, None before it first did.
    """

    def __init__(self, ages: Callable[[], Mapping[str, float | None]]) -> None:
        self.registry = prometheus_client.CollectorRegistry()
        self.injections = prometheus_client.Counter(
            table.WEBHOOK_INJECTIONS.name,
            table.WEBHOOK_INJECTIONS.help,
            table.WEBHOOK_INJECTIONS.labels,
            registry=self.registry,
        )
        self.seconds = prometheus_client.Histogram(
            table.WEBHOOK_REQUEST_SECONDS.name,
            table.WEBHOOK_REQUEST_SECONDS.help,
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0),
            registry=self.registry,
        )
        self.waiting = prometheus_client.Gauge(
            table.WEBHOOK_WAITING.name,
            table.WEBHOOK_WAITING.help,
            table.WEBHOOK_WAITING.labels,
            registry=self.registry,
        )
        self.registry.register(_Ages(ages))


class Need(NamedTuple):
    """What a replica must have before it is sent pods. advice: what it is and who brings it."""

    what: str
    advice: str
    is_met: Callable[[], bool]


class Readiness:
    """What a replica waits for. Once all needs were met at one look it waits for nothing again.

    What goes later must not take the webhook down: without it pods train unseen, with it most are seen.
    """

    def __init__(self, needs: tuple[Need, ...], metrics: Metrics) -> None:
        self._needs = needs
        self._was_ready = False
        for need in needs:
            metrics.waiting.labels(need.what).set_function(functools.partial(self._waits_for, need))

    def missing(self) -> tuple[Need, ...]:
        """The needs that are not met."""
        missing = () if self._was_ready else tuple(need for need in self._needs if not need.is_met())
        self._was_ready = not missing
        return missing

    def _waits_for(self, need: Need) -> float:
        return float(need in self.missing())


class _Ages(registry.Collector):
    def __init__(self, ages: Callable[[], Mapping[str, float | None]]) -> None:
        self._ages = ages

    def collect(self) -> Iterator[core.GaugeMetricFamily]:
        """Age and staleness of each cache; absent before its first contact."""
        age, stale = (
            core.GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
            for metric in (table.WEBHOOK_CACHE_AGE, table.WEBHOOK_CACHE_STALE)
        )
        for name, seconds in self._ages().items():
            if seconds is not None:
                age.add_metric([name], seconds)
                stale.add_metric([name], float(seconds > STALE_SECONDS))
        yield age
        yield stale


class Reviews:
    """Answers AdmissionReviews. Whatever goes wrong, the pod is allowed as it is."""

    def __init__(self, settings: plans.Settings, view: Callable[[pods.Pod], plans.View], metrics: Metrics) -> None:
        self._settings = settings
        self._view = view
        self._metrics = metrics

    def app(self) -> web.Application:
        """The application that the API server calls."""
        app = web.Application(client_max_size=BODY_BYTES)
        app.router.add_post(PODS_PATH, self._answer)
        return app

    async def _answer(self, request: web.Request) -> web.Response:
        started = time.perf_counter()
        uid = ""
        operations: tuple[Mapping[str, object], ...] = ()
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                body: object = json.loads(await request.read())
                uid = raw.text(body, "request", "uid")
                decision = await self._decided(pods.reviewed_pod(body))
            operations = decision.operations
            self._count(RESULTS.get(decision.result, "skipped"), decision.result)
        except Exception:  # a door: a pod is never denied
            log.exception("review failed uid=%s", uid)
            self._count("failed", names.REASON_ERROR)
        self._metrics.seconds.observe(time.perf_counter() - started)
        return web.json_response(_review_response(uid, operations))

    def _count(self, result: str, reason: str) -> None:
        self._metrics.injections.labels(result, reason).inc()

    async def _decided(self, pod: pods.Pod) -> plans.Decision:
        """The decision, after a short wait where the caches may only be late."""
        deadline = time.monotonic() + SETTLE_SECONDS
        decision = decisions.decision(pod, self._settings, self._view(pod))
        while not decision.is_settled and time.monotonic() < deadline:
            await asyncio.sleep(SETTLE_STEP_SECONDS)
            decision = decisions.decision(pod, self._settings, self._view(pod))
        owner = pod.owner.name if pod.owner else ""
        log.info(
            "pod decided namespace=%s owner=%s monitor=%s result=%s",
            pod.namespace,
            owner,
            decision.monitor,
            decision.result,
        )
        return decision


def _review_response(uid: str, operations: tuple[Mapping[str, object], ...]) -> Mapping[str, object]:
    response: dict[str, object] = {"uid": uid, "allowed": True}
    if operations:
        patch = base64.b64encode(json.dumps(operations).encode()).decode()
        response |= {"patchType": "JSONPatch", "patch": patch}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def probes_app(metrics: Metrics, obstacle: Callable[[], str]) -> web.Application:
    """The application that kubelet and Prometheus call. obstacle: why no pod is to be sent now, "" if one may be."""

    async def health(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readiness(_request: web.Request) -> web.Response:
        why = obstacle()
        return web.Response(text=f"{why or 'ok'}\n", status=503 if why else 200)

    async def exposition(_request: web.Request) -> web.Response:
        body = prometheus_client.generate_latest(metrics.registry)
        return web.Response(body=body, headers={"Content-Type": prometheus_client.CONTENT_TYPE_LATEST})

    app = web.Application()
    app.router.add_get("/healthz", health)
    app.router.add_get("/readyz", readiness)
    app.router.add_get("/metrics", exposition)
    return app


class Certificates:
    """The TLS side of a folder with tls.crt and tls.key, which is read again when they change."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read = b""
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)

    def refresh(self) -> bool:
        """Whether a changed pair was taken; connections made from now on are served with it.

        Raises: CertificateError if there is none, or if the two files do not belong together (they change one after the
        other); what was read before stays in use.
        """
        certificate, key = self._folder / "tls.crt", self._folder / "tls.key"
        try:
            found = certificate.read_bytes() + key.read_bytes()
            if found == self._read:
                return False
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
            self.context.load_cert_chain(certificate, key)
        except OSError as error:  # ssl.SSLError is one
            raise errors.CertificateError(str(self._folder), str(error)) from error
        self._read = found
        return True

"""python -m rankbeat_webhook: caches, then probes, then TLS, until SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import functools
import importlib.util
import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web

from kubernetes import client, config
from rankbeat_contract import names, packing
from rankbeat_webhook import errors, server, version, watch
from rankbeat_webhook.model import plans, pods, raw

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger(__name__)

CERTIFICATE_SECONDS = 5.0
"""How often the certificate's files are looked at; the kubelet itself takes up to a minute to change them."""
WAIT_SECONDS = 0.5
"""How often a replica that is not ready looks whether it is; the kubelet asks once a second."""
DRAIN_SECONDS = 5.0
"""How long requests are still served after SIGTERM: until then Services may send some, and a refused one is a pod
without the agent."""


def agent_files() -> dict[str, str]:
    """The installed agent: path in its volume -> text."""
    files = {}
    for package in packing.PACKAGES:
        spec = importlib.util.find_spec(package)
        for folder in spec.submodule_search_locations or () if spec else ():
            for path in sorted(Path(folder).rglob("*.py")):
                place = packing.place(f"{package}/{path.relative_to(folder).as_posix()}")
                if place is not None:
                    files[place] = path.read_text(encoding="utf-8")
    return files


def sidecar(text: str) -> plans.Sidecar | None:
    """The sidecar that the install allows, from JSON: image, pullPolicy, pullSecrets, resources. None for no text.

    Raises: SidecarError if the text is none of that.
    """
    if not text:
        return None
    try:
        document: object = json.loads(text)
    except ValueError as error:
        raise errors.SidecarError(str(error)) from error
    image, resources = raw.text(document, "image"), raw.labels(document, "resources")
    if not image or set(resources) != {"cpu", "memory"}:
        raise errors.SidecarError("image is missing, or resources are not cpu and memory")
    policy = raw.text(document, "pullPolicy") or "IfNotPresent"
    return plans.Sidecar(image, policy, raw.texts(document, "pullSecrets"), resources)


def settings(ring_limit: str, sidecar: plans.Sidecar | None = None) -> plans.Settings:
    """The settings of this install.

    Raises: AgentError if the agent is not installed beside us.
    """
    files = agent_files()
    if "sitecustomize.py" not in files:
        raise errors.AgentError(len(files))
    packed = packing.packed(files)
    return plans.Settings(packed.hash, tuple(packed.items), ring_limit, sidecar)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="rankbeat_webhook", description=__doc__)
    parser.add_argument("--namespace", default=os.environ.get("RANKBEAT_NAMESPACE", ""), help="the release's namespace")
    parser.add_argument(
        "--certificates", type=Path, default=Path("/etc/rankbeat/tls"), help="folder of tls.crt, tls.key"
    )
    parser.add_argument("--ring-limit", default=plans.RING_LIMIT, help="sizeLimit of a pod's ring volume")
    parser.add_argument(
        "--sidecar",
        default=os.environ.get("RANKBEAT_SIDECAR", ""),
        help="the sidecar as JSON: image, pullPolicy, pullSecrets, resources; empty: none is allowed",
    )
    parser.add_argument("--kubeconfig", help="default: the pod's ServiceAccount")
    parser.add_argument("--address", help="address to listen on, default all")
    parser.add_argument("--port", type=int, default=names.PORT_WEBHOOK)
    parser.add_argument("--metrics-port", type=int, default=names.PORT_WEBHOOK_METRICS)
    parser.add_argument("--drain-seconds", type=float, default=DRAIN_SECONDS, help="time from SIGTERM to the end")
    arguments = parser.parse_args()
    if not arguments.namespace:
        parser.error("--namespace is missing: write the namespace of the release, or set RANKBEAT_NAMESPACE")
    return arguments


def _api(kubeconfig: str | None) -> client.ApiClient:
    if kubeconfig:
        api: client.ApiClient = config.new_client_from_config(config_file=kubeconfig)  # type: ignore[no-untyped-call]
        return api
    config.load_incluster_config()  # type: ignore[no-untyped-call]
    return client.ApiClient()


async def _first_certificate(certificates: server.Certificates, stopping: asyncio.Event) -> None:
    """Back when there is a certificate, or the program is to stop."""
    while not stopping.is_set():
        try:
            certificates.refresh()
        except errors.CertificateError as error:
            log.warning("certificate missing error=%r", str(error))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), 1.0)
        else:
            return


async def _follow_certificate(certificates: server.Certificates) -> None:
    while True:
        await asyncio.sleep(CERTIFICATE_SECONDS)
        try:
            if certificates.refresh():
                log.info("certificate replaced")
        except errors.CertificateError as error:
            log.warning("certificate kept error=%r", str(error))


async def _announce(readiness: server.Readiness) -> None:
    """Says what keeps this replica from being ready, whenever that changes, and when nothing does any more."""
    said: tuple[server.Need, ...] = ()
    while missing := readiness.missing():
        if missing != said:
            waits = "; ".join(need.advice for need in missing)
            log.info("waiting what=%s until=%r", ",".join(need.what for need in missing), waits)
        said = missing
        await asyncio.sleep(WAIT_SECONDS)
    log.info("ready")


def _needs(
    caches: watch.Caches, install: plans.Settings, namespace: str, listening: asyncio.Event
) -> tuple[server.Need, ...]:
    agent = f"ConfigMap {names.AGENT_CONFIG_MAP_PREFIX}{install.agent} is in namespace {namespace}"
    return (
        server.Need("certificate", "the certificate is there, which the operator writes", listening.is_set),
        server.Need("caches", "the API server has been read", lambda: caches.are_synced),
        server.Need(
            "agent",
            f"{agent}, which the operator of this version writes last of all: see its log",
            lambda: caches.has_agent(install.agent),
        ),
    )


def _view(caches: watch.Caches, api_server: version.Server, pod: pods.Pod) -> plans.View:
    return dataclasses.replace(caches.view(pod), server=api_server.version)


async def _serve(
    arguments: argparse.Namespace, caches: watch.Caches, api_server: version.Server, stopping: asyncio.Event
) -> None:
    def ages() -> Mapping[str, float | None]:
        return {cache.name: cache.age_seconds for cache in caches}

    def obstacle() -> str:
        return "stopping" if stopping.is_set() else "; ".join(f"waits until {n.advice}" for n in readiness.missing())

    view = functools.partial(_view, caches, api_server)
    listening = asyncio.Event()
    metrics = server.Metrics(ages)
    install = settings(arguments.ring_limit, sidecar(arguments.sidecar))
    readiness = server.Readiness(_needs(caches, install, arguments.namespace, listening), metrics)
    probes = web.AppRunner(server.probes_app(metrics, obstacle), access_log=None)
    announcer = asyncio.create_task(_announce(readiness))
    reviews = web.AppRunner(server.Reviews(install, view, metrics).app(), access_log=None)
    certificates = server.Certificates(arguments.certificates)
    try:
        await probes.setup()
        await web.TCPSite(probes, arguments.address, arguments.metrics_port).start()
        await _first_certificate(certificates, stopping)
        if stopping.is_set():
            return
        await reviews.setup()
        await web.TCPSite(reviews, arguments.address, arguments.port, ssl_context=certificates.context).start()
        listening.set()
        log.info("serving port=%s agent=%s", arguments.port, install.agent)
        follower = asyncio.create_task(_follow_certificate(certificates))
        await stopping.wait()
        await asyncio.sleep(arguments.drain_seconds)
        follower.cancel()
    finally:
        announcer.cancel()
        await reviews.cleanup()
        await probes.cleanup()


async def _run(arguments: argparse.Namespace) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    api = _api(arguments.kubeconfig)
    caches = watch.caches(api, arguments.namespace)
    api_server = version.Server(api)
    for each in (*caches, api_server):
        each.start()
    try:
        await _serve(arguments, caches, api_server, stopping)
    finally:
        api_server.stop()
        await asyncio.gather(*(asyncio.to_thread(cache.stop) for cache in caches))


def main() -> None:
    """Serve until SIGTERM."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    sys.setrecursionlimit(names.RECURSION_LIMIT)
    asyncio.run(_run(_arguments()))


if __name__ == "__main__":
    main()

"""python -m rankbeat_operator: settings from the environment, then kopf's watches and our own tasks until SIGTERM."""

import asyncio
import logging
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import kopf

from rankbeat_contract import names
from rankbeat_operator.handlers import health, loops, watching
from rankbeat_operator.handlers.context import Context, Settings
from rankbeat_operator.handlers.keys import Keys
from rankbeat_operator.kube import cluster, files
from rankbeat_operator.kube.events import Events


def settings(environment: Mapping[str, str]) -> Settings:
    """Settings, with defaults for all but RANKBEAT_NAMESPACE.

    Raises: KeyError without RANKBEAT_NAMESPACE.
    """
    namespace = environment["RANKBEAT_NAMESPACE"]
    aggregator = f"https://{names.AGGREGATOR}.{namespace}.svc:{names.PORT_AGGREGATOR}"
    ca_file = environment.get("RANKBEAT_CA_FILE", "")
    return Settings(
        namespace=namespace,
        fleet_folder=Path(environment.get("RANKBEAT_FLEET_DIR", "/etc/rankbeat/fleet")),
        aggregator_url=environment.get("RANKBEAT_AGGREGATOR_URL", aggregator),
        token_file=Path(environment.get("RANKBEAT_TOKEN_FILE", "/var/run/secrets/rankbeat/token")),
        ca_file=Path(ca_file) if ca_file else None,
        port=int(environment.get("RANKBEAT_PORT", str(names.PORT_OPERATOR))),
        resync_seconds=float(environment.get("RANKBEAT_RESYNC_SECONDS", "30")),
    )


async def run(chosen: Settings) -> None:
    """The operator, until a signal or until one of its tasks fails."""
    api = cluster.Cluster(cluster.api_client())
    context = Context(
        settings=chosen,
        cluster=api,
        events=Events(api, time.time),
        agent=files.installed_agent(),
        keys=Keys(time.monotonic),
        clock=time.monotonic,
        wall=time.time,
    )
    server = await health.serve(context)
    own = [loops.resync(context), loops.poll_verdicts(context), *(loops.work(context) for _ in range(loops.WORKERS))]
    watches = kopf.operator(
        registry=watching.registry(context), settings=watching.settings(), standalone=True, clusterwide=True
    )
    tasks = [asyncio.create_task(task) for task in (watches, *own)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=5.0)
        await server.cleanup()


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="time=%(asctime)s level=%(levelname)s logger=%(name)s %(message)s")
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)  # a line for each event of each object
    sys.setrecursionlimit(names.RECURSION_LIMIT)
    asyncio.run(run(settings(os.environ)))


if __name__ == "__main__":
    main()

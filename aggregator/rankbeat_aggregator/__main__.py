"""python -m rankbeat_aggregator: reports in, verdicts and a few series out."""

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from rankbeat_aggregator.server import kubernetes_api, run
from rankbeat_aggregator.server.app import Users
from rankbeat_aggregator.server.service import Clock
from rankbeat_aggregator.server.tls import Certificate, Files
from rankbeat_contract import names

log = logging.getLogger("rankbeat_aggregator")


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="rankbeat_aggregator", description=__doc__)
    parser.add_argument("--host", default="0.0.0.0", help="address to listen on")  # noqa: S104 - inside a pod
    parser.add_argument("--port", type=int, default=names.PORT_AGGREGATOR, help="TLS: reports and verdicts")
    parser.add_argument("--metrics-port", type=int, default=names.PORT_AGGREGATOR_METRICS, help="metrics, health")
    parser.add_argument("--tls-cert", type=Path, required=True, help="PEM certificate chain, reloaded when it changes")
    parser.add_argument("--tls-key", type=Path, required=True, help="PEM key of the chain")
    parser.add_argument("--reporter-user", required=True, help="system:serviceaccount:NAMESPACE:rankbeat-node")
    parser.add_argument("--reader-user", required=True, help="system:serviceaccount:NAMESPACE:rankbeat-operator")
    parser.add_argument("--kubeconfig", help="kubeconfig file; without it the pod's own ServiceAccount")
    parser.add_argument("--log-level", default="INFO", choices=("DEBUG", "INFO", "WARNING", "ERROR"))
    return parser.parse_args(given)


async def serve(given: argparse.Namespace) -> None:
    """Runs until SIGTERM or SIGINT."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    api = kubernetes_api.client(given.kubeconfig)
    outside = run.Outside(
        review=kubernetes_api.token_review(api),
        source=kubernetes_api.Monitors(api),
        users=Users(given.reporter_user, given.reader_user),
        clock=Clock(),
    )
    certificate = Certificate(Files(given.tls_cert, given.tls_key))
    async with run.running(run.Listen(given.host, given.port, given.metrics_port), certificate, outside) as program:
        log.info("event=started port=%d metrics_port=%d", program.port, program.metrics_port)
        await stopping.wait()
        log.info("event=stopping")


def main() -> None:
    given = arguments()
    logging.basicConfig(
        level=given.log_level, format="time=%(asctime)s level=%(levelname)s logger=%(name)s %(message)s"
    )
    sys.setrecursionlimit(names.RECURSION_LIMIT)
    asyncio.run(serve(given))


if __name__ == "__main__":
    main()

"""/metrics and /healthz of the collector."""

from typing import Callable, Optional, Tuple

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import CollectorRegistry

from rankbeat_serving.files import AccessFiles
from rankbeat_serving.server import Answer, HttpServer, health_page


def started(
    address: Tuple[str, int],
    registry: CollectorRegistry,
    is_healthy: Callable[[], bool],
    files: Optional[AccessFiles] = None,
) -> HttpServer:
    """A server that answers in threads of its own. address: "" is any address of either family. files: None is plain.

    Raises: OSError if the port is taken.
    """

    def metrics() -> Answer:
        return 200, CONTENT_TYPE_PLAIN_0_0_4, generate_latest(registry)

    host, port = address
    pages = {"/metrics": metrics, "/healthz": health_page(is_healthy)}
    server = HttpServer(port, pages, host, files, compresses=True)
    server.start()
    return server

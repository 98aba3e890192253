"""The collector beside one job: reads the rings of one folder and writes the outputs that monitor.json asks for.

No API server, no token, no port unless one is asked for. `sidecar` runs in the training pod until SIGTERM; `local` on a
laptop or a bare node, until SIGINT or, with --once, until all that is there is written.
"""

import logging
import sys
import threading
from typing import Callable, List, Sequence

from rankbeat_collector.sidecar import options
from rankbeat_collector.sidecar.loop import Loop

_log = logging.getLogger(__name__)

COMMANDS = ("sidecar", "local")


def run(command: str, arguments: Sequence[str], stopped: threading.Event) -> int:
    """Runs a command to its end. Raises: SettingsError, OSError if the port is taken."""
    given = options.settings(command, arguments)
    sys.path.extend(path for path in given.monitor_paths if path not in sys.path)
    loop = Loop(given)
    served: List[Callable[[], None]] = []
    if given.listen is not None:
        served.append(_served(given, loop))
    _log.info("%s started rings=%s out=%s", command, given.rings, given.out)
    loop.run(stopped)
    for close in served:
        close()
    _log.info("%s stopped", command)
    return 0


def _served(given: options.Settings, loop: Loop) -> Callable[[], None]:
    """Serves /metrics; gives back what ends it. prometheus_client is imported only here."""
    from prometheus_client.registry import CollectorRegistry  # noqa: PLC0415

    from rankbeat_collector import server  # noqa: PLC0415
    from rankbeat_collector.files import families  # noqa: PLC0415

    registry = CollectorRegistry()
    registry.register(families.OutputsCollector((given.namespace, given.pod), loop.configured))
    serving = server.started(given.listen or ("", 0), registry, lambda: loop.latest is not None)
    return serving.socket.close

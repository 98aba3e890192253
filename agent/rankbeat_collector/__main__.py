"""python -m rankbeat_collector: the node collector; with `sidecar` or `local`: the collector beside one job."""

import argparse
import logging
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from typing import Callable, Optional, Sequence, Tuple

from prometheus_client.registry import CollectorRegistry

from rankbeat_collector import outputs, server, sidecar
from rankbeat_collector.errors import SettingsError
from rankbeat_collector.model.pods import Pod
from rankbeat_collector.model.ranks import Poll
from rankbeat_collector.model.reports import Sender
from rankbeat_collector.push import client
from rankbeat_collector.push.loop import Pusher
from rankbeat_collector.ring import polling
from rankbeat_collector.tiers.polling import TieredPoller
from rankbeat_contract import names
from rankbeat_serving import access
from rankbeat_serving.access import Access, AccessError
from rankbeat_serving.files import AccessFiles

_log = logging.getLogger("rankbeat_collector")

_CLOCK_SECONDS = 0.5
_LAST_PUSH_SECONDS = 1.5
_STALE_SECONDS = 10.0
"""A poll takes milliseconds; without one for this long the collector is to be restarted."""

Pods = Callable[[], Optional[Tuple[Pod, ...]]]


@dataclass(frozen=True)
class Settings:
    """What the collector is started with."""

    node: str
    kubelet_root: str
    pod_logs: str
    """Where the folder of all pods' logs is; empty: no log is read."""
    poll_seconds: float
    push_seconds: float
    aggregator_url: str
    ca_file: str
    token_file: str
    listen: Tuple[str, int]
    access: Access
    clock_port: int


def settings(arguments: Sequence[str]) -> Settings:
    """Settings of a command line. Raises: SettingsError, AccessError; SystemExit on --help or an unknown option."""
    parser = argparse.ArgumentParser(prog="rankbeat-collector", description=__doc__)
    parser.add_argument("--node", default=os.environ.get("NODE_NAME", ""), help="this node's name (NODE_NAME)")
    parser.add_argument("--kubelet-root", default="/var/lib/kubelet", help="its folder pods/ holds the pods' volumes")
    parser.add_argument("--pod-logs", default="", help="the node's /var/log/pods, for pods whose monitors ask for it")
    parser.add_argument("--poll-interval", type=float, default=0.5, metavar="SECONDS")
    parser.add_argument("--push-interval", type=float, default=5.0, metavar="SECONDS")
    parser.add_argument("--aggregator-url", default="", help="https://HOST:PORT; without it nothing is reported")
    parser.add_argument("--ca-file", default="/etc/rankbeat/ca/ca.crt", help="who signed the aggregator's certificate")
    parser.add_argument("--token-file", default="/var/run/secrets/rankbeat/token", help="projected token")
    parser.add_argument("--host", default="", help="address to listen on; any by default")
    parser.add_argument("--port", type=int, default=names.PORT_COLLECTOR)
    parser.add_argument(
        "--clock-port", type=int, default=names.PORT_CLOCK_LOOPBACK, help="of the clock on the loopback"
    )
    access.add_options(parser)
    given = parser.parse_args(arguments)
    if not given.node:
        raise SettingsError("--node", "empty, set it or NODE_NAME")
    if not (0.05 <= given.poll_interval <= 5 and 0.5 <= given.push_interval <= 300):
        raise SettingsError("--poll-interval, --push-interval", "poll every 0.05 to 5 s, push every 0.5 to 300 s")
    return Settings(
        node=given.node,
        kubelet_root=given.kubelet_root,
        pod_logs=given.pod_logs,
        poll_seconds=given.poll_interval,
        push_seconds=given.push_interval,
        aggregator_url=given.aggregator_url,
        ca_file=given.ca_file,
        token_file=given.token_file,
        listen=(given.host, given.port),
        access=access.checked(access.given(given)),
        clock_port=given.clock_port,
    )


class Latest:
    """The last poll, shared by one writer with many readers."""

    def __init__(self) -> None:
        self.poll: Optional[Poll] = None
        self._at = time.monotonic()

    def set(self, poll: Poll) -> None:
        self.poll = poll
        self._at = time.monotonic()

    def is_fresh(self) -> bool:
        return time.monotonic() - self._at < _STALE_SECONDS


def collect(given: Settings, source: polling.Source, counts: outputs.Counts, stopped: threading.Event) -> None:
    """Polls, serves and pushes until stopped.

    Raises: SettingsError, AccessError, OSError if the port is taken.
    """
    latest = Latest()
    pusher = None
    if given.aggregator_url:
        clock = lambda: client.local_clock("127.0.0.1", given.clock_port, _CLOCK_SECONDS)  # noqa: E731
        posting = client.Client(given.aggregator_url, given.ca_file, given.token_file)
        pusher = Pusher(posting, Sender(given.node, given.push_seconds), counts, clock)
        pusher.start()
    registry = CollectorRegistry()
    registry.register(outputs.PollCollector(given.node, lambda: latest.poll, counts, 2 * given.push_seconds))
    serving = server.started(given.listen, registry, latest.is_fresh, AccessFiles(given.access))
    _log.info("collector started node=%s port=%d root=%s", given.node, serving.server_address[1], source.root)
    poller = TieredPoller(polling.Poller(source), source.root, given.pod_logs)
    while True:
        is_last = stopped.wait(given.poll_seconds)
        try:
            poll = poller.poll()
        except Exception:  # noqa: BLE001 - the door of the loop
            counts.errors["poll"] += 1
            if counts.errors["poll"] == 1:
                _log.exception("poll failed")
        else:
            latest.set(poll)
            if pusher is not None:
                pusher.offer(poll)
        if is_last:
            break
    if pusher is not None:
        pusher.stop(_LAST_PUSH_SECONDS)
    serving.socket.close()
    _log.info("collector stopped")


def main(arguments: Sequence[str], pods: Optional[Pods] = None) -> int:
    """Runs until SIGTERM. pods: instead of the API's."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stderr)
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    try:
        if arguments and arguments[0] in sidecar.COMMANDS:
            return sidecar.run(arguments[0], arguments[1:], stopped)
        given = settings(arguments)
        counts = outputs.Counts()
        source = polling.kubelet_source(given.kubelet_root, pods or _api_pods(given.node, counts))
        collect(given, source, counts, stopped)
    except (SettingsError, AccessError) as error:
        _log.error("collector cannot start %s", error)
        return 2
    return 0


def _api_pods(node: str, counts: outputs.Counts) -> Pods:
    """Pods as the API says them, watched in a thread. The kubernetes client is imported only here: it costs 27 MiB."""
    from kubernetes.client.api_client import ApiClient  # noqa: PLC0415
    from kubernetes.client.configuration import Configuration  # noqa: PLC0415
    from kubernetes.config import ConfigException  # noqa: PLC0415
    from kubernetes.config.incluster_config import load_incluster_config  # noqa: PLC0415

    from rankbeat_collector.pods import Watcher  # noqa: PLC0415

    configuration = Configuration()
    try:
        load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except ConfigException as error:
        raise SettingsError("KUBERNETES_SERVICE_HOST", f"no access to the API server: {error}") from error
    watcher = Watcher(ApiClient(configuration), node, counts)
    watcher.start()
    return watcher.pods


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

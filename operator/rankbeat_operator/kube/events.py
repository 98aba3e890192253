"""Kubernetes events about our objects, each at most once in ten minutes."""

import socket
from collections.abc import Callable

from rankbeat_contract import names
from rankbeat_operator.kube.cluster import Cluster
from rankbeat_operator.model.manifests import Manifest, time_text

QUIET_SECONDS = 600.0


class Events:
    """Writes events. wall: the epoch."""

    def __init__(self, cluster: Cluster, wall: Callable[[], float]) -> None:
        self._cluster = cluster
        self._wall = wall
        self._written: dict[tuple[str, str], float] = {}

    async def warn(self, about: Manifest, reason: str, message: str) -> None:
        """A warning about an object, unless it was given for this reason within QUIET_SECONDS.

        Raises: ApiError.
        """
        now = self._wall()
        key = (about["metadata"]["uid"], reason)
        self._written = {old: at for old, at in self._written.items() if now - at < QUIET_SECONDS}
        if key in self._written:
            return
        await self._cluster.create(_event(about, reason, message, now))
        self._written[key] = now


def _event(about: Manifest, reason: str, message: str, now: float) -> Manifest:
    metadata = about["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{metadata['name'][:200]}.", "namespace": metadata["namespace"]},
        "involvedObject": {
            "apiVersion": about["apiVersion"],
            "kind": about["kind"],
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        },
        "type": "Warning",
        "reason": reason,
        "message": message[:1024],
        "count": 1,
        "firstTimestamp": time_text(now),
        "lastTimestamp": time_text(now),
        "source": {"component": names.OPERATOR},
        "reportingComponent": names.OPERATOR,
        "reportingInstance": socket.gethostname(),
    }

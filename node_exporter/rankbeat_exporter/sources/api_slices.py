"""ResourceSlices of this node by the API server: which device a name in a resource claim means."""

from __future__ import annotations

import time
import urllib.parse
from typing import TYPE_CHECKING

from rankbeat_exporter.errors import CannotMeasure
from rankbeat_exporter.model.assignment import Published
from rankbeat_exporter.parsing import resource_slices
from rankbeat_exporter.sources import api_server

if TYPE_CHECKING:
    from collections.abc import Callable

    from rankbeat_exporter.model.assignment import Claimed
    from rankbeat_exporter.sources.api_server import Server

PATH = "/apis/resource.k8s.io/v1/resourceslices"
LIST_SECONDS = 2.0
SLICE_SECONDS = 30.0
"""A name comes to mean another device only while nobody holds it: when its driver starts anew."""


class ResourceSlices:
    """Nothing is asked while no pod holds a device by a claim."""

    def __init__(self, server: Server, node: str, now: Callable[[], float] = time.monotonic) -> None:
        self._server = server
        query = {"fieldSelector": f"spec.nodeName={node}", "resourceVersion": "0"}
        self._path = f"{PATH}?{urllib.parse.urlencode(query)}"
        self._now = now
        self._asked: frozenset[Claimed] = frozenset()
        self._next = 0.0
        self._last = Published()

    def published(self, claimed: frozenset[Claimed]) -> Published:
        """What is known of these devices, read again every SLICE_SECONDS and for one that was not asked for before.

        What is known of a device stays while it is held: the kubelet deletes the slices of its node when it starts and
        when a driver has been away for 30 s (1.36.3).
        """
        known = {one: self._last.attributes[one] for one in claimed if one in self._last.attributes}
        reason, detail = self._last.reason, self._last.detail
        if claimed - self._asked or (claimed and self._now() >= self._next):
            self._next = self._now() + SLICE_SECONDS
            try:
                found = resource_slices.attributes(api_server.document(self._server, self._path, LIST_SECONDS))
                known |= {one: found[one] for one in claimed if one in found}
                reason, detail = "", ""
            except CannotMeasure as error:
                reason, detail = error.reason, error.detail
        self._asked = claimed
        self._last = Published(known, reason, detail) if claimed - known.keys() else Published(known)
        return self._last

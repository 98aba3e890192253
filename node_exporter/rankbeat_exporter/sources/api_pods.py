"""The pods of this node by the API server: list and watch, in a thread of its own; and rank tables that they mount."""

from __future__ import annotations

import logging
import threading
import time
import urllib.parse
from typing import TYPE_CHECKING

from rankbeat_exporter.errors import CannotMeasure
from rankbeat_exporter.parsing import ascend_annotations, pods
from rankbeat_exporter.sources import api_server

if TYPE_CHECKING:
    from rankbeat_exporter.model.assignment import Pod
    from rankbeat_exporter.sources.api_server import Server

_log = logging.getLogger(__name__)

LIST_SECONDS = 10.0
WATCH_SECONDS = 240
"""How long the server keeps a watch; then we list again, so what a watch may have missed is there again."""
SILENCE_SECONDS = 90.0
"""The server sends bookmarks about once a minute: a longer silence is a dead connection."""
LONGEST_PAUSE_SECONDS = 30.0
TABLE_SECONDS = 30.0
"""A rank table changes when the job's pods do."""


class NodePods:
    """Pods of one node that have not ended, as the API last said them."""

    def __init__(self, server: Server, node: str) -> None:
        self._server = server
        self._query = {"fieldSelector": f"spec.nodeName={node}"}
        self._pods: dict[str, Pod] | None = None
        self._reason = ""
        self._stopped = threading.Event()

    def pods(self) -> tuple[Pod, ...] | None:
        """By namespace and name; None until the first list."""
        known = self._pods
        return None if known is None else tuple(sorted(known.values(), key=lambda one: (one.namespace, one.name)))

    def start(self) -> None:
        threading.Thread(target=self._run, name="pods", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        failures = 0
        while not self._stopped.is_set():
            try:
                version = self._list()
                failures = 0
                self._watch(version)
            except CannotMeasure as error:
                _log.warning("pods not watched reason=%s detail=%r", error.reason, error.detail[:300])
                failures += 1
            except Exception:  # noqa: BLE001 - the door of the loop
                _log.exception("pods not watched")
                failures += 1
            if failures:
                self._stopped.wait(min(LONGEST_PAUSE_SECONDS, 2.0 ** min(failures, 8) / 2))

    def _list(self) -> str:
        """Lists from the server's cache, which is cheap for it.

        Raises: CannotMeasure.
        """
        query = urllib.parse.urlencode({**self._query, "resourceVersion": "0"})
        answer = api_server.document(self._server, f"/api/v1/pods?{query}", LIST_SECONDS)
        items, metadata = answer.get("items"), answer.get("metadata")
        read = (pods.pod(one) for one in items or () if isinstance(one, dict)) if isinstance(items, list) else ()
        self._pods = {one.uid: one for one in read if one is not None}
        _log.debug("pods listed pods=%d", len(self._pods))
        return str(metadata.get("resourceVersion", "")) if isinstance(metadata, dict) else ""

    def _watch(self, version: str) -> None:
        """Follows changes until the server ends the watch.

        Raises: CannotMeasure.
        """
        wanted = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version}
        query = urllib.parse.urlencode({**self._query, **wanted, "timeoutSeconds": str(WATCH_SECONDS)})
        for event in api_server.lines(self._server, f"/api/v1/pods?{query}", SILENCE_SECONDS):
            if self._stopped.is_set():
                return
            self._apply(event)

    def _apply(self, event: dict[str, object]) -> None:
        kind, given = event.get("type"), event.get("object")
        if kind == "ERROR" or not isinstance(given, dict):
            raise CannotMeasure(api_server.API_UNAVAILABLE, f"watch ended: {str(given)[:200]}")
        metadata = given.get("metadata")
        if kind not in {"ADDED", "MODIFIED", "DELETED"} or not isinstance(metadata, dict):
            return
        known = dict(self._pods or {})
        known.pop(str(metadata.get("uid", "")), None)
        pod = pods.pod(given)
        if kind != "DELETED" and pod is not None:
            known[pod.uid] = pod
        self._pods = known


class RankTables:
    """Texts of the rank tables that pods mount. Needs the right to get ConfigMaps, which is given on request only."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._read: dict[tuple[str, str], tuple[float, str]] = {}

    def of(self, present: tuple[Pod, ...]) -> dict[tuple[str, str], str]:
        """By namespace and name, each read again after TABLE_SECONDS; without those that cannot be read."""
        wanted = {(pod.namespace, name) for pod in present for name in pod.rank_tables}
        self._read = {key: kept for key, kept in self._read.items() if key in wanted}
        now = time.monotonic()
        for key in wanted:
            if key not in self._read or now - self._read[key][0] > TABLE_SECONDS:
                self._read[key] = (now, self._text(key))
        return {key: text for key, (_, text) in self._read.items() if text}

    def _text(self, key: tuple[str, str]) -> str:
        namespace, name = map(urllib.parse.quote, key)
        path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
        try:
            content = api_server.document(self._server, path, LIST_SECONDS / 5).get("data")
        except CannotMeasure as error:
            _log.warning("rank table not read configmap=%s/%s reason=%s", namespace, name, error.reason)
            return ""
        return str(content.get(ascend_annotations.RANK_TABLE_KEY, "")) if isinstance(content, dict) else ""

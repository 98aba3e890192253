"""Which pods of this node the webhook has seen: list and watch, in a thread of its own."""

import json
import logging
import random
import threading
import urllib.parse
from typing import Any, Dict, Iterator, Mapping, Optional, Tuple

import urllib3.exceptions
from kubernetes.client.api_client import ApiClient
from kubernetes.client.exceptions import ApiException

from rankbeat_collector.errors import WatchEndedError
from rankbeat_collector.model import pods
from rankbeat_collector.model.pods import Pod
from rankbeat_collector.outputs import Counts
from rankbeat_contract import names

_log = logging.getLogger(__name__)

_LIST_SECONDS = (5.0, 30.0)
_WATCH_SECONDS = 240
"""How long the server keeps a watch; afterwards we list again, so what a watch may have missed is there again."""
_SILENCE_SECONDS = 90.0
"""The server sends bookmarks about once a minute: a longer silence is a dead connection."""
_LONGEST_PAUSE_SECONDS = 30.0


class Watcher:
    """The pods of one node that may be observed, as the API last said them.

    The generated models are left aside: importing CoreV1Api alone costs 94 MiB (kubernetes 37.0.2, 2026-11-30).
    """

    def __init__(self, api: ApiClient, node: str, counts: Counts) -> None:
        self._api = api
        self._query = {
            "fieldSelector": f"spec.nodeName={node}",
            "labelSelector": f"{names.LABEL_STATE} in ({names.STATE_INJECTED},{names.STATE_SKIPPED})",
        }
        self._pods: Optional[Dict[str, Pod]] = None
        self._stopped = threading.Event()
        self._counts = counts

    def pods(self) -> Optional[Tuple[Pod, ...]]:
        """Pods, oldest name first; None until the first list."""
        known = self._pods
        return None if known is None else tuple(sorted(known.values(), key=lambda each: (each.namespace, each.name)))

    def start(self) -> None:
        threading.Thread(target=self.run, name="pods", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def run(self) -> None:
        """Keeps the pods current until stopped; lists anew after each watch and each error."""
        failures = 0
        while not self._stopped.is_set():
            try:
                version = self._list()
                failures = 0
                self._watch(version)
            except (ApiException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
                _log.warning("pods not watched error=%s message=%r", type(error).__name__, str(error)[:300])
                failures += 1
            except Exception:  # noqa: BLE001 - the door of the loop
                _log.exception("pods not watched")
                self._counts.errors["pods"] += 1
                failures += 1
            if failures:
                pause = min(_LONGEST_PAUSE_SECONDS, 2.0 ** min(failures, 8) / 2)
                self._stopped.wait(pause * (0.5 + random.random() / 2))  # noqa: S311 - spreads nodes, hides nothing

    def _list(self) -> str:
        answer = json.loads(self._get(self._query, _LIST_SECONDS).data)
        found = (pods.pod(raw) for raw in answer.get("items") or ())
        listed = {pod.uid: pod for pod in found if pod is not None}
        if self._pods is None or self._pods.keys() != listed.keys():
            _log.info("pods listed pods=%d unattributed=%d", len(listed), len(answer.get("items") or ()) - len(listed))
        self._pods = listed
        return str(answer["metadata"]["resourceVersion"])

    def _watch(self, version: str) -> None:
        """Follows changes until the server ends the watch.

        Raises: WatchEndedError if it says that it cannot go on.
        """
        query = {
            **self._query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        response = self._get(query, (5.0, _SILENCE_SECONDS))
        try:
            for event in _events(response):
                if self._stopped.is_set():
                    return
                self._apply(event)
        finally:
            response.close()

    def _apply(self, event: Mapping[str, Any]) -> None:
        kind, raw = event.get("type"), event.get("object") or {}
        if kind == "ERROR":
            raise WatchEndedError(int(raw.get("code") or 0), str(raw.get("message", "")))
        if kind not in {"ADDED", "MODIFIED", "DELETED"}:
            return
        known = dict(self._pods or {})
        known.pop(str((raw.get("metadata") or {}).get("uid", "")), None)
        pod = pods.pod(raw)
        if kind != "DELETED" and pod is not None:
            known[pod.uid] = pod
        self._pods = known

    def _get(self, query: Mapping[str, str], timeout: Tuple[float, float]) -> Any:
        """The raw answer, not yet read."""
        method, url, headers, body, form = self._api.param_serialize(
            "GET",
            "/api/v1/pods?" + urllib.parse.urlencode(query),
            header_params={"Accept": "application/json"},
            auth_settings=["BearerToken"],
        )
        answer = self._api.call_api(method, url, headers, body, form, _request_timeout=timeout)
        if answer.status != 200:
            raise ApiException(status=answer.status, reason=answer.response.data[:300].decode("utf-8", "replace"))
        return answer.response


def _events(response: Any) -> Iterator[Mapping[str, Any]]:
    for line in response:
        if line.strip():
            yield json.loads(line)

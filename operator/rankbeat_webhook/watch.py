"""Caches of the few objects that decisions need: list in pages, then watch, all as raw JSON, in one thread each."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
import urllib.parse
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from rankbeat_contract import names
from rankbeat_webhook import errors
from rankbeat_webhook.model import jobs, monitors, plans, raw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import urllib3

    from kubernetes import client
    from rankbeat_webhook.model import pods

log = logging.getLogger(__name__)

PAGE = 500
WATCH_SECONDS = 30
"""How long one watch lasts: each new one proves contact, and must come well before the cache counts as stale."""
CONNECT_SECONDS = 5.0
STOP_SECONDS = 2.0
BACK_OFF_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Kept(Generic[V]):
    """What of an object is kept, and under which key."""

    key: str
    value: V


class Cache(Generic[V]):
    """The objects at one path of the API, up to date as long as the API server can be reached.

    path: with query, for example /apis/batch/v1/jobs. keep: pure. Reads never wait; they see what came last.
    """

    def __init__(
        self, name: str, api: client.ApiClient, path: str, keep: Callable[[object], Kept[V]], page: int = PAGE
    ) -> None:
        self.name = name
        self._api = api
        self._path = path
        self._keep = keep
        self._page = page
        self._values: dict[str, V] = {}
        self._synced = threading.Event()
        self._stopped = threading.Event()
        self._contact = 0.0
        self._response: urllib3.HTTPResponse | None = None
        self._thread = threading.Thread(target=self._run, name=f"watch-{name}", daemon=True)

    def get(self, key: str) -> V | None:
        """What is kept under key."""
        return self._values.get(key)

    def values(self) -> tuple[V, ...]:
        """All that is kept."""
        return tuple(self._values.values())

    @property
    def is_synced(self) -> bool:
        """Whether a whole list has been read once."""
        return self._synced.is_set()

    @property
    def age_seconds(self) -> float | None:
        """Time since the API server last answered, None before it first did."""
        return time.monotonic() - self._contact if self.is_synced else None

    def start(self) -> None:
        """Begin to follow the objects."""
        self._thread.start()

    def stop(self) -> None:
        """Stop following them; back when the thread has ended, or hangs in a connect: it is a daemon."""
        self._stopped.set()
        deadline = time.monotonic() + STOP_SECONDS
        while self._thread.is_alive() and time.monotonic() < deadline:
            response = self._response
            if response is not None:
                with contextlib.suppress(ValueError, RuntimeError, OSError):  # it ended by itself meanwhile
                    response.shutdown()
            self._thread.join(0.05)

    def _run(self) -> None:
        failures = 0
        while not self._stopped.is_set():
            try:
                version = self._list()
                failures = 0
                while not self._stopped.is_set():
                    begun = time.monotonic()
                    version = self._watch(version)
                    if time.monotonic() - begun < BACK_OFF_SECONDS[0]:
                        self._stopped.wait(BACK_OFF_SECONDS[0])
            except Exception:  # a door: whatever happens to one round, the cache keeps what it has and lists again
                if self._stopped.is_set():
                    return
                pause = BACK_OFF_SECONDS[min(failures, len(BACK_OFF_SECONDS) - 1)]
                failures += 1
                log.warning("watch failed cache=%s retry_seconds=%s", self.name, pause, exc_info=failures == 1)
                self._stopped.wait(pause)

    def _list(self) -> str:
        """Replace what is kept; the list's resource version."""
        found: dict[str, V] = {}
        query = {"limit": str(self._page)}
        while True:
            page = json.loads(b"".join(self._request(query)))
            for item in raw.sequence(page, "items"):
                kept = self._keep(item)
                found[kept.key] = kept.value
            query["continue"] = raw.text(page, "metadata", "continue")
            if not query["continue"]:
                self._values = found
                self._synced.set()
                return raw.text(page, "metadata", "resourceVersion")

    def _watch(self, version: str) -> str:
        """Follow changes until the server ends the watch; the version to go on from."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
            "resourceVersion": version,
        }
        for line in _lines(self._request(query)):
            event = json.loads(line)
            item = raw.mapping(event, "object")
            kind = raw.text(event, "type")
            if kind == "ERROR":
                raise errors.WatchError(self._path, raw.number(item, "code") or 0, raw.text(item, "message"))
            version = raw.text(item, "metadata", "resourceVersion")
            if kind != "BOOKMARK":
                self._take(kind, item)
        return version

    def _take(self, kind: str, item: Mapping[str, object]) -> None:
        kept = self._keep(item)
        if kind == "DELETED":
            self._values.pop(kept.key, None)
        else:
            self._values[kept.key] = kept.value

    def _request(self, query: Mapping[str, str]) -> Iterator[bytes]:
        """The body of one GET, in pieces as they arrive; each piece is a contact."""
        url = self._path + ("&" if "?" in self._path else "?") + urllib.parse.urlencode(query)
        request = self._api.param_serialize(
            "GET", url, header_params={"Accept": "application/json"}, auth_settings=["BearerToken"]
        )
        timeout = (CONNECT_SECONDS, WATCH_SECONDS + CONNECT_SECONDS)
        response = self._api.call_api(*request, _request_timeout=timeout).response
        self._response = response
        try:
            if response.status != HTTPStatus.OK:
                raise errors.WatchError(self._path, response.status, response.data.decode(errors="replace"))
            self._contact = time.monotonic()
            for piece in response.stream(None, decode_content=True):
                self._contact = time.monotonic()
                yield piece
        finally:
            self._response = None
            response.close()
            response.release_conn()


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from (line for line in whole if line)


class Caches(NamedTuple):
    """All that the webhook follows."""

    monitors: Cache[monitors.Monitor]
    jobs: Cache[jobs.Job]
    namespaces: Cache[bool]
    config_maps: Cache[str]
    """Of the release namespace: the kill switch's text of ConfigMap rankbeat-fleet, nothing of the others."""

    @property
    def are_synced(self) -> bool:
        """Whether each has read a whole list once."""
        return all(cache.is_synced for cache in self)

    def has_agent(self, agent: str) -> bool:
        """Whether every namespace has the ConfigMap of this agent: the operator writes the release namespace's last."""
        return self.config_maps.get(names.AGENT_CONFIG_MAP_PREFIX + agent) is not None

    def view(self, pod: pods.Pod) -> plans.View:
        """What is known about one pod, now."""
        owner = pod.owner
        return plans.View(
            switch=self.config_maps.get(names.FLEET_CONFIG_MAP) or "enabled",
            monitors=tuple(each for each in self.monitors.values() if each.namespace == pod.namespace),
            job=self.jobs.get(owner.uid) if owner is not None else None,
            is_namespace_opted_in=self.namespaces.get(pod.namespace),
        )


def caches(api: client.ApiClient, namespace: str) -> Caches:
    """Caches that are not started yet. namespace: the release's."""
    return Caches(
        Cache("monitors", api, f"/apis/{names.GROUP}/{names.VERSION}/{names.PLURAL}", _monitor),
        Cache("jobs", api, "/apis/batch/v1/jobs", _job),
        Cache("namespaces", api, "/api/v1/namespaces", _namespace),
        Cache("config_maps", api, f"/api/v1/namespaces/{namespace}/configmaps", _config_map),
    )


def _monitor(manifest: object) -> Kept[monitors.Monitor]:
    kept = monitors.monitor(manifest)
    return Kept(f"{kept.namespace}/{kept.name}", kept)


def _job(manifest: object) -> Kept[jobs.Job]:
    kept = jobs.job(manifest)
    return Kept(kept.uid, kept)


def _namespace(manifest: object) -> Kept[bool]:
    label = raw.labels(manifest, "metadata", "labels").get(names.LABEL_INJECT)
    return Kept(raw.text(manifest, "metadata", "name"), label == "enabled")


def _config_map(manifest: object) -> Kept[str]:
    name = raw.text(manifest, "metadata", "name")
    return Kept(name, raw.text(manifest, "data", names.KILL_SWITCH_KEY) if name == names.FLEET_CONFIG_MAP else "")

"""A running exporter: parts by its configuration, one page for all, and a new configuration while it runs."""

from __future__ import annotations

import logging
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from rankbeat_contract import metrics
from rankbeat_exporter.collectors.families import family
from rankbeat_exporter.errors import InvalidConfiguration
from rankbeat_exporter.parsing.configuration import web_fields
from rankbeat_exporter.server import parts, stopping
from rankbeat_exporter.server.exposition import Exposition, Source
from rankbeat_serving import server as http
from rankbeat_serving.access import AccessError
from rankbeat_serving.files import AccessFiles

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable

    from rankbeat_exporter.collectors.families import Family
    from rankbeat_exporter.model.configuration import Configuration, WebSection
    from rankbeat_exporter.server.parts import Part

_log = logging.getLogger(__name__)

ITSELF = "exporter"
LOOPBACK = "127.0.0.1"
SWITCH_SECONDS = 0.0005
"""For a scrape that meets a collection at work: it wants the interpreter's lock several times, and waits for it so long
each time. With Python's 5 ms it took 9 ms in the median, so 3 (2 cores, 16 NPUs, 2026-11-30)."""
LAST_COLLECTION_SECONDS = 10.0
"""Waited for before a part that is replaced is closed."""


class Reloads(NamedTuple):
    """How the configuration fares. is_followed: whether the newest file is the one in force."""

    is_followed: bool
    loaded_wall: float
    refused: int
    shown: tuple[tuple[str, int], ...] = ()
    """What could not be shown, by collector."""


class Service:
    """follow() puts a configuration in force, whole or not at all; what did not change goes on as it is."""

    def __init__(self) -> None:
        self._configuration: Configuration | None = None
        self._parts: dict[str, Part] = {}
        self._server: http.HttpServer | None = None
        self._neighbours: http.HttpServer | None = None
        """On the loopback."""
        self._exposition = Exposition()
        self._reloads = Reloads(is_followed=True, loaded_wall=0.0, refused=0)

    @property
    def port(self) -> int:
        return self._server.server_port if self._server else 0

    def follow(self, wanted: Configuration) -> None:
        """Raises: InvalidConfiguration, and everything is as it was."""
        before = self._configuration
        is_new_node = before is not None and before.node != wanted.node
        fresh: dict[str, Part] = {}
        if wanted.clock and (is_new_node or before is None or before.clock != wanted.clock):
            fresh[parts.CLOCK] = parts.clock_part(wanted.node, wanted.clock)
        if wanted.devices and (is_new_node or before is None or before.devices != wanted.devices):
            fresh[parts.DEVICES] = parts.devices_part(wanted.node, wanted.devices)
        kept = {name for name, section in ((parts.CLOCK, wanted.clock), (parts.DEVICES, wanted.devices)) if section}
        ended = [name for name in self._parts if name not in kept or name in fresh]
        if stuck := [name for name in ended if self._parts[name].is_stuck()]:
            raise InvalidConfiguration(stuck[0], "cannot change: a child of it cannot be killed, try again later")
        server, files = self._listener(wanted.web, before.web if before else None)
        neighbours = self._neighbours_listener(wanted.web)
        for name in ended:
            self._end(name)
        for name, part in fresh.items():
            self._parts[name] = part
            self._exposition.put(part.source)
            part.loop.start()
        self._exposition.put(Source(ITSELF, self._state, lambda state: _families(wanted.node, state)))
        self._serve(server, files)
        self._serve_neighbours(neighbours)
        self._configuration = wanted
        self._reloads = self._reloads._replace(is_followed=True, loaded_wall=time.time())

    def refuse(self, error: InvalidConfiguration) -> None:
        """A configuration that cannot be followed: what is in force stays, and it is counted and said."""
        self._reloads = self._reloads._replace(is_followed=False, refused=self._reloads.refused + 1)
        _log.error("configuration kept as it was field=%s reason=%r", error.field, error.reason)

    def stop(self) -> None:
        for name in tuple(self._parts):
            self._end(name)
        for server in (self._server, self._neighbours):
            if server is not None:
                _close(server)

    def _listener(self, web: WebSection, before: WebSection | None) -> tuple[http.HttpServer | None, AccessFiles]:
        """A new listener where the address is another than before, and the files that it asks for."""
        try:
            files = AccessFiles(web.access)
        except AccessError as error:
            raise InvalidConfiguration(web_fields(error), error.reason) from error
        if before is not None and (web.port, web.address) == (before.port, before.address):
            return None, files
        return _listening(web.port, web.address, "web.port or web.address", files), files

    def _serve(self, server: http.HttpServer | None, files: AccessFiles) -> None:
        old, self._server = self._server, server or self._server
        if self._server is not None:
            self._server.files = files
            self._server.pages = self._pages()
        if server is not None:
            server.start()
            if old is not None:
                _close(old)

    def _neighbours_listener(self, web: WebSection) -> http.HttpServer | None:
        """A new listener on the loopback, where one is wanted and there is none: its port never changes."""
        if not web.loopback_port or self._neighbours is not None:
            return None
        return _listening(web.loopback_port, LOOPBACK, "web.loopback_port")

    def _serve_neighbours(self, server: http.HttpServer | None) -> None:
        self._neighbours = self._neighbours or server
        if self._neighbours is not None:
            self._neighbours.pages = {path: page for part in self._parts.values() for path, page in part.pages.items()}
        if server is not None:
            server.start()

    def _pages(self) -> dict[str, http.Page]:
        return {"/metrics": self._exposition.page, "/healthz": http.health_page(self._is_alive)}

    def _is_alive(self) -> bool:
        return all(part.loop.is_alive() for part in tuple(self._parts.values()))

    def _state(self) -> Reloads:
        return self._reloads._replace(shown=self._exposition.failures())

    def _end(self, name: str) -> None:
        part = self._parts.pop(name)
        self._exposition.drop(name)
        part.loop.stop(LAST_COLLECTION_SECONDS)
        part.close()


def run(configuration: Configuration, stopped: threading.Event) -> None:
    """One configuration until stopped is set.

    Raises: InvalidConfiguration.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    service = Service()
    service.follow(configuration)
    stopping.wait(stopped)
    service.stop()


def run_file(changed: Callable[[], Configuration | None], look_seconds: float, stopped: threading.Event) -> None:
    """What changed() gives, looked at every look_seconds, until stopped is set.

    Raises: InvalidConfiguration, of the first.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    service = Service()
    first = changed()
    if first is not None:
        service.follow(first)
    while not stopped.wait(look_seconds):
        try:
            wanted = changed()
            if wanted is not None:
                service.follow(wanted)
                _log.info("configuration followed")
        except InvalidConfiguration as error:
            service.refuse(error)
    service.stop()


def _listening(port: int, address: str, field: str, files: AccessFiles | None = None) -> http.HttpServer:
    """Raises: InvalidConfiguration."""
    try:
        return http.HttpServer(port, {}, address, files)
    except OSError as error:
        raise InvalidConfiguration(field, f"cannot be listened on: {error.strerror}") from error


def _close(server: http.HttpServer) -> None:
    server.shutdown()
    server.server_close()


def _families(node: str, state: Reloads) -> Iterable[Family]:
    key = (node,)
    yield family(metrics.EXPORTER_CONFIGURATION_FOLLOWED, [(key, float(state.is_followed))])
    yield family(metrics.EXPORTER_CONFIGURATION_LOADED, [(key, state.loaded_wall)])
    yield family(metrics.EXPORTER_CONFIGURATION_REFUSED, [(key, float(state.refused))])
    yield family(
        metrics.EXPORTER_SERIES_FAILURES,
        [((node, name), float(count)) for name, count in state.shown if name != ITSELF],
    )

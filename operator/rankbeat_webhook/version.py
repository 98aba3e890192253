"""The API server's version, asked for now and then: what a sidecar needs is discovered, not assumed."""

from __future__ import annotations

import json
import logging
import re
import threading
from http import HTTPStatus
from typing import TYPE_CHECKING

import urllib3.exceptions

from rankbeat_webhook import errors
from rankbeat_webhook.model import raw

if TYPE_CHECKING:
    from kubernetes import client

log = logging.getLogger(__name__)

PATH = "/version"
"""Every account may read it by the default role system:public-info-viewer."""
PERIOD_SECONDS = 300.0
RETRY_SECONDS = 5.0
TIMEOUT_SECONDS = (5.0, 10.0)
_NUMBER = re.compile(r"[0-9]+")


def server_version(document: object) -> tuple[int, int] | None:
    """Major and minor of what /version answers, such as 1 and 29+; None where it says neither."""
    found = [_NUMBER.match(raw.text(document, key)) for key in ("major", "minor")]
    return (int(found[0][0]), int(found[1][0])) if found[0] and found[1] else None


class Server:
    """The version, kept up to date in a thread of its own. Reads never wait."""

    def __init__(self, api: client.ApiClient) -> None:
        self._api = api
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="version", daemon=True)
        self.version: tuple[int, int] | None = None

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def stop(self) -> None:
        """Stop asking; the thread is a daemon and ends by itself."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                found = server_version(self._answer())
            except (errors.WatchError, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
                log.warning("version not read error=%r", str(error)[:300])
                self._stopped.wait(RETRY_SECONDS)
                continue
            if found != self.version:
                log.info("server version=%s", found)
            self.version = found
            self._stopped.wait(PERIOD_SECONDS)

    def _answer(self) -> object:
        request = self._api.param_serialize(
            "GET", PATH, header_params={"Accept": "application/json"}, auth_settings=["BearerToken"]
        )
        response = self._api.call_api(*request, _request_timeout=TIMEOUT_SECONDS).response
        body = response.data
        if response.status != HTTPStatus.OK:
            raise errors.WatchError(PATH, response.status, body.decode(errors="replace"))
        answer: object = json.loads(body)
        return answer

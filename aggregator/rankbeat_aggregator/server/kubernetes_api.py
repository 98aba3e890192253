"""What the aggregator asks of the API server, through the official client. Blocking: call it from threads."""

import json
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any

import urllib3

import kubernetes
from rankbeat_aggregator.server.tokens import NODE_CLAIM, Identity, Review
from rankbeat_contract import names

TIMEOUT_SECONDS = (2.0, 3.0)
"""To connect, to read: together the deadline of a token review."""
WATCH_SECONDS = 240
IDLE_SECONDS = 120.0
"""The API server sends a bookmark about once a minute; a watch that is silent for longer is dead."""


def client(kubeconfig: str | None) -> kubernetes.client.ApiClient:
    """A client with a kubeconfig file's credentials, or the pod's own."""
    configuration = kubernetes.client.Configuration()
    configuration.retries = False
    if kubeconfig:
        kubernetes.config.load_kube_config(kubeconfig, client_configuration=configuration)  # type: ignore[no-untyped-call]
    else:
        kubernetes.config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    return kubernetes.client.ApiClient(configuration)


def token_review(api: kubernetes.client.ApiClient) -> Review:
    """The question who a token is."""
    authentication = kubernetes.client.AuthenticationV1Api(api)

    def review(token: str) -> Identity | None:
        body = kubernetes.client.V1TokenReview(
            spec=kubernetes.client.V1TokenReviewSpec(token=token, audiences=[names.AUDIENCE])
        )
        try:
            status = authentication.create_token_review(body, _request_timeout=TIMEOUT_SECONDS).status
        except (kubernetes.client.ApiException, urllib3.exceptions.HTTPError) as error:
            raise ConnectionError(f"TokenReview failed: {type(error).__name__}") from error
        if status is None or not status.authenticated or names.AUDIENCE not in (status.audiences or ()):
            return None
        if status.user is None or not status.user.username:
            return None
        nodes = (status.user.extra or {}).get(NODE_CLAIM) or []
        return Identity(status.user.username, next(iter(nodes), None))

    return review


class Monitors:
    """TrainingMonitors of the whole cluster, as raw JSON."""

    def __init__(self, api: kubernetes.client.ApiClient) -> None:
        self._objects = kubernetes.client.CustomObjectsApi(api)

    def listed(self) -> tuple[dict[tuple[str, str], Mapping[str, Any]], str]:
        """Spec by namespace and name, and the resource version.

        Raises: ConnectionError if the API server does not answer.
        """
        answer = self._get(TIMEOUT_SECONDS)
        try:
            body = json.loads(answer.data)
        finally:
            answer.release_conn()
        found = dict(_named(item) for item in body["items"])
        return found, str(body["metadata"]["resourceVersion"])

    def watched(self, version: str, changed: Callable[[str, tuple[str, str], Mapping[str, Any]], None]) -> None:
        """Calls changed(type, name, spec) for each event until the watch ends; bookmarks have an empty name.

        Raises: ConnectionError if the watch breaks or its version is too old.
        """
        answer = self._get((2.0, IDLE_SECONDS), version)
        try:
            for line in _lines(answer):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise ConnectionError(f"watch ended: {event['object'].get('reason')!r}")
                name, spec = _named(event["object"]) if event["type"] != "BOOKMARK" else (("", ""), {})
                changed(event["type"], name, spec)
        except urllib3.exceptions.HTTPError as error:
            raise ConnectionError(f"watch broke: {type(error).__name__}") from error
        finally:
            answer.close()

    def _get(self, timeout: tuple[float, float], version: str | None = None) -> urllib3.HTTPResponse:
        """The answer to a list, or to a watch from a version on."""
        try:
            answer = self._objects.list_cluster_custom_object(
                names.GROUP,
                names.VERSION,
                names.PLURAL,
                watch=version is not None,
                resource_version=version,
                allow_watch_bookmarks=version is not None,
                timeout_seconds=WATCH_SECONDS if version is not None else None,
                _preload_content=False,
                _request_timeout=timeout,
            )
        except (kubernetes.client.ApiException, urllib3.exceptions.HTTPError) as error:
            raise ConnectionError(f"listing {names.PLURAL} failed: {type(error).__name__}") from error
        if not isinstance(answer, urllib3.HTTPResponse) or answer.status != HTTPStatus.OK:
            raise ConnectionError(f"listing {names.PLURAL} answered {getattr(answer, 'status', answer)}")
        return answer


def _named(item: Mapping[str, Any]) -> tuple[tuple[str, str], Mapping[str, Any]]:
    return (item["metadata"]["namespace"], item["metadata"]["name"]), item.get("spec") or {}


def _lines(answer: urllib3.HTTPResponse) -> Iterator[bytes]:
    rest = b""
    for part in answer.stream(65536, decode_content=True):
        *lines, rest = (rest + part).split(b"\n")
        yield from (line for line in lines if line)

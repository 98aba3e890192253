"""Requests to the API server: in threads, since the official client blocks, each with a timeout."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import urllib3.exceptions

from kubernetes import client, config, dynamic
from rankbeat_operator.errors import ApiError
from rankbeat_operator.kube import kinds
from rankbeat_operator.kube.kinds import Kind
from rankbeat_operator.model.manifests import Manifest

TIMEOUT_SECONDS = (5.0, 20.0)
"""To connect, to read."""
_PAGE = 500
_METADATA_OF_ONE = {"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
_METADATA_OF_ALL = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}


def api_client() -> client.ApiClient:
    """A client of the cluster that the operator runs in, else of the kubeconfig."""
    settings = client.Configuration()
    try:
        config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
    except config.ConfigException:
        config.load_kube_config(client_configuration=settings)  # type: ignore[no-untyped-call]
    return client.ApiClient(settings)


class Cluster:
    """The API server, as the operator uses it. Every method raises ApiError."""

    def __init__(self, api: client.ApiClient) -> None:
        self._client = dynamic.DynamicClient(api, discoverer=lambda *_: None)  # type: ignore[no-untyped-call]
        self.requests: dict[str, int] = {}
        """Count by verb."""

    async def found(
        self, kind: Kind, name: str, namespace: str = "", *, metadata_only: bool = False
    ) -> Manifest | None:
        """The object, None if there is none."""
        headers = {"header_params": dict(_METADATA_OF_ONE)} if metadata_only else {}
        try:
            return await self._answer("get", kind.path(namespace, name), **headers)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def listed(
        self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "", metadata_only: bool = False
    ) -> list[Manifest]:
        """All objects, page by page. labels, fields: selectors."""
        found: list[Manifest] = []
        query: dict[str, Any] = {"limit": _PAGE, "label_selector": labels or None, "field_selector": fields or None}
        while True:
            headers = {"header_params": dict(_METADATA_OF_ALL)} if metadata_only else {}
            page = await self._answer("get", kind.path(namespace), **query, **headers)
            found += page["items"] or ()
            query["_continue"] = page["metadata"].get("continue")
            if not query["_continue"]:
                return found

    async def apply(self, manifest: Manifest, manager: str, subresource: str = "") -> Manifest:
        """Server-side apply of a whole object: what its manager left out goes, what others own stays."""
        metadata: Mapping[str, str] = manifest["metadata"]
        path = kinds.of(manifest).path(metadata.get("namespace", ""), metadata["name"], subresource)
        options = {"field_manager": manager, "force_conflicts": True, "content_type": "application/apply-patch+yaml"}
        return await self._answer("patch", path, body=manifest, **options)

    async def create(self, manifest: Manifest) -> Manifest:
        """A new object, named by the server from generateName."""
        path = kinds.of(manifest).path(manifest["metadata"]["namespace"])
        return await self._answer("post", path, body=manifest)

    async def delete(self, kind: Kind, name: str, namespace: str) -> None:
        """The object is gone, or was not there."""
        try:
            await self._answer("delete", kind.path(namespace, name), body={"propagationPolicy": "Background"})
        except ApiError as error:
            if error.status != 404:
                raise

    async def _answer(self, method: str, path: str, **options: Any) -> Manifest:
        self.requests[method] = self.requests.get(method, 0) + 1
        return await asyncio.to_thread(self._blocking_answer, method, path, options)

    def _blocking_answer(self, method: str, path: str, options: Mapping[str, Any]) -> Manifest:
        request = f"{method} {path}"
        try:
            response = self._client.request(method, path, serialize=False, _request_timeout=TIMEOUT_SECONDS, **options)
            answer: Manifest = json.loads(response.data)
        except client.ApiException as error:
            raise ApiError(request, error.status or 0, _reason(error)) from error
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise ApiError(request, 0, f"{type(error).__name__}: {error}") from error
        return answer


def _reason(error: client.ApiException) -> str:
    """The API's own words."""
    try:
        return str(json.loads(error.body or "")["message"])
    except (ValueError, KeyError, TypeError):
        return str(error.reason)

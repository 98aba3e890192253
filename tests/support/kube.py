"""An official client of a real control plane, as tests use it."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kubernetes import client, config, dynamic

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Kube:
    """An official client of a control plane.

    Each test makes its own namespaces and leaves them: to delete an empty one takes Kubernetes 5 s.
    """

    kubeconfig: Path
    api_client: client.ApiClient
    dynamic: dynamic.DynamicClient

    def resource(self, api_version: str, kind: str) -> Any:
        """The dynamic resource of a kind, such as ("v1", "ConfigMap"); a CRD made since is found too."""
        return self.dynamic.resources.get(api_version=api_version, kind=kind)

    def apply(self, manifest: Mapping[str, object], field_manager: str = "test") -> Any:
        """Server-side apply of one object."""
        resource = self.resource(str(manifest["apiVersion"]), str(manifest["kind"]))
        return resource.server_side_apply(body=dict(manifest), field_manager=field_manager, force_conflicts=True)

    def namespace(self, labels: Mapping[str, str] | None = None) -> str:
        """The name of a fresh namespace whose default ServiceAccount is there, so that pods can be made."""
        name = f"t{os.getpid()}-{next(_numbers)}"
        metadata = {"name": name, "labels": dict(labels or {})}
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        accounts = self.resource("v1", "ServiceAccount")
        for event in accounts.watch(namespace=name, field_selector="metadata.name=default", timeout=30):
            if event["type"] != "DELETED":
                return name
        raise TimeoutError(f"namespace {name!r} has no default ServiceAccount after 30 s")


def of(kubeconfig: Path) -> Kube:
    """Clients made from a kubeconfig; the caller closes api_client."""
    api_client = config.new_client_from_config(config_file=str(kubeconfig))  # type: ignore[no-untyped-call]
    return Kube(kubeconfig, api_client, dynamic.DynamicClient(api_client))  # type: ignore[no-untyped-call]

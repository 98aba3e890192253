"""What a decision is made from, beside the pod, and what it says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rankbeat_webhook.model import jobs, monitors

RING_LIMIT = "64Mi"
"""Cap of a pod's ring volume. A tmpfs is charged by use: 1 MiB a rank (ring.DEFAULT_BYTES), 16 devices a node at most
today, and rings of earlier attempts stay until the pod ends."""

SIDECAR_RESOURCES = {"cpu": "100m", "memory": "128Mi"}

NOT_SELECTED = "NotSelected"
"""Result for a pod of an opted-in namespace that no monitor selects: it is left wholly untouched."""


@dataclass(frozen=True, slots=True)
class Sidecar:
    """The collector as a sidecar, by the install's values. resources: its requests and limits both."""

    image: str
    pull_policy: str = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()
    resources: Mapping[str, str] = field(default_factory=lambda: dict(SIDECAR_RESOURCES))


@dataclass(frozen=True, slots=True)
class Settings:
    """Of the install: the agent's hash, the volume items that map its keys to paths, the cap of a pod's ring volume.

    sidecar: None where the install has turned sidecars off.
    """

    agent: str
    items: tuple[Mapping[str, str], ...]
    ring_limit: str = RING_LIMIT
    sidecar: Sidecar | None = None


@dataclass(frozen=True, slots=True)
class View:
    """What the caches know that concerns one pod.

    switch: the kill switch's text, "enabled" where ConfigMap rankbeat-fleet or its key is absent.
    monitors: of the pod's namespace. job: the Job that owns the pod, None if it has none or is not in the cache.
    is_namespace_opted_in: None where the namespace is not in the cache.
    server: major and minor version of the API server, None while it is not known.
    """

    switch: str
    monitors: tuple[monitors.Monitor, ...]
    job: jobs.Job | None
    is_namespace_opted_in: bool | None
    server: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of one pod: JSON Patch operations, and why.

    result: INJECTED, INJECTED_PERF_FILE, a REASON_* of a skipped pod, or NOT_SELECTED. is_settled: False where the
    caches may only be late, so that asking again a moment later can give another decision. more: what else the
    annotation says.
    """

    result: str
    message: str = ""
    monitor: str = ""
    container: str = ""
    operations: tuple[Mapping[str, object], ...] = ()
    is_settled: bool = True
    more: Mapping[str, object] = field(default_factory=dict)

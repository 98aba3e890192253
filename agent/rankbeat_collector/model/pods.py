"""Which pod a ring belongs to, as the API says: the only source of the labels `namespace` and `monitor`."""

import json
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, List, Mapping, Optional, Tuple

from rankbeat_contract import names

_UID = re.compile(r"[0-9A-Za-z-]{1,64}")
"""A pod's UID becomes a folder's name: no dot, no slash."""
_MONITOR = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
"""Name of a TrainingMonitor, a DNS subdomain."""


@dataclass(frozen=True)
class Pod:
    """A training pod of this node."""

    namespace: str
    name: str
    uid: str
    monitor: str
    job: str
    job_uid: str
    deleting: bool = False
    phase: str = "Unknown"
    started_wall: Optional[float] = None
    """When the kubelet of this node acknowledged the pod, by this node's clock."""

    @property
    def is_over(self) -> bool:
        return self.phase in {"Succeeded", "Failed"}


def pod(raw: Mapping[str, Any]) -> Optional[Pod]:
    """The pod in an object of the API, None where its annotation names no monitor or its UID is no folder's name."""
    metadata = raw.get("metadata") or {}
    status = raw.get("status") or {}
    monitor = _monitor(metadata)
    uid = str(metadata.get("uid", ""))
    if not monitor or _UID.fullmatch(uid) is None:
        return None
    job, job_uid = _controller(metadata)
    return Pod(
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        uid=uid,
        monitor=monitor,
        job=job,
        job_uid=job_uid,
        deleting=bool(metadata.get("deletionTimestamp")),
        phase=str(status.get("phase") or "Unknown"),
        started_wall=_seconds(status.get("startTime")),
    )


def _monitor(metadata: Mapping[str, Any]) -> str:
    try:
        said = json.loads((metadata.get("annotations") or {}).get(names.ANNOTATION_INJECTION) or "{}")
    except (ValueError, RecursionError):
        return ""
    monitor = said.get("monitor") if isinstance(said, dict) else None
    return monitor if isinstance(monitor, str) and _MONITOR.fullmatch(monitor) else ""


def _controller(metadata: Mapping[str, Any]) -> Tuple[str, str]:
    """Name and UID of the object that controls the pod, of the pod itself where nothing does."""
    owners: List[Mapping[str, Any]] = metadata.get("ownerReferences") or []
    for owner in owners:
        if owner.get("controller"):
            return str(owner.get("name", "")), str(owner.get("uid", ""))
    return str(metadata.get("name", "")), str(metadata.get("uid", ""))


def _seconds(timestamp: Optional[str]) -> Optional[float]:
    try:
        return datetime.strptime(timestamp or "", "%Y-%m-%dT%H:%M:%S%z").timestamp()
    except ValueError:
        return None

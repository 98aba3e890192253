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
_CONTAINER = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


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
    container: str = ""
    """The container that trains, empty where nobody has said."""
    has_agent: bool = True
    tiers: Tuple[str, ...] = ()
    """Lower tiers that its monitor asks for: names.ASK_PERF_FILE, names.ASK_LOG_TAIL."""

    @property
    def is_over(self) -> bool:
        return self.phase in {"Succeeded", "Failed"}


def pod(raw: Mapping[str, Any]) -> Optional[Pod]:
    """The pod in an object of the API.

    None where its annotation names no monitor, its UID is no folder's name, or it has no agent and no lower tier.
    """
    metadata = raw.get("metadata") or {}
    status = raw.get("status") or {}
    said = _injection(metadata)
    monitor, tiers = _text(said, "monitor", _MONITOR), _tiers(said)
    uid = str(metadata.get("uid", ""))
    if not monitor or _UID.fullmatch(uid) is None:
        return None
    has_agent = (metadata.get("labels") or {}).get(names.LABEL_STATE) != names.STATE_SKIPPED
    if not has_agent and not tiers:
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
        container=_text(said, "container", _CONTAINER),
        has_agent=has_agent,
        tiers=tiers,
    )


def _injection(metadata: Mapping[str, Any]) -> Mapping[str, object]:
    """What the webhook wrote on the pod, empty where that cannot be read."""
    try:
        said = json.loads((metadata.get("annotations") or {}).get(names.ANNOTATION_INJECTION) or "{}")
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _text(said: Mapping[str, object], key: str, pattern: "re.Pattern[str]") -> str:
    value = said.get(key)
    return value if isinstance(value, str) and pattern.fullmatch(value) else ""


def _tiers(said: Mapping[str, object]) -> Tuple[str, ...]:
    """Lower tiers that may be used: those that the monitor asks for, and the one that the pod was set up for."""
    asked = said.get("tiers")
    wanted = {each for each in asked if isinstance(each, str)} if isinstance(asked, list) else set()
    if said.get("result") == names.INJECTED_PERF_FILE:
        wanted.add(names.ASK_PERF_FILE)
    return tuple(each for each in (names.ASK_PERF_FILE, names.ASK_LOG_TAIL) if each in wanted)


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

"""TrainingMonitors as the webhook sees them: the target, how to inject, and the plan in status.injection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rankbeat_contract import monitor as contract
from rankbeat_webhook.model import raw

if TYPE_CHECKING:
    from collections.abc import Mapping

ENABLED = "enabled"
BLOCKED = "blocked"
"""status.injection.mode while the breaker is open."""
DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class WorkloadRef:
    """spec.workloadRef."""

    api_version: str
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement on a label: In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Injection:
    """status.injection: the operator's plan for new pods. breaker_agent: the agent that the breaker opened for."""

    mode: str
    reason: str
    message: str
    breaker_agent: str


@dataclass(frozen=True, slots=True)
class Monitor:
    """One TrainingMonitor.

    created: RFC 3339, which sorts as text. selector: None where spec has no podSelector. settings: the defaults where
    the schema in the cluster let pass what ours refuses.
    """

    namespace: str
    name: str
    created: str
    workload: WorkloadRef | None
    selector: tuple[Requirement, ...] | None
    container: str
    shell: str
    injection: Injection
    settings: contract.Settings


def monitor(manifest: object) -> Monitor:
    """The TrainingMonitor in the API's JSON."""
    spec = raw.mapping(manifest, "spec")
    return Monitor(
        namespace=raw.text(manifest, "metadata", "namespace"),
        name=raw.text(manifest, "metadata", "name"),
        created=raw.text(manifest, "metadata", "creationTimestamp"),
        workload=_workload(raw.mapping(spec, "workloadRef")),
        selector=_selector(raw.mapping(spec, "podSelector")) if "podSelector" in spec else None,
        container=raw.text(spec, "injection", "container"),
        shell=raw.text(spec, "injection", "shell"),
        injection=_injection(raw.mapping(manifest, "status", "injection")),
        settings=_settings(spec),
    )


def _settings(spec: Mapping[str, object]) -> contract.Settings:
    try:
        return contract.settings(spec)
    except (ValueError, TypeError, KeyError, AttributeError):  # the operator says what is wrong with it
        return contract.Settings()


def _workload(ref: Mapping[str, object]) -> WorkloadRef | None:
    if not ref:
        return None
    return WorkloadRef(raw.text(ref, "apiVersion"), raw.text(ref, "kind"), raw.text(ref, "name"))


def _selector(selector: Mapping[str, object]) -> tuple[Requirement, ...]:
    return (
        *(Requirement(key, "In", (value,)) for key, value in raw.labels(selector, "matchLabels").items()),
        *(
            Requirement(raw.text(each, "key"), raw.text(each, "operator"), raw.texts(each, "values"))
            for each in raw.sequence(selector, "matchExpressions")
        ),
    )


def _injection(status: Mapping[str, object]) -> Injection:
    return Injection(
        mode=raw.text(status, "mode") or ENABLED,
        reason=raw.text(status, "reason"),
        message=raw.text(status, "message"),
        breaker_agent=raw.text(status, "breaker", "agent"),
    )

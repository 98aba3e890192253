"""Values of the operator with good defaults: a test shows only what matters to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rankbeat_contract import monitor as contract
from rankbeat_operator.model.monitors import Monitor, Target
from rankbeat_operator.model.observed import Agent, Aggregator, Observed
from rankbeat_operator.model.pods import Container, Injection, Owner, Pod
from rankbeat_operator.model.verdicts import Incident, JobVerdict, Suspect
from rankbeat_operator.model.workloads import Workload

if TYPE_CHECKING:
    from collections.abc import Mapping

NOW = 1796018400.0
"""2026-11-30T06:00:00Z"""
AGENT = "1f3c5e7a9b"
JOB_UID = "0b0e7d5c-1111-4222-8333-444455556666"


def a_monitor(
    *, paused: bool = False, reset: str = "", status: Mapping[str, Any] | None = None, **changes: Any
) -> Monitor:
    """Monitor llm of Job llm in team-a."""
    fields = {
        "namespace": "team-a",
        "name": "llm",
        "uid": "9d1f0a52-aaaa-4bbb-8ccc-dddddddddddd",
        "generation": 1,
        "target": Target(job="llm"),
        "settings": contract.Settings(paused=paused),
        "reset": reset,
        "status": status or {},
    }
    return Monitor(**{**fields, **changes})


def a_job(**changes: Any) -> Workload:
    """Job llm, whose pod template is opted in."""
    fields: dict[str, Any] = {
        "api_version": "batch/v1",
        "kind": "Job",
        "name": "llm",
        "uid": JOB_UID,
        "template_labels": {"rankbeat.io/monitor": "llm"},
    }
    return Workload(**{**fields, **changes})


def a_pod(name: str = "llm-0-x", *, age_seconds: float = 300.0, **changes: Any) -> Pod:
    """An injected pod of Job llm that runs."""
    fields: dict[str, Any] = {
        "name": name,
        "uid": f"uid-{name}",
        "phase": "Running",
        "created": NOW - age_seconds,
        "labels": {"rankbeat.io/state": "injected", "rankbeat.io/monitor": "llm"},
        "running_since": NOW - age_seconds,
        "injection": Injection("Injected", "", AGENT, "train"),
        "owner": Owner("batch/v1", "Job", "llm", JOB_UID),
        "containers": (Container("train", has_started=True),),
    }
    return Pod(**{**fields, **changes})


def a_pending_pod(name: str = "llm-0-x", *, age_seconds: float = 90.0, **changes: Any) -> Pod:
    """An injected pod of Job llm that is scheduled and has not started."""
    fields: dict[str, Any] = {
        "phase": "Pending",
        "running_since": None,
        "containers": (Container("train", waiting="ContainerCreating"),),
    }
    return a_pod(name, age_seconds=age_seconds, **{**fields, **changes})


def a_verdict(**changes: Any) -> JobVerdict:
    """Two ranks of two train, healthy."""
    fields: dict[str, Any] = {
        "job_uid": JOB_UID,
        "ranks_expected": 2,
        "ranks_reporting": 2,
        "step": 512,
        "step_interval_seconds": 0.5,
        "total_steps": 4000,
        "loss": 2.31,
        "phase": "train",
    }
    return JobVerdict(**{**fields, **changes})


def a_hang() -> Incident:
    """Rank 1 keeps rank 0 waiting."""
    return Incident(
        kind="hang",
        level=2,
        started=NOW - 10,
        evidence="not_arrived",
        message="rank 1 has not entered step 513, which 1 of 2 ranks are in, for 8.4 s (limit 8 s)",
        suspects=(Suspect(1, "n1", "llm-1-y"),),
    )


def seen(**changes: Any) -> Observed:
    """Job llm with two injected pods that train well, at NOW."""
    fields: dict[str, Any] = {
        "now": NOW,
        "agent": Agent(AGENT),
        "aggregator": Aggregator(since=NOW - 1),
        "workload": a_job(),
        "pods": (a_pod("llm-0-x"), a_pod("llm-1-y")),
        "verdict": a_verdict(),
    }
    return Observed(**{**fields, **changes})


def a_monitor_manifest(name: str = "llm", namespace: str = "team-a", **spec: Any) -> dict[str, Any]:
    """A TrainingMonitor as a user writes it."""
    target = {"workloadRef": {"apiVersion": "batch/v1", "kind": "Job", "name": name}}
    return {
        "apiVersion": "rankbeat.io/v1alpha1",
        "kind": "TrainingMonitor",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {**({} if "podSelector" in spec or "workloadRef" in spec else target), **spec},
    }

"""What the handlers share: settings, connections, and what they last saw."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from rankbeat_contract import names
from rankbeat_contract.packing import Packed
from rankbeat_operator.handlers.keys import Keys
from rankbeat_operator.kube.cluster import Cluster
from rankbeat_operator.kube.events import Events
from rankbeat_operator.model import monitors
from rankbeat_operator.model.manifests import Manifest, annotations
from rankbeat_operator.model.observed import Aggregator
from rankbeat_operator.model.verdicts import JobVerdict
from rankbeat_operator.plan import status

JobKey = tuple[str, str, str]
"""Namespace, monitor, UID of the job."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the operator lives and what it reads.

    ca_file: authorities of the aggregator, beside those that the operator issues itself.
    """

    namespace: str
    fleet_folder: Path
    aggregator_url: str
    token_file: Path
    ca_file: Path | None
    port: int
    resync_seconds: float = 30.0
    verdict_seconds: float = 2.0


class Scope(StrEnum):
    """What a key is about."""

    MONITOR = "monitor"
    NAMESPACE = "namespace"
    RELEASE = "release"
    FLEET = "fleet"
    CERTIFICATES = "certificates"


@dataclass(frozen=True, slots=True)
class Key:
    """One thing to reconcile. name: the monitor's, "" for the other scopes."""

    scope: Scope
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class KnownMonitor:
    """What must be known of a monitor to tell which events concern it."""

    generation: int
    reset: str
    job: str
    experiment: str = ""
    target: str = ""
    """Selector of the pods that it observes."""
    is_over: bool = False
    """Whether its workload has come to its end, by its own status."""


@dataclass(slots=True)
class Knowledge:
    """Filled by watches and polls, read by reconciles."""

    monitors: dict[tuple[str, str], KnownMonitor] = field(default_factory=dict)
    opted_in: set[str] = field(default_factory=set)
    verdicts: Mapping[JobKey, JobVerdict] = field(default_factory=dict)
    aggregator: Aggregator | None = None
    """None until it has answered, or failed to for some time: until then nothing is said about a monitor."""
    authorities: str = ""
    """PEM of the operator's own authorities."""
    fleet_problem: str = ""
    namespaces: dict[str, Manifest] = field(default_factory=dict)
    """Metadata by name, as last listed; without those that changed since."""
    config_maps: dict[str, dict[str, str]] = field(default_factory=dict)
    """By namespace and name, the resourceVersions of our ConfigMaps: as last listed, or as written since."""

    def rivals(self, namespace: str, name: str) -> tuple[str, ...]:
        """Monitors of the namespace with the same experiment for another workload that is not over."""
        own = self.monitors.get((namespace, name))
        if own is None or not own.experiment:
            return ()
        return tuple(
            sorted(
                other
                for other, known in self.monitors_of(namespace)
                if known.experiment == own.experiment and known.target != own.target and not known.is_over
            )
        )

    def monitors_of(self, namespace: str) -> Iterator[tuple[str, KnownMonitor]]:
        return ((name, known) for (where, name), known in self.monitors.items() if where == namespace)


@dataclass(slots=True)
class Health:
    """Last signs of life, monotonic seconds; None before the first."""

    resync: float | None = None
    verdicts: float | None = None
    stale_since: float | None = None
    """Since when a watch has not shown what a list shows."""
    reconciles: dict[tuple[str, str], int] = field(default_factory=dict)
    """Count by scope and result."""


@dataclass(frozen=True, slots=True)
class Context:
    """One running operator. clock: monotonic seconds. wall: the epoch."""

    settings: Settings
    cluster: Cluster
    events: Events
    agent: Packed
    keys: Keys[Key]
    clock: Callable[[], float]
    wall: Callable[[], float]
    knowledge: Knowledge = field(default_factory=Knowledge)
    health: Health = field(default_factory=Health)
    intact_config_maps: dict[tuple[str, str], tuple[str, Manifest]] = field(default_factory=dict)
    """By namespace and name, the resourceVersion at which a ConfigMap was as it must be, and what that was."""
    status_writes: dict[str, float] = field(default_factory=dict)
    """When each monitor's status was last written, by UID; monotonic."""


def known_monitor(manifest: Manifest) -> KnownMonitor:
    """What is to be known of a monitor."""
    spec = manifest["spec"]
    return KnownMonitor(
        generation=manifest["metadata"].get("generation", 0),
        reset=annotations(manifest).get(names.ANNOTATION_BREAKER, ""),
        job=(spec.get("workloadRef") or {}).get("name", ""),
        experiment=str(spec.get("experiment", "")),
        target=monitors.target(spec).label_selector(),
        is_over=status.is_over(manifest),
    )

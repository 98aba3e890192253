"""One look at everything that a monitor's status depends on."""

from collections.abc import Iterable
from dataclasses import dataclass

from rankbeat_operator.model.planned import Planned
from rankbeat_operator.model.pods import ObjectEvent, Pod
from rankbeat_operator.model.verdicts import JobVerdict
from rankbeat_operator.model.workloads import Workload


@dataclass(frozen=True, slots=True)
class Agent:
    """The agent's ConfigMap in a monitor's namespace. problem: "" if it is there, with the right content."""

    hash: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Aggregator:
    """problem: "" if it answers. since: epoch of its last answer, None if there was none."""

    problem: str = ""
    since: float | None = None


@dataclass(frozen=True, slots=True)
class Observed:
    """What was seen at `now` (epoch).

    pods: those that the monitor targets, of the workload's present incarnation only.
    is_namespace_opted_in: whether the namespace carries LABEL_INJECT: enabled.
    is_switched_off: the kill switch of the install.
    planned: the sampling that the monitor's ConfigMap holds after this look.
    rivals: names of the namespace's monitors with the same experiment for another workload that is not over.
    """

    now: float
    agent: Agent
    aggregator: Aggregator = Aggregator()
    workload: Workload | None = None
    pods: tuple[Pod, ...] = ()
    events: tuple[ObjectEvent, ...] = ()
    is_namespace_opted_in: bool = False
    is_switched_off: bool = False
    verdict: JobVerdict | None = None
    rivals: tuple[str, ...] = ()
    planned: Planned | None = None

    @property
    def alive_pods(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.pods if pod.is_alive)

    @property
    def counted_pods(self) -> tuple[Pod, ...]:
        """The pods that a statement is about: those alive, else those that were."""
        return self.alive_pods or self.pods


def present_pods(workload: Workload | None, pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """The pods of this workload, without those of an earlier one of the same name; in the order of their names."""
    if workload is None:
        return ()
    owned = (p for p in pods if (p.owner.uid if p.owner else p.uid) == workload.uid)
    return tuple(sorted(owned, key=lambda pod: pod.name))

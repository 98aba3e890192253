"""What the aggregator says: GET /v1/verdicts."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rankbeat_contract import names
from rankbeat_contract import outputs as contract
from rankbeat_operator.model.manifests import Manifest


@dataclass(frozen=True, slots=True)
class Suspect:
    """A rank that holds up the others."""

    rank: int
    node: str
    pod: str


@dataclass(frozen=True, slots=True)
class Incident:
    """Something wrong with a job. level: 1 warning, 2 critical. started: epoch."""

    kind: str
    level: int
    started: float
    evidence: str
    message: str
    suspects: tuple[Suspect, ...] = ()


@dataclass(frozen=True, slots=True)
class Outputs:
    """What became of a pod's outputs. troubles: words of rankbeat_contract.outputs.TROUBLES, the worst first."""

    troubles: tuple[str, ...] = ()
    rows_written: int = 0
    rows_lost: int = 0


@dataclass(frozen=True, slots=True)
class Taps:
    """What the ranks could not tap. refused: signals, the most on any rank, among them each of unresolved_paths, which
    are places in spec.attention.cells."""

    ranks: int = 0
    ranks_refusing: int = 0
    refused: int = 0
    unresolved_paths: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class JobVerdict:
    """How one job stands; None is unknown, also of ranks_expected while no rank has ever been seen."""

    job_uid: str
    ranks_expected: int | None = None
    ranks_reporting: int | None = None
    step: int | None = None
    total_steps: int | None = None
    loss: float | None = None
    phase: str = ""
    pods_without_ring: tuple[str, ...] = ()
    incidents: tuple[Incident, ...] = ()
    tiers: Mapping[str, str] = field(default_factory=dict)
    """How the ranks of a pod are seen, by its name: one of names.TIERS. Pods of which nothing is seen are left out."""
    outputs: Mapping[str, Outputs] = field(default_factory=dict)
    """By the pod's name, where its own collector has said anything."""
    taps: Taps | None = None
    """None while no rank has said anything of taps."""
    attempt: int = 1
    step_interval_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Verdicts:
    """All jobs, by (namespace, monitor, job_uid)."""

    jobs: Mapping[tuple[str, str, str], JobVerdict]


def verdicts(answer: Manifest) -> Verdicts:
    """The aggregator's answer.

    Raises: KeyError, TypeError, ValueError on what is none.
    """
    return Verdicts({(job["namespace"], job["monitor"], job["job_uid"]): _job(job) for job in answer["jobs"]})


def _job(job: Manifest) -> JobVerdict:
    return JobVerdict(
        job_uid=job["job_uid"],
        attempt=int(job.get("attempt") or 1),
        ranks_expected=_count(job.get("ranks_expected")) or None,
        ranks_reporting=_count(job.get("ranks_reporting")),
        step=_count(job.get("step")),
        step_interval_seconds=_seconds(job.get("step_interval_seconds")),
        total_steps=_count(job.get("total_steps")) or None,
        loss=None if job.get("loss") is None else float(job["loss"]),
        phase=job.get("phase") or "",
        pods_without_ring=tuple(job.get("pods_without_ring") or ()),
        incidents=tuple(_incident(incident) for incident in job.get("incidents") or ()),
        outputs={pod: _outputs(said) for pod, said in (job.get("outputs") or {}).items()},
        taps=_taps(job.get("taps")),
        tiers={pod: tier for pod, tier in (job.get("tiers") or {}).items() if tier in names.TIERS},
    )


def _outputs(said: Manifest) -> Outputs:
    known = tuple(each for each in contract.TROUBLES if each in said["troubles"])
    return Outputs(known, _count(said.get("rows_written")) or 0, _count(said.get("rows_lost")) or 0)


def _taps(said: Manifest | None) -> Taps | None:
    if said is None:
        return None
    return Taps(
        ranks=int(said["ranks"]),
        ranks_refusing=int(said["ranks_refusing"]),
        refused=int(said["refused"]),
        unresolved_paths=tuple(map(int, said.get("unresolved_paths") or ())),
    )


def _count(value: int | None) -> int | None:
    """Unknown is null; -1 is how a ring says so."""
    return None if value is None or value < 0 else int(value)


def _seconds(value: float | None) -> float | None:
    return None if value is None else float(value)


def _incident(incident: Manifest) -> Incident:
    return Incident(
        kind=incident["kind"],
        level=int(incident["level"]),
        started=float(incident["started_wall"]),
        evidence=incident.get("evidence") or "",
        message=incident.get("message") or "",
        suspects=tuple(Suspect(int(s["rank"]), s["node"], s["pod"]) for s in incident.get("suspects") or ()),
    )

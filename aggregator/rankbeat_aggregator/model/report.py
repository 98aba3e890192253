"""A collector's report: parsed once, here, into frozen values."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rankbeat_aggregator.errors import InvalidReport
from rankbeat_aggregator.model.fields import GREATEST_INTEGER, Fields
from rankbeat_contract import names, ring
from rankbeat_contract import outputs as contract

MOST_RANKS = 4096
"""Rank processes and pods that one report may hold."""
MOST_STEPS = 256
MOST_SCALARS = 4096
MOST_WORLD = 1 << 20
MOST_PATHS = 128
"""Places in spec.attention.cells."""

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_RUN = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_CLASS = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,63}")
_SCALAR = re.compile(names.METRIC_NAME_PATTERN)
_NO_STEPS = np.empty((0, 3))

Rows = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Clock:
    """What the node knows of its own clock."""

    is_trusted: bool
    reason: str
    error_bound_seconds: float | None


@dataclass(frozen=True, slots=True)
class Exchange:
    """The last completed clock exchange: our clock minus the node's, and the round trip."""

    offset_seconds: float
    delay_seconds: float


@dataclass(frozen=True, slots=True)
class JobKey:
    """Whose series a rank or pod is. Stamped by the collector from the API server's pods."""

    namespace: str
    monitor: str
    job_uid: str


@dataclass(frozen=True, slots=True)
class Outputs:
    """What became of the outputs of a pod's own collector. troubles: words of rankbeat_contract.outputs.TROUBLES."""

    troubles: tuple[str, ...]
    rows_written: int = 0
    rows_dropped: int = 0
    records_lost: int = 0
    entries_lost: int = 0


@dataclass(frozen=True, slots=True)
class Taps:
    """What a rank could not tap: how many signals, and which paths of spec.attention.cells, by their places."""

    refused: int
    unresolved_paths: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PodReport:
    """An injected pod of the node."""

    key: JobKey
    job: str
    pod: str
    pod_uid: str
    is_deleting: bool
    phase: str
    rings: int
    has_agent: bool = True
    """False for a pod that only a lower tier can see."""
    outputs: Outputs | None = None
    """None where its own collector, if it has one, has said nothing."""


@dataclass(frozen=True, slots=True)
class RankReport:
    """One rank process as its node saw it. None is unknown."""

    key: JobKey
    job: str
    pod: str
    pod_uid: str
    run: str
    rank: int | None
    """None also for good, where a log's lines do not say whose they are."""
    world_size: int | None
    claimed_age_seconds: float
    is_alive: bool
    phase: str
    phase_age_seconds: float
    updated_age_seconds: float
    segment: int = 0
    step: int | None = None
    step_age_seconds: float | None = None
    entered_step: int | None = None
    longest_interval_seconds: float | None = None
    median_interval_seconds: float | None = None
    total_steps: int | None = None
    losses: tuple[tuple[int, float], ...] = ()
    """(step, loss) of the sampled steps in this report that were not skipped."""
    samples: tuple[int, float] | None = None
    """Samples of the whole job in one step, and the step at which this report says it."""
    is_agent_on: bool = True
    """False after the agent gave up: the rank trains on unseen, it is neither stalled nor missing."""
    is_loss_valid: bool = False
    tier: str = names.TIER_CALLBACK
    """How it is seen, one of names.TIERS."""
    records_lost: int = 0
    agent_errors: int = 0
    taps: Taps | None = None
    """None where it taps nothing, or has not said so yet."""
    exception: str = ""
    steps: Rows = field(default_factory=lambda: _NO_STEPS, compare=False, repr=False)
    """float64 [n, 3], ascending: step, step interval, gap; NaN where the agent could not tell."""


@dataclass(frozen=True, slots=True)
class Report:
    """What one node says."""

    node: str
    sent_wall: float
    interval_seconds: float
    exchange: Exchange | None
    clock: Clock | None
    pods: tuple[PodReport, ...]
    ranks: tuple[RankReport, ...]
    refused: tuple[InvalidReport, ...] = field(default=(), compare=False)
    """Rank entries that break the interface. Rings are written by tenants: one of them must not blind the node."""


def parse(body: object) -> Report:
    """The report in a decoded JSON body.

    Raises: InvalidReport if the body as a whole, or what the collector itself says, breaks the interface.
    """
    if not isinstance(body, Mapping):
        raise InvalidReport(field="body", reason="is no JSON object")
    top = Fields(body)
    ranks, refused = _ranks(top)
    return Report(
        node=top.text("node", pattern=_NAME),
        sent_wall=top.known("sent_wall", most=1e11),
        interval_seconds=top.known("interval_seconds", least=0.1, most=300.0),
        exchange=_exchange(top.nested("exchange")),
        clock=_clock(top.nested("clock")),
        pods=tuple(_pod(entry) for entry in _entries(top, "pods")),
        ranks=ranks,
        refused=refused,
    )


def _entries(top: Fields, name: str) -> list[Fields]:
    found = []
    for index, value in enumerate(top.rows(name, MOST_RANKS)):
        if not isinstance(value, Mapping):
            raise top.fail(f"{name}[{index}]", "is no object")
        found.append(Fields(value, f"{name}[{index}]"))
    return found


def _ranks(top: Fields) -> tuple[tuple[RankReport, ...], tuple[InvalidReport, ...]]:
    found: list[RankReport] = []
    refused: list[InvalidReport] = []
    for entry in _entries(top, "ranks"):
        try:
            found.append(_rank(entry))
        except InvalidReport as error:
            refused.append(error)
    return tuple(found), tuple(refused)


def _exchange(entry: Fields | None) -> Exchange | None:
    if entry is None:
        return None
    return Exchange(entry.known("offset_seconds", -1e11, 1e11), entry.known("delay_seconds", most=3600.0))


def _clock(entry: Fields | None) -> Clock | None:
    if entry is None:
        return None
    return Clock(
        is_trusted=entry.flag("trusted"),
        reason=entry.text("reason", longest=63) if entry.values.get("reason") else "",
        error_bound_seconds=entry.number("error_bound_seconds"),
    )


def _key(entry: Fields) -> JobKey:
    return JobKey(entry.text("namespace", 63, _NAME), entry.text("monitor", 253, _NAME), entry.text("job_uid", 64))


def _pod(entry: Fields) -> PodReport:
    return PodReport(
        key=_key(entry),
        job=entry.text("job"),
        pod=entry.text("pod", pattern=_NAME),
        pod_uid=entry.text("pod_uid", 64),
        is_deleting=entry.flag("deleting"),
        phase=entry.text("phase", 32),
        rings=entry.integer("rings") or 0,
        has_agent=entry.flag("has_agent", default=True),
        outputs=_outputs(entry.nested("outputs")),
    )


def _outputs(entry: Fields | None) -> Outputs | None:
    if entry is None:
        return None
    said = entry.rows("troubles", len(contract.TROUBLES))
    return Outputs(
        troubles=tuple(each for each in contract.TROUBLES if each in said),
        rows_written=entry.integer("rows_written") or 0,
        rows_dropped=entry.integer("rows_dropped") or 0,
        records_lost=entry.integer("records_lost") or 0,
        entries_lost=entry.integer("entries_lost") or 0,
    )


def _taps(entry: Fields | None) -> Taps | None:
    if entry is None:
        return None
    places = entry.rows("unresolved_paths", MOST_PATHS)
    known = tuple(sorted({each for each in places if type(each) is int and 0 <= each < MOST_PATHS}))
    return Taps(entry.integer("refused", most=MOST_STEPS) or 0, known)


def _rank(entry: Fields) -> RankReport:
    phase = entry.text("phase", 16)
    if phase not in ring.PHASES:
        raise entry.fail("phase", f"{phase!r} is no phase")
    exception, tier = entry.values.get("exception") or "", entry.values.get("tier")
    claimed = entry.known("claimed_age_seconds")
    losses, samples = _scalars(entry)
    phase_age, updated = entry.number("phase_age_seconds"), entry.number("updated_age_seconds")
    return RankReport(
        key=_key(entry),
        job=entry.text("job"),
        pod=entry.text("pod", pattern=_NAME),
        pod_uid=entry.text("pod_uid", 64),
        run=entry.text("run", 64, _RUN),
        rank=entry.integer("rank", most=MOST_WORLD - 1),
        world_size=entry.integer("world_size", least=1, most=MOST_WORLD),
        claimed_age_seconds=claimed,
        is_alive=entry.flag("alive"),
        phase=phase,
        phase_age_seconds=claimed if phase_age is None else phase_age,
        updated_age_seconds=claimed if updated is None else updated,
        segment=entry.integer("segment", most=1 << 32) or 0,
        step=entry.integer("step"),
        step_age_seconds=entry.number("step_age_seconds"),
        entered_step=entry.integer("entered_step"),
        longest_interval_seconds=entry.number("longest_interval_seconds"),
        median_interval_seconds=entry.number("median_interval_seconds"),
        total_steps=entry.integer("total_steps") or None,
        losses=losses,
        samples=samples,
        is_agent_on=entry.flag("agent_on", default=True),
        is_loss_valid=entry.flag("loss_valid", default=False),
        tier=tier if tier in names.TIERS else names.TIER_CALLBACK,
        records_lost=entry.integer("records_lost") or 0,
        agent_errors=entry.integer("agent_errors") or 0,
        taps=_taps(entry.nested("taps")),
        exception=exception if isinstance(exception, str) and _CLASS.fullmatch(exception) else "",
        steps=_steps(entry),
    )


def _steps(entry: Fields) -> Rows:
    rows = entry.rows("steps", MOST_STEPS)
    if not rows:
        return _NO_STEPS
    try:
        found = np.array(rows, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise entry.fail("steps", "has a row that is not four numbers") from error
    if found.ndim != 2 or found.shape[1] != 4:
        raise entry.fail("steps", "has a row that is not four numbers")
    # One reduction each way, past NaN: a report of 8 ranks must not cost 100 calls of numpy.
    least, most = np.fmin.reduce(found).tolist(), np.fmax.reduce(found).tolist()
    if not 0 <= least[0] <= most[0] <= GREATEST_INTEGER or found[:, 0].tolist() != sorted(set(found[:, 0].tolist())):
        raise entry.fail("steps", "are not ascending integers from 0 to 2^53")
    if any(value < 0 for value in least[1:]) or any(value == math.inf for value in most[1:]):
        raise entry.fail("steps", "has a duration that is negative or infinite")
    return found[:, :3]


def _scalars(entry: Fields) -> tuple[tuple[tuple[int, float], ...], tuple[int, float] | None]:
    """Losses by step, and the newest samples of a step."""
    samples: tuple[int, float] | None = None
    losses: dict[int, float] = {}
    skipped: set[int] = set()
    for row in entry.rows("scalars", MOST_SCALARS):
        step, name, value = _scalar(entry, row)
        if name == names.SCALAR_LOSS:
            losses[step] = value
        elif name == names.SCALAR_SKIPPED and value != 0:
            skipped.add(step)
        elif name == names.SCALAR_SAMPLES_PER_STEP and 0 < value < math.inf:
            samples = max(samples or (step, value), (step, value))
    return tuple(sorted((step, value) for step, value in losses.items() if step not in skipped)), samples


def _scalar(entry: Fields, row: object) -> tuple[int, str, float]:
    match row:
        case [int(step), str(name), int(value) | float(value)] if step >= 0 and _SCALAR.fullmatch(name):
            return step, name, float(value)
        case _:
            raise entry.fail("scalars", "has a row that is not step, name, number")

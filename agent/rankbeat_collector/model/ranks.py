"""A rank as its ring shows it, and what follows from many of them."""

import math
import re
import statistics
from dataclasses import dataclass, field
from typing import Dict, FrozenSet, Iterable, List, Mapping, NamedTuple, Optional, Tuple

from rankbeat_collector.model.pods import Pod
from rankbeat_collector.model.written import Written
from rankbeat_contract import names, ring

REASONS = (
    "behind",
    "capacity",
    "error",
    "folder",
    "header",
    "io",
    "line",
    "link",
    "name",
    "outputs",
    "rank",
    "size",
    "state",
    "too_many",
    "type",
)
"""Why something of a pod is not read."""

MAX_WORLD_SIZE = 1 << 20
MAX_WRITTEN = 1 << 40
"""A thousand records a second for 34 years: a larger count is a lie."""
_MEDIAN_STEPS = 64
"""Newest steps that the median is taken over: a few seconds to minutes of a run, robust against single slow steps."""
_EXCEPTION = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,63}")
_RUN = re.compile(r"[0-9A-Za-z_-]{1,32}")

Key = Tuple[str, str, int]
"""Pod's UID, file's name, time of the claim: one life of one ring."""


class Step(NamedTuple):
    """A finished step, seconds; None where the agent measured none."""

    step: int
    interval_seconds: Optional[float]
    gap_seconds: Optional[float]
    in_step_seconds: Optional[float]
    segment: int


class Scalar(NamedTuple):
    """A sampled number."""

    step: int
    name: str
    value: float


class Numbers(NamedTuple):
    """A record's values: of a layer its mean, smallest and largest, of a baseline mean and standard deviation."""

    value: float
    value2: float = math.nan
    value3: float = math.nan


MAX_LAYER_VALUES = 512
"""Names times layers of one rank that have series: what a ring can make us hold, and Prometheus."""


@dataclass(frozen=True)
class Rank:
    """One ring as it was last read."""

    pod: Pod
    file: str
    header: ring.Header
    state: ring.State
    is_alive: bool
    """Whether a process held the ring's lock at the last poll."""
    steps: Tuple[Step, ...] = ()
    """Newest steps, oldest first."""
    steps_read: int = 0
    """Steps read since the ring was first seen; the last len(steps) of them are in steps."""
    scalars: Tuple[Scalar, ...] = ()
    scalars_read: int = 0
    loss: Optional[float] = None
    resident_memory_bytes: Optional[float] = None
    latest: Mapping[str, Numbers] = field(default_factory=dict)
    """Newest numbers by name, those of layers and heads apart."""
    layers: Mapping[Tuple[str, int], Numbers] = field(default_factory=dict)
    """Newest numbers of layers, by name and layer; MAX_LAYER_VALUES at most."""
    records_lost: int = 0
    side_lost: int = 0
    """Entries of the side file that were overwritten before they were read; 0 where side files are not read."""
    side_dropped: Mapping[str, int] = field(default_factory=dict)
    """Entries that the writer had no room for, by kind."""
    gone_mono_ns: Optional[int] = None
    """When the ring was found to be no longer there; the rest is as last read."""
    lower_tier: str = ""
    """One of names.LOWER_TIERS where the rank has no ring: header and state are then as far as that tier can know."""

    @property
    def key(self) -> Key:
        return (self.pod.uid, self.file, self.header.claimed_mono_ns)

    @property
    def phase(self) -> str:
        return ring.PHASES[self.state.phase]

    @property
    def tier(self) -> str:
        """How the rank is seen, one of names.TIERS."""
        seen = names.TIER_HEARTBEAT if self.state.flags & ring.HEARTBEAT else names.TIER_CALLBACK
        return self.lower_tier or seen

    @property
    def timing(self) -> str:
        """synced or dispatch: what the last step's times are of; empty before the first."""
        if self.state.step == ring.UNKNOWN:
            return ""
        return "synced" if self.state.flags & ring.TIMING_SYNCED else "dispatch"

    @property
    def has_valid_loss(self) -> bool:
        return not self.state.flags & ring.LOSS_INVALID

    @property
    def exception(self) -> str:
        return self.state.exception if _EXCEPTION.fullmatch(self.state.exception) else ""


@dataclass(frozen=True)
class PodRings:
    """What one poll found in one pod."""

    pod: Pod
    rings: int = 0
    refused: Tuple[Tuple[str, int], ...] = ()
    outputs: Optional[Written] = None
    """None where no collector beside the job has said anything."""


@dataclass(frozen=True)
class Totals:
    """Counts since the collector started."""

    polls: int = 0
    records_lost: int = 0
    conflicts: int = 0
    refused: Tuple[Tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Poll:
    """Everything that one pass over this node's pods found."""

    mono_ns: int
    wall_ns: int
    has_pods: bool
    """Whether the API has said which pods are here."""
    is_readable: bool
    """Whether the folder that holds all pods' folders could be opened."""
    seconds: float = 0.0
    pods: Tuple[PodRings, ...] = ()
    ranks: Tuple[Rank, ...] = ()
    """Rings that are there, and for a while those that are gone."""
    totals: Totals = Totals()


def header_refusal(header: ring.Header, capacity: int) -> Optional[str]:
    """Why a header is not to be trusted, one of REASONS. capacity: records that fit the file."""
    if not 0 < header.capacity <= capacity:
        return "capacity"
    return None if _RUN.fullmatch(header.run_id) else "name"


def state_refusal(state: ring.State) -> Optional[str]:
    """Why a state is not to be trusted, one of REASONS."""
    if not (state.rank >= ring.UNKNOWN and ring.UNKNOWN <= state.world_size <= MAX_WORLD_SIZE):
        return "rank"
    if state.world_size == 0 or state.rank >= (MAX_WORLD_SIZE if state.world_size < 0 else state.world_size):
        return "rank"
    if state.written >= MAX_WRITTEN or state.segment < 0 or min(state.step, state.entered_step) < ring.UNKNOWN:
        return "state"
    return None


def median_interval_seconds(steps: Iterable[Step], segment: int) -> Optional[float]:
    """Median interval of the newest steps of this train() call, None while there is none."""
    known = [row.interval_seconds for row in steps if row.segment == segment and row.interval_seconds is not None]
    return statistics.median(known[-_MEDIAN_STEPS:]) if known else None


def newest_claims(found: Iterable[Rank]) -> Tuple[Rank, ...]:
    """Rings of one pod without those that a later claim replaced (a restart in place), oldest claim first.

    A later claim replaces an earlier one of the same rank; where the earlier process died before it knew its rank, of
    the same local rank.
    """
    kept: List[Rank] = []
    for rank in sorted(found, key=lambda each: (-each.header.claimed_mono_ns, each.file)):
        if not any(_is_replaced(rank, later) for later in kept):
            kept.append(rank)
    return tuple(reversed(kept))


def _is_replaced(rank: Rank, later: Rank) -> bool:
    if rank.state.rank != ring.UNKNOWN:
        return rank.state.rank == later.state.rank
    return not rank.is_alive and rank.header.local_rank == later.header.local_rank


def winners(ranks: Iterable[Rank]) -> Tuple[Tuple[Rank, ...], FrozenSet[Key]]:
    """The newest claim of each (namespace, monitor, rank), and the keys of living ranks that lost to a living one.

    Ranks that do not know their number yet are left out: there is no series to give them. What a log says of ranks that
    it does not name has the series of the rank "".
    """
    best: Dict[Tuple[str, str, int], Rank] = {}
    conflicts = set()
    for rank in sorted(ranks, key=lambda each: (each.gone_mono_ns is None, each.header.claimed_mono_ns, each.key)):
        if rank.state.rank == ring.UNKNOWN and not rank.lower_tier:
            continue
        series = (rank.pod.namespace, rank.pod.monitor, rank.state.rank)
        loser = best.get(series)
        if loser is not None and loser.pod.uid != rank.pod.uid and loser.is_alive and rank.is_alive:
            conflicts.add(loser.key)
        best[series] = rank
    return tuple(best[series] for series in sorted(best)), frozenset(conflicts)


Turn = Tuple[Key, int, bool, bool, str]


def turns(ranks: Iterable[Rank]) -> FrozenSet[Turn]:
    """What the aggregator hears at once when it is new: a rank appears, knows its number, dies, ends or is gone."""
    final = ("done", "failed")
    return frozenset(
        (
            rank.key,
            rank.state.rank,
            rank.is_alive,
            rank.gone_mono_ns is not None,
            rank.phase if rank.phase in final else "",
        )
        for rank in ranks
    )


def added(counts: Mapping[str, int], more: Iterable[Tuple[str, int]]) -> Dict[str, int]:
    """counts and more, summed by reason."""
    total = dict(counts)
    for reason, count in more:
        total[reason] = total.get(reason, 0) + count
    return total

"""A process of the newest attempt as it stands now."""

from dataclasses import dataclass

from rankbeat_aggregator.model.report import RankReport
from rankbeat_aggregator.model.verdict import Suspect
from rankbeat_aggregator.window.process import Process
from rankbeat_contract import names

_STILL_TRAINING = frozenset({"init_comm", "build", "load", "train"})


@dataclass(frozen=True, slots=True)
class Member:
    """A process and what its node's silence or its pod's end means for it."""

    process: Process
    snapshot: RankReport
    seen: float
    """When the snapshot was taken."""
    rank: int | None
    phase: str
    is_silent: bool
    """Its node sends no reports."""
    is_deleting: bool
    """Its pod is being deleted, or gone."""
    is_dead: bool
    """Ended without having come to the end of its script."""
    is_active: bool
    """Alive, before our eyes, and not at its end."""
    finished: tuple[int, int]
    """Segment and step that it last finished; step -1 before the first."""
    entered: tuple[int, int] | None
    """Segment and step that it last began."""
    progress: float
    """When it last finished a step or changed its phase."""

    @property
    def suspect(self) -> Suspect:
        return Suspect(self.rank, self.process.node, self.snapshot.pod)

    @property
    def is_without_ring(self) -> bool:
        """Whether a lower tier shows it: what it has entered, and phases inside training, are not seen."""
        return self.snapshot.tier in names.LOWER_TIERS

    @property
    def has_reached_end(self) -> bool:
        """Whether training was over for it, whatever its process did afterwards."""
        if self.phase == "done":
            return True
        total, step = self.snapshot.total_steps, self.finished[1]
        if total is None or self.phase in _STILL_TRAINING:
            return False
        return step >= total


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a member's standing depends on beside its process."""

    is_silent: bool
    is_listed: bool
    is_deleting: bool


def member(process: Process, around: Surroundings, before: Member | None) -> Member:
    """The process as it stands now; the same value as before where nothing has changed, for there are thousands."""
    snapshot = process.snapshot
    is_silent, is_deleting = around.is_silent, around.is_deleting
    is_done = snapshot.phase == "done"
    is_dead = not is_done and (snapshot.phase == "failed" or not snapshot.is_alive or not around.is_listed)
    if (
        before is not None
        and before.snapshot is snapshot
        and before.seen == process.seen
        and (before.is_silent, before.is_deleting, before.is_dead) == (is_silent, is_deleting, is_dead)
    ):
        return before
    return Member(
        process=process,
        snapshot=snapshot,
        seen=process.seen,
        rank=snapshot.rank,
        phase=snapshot.phase,
        is_silent=is_silent,
        is_deleting=is_deleting,
        is_dead=is_dead,
        is_active=not is_silent and not is_dead and not is_done,
        finished=(snapshot.segment, -1 if snapshot.step is None else snapshot.step),
        entered=None if snapshot.entered_step is None else (snapshot.segment, snapshot.entered_step),
        progress=_progress(process),
    )


def _progress(process: Process) -> float:
    snapshot = process.snapshot
    changed = process.when(snapshot.phase_age_seconds)
    if snapshot.step is None or snapshot.step_age_seconds is None:
        return changed
    return max(changed, process.when(snapshot.step_age_seconds))

"""No progress: the job as a whole finishes no step and changes no phase for longer than its limit.

Source of the limits: docs/sources.md, Stalls.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rankbeat_aggregator.detect import words
from rankbeat_aggregator.model.verdict import CRITICAL, HANG, MOST_SUSPECTS, WARNING, Finding
from rankbeat_aggregator.window.member import Member
from rankbeat_aggregator.window.view import JobView
from rankbeat_contract import names
from rankbeat_contract.monitor import Limits

MEDIAN_INTERVALS = 6.0
LONGEST_INTERVALS = 1.5
UNCORROBORATED = 2.0
"""Without corroboration the page comes at this multiple of the limit."""

TRAIN = "train"
HIDDEN = ("callbacks", "checkpoint", "eval")
"""Phases inside a train() call that a lower tier cannot tell from training."""


def is_judged(seen: JobView) -> bool:
    """Whether there is a rank whose progress we can see."""
    return bool(seen.active)


def limit_seconds(seen: JobView, limits: Limits) -> float | None:
    """The largest limit among the phases that any rank is in, None while no rank is seen."""
    phases = {member.phase for member in seen.active}
    by_phase = dict(limits.phase_seconds)
    if any(member.phase == TRAIN and member.is_without_ring for member in seen.active):
        phases.update(HIDDEN)
    found = [_train_limit(seen, limits) if phase == TRAIN else by_phase[phase] for phase in phases]
    return max(found, default=None)


def _train_limit(seen: JobView, limits: Limits) -> float:
    return max(
        limits.hang_seconds,
        MEDIAN_INTERVALS * (seen.median_interval_seconds or 0.0),
        LONGEST_INTERVALS * (seen.longest_interval_seconds or 0.0),
    )


def stall_seconds(seen: JobView) -> float | None:
    """How long the job was seen without progress, None while no rank is seen.

    It ends at the oldest of the newest snapshots, not now: what happened since a node last reported is not known.
    """
    return max(0.0, _until(seen.active, seen) - _newest_progress(seen)) if seen.active else None


def _until(members: Sequence[Member], seen: JobView) -> float:
    """Up to when all of them were seen; nodes whose report is late do not hold it back."""
    punctual = [m.process.seen for m in members if not seen.nodes[m.process.node].is_late]
    return min(punctual) if punctual else min(member.process.seen for member in members)


def _newest_progress(seen: JobView) -> float:
    return max(member.progress for member in seen.members)


@dataclass(frozen=True, slots=True)
class _Front:
    """The newest step that a rank has entered, who is inside it, and who is not."""

    step: tuple[int, int] | None
    inside: Sequence[Member]
    behind: Sequence[Member]


def _front(seen: JobView) -> _Front:
    step = max((member.entered for member in seen.active if member.entered is not None), default=None)
    return _Front(
        step=step,
        inside=[m for m in seen.active if step is not None and m.entered == step and m.finished < step],
        behind=[m for m in seen.active if m.entered != step and m.rank is not None and not m.is_without_ring],
    )


def _arrival_stall(seen: JobView, front: _Front) -> float | None:
    """How long ranks were seen waiting inside a step for those behind, None where there are not both.

    Who is inside cannot leave while others have not come, so one fresh snapshot from inside will do; of those behind
    all must be fresh, for they may have come since.
    """
    if not front.inside or not front.behind:
        return None
    waiting = max(member.process.seen for member in front.inside)
    return max(0.0, min(waiting, _until(front.behind, seen)) - _newest_progress(seen))


def finding(seen: JobView, limits: Limits) -> Finding | None:
    """The stall that is due now."""
    stall, limit = stall_seconds(seen), limit_seconds(seen, limits)
    if stall is None or limit is None or seen.is_deletion_fresh:
        return None
    front = _front(seen)
    arrival = _arrival_stall(seen, front)
    if arrival is not None and arrival >= limit:
        return _not_arrived(seen, front, limit, arrival)
    if stall < limit:
        return None
    dead = [m for m in seen.members if m.is_dead and not m.has_reached_end]
    duration = _duration(stall, limit)
    if dead:
        sentence = (
            f"the process of {words.ranks(dead)} has ended{exception_class(dead)} and {len(seen.active)} of "
            f"{len(seen.ranked)} ranks make no progress {duration}"
        )
        return _finding(seen, CRITICAL, names.EVIDENCE_PROCESS_DEAD, dead, sentence)
    sentence = _nothing_known(seen, front, duration)
    if _may_be_over(seen):
        sentence += "; a loop of the job's own does not say when it ends, so that this alone is no page"
        return _finding(seen, WARNING, names.EVIDENCE_NONE, (), sentence)
    level = CRITICAL if stall >= UNCORROBORATED * limit else WARNING
    return _finding(seen, level, names.EVIDENCE_NONE, (), sentence)


def _may_be_over(seen: JobView) -> bool:
    """Whether all that train do so in a loop of the job's own.

    Its phase stays `train` when it has ended, and a step that compiles anew is no `build`; callbacks say both.
    """
    own = [member for member in seen.active if member.phase == TRAIN]
    return bool(own) and all(member.snapshot.tier == names.TIER_HEARTBEAT for member in own)


def _not_arrived(seen: JobView, front: _Front, limit: float, stall: float) -> Finding:
    since = _newest_progress(seen)
    suspects = [member for member in front.behind if member.process.seen - since >= limit]
    sentence = (
        f"{words.ranks(suspects)} {words.have(suspects)} not entered {_step(front)}, which {len(front.inside)} of "
        f"{len(seen.ranked)} ranks are in, {_duration(stall, limit)}{_other_phases(suspects)}"
    )
    return _finding(seen, CRITICAL, names.EVIDENCE_NOT_ARRIVED, suspects, sentence)


def _finding(seen: JobView, level: int, evidence: str, suspects: Sequence[Member], sentence: str) -> Finding:
    return Finding(
        kind=HANG,
        level=level,
        started=_newest_progress(seen),
        evidence=evidence,
        suspects=tuple(member.suspect for member in suspects[:MOST_SUSPECTS]),
        message=sentence + words.silence(seen),
    )


def _duration(stall: float, limit: float) -> str:
    return f"for {words.seconds(stall)} (limit {words.seconds(limit)})"


def _step(front: _Front) -> str:
    return f"step {front.step[1]}" if front.step else "the first step"


def _nothing_known(seen: JobView, front: _Front, duration: str) -> str:
    count = len(front.inside)
    if count and count == len(seen.active):
        said = f"all {count} ranks" if count == len(seen.ranked) else f"{count} ranks"
        return f"{said} are inside {_step(front)} {duration} and nothing tells them apart"
    phases: dict[str, int] = {}
    for member in seen.active:
        phases[member.phase] = phases.get(member.phase, 0) + 1
    where = ", ".join(f"{count} in phase {phase}" for phase, count in sorted(phases.items()))
    return f"no rank makes progress {duration}: {where}, and nothing tells them apart"


def _other_phases(members: Sequence[Member]) -> str:
    phases = sorted({member.phase for member in members} - {TRAIN})
    return f", in phase {', '.join(phases)}" if phases else ""


def exception_class(members: Sequence[Member]) -> str:
    """` (RuntimeError)` where the processes left one."""
    classes = sorted({one for member in members if (one := member.process.snapshot.exception)})
    return f" ({', '.join(classes)})" if classes else ""

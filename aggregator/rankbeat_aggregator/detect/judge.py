"""Opens, keeps and ends incidents."""

from dataclasses import dataclass, replace

from rankbeat_aggregator.detect import crash, hang, loss, missing
from rankbeat_aggregator.model.verdict import (
    CRASH,
    CRITICAL,
    HANG,
    NAN_LOSS,
    RANK_MISSING,
    Finding,
    Incident,
    Verdict,
)
from rankbeat_aggregator.window.view import JobView
from rankbeat_contract import names
from rankbeat_contract.monitor import Limits

GONE_SECONDS = 300.0
"""An incident ends this long after the last pod of its job."""
REFINED_SECONDS = 10.0
"""A crash's suspects may still change for this long: the earliest end may stand in a report that comes later."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a verdict is a function of, beside the job."""

    limits: Limits
    wall_offset_seconds: float
    """Our wall clock less our monotonic clock."""


def judge(seen: JobView, previous: Verdict, by: Judgement) -> Verdict:
    """The job's verdict now."""
    open_before = {one.kind: one for one in previous.incidents if not _has_ended(one, seen)}
    after: dict[str, Incident] = {}
    _put(after, open_before.get(HANG), None if CRASH in open_before else hang.finding(seen, by.limits), seen, by)
    fallen = crash.finding(seen)
    if HANG in after and fallen is not None:
        after[HANG] = _joined(after[HANG], fallen)
        fallen = None
    _put(after, open_before.get(CRASH), fallen, seen, by)
    _put(after, open_before.get(NAN_LOSS), loss.finding(seen), seen, by)
    has_cause = HANG in after or CRASH in after
    _put(after, open_before.get(RANK_MISSING), None if has_cause else missing.finding(seen, by.limits), seen, by)
    return Verdict(
        judged=_judged(seen),
        incidents=tuple(after.values()),
        reason=crash.reason(seen),
        hang_limit_seconds=hang.limit_seconds(seen, by.limits),
    )


def _judged(seen: JobView) -> tuple[str, ...]:
    kinds = (
        (HANG, hang.is_judged(seen)),
        (CRASH, crash.is_judged(seen)),
        (NAN_LOSS, loss.is_judged(seen)),
        (RANK_MISSING, missing.is_judged(seen)),
    )
    return tuple(kind for kind, is_judged in kinds if is_judged)


def _has_ended(incident: Incident, seen: JobView) -> bool:
    """Whether progress has resumed, or nothing is left of the job."""
    if not seen.has_pods and seen.now - seen.last_listed >= GONE_SECONDS:
        return True
    position = seen.position
    has_steps = position > incident.baseline and position[2] >= 0
    is_newer_attempt = has_steps and position[0] > incident.baseline[0]
    if incident.kind == HANG:
        is_done = bool(seen.members) and all(member.phase == "done" for member in seen.members)
        return is_done or (is_newer_attempt if incident.has_crashed else has_steps)
    if incident.kind == NAN_LOSS:
        return is_newer_attempt or (loss.is_judged(seen) and loss.finding(seen) is None)
    if incident.kind == RANK_MISSING:
        return is_newer_attempt or (missing.is_judged(seen) and not missing.is_missing(seen))
    return is_newer_attempt


def _put(
    after: dict[str, Incident], before: Incident | None, found: Finding | None, seen: JobView, by: Judgement
) -> None:
    if before is not None:
        after[before.kind] = before if found is None else _updated(before, found, seen.now)
    elif found is not None:
        after[found.kind] = _opened(found, seen, by)


def _opened(found: Finding, seen: JobView, by: Judgement) -> Incident:
    return Incident(
        kind=found.kind,
        level=found.level,
        started=found.started,
        started_wall=found.started + by.wall_offset_seconds,
        evidence=found.evidence,
        suspects=found.suspects,
        message=found.message,
        baseline=seen.position,
        opened=seen.now,
    )


def _updated(incident: Incident, found: Finding, now: float) -> Incident:
    """The incident with what is new: the earliest evidence stays, and the level never falls."""
    if incident.has_crashed:
        return incident
    is_first_evidence = incident.evidence == names.EVIDENCE_NONE and found.evidence != names.EVIDENCE_NONE
    is_refined = incident.kind == CRASH and now - incident.opened <= REFINED_SECONDS
    is_worse = found.level > incident.level
    if is_first_evidence or (is_refined and found.suspects != incident.suspects):
        incident = replace(incident, evidence=found.evidence, suspects=found.suspects, message=found.message)
    elif is_worse and found.suspects == incident.suspects:
        incident = replace(incident, message=found.message)
    return replace(incident, level=max(incident.level, found.level))


def _joined(incident: Incident, fallen: Finding) -> Incident:
    """The hang that a crash has joined: one trouble, one page."""
    if incident.has_crashed:
        return incident
    has_evidence = incident.evidence != names.EVIDENCE_NONE
    return replace(
        incident,
        level=CRITICAL,
        evidence=incident.evidence if has_evidence else fallen.evidence,
        suspects=incident.suspects if has_evidence else fallen.suspects,
        message=f"{incident.message}; then {fallen.message}",
        has_crashed=True,
    )

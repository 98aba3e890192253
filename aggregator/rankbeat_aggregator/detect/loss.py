"""The loss is no longer finite."""

import math

from rankbeat_aggregator.detect import words
from rankbeat_aggregator.model.verdict import CRITICAL, MOST_SUSPECTS, NAN_LOSS, WARNING, Finding
from rankbeat_aggregator.window.member import Member
from rankbeat_aggregator.window.view import JobView
from rankbeat_contract import names

CRITICAL_SAMPLES = 2
"""Samples in a row that page: one may be a spike that the next update heals (docs/sources.md, Stalls)."""


def _valid(seen: JobView) -> list[Member]:
    return [m for m in seen.members if m.process.snapshot.is_loss_valid and m.process.losses]


def is_judged(seen: JobView) -> bool:
    return bool(_valid(seen))


def job_loss(seen: JobView) -> float | None:
    """The newest loss of the lowest rank that holds a valid one, else of an unnamed one; may be NaN or infinite."""
    valid = _valid(seen)
    return valid[0].process.losses[-1][1] if valid else None


def _broken(member: Member) -> list[tuple[int, float]]:
    """The newest samples that are not finite, in a row."""
    found: list[tuple[int, float]] = []
    for step, value in reversed(member.process.losses):
        if math.isfinite(value):
            break
        found.insert(0, (step, value))
    return found


def finding(seen: JobView) -> Finding | None:
    """The ranks whose loss was the first to be not finite."""
    broken = [(member, found) for member in _valid(seen) if (found := _broken(member))]
    if not broken:
        return None
    step = min(found[0][0] for _, found in broken)
    suspects = [member for member, found in broken if found[0][0] == step]
    samples = max(len(found) for _, found in broken)
    value = next(found[0][1] for _, found in broken if found[0][0] == step)
    return Finding(
        kind=NAN_LOSS,
        level=CRITICAL if samples >= CRITICAL_SAMPLES else WARNING,
        started=min(member.progress for member in suspects),
        evidence=names.EVIDENCE_NONE,
        suspects=tuple(member.suspect for member in suspects[:MOST_SUSPECTS]),
        message=f"the loss of {words.ranks(suspects)} is {value} at step {step}"
        + (", and at the samples after it" if samples >= CRITICAL_SAMPLES else ", no later sample yet"),
    )

"""A rank's process ended before training did."""

from collections.abc import Sequence
from dataclasses import dataclass

from rankbeat_aggregator.detect import hang, words
from rankbeat_aggregator.model.verdict import CRASH, CRITICAL, MOST_SUSPECTS, Finding
from rankbeat_aggregator.window.member import Member
from rankbeat_aggregator.window.process import Process
from rankbeat_aggregator.window.view import JobView
from rankbeat_contract import names

TEARDOWN = "teardown"
"""All ranks reached the end of training, a process failed after it. Seen in 1 of 23 finished jobs with MindSpore 2.9
(docs/sources.md, MindSpore): no failure of training."""


@dataclass(frozen=True, slots=True)
class _End:
    """When a process ended: after `after`, by `before`, on our clock give or take its node's bound."""

    member: Member
    after: float
    before: float
    bound_seconds: float | None


def is_judged(seen: JobView) -> bool:
    return bool(seen.members)


def reason(seen: JobView) -> str:
    """TEARDOWN where that is what happened."""
    has_failed = any(member.is_dead for member in seen.members)
    return TEARDOWN if has_failed and all(member.has_reached_end for member in seen.members) else ""


def finding(seen: JobView) -> Finding | None:
    """The crash that is seen now. A job whose pods are being deleted has not crashed."""
    failing = [member for member in seen.members if member.is_dead and not member.has_reached_end]
    if seen.is_deletion_fresh or not any(not member.is_deleting for member in failing):
        return None
    ends = [_end(member, seen) for member in failing]
    suspects = _earliest(ends, seen)
    ended = sum(member.is_dead for member in seen.members)
    return Finding(
        kind=CRASH,
        level=CRITICAL,
        started=min(end.before for end in ends),
        evidence=names.EVIDENCE_PROCESS_DEAD,
        suspects=tuple(member.suspect for member in suspects[:MOST_SUSPECTS]),
        message=f"{_sentence(suspects)}, {ended} of {len(seen.members)} ranks have ended"
        f"{_order(suspects, ends)}{words.silence(seen)}",
    )


def _end(member: Member, seen: JobView) -> _End:
    process = member.process
    node = seen.nodes.get(process.node)
    bound = None if node is None else node.order_bound_seconds
    if process.snapshot.phase == "failed":
        failed = process.when(process.snapshot.phase_age_seconds)
        return _End(member, failed, failed, bound)
    before = process.seen if process.dead_seen is None else process.dead_seen
    return _End(member, min(_last_life(process), before), before, bound)


def _last_life(process: Process) -> float:
    updated = process.when(process.snapshot.updated_age_seconds)
    return updated if process.alive_seen is None else max(updated, process.alive_seen)


def _earliest(ends: Sequence[_End], seen: JobView) -> Sequence[Member]:
    """Those that may have ended first: all but those that certainly ended after another.

    Inside a node its own monotonic clock orders the ends; between nodes, only clocks with bounds do.
    """
    by_node: dict[str, float] = {}
    for end in ends:
        node = end.member.process.node
        by_node[node] = min(end.before, by_node.get(node, end.before))
    anywhere = min((end.before + end.bound_seconds for end in ends if end.bound_seconds is not None), default=None)
    first = [
        end.member
        for end in ends
        if end.after <= by_node[end.member.process.node]
        and (anywhere is None or end.bound_seconds is None or end.after - end.bound_seconds <= anywhere)
    ]
    return _without_victims(first, seen)


def _without_victims(members: Sequence[Member], seen: JobView) -> Sequence[Member]:
    """Those that ended for a reason of their own, where that can be told.

    An exception outside a step is no lost peer's; a rank inside a step that another has not entered was waiting for it.
    A lower tier shows neither.
    """
    if any(m.is_without_ring for m in members):
        return members
    outside = [m for m in members if m.phase == "failed" and (m.entered is None or m.entered <= m.finished)]
    if outside:
        return outside
    front = max((member.entered for member in seen.members if member.entered is not None), default=None)
    behind = [member for member in members if member.entered != front]
    return behind or members


def _sentence(suspects: Sequence[Member]) -> str:
    step = max(member.finished[1] for member in suspects)
    where = f"after step {step}" if step >= 0 else "before the first step"
    classes = hang.exception_class(suspects)
    if any(member.phase == "failed" for member in suspects):
        return f"{words.ranks(suspects)} failed{classes} {where}"
    return f"the process of {words.ranks(suspects)} ended without an exception {where}"


def _order(suspects: Sequence[Member], ends: Sequence[_End]) -> str:
    """What is said of the order where several ranks may have been first."""
    untrusted = sorted({end.member.process.node for end in ends if end.bound_seconds is None})
    across = len({end.member.process.node for end in ends}) > 1
    if across and untrusted:
        return f"; order between nodes unknown, the clock of {', '.join(untrusted[:3])} is not trusted"
    return "; order unknown" if len(suspects) > 1 else ""

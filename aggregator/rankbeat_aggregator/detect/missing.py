"""Ranks that should report and do not."""

from collections.abc import Sequence

from rankbeat_aggregator.detect import words
from rankbeat_aggregator.model.verdict import CRITICAL, MOST_SUSPECTS, RANK_MISSING, Finding, Suspect
from rankbeat_aggregator.window.member import Member
from rankbeat_aggregator.window.view import JobView
from rankbeat_contract import names
from rankbeat_contract.monitor import Limits


def is_judged(seen: JobView) -> bool:
    """Not while ranks are still joining, and not once the job has ended."""
    living = [member for member in seen.members if not member.is_dead and member.phase != "done"]
    return seen.has_pods and bool(living) and not any(member.phase == "init_comm" for member in living)


def absent(seen: JobView) -> tuple[Member, ...]:
    """Ranks of this attempt that are not before our eyes, though they had not reached the end."""
    reporting = {member.rank for member in seen.reporting}
    return tuple(m for m in seen.ranked if m.rank not in reporting and not m.has_reached_end)


def is_missing(seen: JobView) -> bool:
    return is_judged(seen) and bool(absent(seen) or seen.expected > len(seen.ranked))


def finding(seen: JobView, limits: Limits) -> Finding | None:
    """The ranks that have been missing for longer than the limit."""
    if not is_missing(seen) or seen.is_deletion_fresh:
        return None
    gone = absent(seen)
    never = seen.expected - len(seen.ranked)
    since = min([*(_since(member) for member in gone), *([_never_since(seen)] if never else [])])
    duration = seen.now - since
    if duration < limits.rank_missing_seconds:
        return None
    return Finding(
        kind=RANK_MISSING,
        level=CRITICAL,
        started=since,
        evidence=names.EVIDENCE_NONE,
        suspects=_suspects(gone, seen, never),
        message=f"{len(gone) + never} of {seen.expected} ranks have not reported for {words.seconds(duration)} "
        f"(limit {words.seconds(limits.rank_missing_seconds)}): {_why(gone, seen, never)}",
    )


def _since(member: Member) -> float:
    dead = member.process.dead_seen
    return member.process.seen if dead is None else min(dead, member.process.seen)


def _never_since(seen: JobView) -> float:
    """Since when a pod without a ring is news: it was there, and the others had joined without it."""
    joined = [member.process.left_init for member in seen.members if member.process.left_init is not None]
    first = min(pod.first_seen for pod in seen.pods_without_ring)
    return max(first, min(joined, default=first))


def _suspects(gone: Sequence[Member], seen: JobView, never: int) -> tuple[Suspect, ...]:
    pods = seen.pods_without_ring if never else ()
    ringless = (Suspect(None, pod.node, pod.report.pod) for pod in pods)
    return (*(member.suspect for member in gone), *ringless)[:MOST_SUSPECTS]


def _why(gone: Sequence[Member], seen: JobView, never: int) -> str:
    said = []
    by_node: dict[str, list[Member]] = {}
    for member in gone:
        if member.is_silent:
            by_node.setdefault(member.process.node, []).append(member)
    for node, members in list(by_node.items())[:3]:
        view = seen.nodes.get(node)
        age = "" if view is None else f" for {words.seconds(view.report_age_seconds)}"
        said.append(f"node {node} has sent no report{age} ({words.ranks(members)})")
    ended = [member for member in gone if not member.is_silent]
    if ended:
        said.append(f"the process of {words.ranks(ended)} is gone")
    if never:
        pods = ", ".join(pod.report.pod for pod in seen.pods_without_ring[:3])
        said.append(f"pod {pods} runs without a ring")
    return "; ".join(said)

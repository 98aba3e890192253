"""Words that the messages share."""

from collections.abc import Sequence

from rankbeat_aggregator.window.member import Member
from rankbeat_aggregator.window.view import JobView

MOST_NAMED = 8
"""Ranks that a sentence lists before it only counts them."""


def ranks(members: Sequence[Member]) -> str:
    """`rank 3`, `ranks 3, 4`, `ranks 0, 1, 2, ... (40 ranks)`, or the pod where no rank is known."""
    known = [str(member.rank) for member in members if member.rank is not None]
    if not known:
        return ", ".join(sorted({f"a process of pod {member.process.snapshot.pod}" for member in members}))
    if len(known) == 1:
        return f"rank {known[0]}"
    named = ", ".join(known[:MOST_NAMED])
    return f"ranks {named}" if len(known) <= MOST_NAMED else f"ranks {named}, ... ({len(known)} ranks)"


def have(members: Sequence[Member]) -> str:
    return "has" if len(members) == 1 else "have"


def seconds(value: float) -> str:
    """`8.4 s`, `130 s`: a tenth below 100 s."""
    return f"{value:.1f} s".replace(".0 s", " s") if value < 100 else f"{value:.0f} s"


def silence(seen: JobView) -> str:
    """What is not known because nodes are silent, as the tail of a sentence."""
    nodes = seen.silent_nodes
    if not nodes:
        return ""
    named = ", ".join(
        f"node {node.name} has sent no report for {seconds(node.report_age_seconds)}" for node in nodes[:3]
    )
    more = f" and {len(nodes) - 3} more" if len(nodes) > 3 else ""
    return f"; {named}{more}, so that nothing is known of the ranks there"

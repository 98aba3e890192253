"""The report to the aggregator, ARCHITECTURE.md, `POST /v1/reports`."""

from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, TypeVar

from rankbeat_collector.model import ranks, series
from rankbeat_collector.model.exchange import Exchange
from rankbeat_collector.model.ranks import Key, PodRings, Poll, Rank
from rankbeat_collector.model.written import Written
from rankbeat_contract import names, ring

MAX_ROWS = 256
"""Newest steps and newest scalars of a rank in one report."""
_MAX_RANKS = 4096
"""Ranks in one report, which the aggregator accepts: hostile pods must not get a node's whole report refused."""
_TOTAL_ROWS = 20_000
"""Steps, and scalars, of all ranks in one report: with 4,096 ranks it stays below the aggregator's 8 MiB."""
_MAX_PODS = 512
MAX_TAPS = 128
"""Signals and paths together; spec.attention.cells holds 64 paths at most."""

Json = Dict[str, object]
_Row = TypeVar("_Row")


class Sent(NamedTuple):
    """What the aggregator has of a ring."""

    steps: int
    """Of Rank.steps_read."""
    scalars: int
    lost: int = 0
    """Rows that fell out while it could not be reached."""
    is_final: bool = False
    """Whether it has heard that the ring is gone."""


class Sender(NamedTuple):
    """Who reports, and how its clock stands."""

    node: str
    interval_seconds: float
    exchange: Optional[Exchange] = None
    clock: Optional[Mapping[str, object]] = None


class Report(NamedTuple):
    """A report and what holds once it is accepted."""

    body: Json
    sent: Dict[Key, Sent]
    dropped: int
    """Rows that are new and do not fit in."""


def report(sender: Sender, poll: Poll, sent: Mapping[Key, Sent], *, is_late: bool, max_rows: int = MAX_ROWS) -> Report:
    """What is new in poll beyond sent.

    is_late: whether the report before this failed, so that rows that fell out since count as lost.
    `sent_wall` is left to the sender, who knows when it sends.
    """
    due = _fair([rank for rank in poll.ranks if rank.gone_mono_ns is None or not _before(sent, rank).is_final])
    rows = min(max_rows, _TOTAL_ROWS // max(1, len(due)))
    after: Dict[Key, Sent] = {rank.key: sent[rank.key] for rank in poll.ranks if rank.key in sent}
    bodies: List[Json] = []
    dropped = 0
    for rank in due:
        body, after[rank.key], missing = _rank_rows(rank, _before(sent, rank), rows, is_late=is_late)
        bodies.append({**_rank(rank, poll.mono_ns), **body})
        dropped += missing
    found = sorted(poll.pods, key=lambda each: each.pod.is_over)[:_MAX_PODS]
    return Report(
        {
            "node": sender.node,
            "sent_wall": 0.0,
            "interval_seconds": sender.interval_seconds,
            "exchange": None if sender.exchange is None else dict(sender.exchange._asdict()),
            "clock": sender.clock,
            "pods": [_pod(each, poll.wall_ns / 1e9) for each in found],
            "ranks": bodies,
        },
        after,
        dropped,
    )


def _fair(due: List[Rank]) -> List[Rank]:
    """_MAX_RANKS of due at most, as many of each pod, its newest."""
    if len(due) <= _MAX_RANKS:
        return due
    of_pod: Dict[str, List[Rank]] = {}
    for rank in due:
        of_pod.setdefault(rank.pod.uid, []).append(rank)
    share = max(1, _MAX_RANKS // len(of_pod))
    return [rank for found in of_pod.values() for rank in found[-share:]][:_MAX_RANKS]


def _before(sent: Mapping[Key, Sent], rank: Rank) -> Sent:
    """What has been sent of rank; nothing of what is still held, when it is new."""
    return sent.get(rank.key) or Sent(rank.steps_read - len(rank.steps), rank.scalars_read - len(rank.scalars))


def _newest(rows: Sequence[_Row], new: int, most: int) -> Sequence[_Row]:
    count = min(new, most, len(rows))
    return rows[len(rows) - count :]


def _rank_rows(rank: Rank, before: Sent, most: int, *, is_late: bool) -> Tuple[Json, Sent, int]:
    steps = _newest(rank.steps, rank.steps_read - before.steps, most)
    scalars = _newest(rank.scalars, rank.scalars_read - before.scalars, most)
    missing = (rank.steps_read - before.steps - len(steps)) + (rank.scalars_read - before.scalars - len(scalars))
    lost = before.lost + (missing if is_late else 0)
    body: Json = {
        # All of one train() call, whose segment the report says: another's steps may begin anew.
        "steps": [row[:4] for row in steps if row.segment == rank.state.segment],
        "scalars": scalars,
        "records_lost": rank.records_lost + lost,
    }
    return body, Sent(rank.steps_read, rank.scalars_read, lost, rank.gone_mono_ns is not None), missing


def _pod(found: PodRings, wall: float) -> Json:
    pod = found.pod
    return {
        "namespace": pod.namespace,
        "pod": pod.name,
        "pod_uid": pod.uid,
        "monitor": pod.monitor,
        "job": pod.job,
        "job_uid": pod.job_uid,
        "deleting": pod.deleting,
        "phase": pod.phase,
        "started_age_seconds": None if pod.started_wall is None else round(max(0.0, wall - pod.started_wall), 3),
        "rings": found.rings,
        "has_agent": pod.has_agent,
        "refused": dict(found.refused),
        **({} if found.outputs is None else {"outputs": _outputs(found.outputs)}),
    }


def _outputs(written: Written) -> Json:
    return {**written._asdict(), "troubles": list(written.troubles)}


def _taps(rank: Rank) -> Json:
    """How many signals could not be tapped, and which paths of spec.attention.cells fit no cell, by their places."""
    refused = rank.latest.get(names.SCALAR_TAPS_REFUSED)
    if refused is None or not 0 <= refused.value <= MAX_TAPS:
        return {}
    places = [
        layer
        for (name, layer), numbers in rank.layers.items()
        if name == names.SCALAR_ATTENTION_CELLS and layer < MAX_TAPS and numbers.value == 0
    ]
    return {"taps": {"refused": int(refused.value), "unresolved_paths": sorted(places)}}


def _rank(rank: Rank, mono_ns: int) -> Json:
    header, state = rank.header, rank.state
    return {
        "namespace": rank.pod.namespace,
        "monitor": rank.pod.monitor,
        "job": rank.pod.job,
        "job_uid": rank.pod.job_uid,
        "pod": rank.pod.name,
        "pod_uid": rank.pod.uid,
        "run": header.run_id,
        "tier": rank.tier,
        "attempt": header.attempt,
        "rank": _known(state.rank),
        "local_rank": _known(header.local_rank),
        "world_size": _known(state.world_size),
        "claimed_age_seconds": _age(header.claimed_mono_ns, mono_ns),
        "alive": rank.is_alive,
        "phase": rank.phase,
        "phase_age_seconds": _age(state.phase_since_mono_ns, mono_ns),
        "segment": state.segment,
        "step": _known(state.step),
        "step_age_seconds": _age(state.step_mono_ns, mono_ns),
        "entered_step": _known(state.entered_step),
        "entered_age_seconds": _age(state.entered_mono_ns, mono_ns),
        "updated_age_seconds": _age(state.updated_mono_ns, mono_ns),
        "longest_interval_seconds": state.longest_interval_ns / 1e9 or None,
        "median_interval_seconds": ranks.median_interval_seconds(rank.steps, state.segment),
        "timing": rank.timing or None,
        "total_steps": state.total_steps or None,
        "agent_on": not state.flags & ring.AGENT_OFF,
        "loss_valid": rank.has_valid_loss,
        "agent_errors": state.agent_errors,
        "exception": rank.exception,
        "cpu_seconds": series.cpu_seconds(rank),
        **_taps(rank),
    }


def _known(number: int) -> Optional[int]:
    return None if number < 0 else number


def _age(then_mono_ns: int, now_mono_ns: int) -> Optional[float]:
    """Seconds since, None if it never was; a moment in the future is now."""
    return max(0, now_mono_ns - then_mono_ns) / 1e9 if then_mono_ns else None

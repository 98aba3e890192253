"""The Prometheus series of a rank: which are known, and their values."""

import math
from typing import Dict, Optional, Tuple

from rankbeat_collector.model import ranks
from rankbeat_collector.model.ranks import Rank, Step
from rankbeat_contract import names, ring


def labels(rank: Rank, node: str) -> Tuple[str, ...]:
    """Values of the labels that all metrics of ranks have; namespace and monitor are the API's, never the ring's."""
    return (rank.pod.namespace, rank.pod.monitor, str(rank.state.rank), node)


def info_labels(rank: Rank, node: str) -> Tuple[str, ...]:
    """Values of RANK_INFO's labels, empty where unknown."""
    return (
        *labels(rank, node),
        rank.pod.name,
        rank.pod.job,
        rank.pod.job_uid,
        _known(rank.header.local_rank),
        _known(rank.state.world_size),
    )


def _known(number: int) -> str:
    return "" if number < 0 else str(number)


def values(rank: Rank, wall_minus_mono_ns: int) -> Dict[str, float]:
    """Values by metric name; what is unknown is absent.

    Interval, gap and time in step are the last finished step's.
    """
    state = rank.state
    last = rank.steps[-1] if rank.steps else Step(state.step, None, None, None, state.segment)
    known: Dict[str, Optional[float]] = {
        names.RANK_STEP: None if state.step == ring.UNKNOWN else state.step,
        names.RANK_STEP_INTERVAL: last.interval_seconds,
        names.RANK_GAP: last.gap_seconds,
        names.RANK_IN_STEP: last.in_step_seconds,
        names.RANK_LAST_STEP_TIMESTAMP: _timestamp(state.step_mono_ns, wall_minus_mono_ns),
        names.RANK_CPU_SECONDS: cpu_seconds(rank),
        names.RANK_RESIDENT_MEMORY: rank.resident_memory_bytes,
        names.RANK_RECORDS_LOST: rank.records_lost,
        names.RANK_AGENT_ERRORS: state.agent_errors,
    }
    if rank.loss is not None and rank.has_valid_loss:
        known[names.RANK_LOSS] = rank.loss
        known[names.RANK_LOSS_IS_FINITE] = float(math.isfinite(rank.loss))
    return {name: float(value) for name, value in known.items() if value is not None}


def cpu_seconds(rank: Rank) -> Optional[float]:
    seconds = rank.state.cpu_seconds
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _timestamp(mono_ns: int, wall_minus_mono_ns: int) -> Optional[float]:
    """Epoch seconds to the millisecond: finer would flicker with every poll."""
    return round((mono_ns + wall_minus_mono_ns) / 1e9, 3) if mono_ns else None


def shown(found: Tuple[Rank, ...], mono_ns: int, gone_seconds: float) -> Tuple[Rank, ...]:
    """Ranks that have series: one for each (namespace, monitor, rank), there or gone for at most gone_seconds."""
    recent = (
        rank
        for rank in found
        if rank.gone_mono_ns is None or mono_ns - rank.gone_mono_ns <= gone_seconds * 1_000_000_000
    )
    return ranks.winners(recent)[0]

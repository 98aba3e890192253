"""The Prometheus series of a rank: which are known, and their values."""

import math
from typing import Dict, Iterator, NamedTuple, Optional, Tuple

from rankbeat_collector.model import ranks
from rankbeat_collector.model.ranks import Rank, Step
from rankbeat_contract import names, ring


def labels(rank: Rank, node: str) -> Tuple[str, ...]:
    """Values of the labels that all metrics of ranks have; namespace and monitor are the API's, never the ring's."""
    return (rank.pod.namespace, rank.pod.monitor, _known(rank.state.rank), node)


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
        names.RANK_VALUES_REFUSED: state.refused,
    }
    for scalar, name in _OF_SCALARS.items():
        if scalar in rank.latest and (rank.has_valid_loss or scalar not in _OF_LOSS):
            known[name] = rank.latest[scalar].value
    if rank.loss is not None and rank.has_valid_loss:
        known[names.RANK_LOSS] = rank.loss
        known[names.RANK_LOSS_IS_FINITE] = float(math.isfinite(rank.loss))
    return {name: float(value) for name, value in known.items() if value is not None}


class Labelled(NamedTuple):
    """A value of a rank's series that has labels of its own."""

    name: str
    labels: Tuple[str, ...]
    value: float


def labelled(rank: Rank) -> Iterator[Labelled]:
    """Baselines, evaluations, numbers of layers, and what the job says itself."""
    for scalar, name in _BASELINES.items():
        if scalar in rank.latest and (rank.has_valid_loss or scalar not in _OF_LOSS):
            yield Labelled(name, ("mean",), rank.latest[scalar].value)
            yield Labelled(name, ("stddev",), rank.latest[scalar].value2)
    for scalar, numbers in rank.latest.items():
        if scalar.startswith(names.EVALUATION_PREFIX):
            yield Labelled(names.RANK_EVALUATION, (scalar[len(names.EVALUATION_PREFIX) :],), numbers.value)
        elif scalar.startswith(names.USER_PREFIX):
            yield Labelled(names.RANK_USER_VALUE, (scalar[len(names.USER_PREFIX) :],), numbers.value)
        elif scalar not in _KNOWN and scalar not in _OF_LAYERS:
            yield Labelled(names.RANK_USER_VALUE, (scalar,), numbers.value)
    of_none = {(scalar, ring.UNKNOWN): rank.latest[scalar] for scalar in _OF_LAYERS if scalar in rank.latest}
    for (scalar, layer), numbers in {**of_none, **rank.layers}.items():
        for stat, value in zip(("mean", "min", "max"), numbers):
            # A statistic that the agent did not take is NaN; a mean that is NaN is one.
            if stat == "mean" or not math.isnan(value):
                yield Labelled(names.RANK_LAYER_VALUE, (scalar, str(layer), stat), value)


_OF_SCALARS = {
    names.SCALAR_PERPLEXITY: names.RANK_PERPLEXITY,
    names.SCALAR_LEARNING_RATE: names.RANK_LEARNING_RATE,
    names.SCALAR_LOSS_SCALE: names.RANK_LOSS_SCALE,
    names.SCALAR_GRAD_NORM: names.RANK_GRAD_NORM,
    names.SCALAR_OVERFLOW_STEPS: names.RANK_OVERFLOW_STEPS,
    names.SCALAR_SKIPPED_STEPS: names.RANK_SKIPPED_STEPS,
    names.SCALAR_SAMPLES_PER_STEP: names.RANK_SAMPLES_PER_STEP,
    names.SCALAR_DEVICE_MEMORY_ALLOCATED: names.RANK_DEVICE_MEMORY_ALLOCATED,
    names.SCALAR_DEVICE_MEMORY_PEAK: names.RANK_DEVICE_MEMORY_PEAK,
    names.SCALAR_DEVICE_MEMORY_RESERVED: names.RANK_DEVICE_MEMORY_RESERVED,
    names.SCALAR_DEVICE_MEMORY_LIMIT: names.RANK_DEVICE_MEMORY_LIMIT,
    names.SCALAR_CHECKPOINT_DURATION: names.RANK_CHECKPOINT_DURATION,
    names.SCALAR_CHECKPOINT_STEP: names.RANK_CHECKPOINT_STEP,
    names.SCALAR_LATE_CONFIGURATION: names.RANK_LATE_CONFIGURATION,
    names.SCALAR_FILTERS_REFUSED: names.RANK_FILTERS_REFUSED,
    names.SCALAR_TAPS_REFUSED: names.RANK_TAPS_REFUSED,
    names.SCALAR_UNRESOLVED_PATHS: names.RANK_UNRESOLVED_PATHS,
}
"""Series without labels of their own, by the name in the ring."""
_BASELINES = {
    names.SCALAR_BASELINE_LOSS: names.RANK_BASELINE_LOSS,
    names.SCALAR_BASELINE_STEP_INTERVAL: names.RANK_BASELINE_STEP_INTERVAL,
}
_OF_LOSS = frozenset({names.SCALAR_PERPLEXITY, names.SCALAR_BASELINE_LOSS})
_OF_LAYERS = (
    names.SCALAR_LOCAL_NORM,
    names.SCALAR_UPDATE_RATIO,
    names.SCALAR_ATTENTION_ENTROPY,
    names.SCALAR_ATTENTION_SPARSITY,
    names.SCALAR_EXPERT_LOAD,
    names.SCALAR_CLASS_LOSS,
)
"""Names whose record of no layer is one of the layers' still."""
_KNOWN = frozenset({*_OF_SCALARS, *_BASELINES, names.SCALAR_LOSS, names.SCALAR_SKIPPED, names.SCALAR_RESIDENT_MEMORY})


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

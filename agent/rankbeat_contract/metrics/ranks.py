"""Of a rank: one series each, from the rank's own process by the collector of its node."""

from functools import partial

from rankbeat_contract import names
from rankbeat_contract.metrics import family

_rank = partial(family.metric, family.RANKS, ("namespace", "monitor", "rank", "node"))

RANK_INFO = _rank(names.RANK_INFO, "Where a rank runs; always 1.", "pod", "job", "job_uid", "local_rank", "world_size")
RANK_TIER = _rank(
    names.RANK_TIER,
    "1 for how the rank is seen: callback, heartbeat, perf_file or log_tail; timing is synced where the device was"
    " waited for at the end of its last step, dispatch where times are those of the host, empty before the first step.",
    "tier",
    "timing",
)
RANK_STEP = _rank(names.RANK_STEP, "Last finished global step.")
RANK_STEP_INTERVAL = _rank(names.RANK_STEP_INTERVAL, "From the end of one step to the end of the next, last step.")
RANK_GAP = _rank(names.RANK_GAP, "From the end of one step to the begin of the next, last step.")
RANK_IN_STEP = _rank(names.RANK_IN_STEP, "From the begin to the end of the last step; mirrors the gap in other ranks.")
RANK_PHASE = _rank(names.RANK_PHASE, "1 for the phase that the rank is in.", "phase")
RANK_LAST_STEP_TIMESTAMP = _rank(names.RANK_LAST_STEP_TIMESTAMP, "When the last step finished, by this node's clock.")
RANK_LOSS = _rank(names.RANK_LOSS, "Last sampled loss, where this rank holds a valid one.")
RANK_LOSS_IS_FINITE = _rank(
    names.RANK_LOSS_IS_FINITE, "1 if the last sampled loss is a number, 0 if it is NaN or infinite."
)
RANK_CPU_SECONDS = _rank(names.RANK_CPU_SECONDS, "CPU time of the training process.")
RANK_RESIDENT_MEMORY = _rank(names.RANK_RESIDENT_MEMORY, "Resident memory of the training process.")
RANK_PERPLEXITY = _rank(names.RANK_PERPLEXITY, "e to the last sampled loss; on request.")
RANK_LEARNING_RATE = _rank(
    names.RANK_LEARNING_RATE,
    "Learning rate of the last parameter group, rarely sampled; absent where reading it costs.",
)
RANK_LOSS_SCALE = _rank(names.RANK_LOSS_SCALE, "Loss scale, where the job's outputs hold one (MindFormers).")
RANK_GRAD_NORM = _rank(names.RANK_GRAD_NORM, "Global norm of the gradients, where the job computes it or a tap does.")
RANK_OVERFLOW_STEPS = _rank(
    names.RANK_OVERFLOW_STEPS, "Steps whose gradients overflowed, where the job's outputs say so; of a sink, its last."
)
RANK_SKIPPED_STEPS = _rank(
    names.RANK_SKIPPED_STEPS,
    "Steps that the optimizer left out, for an overflow or for the job's own limit of the norm.",
)
RANK_SAMPLES_PER_STEP = _rank(
    names.RANK_SAMPLES_PER_STEP, "Samples of the whole job in one step: the same on all ranks, never a sum over them."
)
RANK_DEVICE_MEMORY_ALLOCATED = _rank(
    names.RANK_DEVICE_MEMORY_ALLOCATED, "Device memory that tensors hold, by MindSpore's allocator; absent on CPU."
)
RANK_DEVICE_MEMORY_PEAK = _rank(names.RANK_DEVICE_MEMORY_PEAK, "The most that they held since the start.")
RANK_DEVICE_MEMORY_RESERVED = _rank(names.RANK_DEVICE_MEMORY_RESERVED, "Device memory that the pool has taken.")
RANK_DEVICE_MEMORY_LIMIT = _rank(
    names.RANK_DEVICE_MEMORY_LIMIT, "What the pool may take: the device's memory, or less where the job says so."
)
RANK_CHECKPOINT_DURATION = _rank(
    names.RANK_CHECKPOINT_DURATION, "Synchronous part of the last save_checkpoint, for which training waited."
)
RANK_CHECKPOINT_STEP = _rank(names.RANK_CHECKPOINT_STEP, "Step that the last checkpoint holds.")
RANK_EVALUATION = _rank(names.RANK_EVALUATION, "Result of the last evaluation, by the job's name of it.", "metric")
RANK_USER_VALUE = _rank(
    names.RANK_USER_VALUE, "Last value that the job gave to rankbeat.log() or a monitor of its own computed.", "name"
)
RANK_LAYER_VALUE = _rank(
    names.RANK_LAYER_VALUE,
    "Last value by layer, -1 for none: mean, min and max over its parameters, heads or classes.",
    "name",
    "layer",
    "stat",
)
RANK_BASELINE_LOSS = _rank(names.RANK_BASELINE_LOSS, "Loss over the first 100 sampled steps: mean and stddev.", "stat")
RANK_BASELINE_STEP_INTERVAL = _rank(
    names.RANK_BASELINE_STEP_INTERVAL, "Step interval over the first 100 steps: mean and stddev.", "stat"
)
RANK_LATE_CONFIGURATION = _rank(
    names.RANK_LATE_CONFIGURATION, "Changes of the sampling that this rank read after the step from which they hold."
)
RANK_FILTERS_REFUSED = _rank(
    names.RANK_FILTERS_REFUSED,
    "Entries of spec.metrics not heeded whole: no such metric, no interval for it, a filter that is no expression.",
)
RANK_TAPS_REFUSED = _rank(
    names.RANK_TAPS_REFUSED, "Signals that are asked for and cannot be tapped in this process; its log says why."
)
RANK_UNRESOLVED_PATHS = _rank(
    names.RANK_UNRESOLVED_PATHS, "Paths in spec.attention.cells that no cell of the network fits."
)
RANK_RECORDS_LOST = _rank(names.RANK_RECORDS_LOST, "Records overwritten before they were read.")
RANK_AGENT_ERRORS = _rank(names.RANK_AGENT_ERRORS, "Errors that the agent swallowed.")
RANK_VALUES_REFUSED = _rank(
    names.RANK_VALUES_REFUSED, "Names and numbers that did not fit the ring: the 129th name, a number that is none."
)

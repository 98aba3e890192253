"""Of a job: what the alerts and the dashboard read."""

from functools import partial

from rankbeat_contract import names
from rankbeat_contract.metrics import family

_job = partial(family.metric, family.JOBS, family.JOB_LABELS)

JOB_INFO = _job(names.JOB_INFO, "A job that reports speak of.", "job", "experiment")
JOB_OUTPUTS_TROUBLED = _job(
    names.JOB_OUTPUTS_TROUBLED, "Pods whose outputs suffer from this (docs/outputs.md).", "reason"
)
JOB_TAPS_REFUSED = _job(
    names.JOB_TAPS_REFUSED, "Signals that are asked for and cannot be tapped, the most on any rank."
)
JOB_PAUSED = _job(names.JOB_PAUSED, "1 while the monitor is paused: incidents are known, levels are 0.")
JOB_ATTEMPT = _job(names.JOB_ATTEMPT, "Attempt, from 1, as far as this aggregator saw.")
JOB_RANKS_EXPECTED = _job(names.JOB_RANKS_EXPECTED, "Ranks that should report.")
JOB_RANKS_REPORTING = _job(names.JOB_RANKS_REPORTING, "Ranks that report, or came to their end.")
JOB_STEP_MIN = _job(names.JOB_STEP_MIN, "Smallest last finished step of a rank.")
JOB_STEP_MAX = _job(names.JOB_STEP_MAX, "Largest last finished step of a rank.")
JOB_STEP_INTERVAL = _job(names.JOB_STEP_INTERVAL, "Median step interval of the newest steps.")
JOB_SAMPLES_PER_SECOND = _job(
    names.JOB_SAMPLES_PER_SECOND, "Samples of the whole job per second, while steps are made: global batch by interval."
)
JOB_STALL_SECONDS = _job(names.JOB_STALL_SECONDS, "How long the job was seen without progress.")
JOB_LOSS = _job(names.JOB_LOSS, "Newest loss of the lowest rank that holds a valid one.")
JOB_LOSS_IS_FINITE = _job(names.JOB_LOSS_IS_FINITE, "0 where that loss is not finite.")
JOB_PHASE = _job(names.JOB_PHASE, "Ranks in a phase.", "phase")
JOB_LIMIT_SECONDS = _job(names.JOB_LIMIT_SECONDS, "Limits in force.", "limit")
JOB_INCIDENT_LEVEL = _job(
    names.JOB_INCIDENT_LEVEL, "0 healthy, 1 warning, 2 critical; absent while the kind cannot be judged.", "kind"
)
JOB_INCIDENT_STARTED = _job(names.JOB_INCIDENT_STARTED, "When the trouble began.", "kind")
JOB_SUSPECT = _job(
    names.JOB_SUSPECT, "1 for each rank that an open incident names.", "kind", "rank", "node", "pod", "evidence"
)

"""From which step a changed sampling holds, so that all ranks of a running job change at the same one.

Nothing is remembered: the ConfigMap itself says what was decided, so a restarted operator goes on with it.
"""

import math

from rankbeat_operator.model.planned import Change, Planned, Sampling
from rankbeat_operator.model.sampling import Progress

DELIVERY_SECONDS = 180.0
"""Longest time from writing a ConfigMap until every rank has read it, with some to spare: the kubelet looks at a pod's
volumes every syncFrequency (60 s) times up to 1.5 of jitter, its cache of ConfigMaps may be 60 s old where it does not
watch them, the step that is known is up to 10 s old (reports every 5 s, verdicts every 2 s), and the agent looks at
the file when it flushes. Source: Kubernetes, mounted ConfigMaps are updated automatically; kubelet's pod_workers.go."""


def planned(desired: Sampling, written: Planned | None, job: Progress) -> Planned:
    """What the ConfigMap is to hold.

    A second change waits until the first one holds on all ranks: some may have read the first and not the second, and
    only what both say can be relied on. Of several meanwhile the last one counts. A change of which no step can be
    said holds at once: nobody knows the job, or it has not made a step.
    """
    if written is None:
        return Planned(desired)
    change = _still_due(written.change, job)
    if change is not None and not _holds(change, job):
        return Planned(written.sampling, change)
    if desired == written.sampling:
        return Planned(desired, change)
    if not job.is_known or not job.run or job.step is None:
        return Planned(desired)
    if job.interval_seconds is None:
        return Planned(written.sampling, change)  # the second step, by which the margin is known, comes soon
    return Planned(desired, Change(job.step + margin_steps(job.interval_seconds), written.sampling, job.run))


def margin_steps(interval_seconds: float) -> int:
    """Steps that the job makes while a change travels to all ranks, and one for the step that is under way."""
    return 1 + math.ceil(DELIVERY_SECONDS / max(interval_seconds, 1e-4))


def _still_due(change: Change | None, job: Progress) -> Change | None:
    """The change that the ConfigMap holds, until all ranks are past it and had time to read what there is.

    A rank that reads it late finds it there, and counts that.
    """
    if change is None or not job.is_known:
        return change if change is not None and change.run.startswith(job.run) else None
    if change.run != job.run:
        return None
    if job.step is None or job.interval_seconds is None:
        return change
    return change if job.step < change.from_step + margin_steps(job.interval_seconds) else None


def _holds(change: Change, job: Progress) -> bool:
    return job.is_known and job.step is not None and job.step >= change.from_step

"""Jobs as the webhook sees them: whether a failed first wave of pods would be retried."""

from __future__ import annotations

from dataclasses import dataclass

from rankbeat_webhook.model import raw

DEFAULT_BACKOFF_LIMIT = 6
"""batch/v1: spec.backoffLimit where it is not set."""


@dataclass(frozen=True, slots=True)
class Job:
    """One Job.

    allows_retry: it survives that every pod of its first wave fails to start, and makes new ones.
    pods: how many run at once.
    """

    uid: str
    allows_retry: bool
    pods: int = 1


def job(manifest: object) -> Job:
    """The Job in the API's JSON."""
    return Job(raw.text(manifest, "metadata", "uid"), _allows_retry(manifest), _wave(manifest))


def _allows_retry(manifest: object) -> bool:
    """Whether all pods of the first wave may fail without failing the Job.

    A shell that an image lacks fails all of them at once, sooner than any breaker could open, and the Job counts each
    against backoffLimit. A podFailurePolicy that fails the Job on exit codes may match ours (StartError is 128).
    """
    rules = raw.sequence(manifest, "spec", "podFailurePolicy", "rules")
    if any(raw.text(each, "action") in {"FailJob", "FailIndex"} and raw.mapping(each, "onExitCodes") for each in rules):
        return False
    per_index = raw.number(manifest, "spec", "backoffLimitPerIndex")
    if per_index == 0:
        return False
    limit = raw.number(manifest, "spec", "backoffLimit")
    if limit is None:
        limit = DEFAULT_BACKOFF_LIMIT if per_index is None else _wave(manifest)
    return limit >= max(1, _wave(manifest))


def _wave(manifest: object) -> int:
    parallelism = raw.number(manifest, "spec", "parallelism")
    completions = raw.number(manifest, "spec", "completions")
    wave = 1 if parallelism is None else parallelism
    return wave if completions is None else min(wave, completions)

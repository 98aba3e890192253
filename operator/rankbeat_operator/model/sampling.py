"""The sampling of a monitor as its ConfigMap holds it, and how far the job that reads it has come."""

import json
from dataclasses import dataclass

from rankbeat_contract import names
from rankbeat_operator.model.manifests import Manifest, annotations
from rankbeat_operator.model.observed import Observed
from rankbeat_operator.model.planned import Change, Planned, Sampling


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the job is.

    run: JOB_UID/ATTEMPT, "" where no job is running. is_known: whether anybody can tell how far it is; where nobody
    can, run is JOB_UID/, or "" where not even the job is known.
    step: the newest finished one, None before the first. interval_seconds: of the newest steps, None before the second.
    """

    run: str = ""
    is_known: bool = True
    step: int | None = None
    interval_seconds: float | None = None


def progress(observed: Observed | None) -> Progress:
    """The progress in what was seen; not known while the aggregator is silent, and before it was first asked."""
    if observed is None:
        return Progress(is_known=False)
    workload, verdict = observed.workload, observed.verdict
    if workload is None or workload.finished:
        return Progress()
    if verdict is None:
        return Progress(f"{workload.uid}/", is_known=False)
    return Progress(f"{workload.uid}/{verdict.attempt}", True, verdict.step, verdict.step_interval_seconds)


def written(config_map: Manifest | None) -> Planned | None:
    """What a ConfigMap holds; None if there is none, or if it is not of this version: nobody can have read it right."""
    try:
        content = json.loads((config_map or {})["data"][names.MONITOR_CONFIG_KEY])
        return Planned(_sampling(content["sampling"]), _change(content, annotations(config_map or {})))
    except (KeyError, TypeError, ValueError, RecursionError):  # tenants can write ConfigMaps too
        return None


def _change(content: Manifest, notes: Manifest) -> Change | None:
    change, run = content.get("change"), notes.get(names.ANNOTATION_CHANGE_RUN)
    if not change or not run:
        return None
    return Change(int(change["fromStep"]), _sampling(change["previous"]), str(run))


def _sampling(section: Manifest) -> Sampling:
    return Sampling(int(section["intervalSteps"]), int(section["denseFirstSteps"]))

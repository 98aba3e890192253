"""The tier by which each pod is seen, and why no higher one is in force."""

from dataclasses import dataclass

from rankbeat_contract import names
from rankbeat_operator.model.monitors import Monitor
from rankbeat_operator.model.observed import Observed
from rankbeat_operator.model.pods import Pod

MOST_PODS = 64
"""Pods that a status lists, those with the least seen of them first: a job may have thousands."""
NONE = "none"
_ORDER = (NONE, *reversed(names.TIERS))


@dataclass(frozen=True, slots=True)
class PodTier:
    """How one pod is seen. tier: one of names.TIERS, or NONE. reason: "" where there is no higher one."""

    pod: str
    tier: str
    reason: str = ""
    message: str = ""


def pod_tiers(monitor: Monitor, observed: Observed) -> tuple[PodTier, ...]:
    """Of each pod that counts; by tier, the lowest first, then by name. Empty while the aggregator says nothing."""
    verdict = observed.verdict
    if verdict is None:
        return ()
    found = (
        _pod_tier(monitor, pod, verdict.tiers.get(pod.name, NONE))
        for pod in observed.counted_pods
        if pod.name in verdict.tiers or not pod.is_injected or pod.name in verdict.pods_without_ring
    )
    return tuple(sorted(found, key=lambda one: (_ORDER.index(one.tier), one.pod)))


def _pod_tier(monitor: Monitor, pod: Pod, tier: str) -> PodTier:
    if tier == names.TIER_CALLBACK:
        return PodTier(pod.name, tier)
    if tier == names.TIER_HEARTBEAT:
        return PodTier(
            pod.name,
            tier,
            "OwnLoop",
            "the job has a loop of its own, of which only the optimizer's calls are seen: values need Model.train,"
            " Model.fit, MindFormers' trainer, or rankbeat.log in the loop",
        )
    if pod.is_injected:
        missing = "no process of the pod has claimed a ring yet: see condition AgentLoaded"
        return PodTier(pod.name, tier, "NoRing", missing + _lower(monitor, tier))
    if pod.is_skipped:
        result = (pod.injection.result if pod.injection else "") or names.REASON_ERROR
        said = pod.injection.message if pod.injection else ""
        return PodTier(pod.name, tier, result, (said or "the pod is without the agent") + _lower(monitor, tier))
    return PodTier(pod.name, tier, "NotSeenByWebhook", "the webhook has not seen the pod: see condition Injected")


def _lower(monitor: Monitor, tier: str) -> str:
    """What a lower tier would need, for a pod that none shows."""
    asked = monitor.settings.tiers
    if tier != NONE:
        return ""
    if names.ASK_LOG_TAIL in asked:
        return (
            "; of the tiers asked for nothing has been seen yet: logTail needs the install value node.podLogs and loss"
            " lines in the pod's log"
        )
    return f"; spec.tiers: [{names.ASK_LOG_TAIL}] would show the loss lines of its log"

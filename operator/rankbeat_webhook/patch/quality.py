"""A pod's quality-of-service class, by the rules of Kubernetes 1.36 (pkg/apis/core/v1/helper/qos)."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rankbeat_webhook.model import pods

BEST_EFFORT, BURSTABLE, GUARANTEED = "BestEffort", "Burstable", "Guaranteed"

_QUANTITY = re.compile(r"([+-]?[0-9]*\.?[0-9]+|[0-9]+\.)(?:([eE][+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i)?)")
_SUFFIXES = {
    **{suffix: Decimal(1000) ** power for suffix, power in zip("num", (-3, -2, -1), strict=True)},
    **{suffix: Decimal(1000) ** (power + 1) for power, suffix in enumerate("kMGTPE")},
    **{f"{suffix}i": Decimal(1024) ** (power + 1) for power, suffix in enumerate("KMGTPE")},
}
_JUDGED = ("cpu", "memory")


def quantity(text: str) -> Decimal:
    """The number that a quantity such as 500m, 1Gi or 1e3 stands for; 0 for what is none, which the API refuses."""
    found = _QUANTITY.fullmatch(text)
    if found is None:
        return Decimal(0)
    return Decimal(found[1] + (found[2] or "")) * _SUFFIXES.get(found[3] or "", Decimal(1))


def quality(pod: pods.Pod) -> str:
    """The class of the pod as it is now."""
    asked = (
        [pod.resources] if has_own_resources(pod) else [e.resources for e in (*pod.init_containers, *pod.containers)]
    )
    amounts = [
        quantity(side.get(name, "0")) for each in asked for side in (each.requests, each.limits) for name in _JUDGED
    ]
    if not any(amounts):
        return BEST_EFFORT
    is_guaranteed = all(
        quantity(each.limits.get(name, "0")) and quantity(each.limits[name]) == quantity(each.requests.get(name, "0"))
        for each in asked
        for name in _JUDGED
    )
    return GUARANTEED if is_guaranteed else BURSTABLE


def has_own_resources(pod: pods.Pod) -> bool:
    """Whether spec.resources decides, whatever the containers ask for."""
    return any(name in pod.resources.requests for name in _JUDGED)


def has_exclusive_cpus(pod: pods.Pod) -> bool:
    """Whether the static CPU manager would give a container CPUs of its own: Guaranteed, and whole CPUs."""
    wanted = [quantity(each.resources.requests.get("cpu", "0")) for each in (*pod.init_containers, *pod.containers)]
    return quality(pod) == GUARANTEED and any(each and each % 1 == 0 for each in wanted)

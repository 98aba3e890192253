"""Everything that the install's values ask for in the release namespace."""

from dataclasses import dataclass

from rankbeat_contract import names
from rankbeat_operator.model.fleet import Fleet
from rankbeat_operator.model.manifests import Manifest
from rankbeat_operator.plan.fleet import aggregator, devices, node
from rankbeat_operator.plan.fleet.pods import Release


@dataclass(frozen=True, slots=True)
class Desired:
    """Whole objects to apply, and the names of DaemonSets that must not be there."""

    objects: tuple[Manifest, ...]
    absent_daemon_sets: tuple[str, ...] = ()


def desired(fleet: Fleet, release: Release) -> Desired:
    """The fleet's objects. No field of any TrainingMonitor reaches them."""
    objects = (*aggregator.objects(fleet, release), node.daemon_set(fleet, release))
    if fleet.devices.is_enabled:
        return Desired((*objects, devices.daemon_set(fleet, release)))
    return Desired(objects, absent_daemon_sets=(names.DEVICES,))

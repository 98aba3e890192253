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
    wanted = {names.DEVICES: fleet.devices.is_enabled, names.DEVICES_NVIDIA: fleet.devices.nvidia.is_enabled}
    make = {names.DEVICES: devices.daemon_set, names.DEVICES_NVIDIA: devices.nvidia_daemon_set}
    return Desired(
        (
            *aggregator.objects(fleet, release),
            node.daemon_set(fleet, release),
            *(make[name](fleet, release) for name, is_wanted in wanted.items() if is_wanted),
        ),
        absent_daemon_sets=tuple(name for name, is_wanted in wanted.items() if not is_wanted),
    )

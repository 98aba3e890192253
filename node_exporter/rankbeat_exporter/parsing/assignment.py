"""Sources -> which pod holds which device, and why. What contradicts is a named conflict, and never guessed away.

Within a pod the best source that says anything usable is believed (model.assignment.PRECEDENCE). What annotations, rank
tables and variables say may not be more than the kubelet allotted: tenants can write them. Between pods the better
source wins; where two are as good, the device has no holder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rankbeat_exporter.model import assignment as model
from rankbeat_exporter.model.accelerator import VENDOR_HUAWEI, VENDOR_NVIDIA
from rankbeat_exporter.model.assignment import Assignment, Claimed, Conflict, Held, Holder, Published
from rankbeat_exporter.parsing import ascend_annotations, visible_devices

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rankbeat_exporter.model.assignment import Allotment, Known, Pod

DOMAINS = {VENDOR_HUAWEI: ("huawei.com", "ascend.project-hami.io"), VENDOR_NVIDIA: ("nvidia.com",)}
"""Whose resources and whose drivers' names end so: gpu.nvidia.com, ascend.project-hami.io (HAMi's, for NPUs)."""
_ATTRIBUTES = {VENDOR_HUAWEI: "physicalID", VENDOR_NVIDIA: "uuid"}
"""What a driver publishes of a device that says which it is. Its name does not: NVIDIA's gpu-N was the index and is the
minor number since 2025-07 (pull request 428 of dra-driver-nvidia-gpu); HAMi's npu-N-0 has the logical id."""
_VARIABLES = {VENDOR_HUAWEI: "ASCEND_VISIBLE_DEVICES", VENDOR_NVIDIA: "NVIDIA_VISIBLE_DEVICES"}


class World(NamedTuple):
    """What the sources say now.

    allotments: None where the kubelet could not be asked. published: of the devices that claims gave.
    rank_tables: text by namespace and name of the ConfigMap.
    npu_resources: extended resources beside huawei.com/..., for device plugins that rename theirs.
    """

    devices: tuple[Known, ...]
    pods: tuple[Pod, ...]
    allotments: tuple[Allotment, ...] | None
    published: Published = Published()
    rank_tables: Mapping[tuple[str, str], str] = {}
    npu_resources: tuple[str, ...] = ()


class _Statement(NamedTuple):
    """Devices, by their labels, that a source gives to a container, and how many names it found no device for."""

    source: str
    container: str
    devices: tuple[str, ...]
    missed: int


def claimed(allotments: Iterable[Allotment]) -> frozenset[Claimed]:
    """Devices that claims gave, of drivers that may be for accelerators."""
    domains = tuple(domain for of_vendor in DOMAINS.values() for domain in of_vendor)
    return frozenset(
        one for given in allotments if given.pool and _is_within(given.resource, domains) for one in _claimed(given)
    )


def _claimed(given: Allotment) -> tuple[Claimed, ...]:
    return tuple(Claimed(given.resource, given.pool, device) for device in given.devices)


def _is_within(domain: str, domains: tuple[str, ...]) -> bool:
    return any(domain == known or domain.endswith(f".{known}") for known in domains)


def assignment(world: World) -> Assignment:
    """Held devices in the order of vendor, device and pod; conflicts as they stand now."""
    candidates: dict[tuple[str, str], list[Held]] = {}
    conflicts: list[Conflict] = []
    for vendor in dict.fromkeys(one.vendor for one in world.devices):
        for pod in world.pods:
            held, found = _of_pod(_Vendor(vendor, world), pod)
            conflicts += found
            for one in held:
                candidates.setdefault((vendor, one.device), []).append(one)
    held = []
    for rivals in candidates.values():
        winner, found = _winner(rivals)
        held += winner
        conflicts += found
    return Assignment(tuple(sorted(held)), tuple(sorted(set(conflicts))))


class _Vendor:
    """The world as far as one vendor's devices are concerned."""

    def __init__(self, vendor: str, world: World) -> None:
        self.vendor = vendor
        self.world = world
        own = [one for one in world.devices if one.vendor == vendor]
        self.by_key = {one.device: one.device for one in own} | {one.uuid: one.device for one in own if one.uuid}

    def owns(self, resource: str) -> bool:
        if self.vendor == VENDOR_HUAWEI and resource in self.world.npu_resources:
            return True
        return _is_within(resource.partition("/")[0], DOMAINS[self.vendor])

    def statement(self, source: str, container: str, keys: Iterable[str]) -> _Statement:
        wanted = tuple(keys)
        found = tuple(dict.fromkeys(self.by_key[key] for key in wanted if key in self.by_key))
        return _Statement(source, container, found, sum(key not in self.by_key for key in wanted))


def _of_pod(vendor: _Vendor, pod: Pod) -> tuple[list[Held], list[Conflict]]:
    """What the pod holds by its best usable source."""
    statements = _statements(vendor, pod)
    allotted = _allotted(vendor, pod)
    conflicts = []

    def conflict(kind: str, device: str = "") -> None:
        conflicts.append(Conflict(kind, vendor.vendor, pod.namespace, pod.name, device))

    believed: list[_Statement] = []
    for source in model.PRECEDENCE[vendor.vendor]:
        said = [one for one in statements if one.source == source]
        if any(one.missed for one in said):
            conflict(model.UNKNOWN_DEVICE)
        number = sum(len(one.devices) for one in said)
        if number and source not in (model.KUBELET, model.CLAIM) and not _is_covered(source, number, allotted):
            conflict(model.MORE_THAN_ALLOTTED)
            statements = [one for one in statements if one.source != source]
        elif number and not believed:
            believed = said
    if believed and _is_contradicted(believed[0].source, statements):
        conflict(model.SOURCES_DISAGREE)
    ranks = _local_ranks(vendor, pod, believed)
    held = [
        Held(vendor.vendor, device, Holder(pod.namespace, pod.name, one.container), one.source, ranks[device])
        for one in believed
        for device in one.devices
    ]
    return held, conflicts


def _is_covered(source: str, number: int, allotted: int) -> bool:
    """Whether a source that a tenant may write stays within what the pod was given.

    A variable alone is enough where nothing was allotted: a container runtime without device plugin knows nothing else.
    """
    return number <= allotted or (source == model.ENVIRONMENT and not allotted)


def _allotted(vendor: _Vendor, pod: Pod) -> int:
    """How many devices the kubelet gave to the pod; what its spec asks for where the kubelet does not say."""
    allotments = vendor.world.allotments
    if allotments is None:
        counts = (count for one in pod.containers for name, count in one.limits.items() if vendor.owns(name))
        return sum(counts)
    own = (one for one in allotments if (one.namespace, one.pod) == (pod.namespace, pod.name))
    return sum(len(one.devices) for one in own if vendor.owns(one.resource))


def _statements(vendor: _Vendor, pod: Pod) -> list[_Statement]:
    """All that is said of the pod's devices."""
    found = [
        vendor.statement(model.CLAIM if one.pool else model.KUBELET, one.container, _keys(vendor, one))
        for one in vendor.world.allotments or ()
        if (one.namespace, one.pod) == (pod.namespace, pod.name) and vendor.owns(one.resource)
    ]
    variable = _VARIABLES[vendor.vendor]
    for container in pod.containers:
        text = container.environment.get(variable, "")
        if text and not container.is_privileged:  # which sees every device, and holds none by that
            found.append(vendor.statement(model.ENVIRONMENT, container.name, _named(vendor.vendor, text)))
    if vendor.vendor == VENDOR_HUAWEI:
        container_name = _asking(vendor, pod)
        said = {
            model.ASCEND_REAL: ascend_annotations.chips(pod.annotations.get(ascend_annotations.REAL)),
            model.CONFIGURATION: ascend_annotations.configured_chips(pod.annotations),
            model.RANK_TABLE: _ranked(vendor, pod),
            model.KLT_DEV: ascend_annotations.chips(pod.annotations.get(ascend_annotations.KLT_DEV)),
        }
        found += [vendor.statement(source, container_name, chips) for source, chips in said.items() if chips]
    return found


def _keys(vendor: _Vendor, given: Allotment) -> tuple[str, ...]:
    """By what the devices are to be found; a claimed one of which nothing is published is missed under its own name."""
    if not given.pool:
        return visible_devices.keys(vendor.vendor, given.devices)
    published, attribute = vendor.world.published.attributes, _ATTRIBUTES[vendor.vendor]
    return tuple(published.get(one, {}).get(attribute) or f"{one.pool}/{one.device}" for one in _claimed(given))


def _named(vendor: str, text: str) -> tuple[str, ...]:
    if vendor == VENDOR_HUAWEI:
        return tuple(str(number) for number in visible_devices.ascend_numbers(text))
    return visible_devices.keys(vendor, visible_devices.nvidia_names(text))


def _asking(vendor: _Vendor, pod: Pod) -> str:
    """The one container that asks for the vendor's devices; empty where none or several do."""
    asking = [one.name for one in pod.containers if any(vendor.owns(name) for name in one.limits)]
    return asking[0] if len(asking) == 1 else ""


def _ranked(vendor: _Vendor, pod: Pod) -> tuple[str, ...]:
    for name in pod.rank_tables:
        chips = ascend_annotations.ranked_chips(vendor.world.rank_tables.get((pod.namespace, name), ""), pod.address)
        if chips:
            return chips
    return ()


def _is_contradicted(believed: str, statements: list[_Statement]) -> bool:
    """Whether another source names other devices.

    What the kubelet picked is no contradiction where annotation kltDev says that it was overridden.
    """
    by_source = {
        source: {device for one in statements if one.source == source for device in one.devices}
        for source in {one.source for one in statements if one.devices}
    }
    overridden = by_source.pop(model.KLT_DEV, None)
    if by_source.get(model.KUBELET) == overridden and believed in model.SAID_BY_PLUGIN:
        by_source.pop(model.KUBELET, None)
    return any(devices != by_source.get(believed) for devices in by_source.values()) and believed in by_source


def _local_ranks(vendor: _Vendor, pod: Pod, believed: list[_Statement]) -> dict[str, int]:
    """Device -> its place among the pod's devices: as the rank table has it, else by number.

    A container's runtime numbers its devices from 0 in the order of their ids, and local rank N takes the Nth.
    """
    devices = [device for one in believed for device in one.devices]
    ranked = [vendor.by_key[chip] for chip in _ranked(vendor, pod) if chip in vendor.by_key]
    ordered = ranked if set(ranked) == set(devices) else sorted(devices, key=_number)
    return {device: place for place, device in enumerate(ordered)}


def _number(device: str) -> tuple[int, str]:
    """Numbers first, by value; then what is no number."""
    return int(device) if device.isdigit() else visible_devices.MAX_NUMBER + 1, device


def _winner(rivals: list[Held]) -> tuple[list[Held], list[Conflict]]:
    """The one holder of a device, and the conflicts of the others."""
    order = model.PRECEDENCE[rivals[0].vendor].index
    best = min(order(one.source) for one in rivals)
    first = [one for one in rivals if order(one.source) == best]
    kinds = {one: model.OUTRANKED for one in rivals if one not in first}
    if len({one.holder[:2] for one in first}) > 1:
        kinds |= dict.fromkeys(first, model.SEVERAL_HOLDERS)
        first = []
    elif len(first) > 1:  # containers of one pod
        first = [first[0]._replace(holder=first[0].holder._replace(container=""))]
    found = [
        Conflict(kind, one.vendor, one.holder.namespace, one.holder.pod, one.device) for one, kind in kinds.items()
    ]
    return first, found

"""Which pod holds which accelerator: what each source says, and what is believed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from rankbeat_exporter.model.accelerator import VENDOR_HUAWEI, VENDOR_NVIDIA

if TYPE_CHECKING:
    from collections.abc import Mapping

ASCEND_REAL = "ascend_real"
"""Annotation huawei.com/AscendReal: the chips really given."""
CONFIGURATION = "ascend_configuration"
"""Annotation ascend.kubectl.kubernetes.io/ascend-..-configuration, from which the rank table is made."""
RANK_TABLE = "rank_table"
"""The job's ring ConfigMap."""
ENVIRONMENT = "environment"
"""ASCEND_VISIBLE_DEVICES or NVIDIA_VISIBLE_DEVICES as the pod's spec has it."""
KUBELET = "kubelet"
"""The kubelet's pod-resources service: what its device manager gave."""
CLAIM = "resource_claim"
"""The same service, for dynamic resource allocation."""
KLT_DEV = "klt_dev"
"""Annotation huawei.com/kltDev: what the kubelet picked, which a scheduler such as Volcano overrides."""

PRECEDENCE = {
    VENDOR_HUAWEI: (ASCEND_REAL, CONFIGURATION, RANK_TABLE, ENVIRONMENT, CLAIM, KUBELET, KLT_DEV),
    VENDOR_NVIDIA: (CLAIM, KUBELET, ENVIRONMENT),
}
"""Best first. Where Volcano schedules NPUs, the kubelet's own pick is not what the container gets (docs/devices.md)."""
SAID_BY_PLUGIN = (ASCEND_REAL, CONFIGURATION, RANK_TABLE)
"""What the vendor's own device plugin and operator write."""

SOURCES_DISAGREE = "sources_disagree"
SEVERAL_HOLDERS = "several_holders"
OUTRANKED = "outranked"
MORE_THAN_ALLOTTED = "more_than_allotted"
UNKNOWN_DEVICE = "unknown_device"
CONFLICTS = (SOURCES_DISAGREE, SEVERAL_HOLDERS, OUTRANKED, MORE_THAN_ALLOTTED, UNKNOWN_DEVICE)


class Known(NamedTuple):
    """A device that the vendor's library lists; device and uuid as in its labels."""

    vendor: str
    device: str
    uuid: str


class Allotment(NamedTuple):
    """What the kubelet gave to one container of one resource.

    pool: of devices that a resource claim gave, whose driver is then the resource; empty for a device plugin's.
    """

    namespace: str
    pod: str
    container: str
    resource: str
    devices: tuple[str, ...]
    pool: str = ""


class Claimed(NamedTuple):
    """A device as claims name it. Names mean something to its driver alone."""

    driver: str
    pool: str
    device: str


class Published(NamedTuple):
    """Attributes that drivers publish of devices; reason and detail say why those of some are not known."""

    attributes: Mapping[Claimed, Mapping[str, str]] = {}
    reason: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Container:
    """limits: whole devices by extended resource. environment: only the variables that name devices."""

    name: str
    limits: dict[str, int] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    is_privileged: bool = False


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of this node that has not ended. rank_tables: names of the ConfigMaps with rank tables that it mounts."""

    uid: str
    namespace: str
    name: str
    containers: tuple[Container, ...] = ()
    annotations: dict[str, str] = field(default_factory=dict)
    address: str = ""
    rank_tables: tuple[str, ...] = ()


class Holder(NamedTuple):
    """container is empty where it is not known which one of the pod's."""

    namespace: str
    pod: str
    container: str


class Held(NamedTuple):
    """A device and one that holds it. local_rank: the device's place among those of its holder."""

    vendor: str
    device: str
    holder: Holder
    source: str
    local_rank: int


class Conflict(NamedTuple):
    """kind: one of CONFLICTS. device is empty where it is about the whole pod."""

    kind: str
    vendor: str
    namespace: str
    pod: str
    device: str = ""


@dataclass(frozen=True, slots=True)
class Assignment:
    """holders: by vendor and device, only where exactly one is believed."""

    held: tuple[Held, ...] = ()
    conflicts: tuple[Conflict, ...] = ()

    def holders(self) -> dict[tuple[str, str], Holder]:
        return {(one.vendor, one.device): one.holder for one in self.held}

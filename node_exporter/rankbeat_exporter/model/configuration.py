"""What an exporter is told to do: sections of its file, or the options of one of its programs."""

from __future__ import annotations

from dataclasses import dataclass

from rankbeat_serving.access import PLAIN, Access


@dataclass(frozen=True, slots=True)
class ClockSection:
    """The clock: whom it asks, how often, and up to where it is trusted.

    chrony: chronyd's command socket, by its absolute path, or its command port as host[:port]; empty: it is not asked.
    """

    servers: tuple[str, ...] = ()
    chrony: str = ""
    round_interval_seconds: float = 32.0
    offset_limit_seconds: float = 0.05
    error_limit_seconds: float = 0.1


@dataclass(frozen=True, slots=True)
class DevicesSection:
    """Accelerators.

    socket: that of a vendor part of its own; empty: this process starts the vendors' children itself.
    deadline_seconds: for one collection. vendors: those that the node must have; empty: those that are found.
    pod_resources: the kubelet's socket of that service, in a pod that may list pods; empty: devices are not joined with
    pods. npu_resources: extended resources beside huawei.com/... . rank_tables: whether ConfigMaps with them are read.
    npu_exporter_names: show NPUs under npu-exporter's names too.
    """

    interval_seconds: float = 5.0
    deadline_seconds: float = 4.0
    vendors: tuple[str, ...] = ()
    npu_driver_root: str = "/usr/local/Ascend/driver"
    nvidia_driver_root: str = ""
    socket: str = ""
    pod_resources: str = ""
    npu_resources: tuple[str, ...] = ()
    rank_tables: bool = False
    npu_exporter_names: bool = False


@dataclass(frozen=True, slots=True)
class WebSection:
    """The listener, and who may read /metrics.

    address: empty for all. loopback_port: of a second listener, plain and on the loopback alone, for what a neighbour
    in the same pod asks; 0 for none.
    """

    port: int
    address: str = ""
    access: Access = PLAIN
    loopback_port: int = 0


@dataclass(frozen=True, slots=True)
class Configuration:
    """All of it; a section that is None is off."""

    node: str
    web: WebSection
    clock: ClockSection | None = None
    devices: DevicesSection | None = None

"""What to install beside the operator: fleet.yaml, rendered from the chart's values.

    images: {node: IMAGE, aggregator: IMAGE}          # required; operator may stand here too and is not used
    imagePullPolicy: IfNotPresent                     # or Always, Never
    imagePullSecrets: [NAME]                          # names of Secrets in the release namespace
    labels: {KEY: VALUE}                              # on every object and pod
    node:                                             # DaemonSet rankbeat-node
      pushInterval: 5s
      pollInterval: 500ms
      kubeletRoot: /var/lib/kubelet
      podLogs: ""                                   # /var/log/pods: mounted, for monitors with the tier logTail
      nodeSelector, tolerations, priorityClassName, resources, seLinuxOptions
    clock: {servers: [HOST], offsetLimit: 50ms, resources}
    devices:                                          # DaemonSet rankbeat-devices, on NPU nodes
      exporter: "off"                                 # or builtin; external: not ours, the chart has it scraped
      nodeSelector, tolerations, priorityClassName, resources
      npu: {driverRoot: /usr/local/Ascend/driver, resources: [NAME], rankTables: false, exporterNames: false}
      nvidia:                                         # DaemonSet rankbeat-devices-nvidia; the rest as of devices
        exporter: "off"
        nodeSelector, tolerations
        runtimeClassName: nvidia                      # empty: the nodes' default runtime is NVIDIA's
        driverRoot: ""                                # a folder of the node, where no runtime brings the library
        mig: false
    aggregator: {nodeSelector, tolerations, priorityClassName, resources}
    metrics:                                          # how the programs on nodes serve /metrics
      tls: {enabled: false, clientAuth: {enabled: false, existingSecret: ""}}
      bearerToken: {enabled: false, existingSecret: ""}

What is not required may be left out. resources, tolerations and the like are as in a pod.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rankbeat_operator.errors import InvalidFleetError
from rankbeat_operator.model import fields
from rankbeat_operator.model.manifests import Manifest

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_EXPORTERS = ("builtin", "external", "off")
_SECTIONS = (
    *("images", "imagePullPolicy", "imagePullSecrets", "labels"),
    *("node", "clock", "devices", "aggregator", "metrics"),
)
_PLACEMENT = ("nodeSelector", "tolerations", "priorityClassName", "resources")


@dataclass(frozen=True, slots=True)
class Placement:
    """Where pods may run and what they get, as in a pod's spec."""

    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Manifest, ...] = ()
    priority_class_name: str = ""
    resources: Manifest = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Node:
    """DaemonSet rankbeat-node."""

    push_interval_seconds: float = 5.0
    poll_interval_seconds: float = 0.5
    kubelet_root: str = "/var/lib/kubelet"
    pod_logs: str = ""
    """The node's folder of all pods' logs, empty where the collector must not see it."""
    placement: Placement = Placement()
    se_linux_options: Manifest = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Clock:
    """Container clock of rankbeat-node."""

    servers: tuple[str, ...] = ()
    offset_limit_seconds: float = 0.05
    resources: Manifest = field(default_factory=dict)
    chrony_socket: str = ""
    """chronyd's command socket on the nodes, empty where the container must not ask it."""
    chrony_user: int = 0
    """The uid of chronyd on the nodes, which alone may use the socket."""


@dataclass(frozen=True, slots=True)
class Nvidia:
    """DaemonSet rankbeat-devices-nvidia. driver_root is empty where NVIDIA's container runtime brings the library."""

    is_enabled: bool = False
    placement: Placement = Placement()
    runtime_class_name: str = "nvidia"
    driver_root: str = ""
    reads_mig: bool = False


@dataclass(frozen=True, slots=True)
class Devices:
    """DaemonSet rankbeat-devices."""

    is_enabled: bool = False
    placement: Placement = Placement()
    npu_driver_root: str = "/usr/local/Ascend/driver"
    npu_resources: tuple[str, ...] = ()
    """Extended resources of NPUs beside huawei.com/..."""
    reads_rank_tables: bool = False
    has_exporter_names: bool = False
    """Whether NPUs are shown under npu-exporter's names too."""
    nvidia: Nvidia = Nvidia()


@dataclass(frozen=True, slots=True)
class Metrics:
    """How the programs on nodes serve /metrics, and to whom.

    client_secret, token_secret: Secrets of the install's in the release namespace, "" where the operator makes them.
    """

    has_tls: bool = False
    asks_for_certificate: bool = False
    client_secret: str = ""
    asks_for_token: bool = False
    token_secret: str = ""


@dataclass(frozen=True, slots=True)
class Fleet:
    """All of fleet.yaml."""

    node_image: str
    aggregator_image: str
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    node: Node = Node()
    clock: Clock = Clock()
    devices: Devices = Devices()
    aggregator: Placement = Placement()
    metrics: Metrics = Metrics()


def fleet(document: object) -> Fleet:
    """The fleet in a parsed fleet.yaml.

    Raises: InvalidFleetError with the field and what to write there.
    """
    top = fields.section({"": document}, "", "", _SECTIONS)
    images = fields.section(top, "images", "", ("node", "aggregator", "operator"))
    policy = fields.text(top, "imagePullPolicy", "", "IfNotPresent")
    if policy not in _PULL_POLICIES:
        raise InvalidFleetError("imagePullPolicy", f"is {policy!r}, write one of {', '.join(_PULL_POLICIES)}")
    return Fleet(
        node_image=_image(images, "node"),
        aggregator_image=_image(images, "aggregator"),
        image_pull_policy=policy,
        image_pull_secrets=fields.texts(top, "imagePullSecrets", ""),
        labels=fields.text_mapping(top, "labels", ""),
        node=_node(top),
        clock=_clock(top),
        devices=_devices(top),
        aggregator=_placement(fields.section(top, "aggregator", "", _PLACEMENT), "aggregator"),
        metrics=_metrics(top),
    )


def _node(top: Manifest) -> Node:
    own = ("pushInterval", "pollInterval", "kubeletRoot", "podLogs", "seLinuxOptions")
    section = fields.section(top, "node", "", (*own, *_PLACEMENT))
    return Node(
        push_interval_seconds=fields.duration(section, "pushInterval", "node", "5s", (0.5, 300)),
        poll_interval_seconds=fields.duration(section, "pollInterval", "node", "500ms", (0.05, 5)),
        kubelet_root=fields.path(section, "kubeletRoot", "node", "/var/lib/kubelet"),
        pod_logs=fields.path(section, "podLogs", "node", "") if section.get("podLogs") else "",
        placement=_placement(section, "node"),
        se_linux_options=fields.text_mapping(section, "seLinuxOptions", "node"),
    )


def _clock(top: Manifest) -> Clock:
    section = fields.section(top, "clock", "", ("servers", "offsetLimit", "chrony", "resources"))
    chrony = fields.section(section, "chrony", "clock", ("socket", "user"))
    socket = fields.path(chrony, "socket", "clock.chrony", "") if chrony.get("socket") else ""
    user = chrony.get("user") or 0
    if isinstance(user, bool) or not isinstance(user, int) or (socket and not 0 < user < 1 << 31):
        raise InvalidFleetError("clock.chrony.user", f"is {user!r}, write the uid of chronyd's user on the nodes")
    return Clock(
        servers=fields.texts(section, "servers", "clock"),
        chrony_socket=socket,
        chrony_user=user,
        offset_limit_seconds=fields.duration(section, "offsetLimit", "clock", "50ms", (0.001, 60)),
        resources=fields.mapping(section, "resources", "clock"),
    )


def _devices(top: Manifest) -> Devices:
    section = fields.section(top, "devices", "", ("exporter", "npu", "nvidia", "external", *_PLACEMENT))
    npu = fields.section(section, "npu", "devices", ("driverRoot", "resources", "rankTables", "exporterNames"))
    return Devices(
        is_enabled=_is_builtin(section, "devices"),
        placement=_placement(section, "devices"),
        npu_driver_root=fields.path(npu, "driverRoot", "devices.npu", "/usr/local/Ascend/driver"),
        npu_resources=fields.texts(npu, "resources", "devices.npu"),
        reads_rank_tables=fields.boolean(npu, "rankTables", "devices.npu"),
        has_exporter_names=fields.boolean(npu, "exporterNames", "devices.npu"),
        nvidia=_nvidia(section),
    )


def _nvidia(devices: Manifest) -> Nvidia:
    path = "devices.nvidia"
    known = ("exporter", "nodeSelector", "tolerations", "runtimeClassName", "driverRoot", "mig", "external")
    section = fields.section(devices, "nvidia", "devices", known)
    shared = {key: devices[key] for key in ("priorityClassName", "resources") if key in devices}
    return Nvidia(
        is_enabled=_is_builtin(section, path),
        placement=_placement({**section, **shared}, path),
        runtime_class_name=fields.text(section, "runtimeClassName", path, "nvidia"),
        driver_root=fields.path(section, "driverRoot", path, "") if section.get("driverRoot") else "",
        reads_mig=fields.boolean(section, "mig", path),
    )


def _metrics(top: Manifest) -> Metrics:
    section = fields.section(top, "metrics", "", ("tls", "bearerToken"))
    tls = fields.section(section, "tls", "metrics", ("enabled", "clientAuth"))
    client = fields.section(tls, "clientAuth", "metrics.tls", ("enabled", "existingSecret"))
    token = fields.section(section, "bearerToken", "metrics", ("enabled", "existingSecret"))
    metrics = Metrics(
        has_tls=fields.boolean(tls, "enabled", "metrics.tls"),
        asks_for_certificate=fields.boolean(client, "enabled", "metrics.tls.clientAuth"),
        client_secret=fields.text(client, "existingSecret", "metrics.tls.clientAuth", ""),
        asks_for_token=fields.boolean(token, "enabled", "metrics.bearerToken"),
        token_secret=fields.text(token, "existingSecret", "metrics.bearerToken", ""),
    )
    if (metrics.asks_for_certificate or metrics.asks_for_token) and not metrics.has_tls:
        raise InvalidFleetError(
            "metrics.tls.enabled", "is false, write true: who scrapes proves who it is over TLS only"
        )
    return metrics


def _is_builtin(section: Manifest, path: str) -> bool:
    """Whether our own exporter is asked for. `off` without quotes is false in YAML, and means the same."""
    exporter = section.get("exporter", "off")
    if exporter is not False and exporter not in _EXPORTERS:
        raise InvalidFleetError(f"{path}.exporter", f"is {exporter!r}, write one of {', '.join(_EXPORTERS)}")
    return bool(exporter == "builtin")


def _placement(section: Manifest, path: str) -> Placement:
    return Placement(
        node_selector=fields.text_mapping(section, "nodeSelector", path),
        tolerations=fields.mappings(section, "tolerations", path),
        priority_class_name=fields.text(section, "priorityClassName", path, ""),
        resources=fields.mapping(section, "resources", path),
    )


def _image(images: Manifest, key: str) -> str:
    image = fields.text(images, key, "images", "")
    if not image:
        raise InvalidFleetError(f"images.{key}", "is missing, write the image's name and tag")
    return image

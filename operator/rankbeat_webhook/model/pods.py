"""The parts of a new pod that injection looks at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rankbeat_webhook import errors
from rankbeat_webhook.model import raw

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller that made the pod."""

    api_version: str
    kind: str
    name: str
    uid: str

    @property
    def is_job(self) -> bool:
        """Whether it is a Job of Kubernetes itself."""
        return self.kind == "Job" and self.api_version.partition("/")[0] == "batch"


@dataclass(frozen=True, slots=True)
class EnvVar:
    """One entry of a container's env; value is None where it comes from a source."""

    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class Resources:
    """What a container, or a whole pod, asks for."""

    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Container:
    """One container; index is its place in spec.containers.

    env_prefixes: one per envFrom entry. mount_paths: also paths of block devices. has_*: whether the array has entries.
    user, group: of the security context, None where it does not say.
    """

    index: int
    name: str
    command: tuple[str, ...]
    env: tuple[EnvVar, ...]
    env_prefixes: tuple[str, ...]
    mount_paths: tuple[str, ...]
    requested: tuple[str, ...]
    has_env: bool
    has_mounts: bool
    args: tuple[str, ...] = ()
    resources: Resources = Resources()
    user: int | None = None
    group: int | None = None


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod on its way in; namespace is the request's.

    shares_processes: whether no container of it has a process 1 of its own. resources: of spec.resources, which stand
    above the containers' own. user: of the pod's security context.
    """

    namespace: str
    labels: Mapping[str, str]
    has_annotations: bool
    owner: Owner | None
    restart_policy: str
    containers: tuple[Container, ...]
    volumes: tuple[str, ...]
    init_containers: tuple[Container, ...] = ()
    shares_processes: bool = False
    resources: Resources = Resources()
    user: int | None = None
    pull_secrets: tuple[str, ...] = ()


def reviewed_pod(body: object) -> Pod:
    """The pod in an AdmissionReview of its creation.

    Raises: ReviewError if it is none, or not of a pod.
    """
    request = raw.mapping(body, "request")
    if raw.text(body, "kind") != "AdmissionReview" or not raw.text(request, "uid"):
        raise errors.ReviewError("kind is not AdmissionReview, or request.uid is missing")
    if raw.text(request, "operation") != "CREATE" or raw.text(request, "resource", "resource") != "pods":
        raise errors.ReviewError("it is not about CREATE of pods")
    if not raw.sequence(request, "object", "spec", "containers"):
        raise errors.ReviewError("request.object is no pod")
    return pod(raw.text(request, "namespace"), raw.mapping(request, "object"))


def pod(namespace: str, manifest: Mapping[str, object]) -> Pod:
    """The pod in a manifest."""
    containers = raw.sequence(manifest, "spec", "containers")
    return Pod(
        namespace=namespace,
        labels=raw.labels(manifest, "metadata", "labels"),
        has_annotations=bool(raw.mapping(manifest, "metadata", "annotations")),
        owner=_owner(manifest),
        restart_policy=raw.text(manifest, "spec", "restartPolicy") or "Always",
        containers=tuple(_container(index, each) for index, each in enumerate(containers)),
        volumes=tuple(raw.text(each, "name") for each in raw.sequence(manifest, "spec", "volumes")),
        init_containers=tuple(
            _container(index, each) for index, each in enumerate(raw.sequence(manifest, "spec", "initContainers"))
        ),
        shares_processes=raw.member(manifest, "spec", "shareProcessNamespace") is True
        or raw.member(manifest, "spec", "hostPID") is True,
        resources=_resources(raw.mapping(manifest, "spec")),
        user=raw.number(manifest, "spec", "securityContext", "runAsUser"),
        pull_secrets=tuple(raw.text(each, "name") for each in raw.sequence(manifest, "spec", "imagePullSecrets")),
    )


def _owner(manifest: Mapping[str, object]) -> Owner | None:
    for each in raw.sequence(manifest, "metadata", "ownerReferences"):
        if raw.member(each, "controller") is True:
            return Owner(
                raw.text(each, "apiVersion"), raw.text(each, "kind"), raw.text(each, "name"), raw.text(each, "uid")
            )
    return None


def _container(index: int, manifest: object) -> Container:
    mounts = raw.sequence(manifest, "volumeMounts")
    devices = raw.sequence(manifest, "volumeDevices")
    resources = raw.mapping(manifest, "resources")
    env = raw.sequence(manifest, "env")
    return Container(
        index=index,
        name=raw.text(manifest, "name"),
        command=raw.texts(manifest, "command"),
        env=tuple(
            EnvVar(raw.text(each, "name"), None if raw.mapping(each, "valueFrom") else raw.text(each, "value"))
            for each in env
        ),
        env_prefixes=tuple(raw.text(each, "prefix") for each in raw.sequence(manifest, "envFrom")),
        mount_paths=tuple(raw.text(each, "mountPath") for each in mounts)
        + tuple(raw.text(each, "devicePath") for each in devices),
        requested=tuple(sorted({*raw.mapping(resources, "requests"), *raw.mapping(resources, "limits")})),
        has_env=bool(env),
        has_mounts=bool(mounts),
        args=raw.texts(manifest, "args"),
        resources=_resources(manifest),
        user=raw.number(manifest, "securityContext", "runAsUser"),
        group=raw.number(manifest, "securityContext", "runAsGroup"),
    )


def _resources(manifest: object) -> Resources:
    """Requests with the limits in the place of those that are missing, as the API server completes them."""
    limits = _quantities(manifest, "limits")
    return Resources({**limits, **_quantities(manifest, "requests")}, limits)


def _quantities(manifest: object, kind: str) -> Mapping[str, str]:
    """A quantity may be written as a number."""
    return {key: str(value) for key, value in raw.mapping(manifest, "resources", kind).items()}

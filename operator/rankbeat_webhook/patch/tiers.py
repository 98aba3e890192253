"""The tier perfFile, chosen at admission where the agent cannot be put in and the monitor allows it.

MindSpore itself writes begin and end of each step to a file of each rank (ClusterMonitor, since 2.3). Without
PERF_DUMP_PATH it ends the job: both variables or none. Source: docs/sources.md, MindSpore.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankbeat_contract import names
from rankbeat_webhook.patch import operations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rankbeat_webhook.model import pods

ENV = (
    {"name": "PERF_DUMP_CONFIG", "value": "enable:true,steptime:true,dtpGroup:false"},
    {"name": "PERF_DUMP_PATH", "value": names.PERF_PATH},
)
VOLUMES: tuple[Mapping[str, object], ...] = ({"name": names.PERF_VOLUME, "emptyDir": {}},)
"""On the node's disk and without a limit: the files grow by 37 bytes a step and rank, and a full tmpfs would end the
job, since MindSpore does not catch the error."""
MOUNTS: tuple[Mapping[str, object], ...] = ({"name": names.PERF_VOLUME, "mountPath": names.PERF_PATH},)


def obstacle(pod: pods.Pod, container: pods.Container) -> str:
    """What of the pod's own stands in the way, empty if nothing does."""
    ours = {each["name"] for each in ENV}
    variables = [repr(each.name) for each in container.env if each.name in ours]
    volumes = [repr(each) for each in pod.volumes if each == names.PERF_VOLUME]
    mounts = [repr(each) for each in container.mount_paths if each.startswith("/rankbeat")]
    taken = ", ".join((*variables, *volumes, *mounts))
    return f"the tier perfFile cannot be used: the pod has {taken} itself" if taken else ""


def perf_file(pod: pods.Pod, container: pods.Container) -> tuple[operations.Operation, ...]:
    """The volume, and in one container its mount and the two variables."""
    place = f"/spec/containers/{container.index}"
    return (
        *operations.elements("/spec/volumes", VOLUMES, exists=bool(pod.volumes)),
        *operations.elements(f"{place}/env", ENV, exists=container.has_env),
        *operations.elements(f"{place}/volumeMounts", MOUNTS, exists=container.has_mounts),
    )

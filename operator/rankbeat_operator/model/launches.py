"""How a pod starts its training: the command of the container that trains, and whether it is process 1."""

import functools
from dataclasses import dataclass

from rankbeat_contract import launch as contract
from rankbeat_contract.launch import Launch
from rankbeat_operator.model.manifests import Manifest

_USUAL_NAMES = ("ascend", "mindspore")
_ACCELERATORS = ("huawei.com/", "nvidia.com/")
GRACE_SECONDS = 30
"""terminationGracePeriodSeconds where it is not set."""


@dataclass(frozen=True, slots=True)
class Start:
    """launch: None where the command does not tell. grace_seconds: how long a deletion waits for it at most."""

    launch: Launch | None = None
    is_process_one: bool = True
    grace_seconds: int = GRACE_SECONDS


UNKNOWN = Start()


def start(spec: Manifest, container: str = "") -> Start:
    """The start in a pod's spec. container: the one that trains, "" where nobody has said."""
    chosen = _container(spec.get("containers") or (), container)
    line = (*(chosen.get("command") or ()), *(chosen.get("args") or ()))
    return Start(
        launch=_launch(line),
        is_process_one=not (spec.get("shareProcessNamespace") or spec.get("hostPID")),
        grace_seconds=spec.get("terminationGracePeriodSeconds", GRACE_SECONDS),
    )


@functools.lru_cache(maxsize=512)
def _launch(line: tuple[str, ...]) -> Launch | None:
    """The pods of a job have one command: it is read once, which takes 0.1 ms."""
    return contract.launch(line)


def _container(containers: list[Manifest] | tuple[Manifest, ...], wanted: str) -> Manifest:
    """As the webhook chooses: by name, by a usual name, by accelerators, else the first."""
    named = [each for each in containers if each["name"] == wanted]
    usual = [each for each in containers if each["name"] in _USUAL_NAMES]
    computing = [each for each in containers if any(name.startswith(_ACCELERATORS) for name in _requested(each))]
    return next(iter((*named, *usual, *computing, *containers)), {})


def _requested(container: Manifest) -> tuple[str, ...]:
    resources = container.get("resources") or {}
    return (*(resources.get("requests") or {}), *(resources.get("limits") or {}))

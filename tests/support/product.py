"""The whole product on the real cluster, as the end-to-end tests see it."""

import json
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from rankbeat_demo import cluster, install
from rankbeat_demo.progress import wait_for
from rankbeat_demo.prometheus import Prometheus

T = TypeVar("T")
RELEASE_NAMESPACE = install.NAMESPACE


@dataclass(frozen=True)
class Product:
    """Rankbeat as `make demo` left it."""

    demo: Mapping[str, object]
    prometheus: Prometheus

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout_seconds: float = 60) -> str:
        return cluster.kubectl(*arguments, stdin=stdin, timeout_seconds=timeout_seconds)

    def get(self, kind: str, name: str, namespace: str) -> dict:
        return json.loads(self.kubectl("-n", namespace, "get", kind, name, "-o", "json"))

    def list(self, kind: str, namespace: str, selector: str = "") -> list[dict]:
        arguments = ["-l", selector] if selector else []
        return json.loads(self.kubectl("-n", namespace, "get", kind, *arguments, "-o", "json"))["items"]

    def apply(self, *manifests: Mapping[str, object]) -> None:
        """One `kubectl apply` of all of them, in this order."""
        self.kubectl("apply", "-f", "-", stdin="\n---\n".join(json.dumps(one) for one in manifests))

    def namespace(self, name: str, **labels: str) -> str:
        """The name of a fresh namespace that is opted in, with the agent's ConfigMap in it."""
        name = f"{name}-{secrets.token_hex(3)}"
        wanted = {"rankbeat.io/inject": "enabled", **{key.replace("__", "/"): value for key, value in labels.items()}}
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": wanted}})
        wait(
            f"the agent's ConfigMap in {name}",
            lambda: "rankbeat-agent-" in self.kubectl("-n", name, "get", "configmap", "-o", "name"),
            30,
        )
        return name

    def conditions(self, namespace: str, monitor: str) -> dict[str, dict]:
        status = self.get("tmon", monitor, namespace).get("status", {})
        return {one["type"]: one for one in status.get("conditions", ())}

    @contextmanager
    def scaled(self, deployment: str, replicas: int, back_to: int) -> Iterator[None]:
        """A Deployment of ours at another size, and back again."""
        self._scale(deployment, replicas)
        try:
            yield
        finally:
            self._scale(deployment, back_to)

    def _scale(self, deployment: str, replicas: int) -> None:
        self.kubectl("-n", RELEASE_NAMESPACE, "scale", f"deployment/{deployment}", f"--replicas={replicas}")
        selector = f"rankbeat.io/component={deployment.removeprefix('rankbeat-')}"

        def is_so() -> bool:
            ready = self.get("deployment", deployment, RELEASE_NAMESPACE)["status"].get("readyReplicas", 0)
            return ready == replicas == len(self.list("pods", RELEASE_NAMESPACE, selector))  # none still drains

        wait(f"{deployment} at {replicas}", is_so, 60)


def wait(what: str, condition: Callable[[], T | None], timeout_seconds: float = 60) -> T:
    """The first true value of condition(); a kubectl that fails meanwhile counts as not yet."""

    def tried() -> T | None:
        try:
            return condition()
        except (cluster.CommandError, subprocess.TimeoutExpired, KeyError):
            return None

    return wait_for(what, tried, timeout_seconds, 0.5)


def a_job(name: str, namespace: str, **changes: object) -> dict[str, object]:
    """A Job of one pod that sleeps in a busybox; `changes` replace fields of spec, `pod` those of the pod, `container`
    those of the container, `labels` the pod's labels."""
    container = {
        "name": "train",
        "image": "localhost/busybox:1",
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", "sleep 3600"],
        **changes.pop("container", {}),
    }
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
        **changes.pop("pod", {}),
    }
    labels = changes.pop("labels", {"rankbeat.io/monitor": name})
    spec = {"backoffLimit": 2, **changes, "template": {"metadata": {"labels": labels}, "spec": pod}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def a_monitor(name: str, namespace: str, **spec: object) -> dict[str, object]:
    """A TrainingMonitor of the Job of the same name."""
    return {
        "apiVersion": "rankbeat.io/v1alpha1",
        "kind": "TrainingMonitor",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"workloadRef": {"apiVersion": "batch/v1", "kind": "Job", "name": name}, **spec},
    }


def elapsed(action: Callable[[], object]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began

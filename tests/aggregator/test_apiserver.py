"""Tokens and monitors of a real kube-apiserver."""

import asyncio
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

import kubernetes
from aggregator_builders import a_rank, a_report
from rankbeat_aggregator.server import kubernetes_api
from rankbeat_aggregator.server.app import Users
from rankbeat_aggregator.server.monitors import Watch
from rankbeat_aggregator.server.run import Outside
from rankbeat_aggregator.server.service import Clock
from rankbeat_cluster import pki, ports
from rankbeat_contract import names

pytestmark = pytest.mark.controlplane

CRD = Path(__file__).parents[2] / "crds" / "trainingmonitors.rankbeat.io.yaml"


@dataclass
class Installed:
    """A namespace with the ServiceAccounts of collector and operator."""

    kube: Any
    namespace: str

    def user(self, account: str) -> str:
        return f"system:serviceaccount:{self.namespace}:{account}"

    def token(self, account: str, audience: str = names.AUDIENCE, pod: Any = None) -> str:
        """A projected token, bound to a pod where one is given."""
        bound = pod and kubernetes.client.V1BoundObjectReference(
            api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid
        )
        spec = kubernetes.client.V1TokenRequestSpec(
            audiences=[audience], bound_object_ref=bound, expiration_seconds=600
        )
        answer = kubernetes.client.CoreV1Api(self.kube.api_client).create_namespaced_service_account_token(
            account, self.namespace, kubernetes.client.AuthenticationV1TokenRequest(spec=spec)
        )
        return str(answer.status.token)

    def pod_on(self, node: str) -> Any:
        """A collector's pod that the API server believes on a node."""
        return self.kube.apply({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": f"rankbeat-node-{node}", "namespace": self.namespace},
            "spec": {"nodeName": node, "serviceAccountName": "rankbeat-node", "automountServiceAccountToken": False,
                     "containers": [{"name": "collector", "image": "none"}]},
        })  # fmt: skip


@pytest.fixture(scope="module")
def installed(kube: Any) -> Installed:
    kube.apply(yaml.safe_load(CRD.read_text()))
    namespace = kube.namespace()
    for account in ("rankbeat-node", "rankbeat-operator"):
        kube.apply(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": namespace}}
        )
    return Installed(kube, namespace)


def test_a_token_bound_to_a_pod_names_its_node(installed: Installed):
    review = kubernetes_api.token_review(installed.kube.api_client)

    found = review(installed.token("rankbeat-node", pod=installed.pod_on("n0")))

    assert (found.user, found.node) == (installed.user("rankbeat-node"), "n0")


@pytest.mark.parametrize("token", ["nonsense", "a.b.c"])
def test_an_invented_token_is_nobody(installed: Installed, token: str):
    assert kubernetes_api.token_review(installed.kube.api_client)(token) is None


def test_a_token_for_the_api_server_itself_is_nobody(installed: Installed):
    token = installed.token("rankbeat-node", audience="https://kubernetes.default.svc.cluster.local")

    assert kubernetes_api.token_review(installed.kube.api_client)(token) is None


async def test_a_collector_reports_for_its_own_node_only(
    installed: Installed, tmp_path: Path, control_plane: Any, serve: Callable[..., Any]
):
    api = kubernetes_api.client(str(control_plane.kubeconfig))
    users = Users(installed.user("rankbeat-node"), installed.user("rankbeat-operator"))
    outside = Outside(kubernetes_api.token_review(api), kubernetes_api.Monitors(api), users, Clock())
    token = await asyncio.to_thread(lambda: installed.token("rankbeat-node", pod=installed.pod_on("n7")))
    operator = await asyncio.to_thread(installed.token, "rankbeat-operator")
    async with serve(tmp_path / "tls", outside) as client:
        assert (await client.post(a_report("n7", [a_rank(0)]), token))[0] == 200
        assert (await client.post(a_report("n8", [a_rank(0)]), token))[0] == 403
        assert (await client.post(a_report("n7", []), operator))[0] == 403
        assert (await client.verdicts(token))[0] == 403
        assert (await client.verdicts(operator))[0] == 200
    api.close()


@pytest.fixture
def watch(control_plane: Any) -> Iterator[Watch]:
    with kubernetes_api.client(str(control_plane.kubeconfig)) as api:
        following = Watch(kubernetes_api.Monitors(api), time.monotonic)
        following.start()
        yield following
        following.stop()


def comes_true(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Whether it does, in time: another program's watch has no event that a test could wait for."""
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.05)
    return condition()


def a_monitor(namespace: str, name: str, **spec: object) -> dict[str, object]:
    return {
        "apiVersion": "rankbeat.io/v1alpha1",
        "kind": "TrainingMonitor",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"workloadRef": {"apiVersion": "batch/v1", "kind": "Job", "name": name}, **spec},
    }


def test_limits_follow_the_monitor_and_outlive_the_api_server(installed: Installed, watch: Watch, control_plane: Any):
    namespace = installed.namespace

    def hang() -> float:
        return watch.settings(namespace, "llm").limits.hang_seconds

    assert hang() == 20.0
    installed.kube.apply(a_monitor(namespace, "llm", alerts={"limits": {"hang": "8s"}}))
    assert comes_true(lambda: hang() == 8.0)

    installed.kube.apply(a_monitor(namespace, "llm", alerts={"limits": {"hang": "30s"}}, paused=True))
    assert comes_true(lambda: hang() == 30.0 and watch.settings(namespace, "llm").paused)

    control_plane.stop()
    # A killed program's leader may be gone before its threads have let go of the port.
    assert comes_true(lambda: ports.is_free(control_plane.plane.apiserver_port))
    assert hang() == 30.0
    control_plane.restart()
    assert hang() == 30.0
    installed.kube.apply(a_monitor(namespace, "llm", alerts={"limits": {"hang": "9s"}}))
    assert comes_true(lambda: hang() == 9.0)

    monitors = installed.kube.resource("rankbeat.io/v1alpha1", "TrainingMonitor")
    monitors.delete(name="llm", namespace=namespace)
    assert comes_true(lambda: hang() == 20.0)
    assert watch.age_seconds() < 60


def test_the_program_runs_with_its_command_line_and_ends_on_sigterm(
    installed: Installed, control_plane: Any, tmp_path: Path
):
    authority = pki.authority(tmp_path, "ca")
    pki.issue(authority, tmp_path / "tls", ("rankbeat-aggregator", ""), (), ("127.0.0.1",))
    command = [
        *(sys.executable, "-m", "rankbeat_aggregator", "--host=127.0.0.1", "--port=0", "--metrics-port=0"),
        *(f"--tls-cert={tmp_path / 'tls.crt'}", f"--tls-key={tmp_path / 'tls.key'}"),
        *(f"--reporter-user={installed.user('rankbeat-node')}", f"--reader-user={installed.user('rankbeat-operator')}"),
        f"--kubeconfig={control_plane.kubeconfig}",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as program:
        try:
            started = next(line for line in program.stderr if "event=started" in line)
            port = int(re.search(r"metrics_port=(\d+)", started)[1])
            assert comes_true(lambda: "monitors_age_seconds" in fetched(port, "/metrics"))
            assert fetched(port, "/healthz") == "ok\n"
            program.send_signal(signal.SIGTERM)
            assert program.wait(15) == 0
        finally:
            program.kill()


def fetched(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
        return str(answer.read().decode())

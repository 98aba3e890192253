"""Which pod a ring belongs to: from the API, on a real API server."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from rankbeat_collector import outputs
from rankbeat_collector.model import pods
from rankbeat_collector.model.pods import Pod
from rankbeat_contract import names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import kube as clients
    from rankbeat_cluster import loopback
    from rankbeat_collector.pods import Watcher


def raw(**metadata: object) -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": "team-a",
            "name": "llm-0",
            "uid": "abc-1",
            "annotations": {names.ANNOTATION_INJECTION: json.dumps({"monitor": "llm", "result": "Injected"})},
            "ownerReferences": [
                {"name": "other", "uid": "other-1"},
                {"name": "llm", "uid": "job-1", "controller": True},
            ],
            **metadata,
        },
        "status": {"phase": "Running", "startTime": "2026-11-30T06:00:00Z"},
    }


def test_a_pod_is_what_the_api_says() -> None:
    assert pods.pod(raw()) == Pod("team-a", "llm-0", "abc-1", "llm", "llm", "job-1", False, "Running", 1796018400.0)


def test_a_pod_without_a_controller_is_its_own_job() -> None:
    found = pods.pod(raw(ownerReferences=[]))

    assert found is not None
    assert (found.job, found.job_uid) == ("llm-0", "abc-1")


def test_a_pod_that_is_being_deleted_is_said_to_be() -> None:
    found = pods.pod(raw(deletionTimestamp="2026-11-30T07:00:00Z"))

    assert found is not None
    assert found.deleting


@pytest.mark.parametrize(
    "metadata",
    [
        {"annotations": None},
        {"annotations": {names.ANNOTATION_INJECTION: "{"}},
        {"annotations": {names.ANNOTATION_INJECTION: "[" * 100_000}},
        {"annotations": {names.ANNOTATION_INJECTION: '{"monitor": 5}'}},
        {"annotations": {names.ANNOTATION_INJECTION: '{"monitor": "a\\"}b"}'}},
        {"uid": "../../etc"},
        {"uid": ""},
    ],
    ids=["absent", "broken", "deep", "number", "quote", "path", "no-uid"],
)
def test_a_pod_that_names_no_monitor_or_no_folder_is_not_collected(metadata: dict[str, object]) -> None:
    assert pods.pod(raw(**metadata)) is None


def said(state: str, **injection: object) -> dict[str, Any]:
    """A pod with this label and annotation of the webhook's."""
    annotation = json.dumps({"monitor": "llm", **injection})
    return raw(labels={names.LABEL_STATE: state}, annotations={names.ANNOTATION_INJECTION: annotation})


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        pytest.param(
            said("injected", result="Injected", container="train", tiers=["logTail", "perfFile"]),
            (True, "train", ("perfFile", "logTail")),
            id="with the agent",
        ),
        pytest.param(
            said("skipped", result="ShellNotProven", container="train", tiers=["logTail"]),
            (False, "train", ("logTail",)),
            id="without the agent",
        ),
        pytest.param(
            said("skipped", result="InjectedPerfFile"), (False, "", ("perfFile",)), id="set up for step files"
        ),
        pytest.param(
            said("injected", container="../etc", tiers=["logTail", "other", 7]), (True, "", ("logTail",)), id="forged"
        ),
        pytest.param(said("injected", tiers="logTail"), (True, "", ()), id="no list"),
    ],
)
def test_a_pod_says_which_lower_tiers_may_be_used(
    manifest: dict[str, Any], expected: tuple[bool, str, tuple[str, ...]]
) -> None:
    found = pods.pod(manifest)

    assert found is not None
    assert (found.has_agent, found.container, found.tiers) == expected


def test_a_skipped_pod_without_a_lower_tier_is_not_collected() -> None:
    assert pods.pod(said("skipped", result="ShellNotProven")) is None


def manifest(namespace: str, name: str, node: str, **labels: str) -> dict[str, object]:
    annotation = json.dumps({"monitor": "llm", "result": "Injected"})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "labels": {names.LABEL_STATE: names.STATE_INJECTED, **labels},
            "annotations": {names.ANNOTATION_INJECTION: annotation},
        },
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "train", "image": "none"}],
        },
    }


def wait(until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def watcher(kube: clients.Kube) -> Iterator[Watcher]:
    from rankbeat_collector.pods import Watcher  # noqa: PLC0415

    made = Watcher(kube.api_client, "n1", outputs.Counts())
    made.start()
    yield made
    made.stop()


@pytest.mark.controlplane
def test_pods_stay_known_while_the_api_server_is_down_and_are_listed_anew_after(
    control_plane: loopback.LoopbackControlPlane, kube: clients.Kube, watcher: Watcher
) -> None:
    namespace = kube.namespace()

    def known() -> list[str]:
        return [pod.name for pod in watcher.pods() or () if pod.namespace == namespace]

    kube.apply(manifest(namespace, "llm-0", "n1"))
    wait(lambda: known() == ["llm-0"])
    control_plane.stop()
    while_down = known()
    control_plane.restart()
    kube.apply(manifest(namespace, "llm-1", "n1"))
    wait(lambda: known() == ["llm-0", "llm-1"])

    assert while_down == ["llm-0"]


@pytest.mark.controlplane
def test_the_injected_pods_of_this_node_are_known_as_they_come_and_go(kube: clients.Kube, watcher: Watcher) -> None:
    namespace = kube.namespace()

    def known() -> list[str]:
        return [pod.name for pod in watcher.pods() or () if pod.namespace == namespace]

    wait(lambda: watcher.pods() is not None)
    kube.apply(manifest(namespace, "llm-0", "n1"))
    kube.apply(manifest(namespace, "llm-1", "n2"))
    kube.apply(manifest(namespace, "llm-2", "n1", **{names.LABEL_STATE: names.STATE_SKIPPED}))
    kube.apply(manifest(namespace, "llm-3", "n1"))
    wait(lambda: len(known()) == 2)
    seen = known()
    kube.resource("v1", "Pod").delete(name="llm-0", namespace=namespace, body={"gracePeriodSeconds": 0})
    wait(lambda: known() == ["llm-3"])

    assert seen == ["llm-0", "llm-3"]

"""Objects of the API, as values."""

import pytest

from operator_builders import a_monitor_manifest
from rankbeat_contract import monitor as contract
from rankbeat_operator.errors import InvalidFleetError
from rankbeat_operator.model import fleet, monitors, observed, pods, verdicts, workloads
from rankbeat_operator.model.fleet import Clock, Devices, Fleet, Node, Nvidia, Placement
from rankbeat_operator.model.monitors import Monitor, Target
from rankbeat_operator.model.pods import Container, Exit, Injection, ObjectEvent, Owner, Pod
from rankbeat_operator.model.verdicts import Incident, JobVerdict, Outputs, Suspect, Taps
from rankbeat_operator.model.workloads import Workload

A_POD = {
    "metadata": {
        "name": "llm-0-x",
        "uid": "u1",
        "creationTimestamp": "2026-11-30T06:00:00Z",
        "labels": {"rankbeat.io/state": "injected"},
        "annotations": {
            "rankbeat.io/injection": '{"monitor": "llm", "result": "Injected", "agent": "1f", "container": "train"}'
        },
        "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "llm", "uid": "j1", "controller": True}],
    },
    "status": {
        "phase": "Failed",
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-30T06:00:01Z"},
            {"type": "ContainersReady", "status": "False", "lastTransitionTime": "2026-11-30T06:00:03Z"},
        ],
        # As a kubelet 1.36 writes it for a command that is not in the image.
        "containerStatuses": [
            {
                "name": "train",
                "state": {
                    "terminated": {
                        "exitCode": 128,
                        "reason": "StartError",
                        "startedAt": "1970-01-01T00:00:00Z",
                        "finishedAt": "2026-11-30T06:00:03Z",
                    }
                },
                "lastState": {},
            }
        ],
    },
}


def test_a_pod_whose_command_does_not_exist():
    assert pods.pod(A_POD) == Pod(
        name="llm-0-x",
        uid="u1",
        phase="Failed",
        created=1796018400.0,
        labels={"rankbeat.io/state": "injected"},
        injection=Injection("Injected", "", "1f", "train"),
        owner=Owner("batch/v1", "Job", "llm", "j1"),
        containers=(Container("train", exits=(Exit(128, "StartError", None),)),),
    )


def test_a_pod_that_has_just_been_created():
    manifest = {"metadata": {"name": "p", "uid": "u", "creationTimestamp": "2026-11-30T06:00:00Z"}}

    assert pods.pod(manifest) == Pod("p", "u", "Pending", 1796018400.0, {}, is_scheduled=False)


@pytest.mark.parametrize("text", ["", "{", "[]", "1", "[" * 100_000, '{"result": "no reason"}', '{"result": 1}'])
def test_an_illegible_annotation_is_an_injection_without_a_result(text):
    manifest = {**A_POD, "metadata": {**A_POD["metadata"], "annotations": {"rankbeat.io/injection": text}}}

    assert pods.pod(manifest).injection == Injection()


def test_an_event_counts_from_when_it_was_last_seen():
    manifest = {
        "metadata": {"creationTimestamp": "2026-11-30T05:00:00Z"},
        "involvedObject": {"uid": "u1"},
        "reason": "FailedCreate",
        "message": "denied",
        "lastTimestamp": "2026-11-30T06:00:00Z",
        "eventTime": None,
    }

    assert pods.object_event(manifest) == ObjectEvent("u1", "FailedCreate", "denied", 1796018400.0)


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        pytest.param({}, {}, (True, ""), id="new"),
        pytest.param({"suspend": True}, {}, (False, ""), id="suspended"),
        pytest.param({"parallelism": 0}, {}, (False, ""), id="no parallelism"),
        pytest.param({}, {"conditions": [{"type": "Complete", "status": "True"}]}, (False, "Complete"), id="complete"),
        pytest.param({}, {"conditions": [{"type": "Failed", "status": "True"}]}, (False, "Failed"), id="failed"),
        pytest.param({}, {"conditions": [{"type": "Failed", "status": "False"}]}, (True, ""), id="not failed"),
    ],
)
def test_whether_a_job_wants_pods(spec, status, expected):
    manifest = {"metadata": {"name": "llm", "uid": "j1"}, "spec": {"template": {}, **spec}, "status": status}

    job = workloads.job(manifest)

    assert (job.wants_pods, job.finished) == expected


def test_pods_of_an_earlier_job_of_the_same_name_do_not_count():
    old = Pod("a", "u1", "Failed", 1.0, {}, owner=Owner("batch/v1", "Job", "llm", "old"))
    new = Pod("b", "u2", "Running", 2.0, {}, owner=Owner("batch/v1", "Job", "llm", "new"))

    assert observed.present_pods(Workload("batch/v1", "Job", "llm", "new"), (old, new)) == (new,)


def test_a_selector_observes_the_workload_of_its_newest_pod():
    old = Pod("a", "u1", "Running", 1.0, {}, owner=Owner("apps/v1", "StatefulSet", "x", "s1"))
    new = Pod("b", "u2", "Succeeded", 2.0, {"app": "llm"}, owner=Owner("batch.volcano.sh/v1", "Job", "y", "v1"))

    assert workloads.owner_of([old, new]) == Workload(
        "batch.volcano.sh/v1", "Job", "y", "v1", wants_pods=False, finished="Complete", template_labels={"app": "llm"}
    )


def test_a_pod_that_nobody_made_is_its_own_workload():
    pod = Pod("a", "u1", "Running", 1.0, {})

    found = workloads.owner_of([pod])

    assert (found.kind, found.name, found.uid) == ("Pod", "a", "u1")
    assert observed.present_pods(found, [pod]) == (pod,)


def test_a_monitor_with_every_requirement():
    expressions = [
        {"key": "role", "operator": "In", "values": ["a", "b"]},
        {"key": "zone", "operator": "NotIn", "values": ["c"]},
        {"key": "gpu", "operator": "Exists"},
        {"key": "debug", "operator": "DoesNotExist"},
    ]
    selector = {"matchLabels": {"app": "llm"}, "matchExpressions": expressions}

    assert Target(pod_selector=selector).label_selector() == "app=llm,role in (a,b),zone notin (c),gpu,!debug"


def test_a_monitor_as_written():
    manifest = a_monitor_manifest(paused=True, sampling={"interval": 50})
    manifest["metadata"] |= {"uid": "m1", "generation": 3, "annotations": {"rankbeat.io/reset-breaker": "7"}}

    assert monitors.monitor(manifest) == Monitor(
        "team-a", "llm", "m1", 3, Target("llm"), contract.Settings(paused=True, interval_steps=50), "7", {}
    )


def test_verdicts_as_the_aggregator_writes_them():
    answer = {
        "started_wall": 1796018000.0,
        "nodes": [],
        "jobs": [
            {
                "namespace": "team-a",
                "monitor": "llm",
                "job": "llm",
                "job_uid": "j1",
                "attempt": 1,
                "ranks_expected": 2,
                "ranks_reporting": 1,
                "step": -1,
                "total_steps": 0,
                "loss": None,
                "phase": "build",
                "pods_without_ring": ["llm-1-y"],
                "outputs": {"llm-0-x": {"troubles": ["rows_lost", "odd", "full"], "rows_written": 5, "rows_lost": 2}},
                "taps": {"ranks": 2, "ranks_refusing": 1, "refused": 2, "unresolved_paths": [1]},
                "incidents": [
                    {
                        "kind": "crash",
                        "level": 2,
                        "started_wall": 5.0,
                        "evidence": "process_dead",
                        "suspects": [{"rank": 1, "node": "n1", "pod": "llm-1-y"}],
                        "message": "rank 1 died",
                    }
                ],
            }
        ],
    }
    crash = Incident("crash", 2, 5.0, "process_dead", "rank 1 died", (Suspect(1, "n1", "llm-1-y"),))

    assert verdicts.verdicts(answer).jobs == {
        ("team-a", "llm", "j1"): JobVerdict(
            "j1",
            2,
            1,
            phase="build",
            pods_without_ring=("llm-1-y",),
            incidents=(crash,),
            outputs={"llm-0-x": Outputs(("full", "rows_lost"), 5, 2)},
            taps=Taps(2, 1, 2, (1,)),
        )
    }


def test_expecting_no_rank_means_that_none_was_ever_seen():
    job = {"namespace": "team-a", "monitor": "llm", "job_uid": "j1", "ranks_expected": 0, "ranks_reporting": 0}

    verdict = verdicts.verdicts({"jobs": [job]}).jobs["team-a", "llm", "j1"]

    assert (verdict.ranks_expected, verdict.ranks_reporting) == (None, 0)


def test_a_fleet_of_images_alone_has_the_defaults():
    assert fleet.fleet({"images": {"node": "n:1", "aggregator": "a:1"}}) == Fleet("n:1", "a:1")


def test_a_fleet_with_every_field():
    placement = {
        "nodeSelector": {"a": "b"},
        "tolerations": [{"operator": "Exists"}],
        "priorityClassName": "high",
        "resources": {"limits": {"memory": "1Gi"}},
    }
    npu = {"driverRoot": "/opt/driver", "resources": ["acme.example/npu"], "rankTables": True, "exporterNames": True}
    nvidia = {
        "exporter": "builtin",
        "nodeSelector": {"gpu": "true"},
        "runtimeClassName": "gpus",
        "driverRoot": "/run/nvidia/driver/",
        "mig": True,
    }
    document = {
        "images": {"operator": "o:1", "node": "n:1", "aggregator": "a:1"},
        "imagePullPolicy": "Always",
        "imagePullSecrets": ["mirror"],
        "labels": {"team": "ml"},
        "node": {
            "pushInterval": "2s",
            "pollInterval": "250ms",
            "kubeletRoot": "/data/kubelet/",
            "podLogs": "/data/log/pods",
            "seLinuxOptions": {"type": "spc_t"},
            **placement,
        },
        "clock": {
            "servers": ["ntp1", "ntp2:1123"],
            "offsetLimit": "10ms",
            "chrony": {"socket": "/run/chrony/chronyd.sock", "user": 991},
            "resources": {"limits": {"cpu": "1"}},
        },
        "devices": {"exporter": "builtin", "npu": npu, "nvidia": nvidia, **placement},
        "aggregator": placement,
    }
    placed = Placement({"a": "b"}, ({"operator": "Exists"},), "high", {"limits": {"memory": "1Gi"}})

    assert fleet.fleet(document) == Fleet(
        "n:1",
        "a:1",
        "Always",
        ("mirror",),
        {"team": "ml"},
        Node(2.0, 0.25, "/data/kubelet", "/data/log/pods", placed, {"type": "spc_t"}),
        Clock(("ntp1", "ntp2:1123"), 0.01, {"limits": {"cpu": "1"}}, "/run/chrony/chronyd.sock", 991),
        Devices(
            is_enabled=True,
            placement=placed,
            npu_driver_root="/opt/driver",
            npu_resources=("acme.example/npu",),
            reads_rank_tables=True,
            has_exporter_names=True,
            nvidia=Nvidia(
                is_enabled=True,
                placement=Placement({"gpu": "true"}, (), "high", placed.resources),
                runtime_class_name="gpus",
                driver_root="/run/nvidia/driver",
                reads_mig=True,
            ),
        ),
        placed,
    )


IMAGES = {"images": {"node": "n:1", "aggregator": "a:1"}}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        pytest.param(None, "images.node of fleet.yaml is missing", id="empty"),
        pytest.param([], "the top of fleet.yaml is [], write a mapping", id="a list"),
        pytest.param(
            {**IMAGES, "node": {"pushIntervall": "5s"}}, "node of fleet.yaml has 'pushIntervall', write only", id="typo"
        ),
        pytest.param(
            {**IMAGES, "imagePullPolicy": "Sometimes"}, "write one of Always, IfNotPresent, Never", id="policy"
        ),
        pytest.param(
            {**IMAGES, "node": {"pushInterval": 5}}, "node.pushInterval of fleet.yaml is 5, write text", id="number"
        ),
        pytest.param({**IMAGES, "node": {"pushInterval": "5"}}, "write for example 20s, 5m or 1h30m", id="no unit"),
        pytest.param({**IMAGES, "node": {"pollInterval": "10s"}}, "is 10s, write from 0.05s to 5s", id="out of bounds"),
        pytest.param({**IMAGES, "node": {"kubeletRoot": "kubelet"}}, "write an absolute path", id="relative path"),
        pytest.param({**IMAGES, "node": {"kubeletRoot": "/a/../etc"}}, "without ..", id="path that climbs"),
        pytest.param({**IMAGES, "node": {"podLogs": "pods"}}, "node.podLogs of fleet.yaml is 'pods'", id="relative"),
        pytest.param(
            {**IMAGES, "devices": {"exporter": "yes"}}, "devices.exporter of fleet.yaml is 'yes'", id="no exporter"
        ),
        pytest.param(
            {**IMAGES, "clock": {"servers": "ntp1"}}, "clock.servers of fleet.yaml is 'ntp1', write a list", id="list"
        ),
        pytest.param(
            {**IMAGES, "clock": {"chrony": {"socket": "/run/chrony/chronyd.sock"}}},
            "clock.chrony.user of fleet.yaml is 0, write the uid of chronyd's user",
            id="chrony without its user",
        ),
        pytest.param(
            {**IMAGES, "clock": {"chrony": {"socket": "chronyd.sock", "user": 991}}},
            "clock.chrony.socket of fleet.yaml is 'chronyd.sock', write an absolute path",
            id="relative socket",
        ),
        pytest.param({**IMAGES, "labels": {"a": 1}}, "labels.a of fleet.yaml is 1, write text", id="label"),
    ],
)
def test_a_wrong_fleet_is_refused_with_the_field_and_what_to_write(document, message):
    with pytest.raises(InvalidFleetError) as refused:
        fleet.fleet(document)

    assert message in str(refused.value)

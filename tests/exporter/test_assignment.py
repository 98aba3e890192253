"""Which pod holds which device."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankbeat_exporter.model.assignment import (
    CONFLICTS,
    PRECEDENCE,
    Allotment,
    Assignment,
    Claimed,
    Conflict,
    Container,
    Held,
    Holder,
    Known,
    Pod,
    Published,
)
from rankbeat_exporter.parsing import pods
from rankbeat_exporter.parsing.assignment import World, assignment

NPUS = tuple(Known("huawei", str(number), f"DIE-{number}") for number in range(8))
GPUS = (Known("nvidia", "0", "GPU-aaaa"), Known("nvidia", "1", "GPU-bbbb"), Known("nvidia", "0:1", "MIG-cccc"))
RESOURCE = "huawei.com/Ascend910"
HAMI = "ascend.project-hami.io"


def a_pod(name="llm-0", container="train", limits=2, resource=RESOURCE, environment=None, **changes):
    """A pod of one container that asks for devices."""
    asked = {resource: limits} if limits else {}
    return Pod(f"uid-{name}", "team-a", name, (Container(container, asked, environment or {}),), **changes)


def allotted(*devices, pod="llm-0", container="train", resource=RESOURCE, pool=""):
    return Allotment("team-a", pod, container, resource, devices, pool)


def held(world):
    """Device -> (pod, container, source), for all that are held, and the kinds of conflicts."""
    found = assignment(world)
    return (
        {one.device: (one.holder.pod, one.holder.container, one.source) for one in found.held},
        [one.kind for one in found.conflicts],
    )


def a_world(*present, allotments=(), devices=NPUS, **changes):
    return World(devices, present, allotments, **changes)


def test_a_device_that_nobody_holds_has_no_holder():
    assert assignment(a_world(a_pod(limits=0))) == Assignment()


def test_the_kubelets_word_is_believed_where_nobody_else_speaks():
    world = a_world(a_pod(), allotments=(allotted("Ascend910-6", "Ascend910-3"),))

    assert assignment(world) == Assignment(
        (
            Held("huawei", "3", Holder("team-a", "llm-0", "train"), "kubelet", 0),
            Held("huawei", "6", Holder("team-a", "llm-0", "train"), "kubelet", 1),
        )
    )


def test_what_was_really_given_outranks_what_the_kubelet_picked_and_that_is_no_conflict():
    """The vendor's own example: kubelet 7,0 and real 0,1."""
    notes = {"huawei.com/AscendReal": "Ascend910-1,Ascend910-0", "huawei.com/kltDev": "Ascend910-7,Ascend910-0"}
    world = a_world(a_pod(annotations=notes), allotments=(allotted("Ascend910-7", "Ascend910-0"),))

    assert held(world) == (
        {"0": ("llm-0", "train", "ascend_real"), "1": ("llm-0", "train", "ascend_real")},
        [],
    )


def test_a_kubelet_that_contradicts_without_an_explanation_is_a_conflict():
    notes = {"huawei.com/AscendReal": "Ascend910-0,Ascend910-1"}
    world = a_world(a_pod(annotations=notes), allotments=(allotted("Ascend910-7", "Ascend910-0"),))

    devices, conflicts = held(world)

    assert sorted(devices) == ["0", "1"]
    assert conflicts == ["sources_disagree"]


@pytest.mark.parametrize(
    ("removed", "source", "devices"),
    [
        (0, "ascend_real", ["0"]),
        (1, "ascend_configuration", ["1"]),
        (2, "rank_table", ["2"]),
        (3, "environment", ["3"]),
        (4, "resource_claim", ["4"]),
        (5, "kubelet", ["5"]),
        (6, "klt_dev", ["6"]),
    ],
)
def test_sources_are_believed_in_this_order(removed, source, devices):
    """Each line lacks the sources of the lines before."""
    environment = {"ASCEND_VISIBLE_DEVICES": "3"}
    table = {
        "status": "completed",
        "server_list": [{"container_ip": "10.0.0.9", "device": [{"device_id": "2", "rank_id": "0"}]}],
    }
    notes = {
        "huawei.com/AscendReal": "Ascend910-0",
        "ascend.kubectl.kubernetes.io/ascend-910-configuration": json.dumps({"devices": [{"device_id": "1"}]}),
        "huawei.com/kltDev": "Ascend910-6",
    }
    said = [
        lambda: notes.pop("huawei.com/AscendReal"),
        lambda: notes.pop("ascend.kubectl.kubernetes.io/ascend-910-configuration"),
        table["server_list"].clear,
        environment.clear,
        lambda: allotments.pop(0),
        lambda: allotments.pop(0),
    ]
    allotments = [allotted("npu-3-0", resource=HAMI, pool="n1"), allotted("Ascend910-5")]
    for remove in said[:removed]:
        remove()
    pod = a_pod(
        limits=1, annotations=notes, environment=environment, address="10.0.0.9", rank_tables=("rings-config-llm",)
    )
    tables = {("team-a", "rings-config-llm"): json.dumps(table)}

    of_claims = Published({Claimed(HAMI, "n1", "npu-3-0"): {"physicalID": "4", "uuid": "n1-3"}})
    found, _ = held(a_world(pod, allotments=tuple(allotments) or None, rank_tables=tables, published=of_claims))

    assert {device: by for device, (_, _, by) in found.items()} == dict.fromkeys(devices, source)


def test_an_annotation_cannot_claim_more_than_was_allotted():
    notes = {"huawei.com/AscendReal": "Ascend910-0,Ascend910-1,Ascend910-2"}
    world = a_world(a_pod(limits=1, annotations=notes), allotments=(allotted("Ascend910-4"),))

    assert held(world) == (
        {"4": ("llm-0", "train", "kubelet")},
        ["more_than_allotted"],
    )


def test_an_annotation_of_a_pod_that_was_allotted_nothing_claims_nothing():
    notes = {"huawei.com/AscendReal": "Ascend910-0"}

    assert held(a_world(a_pod(annotations=notes))) == ({}, ["more_than_allotted"])


def test_where_the_kubelet_is_silent_the_spec_says_how_many_were_allotted():
    notes = {"huawei.com/AscendReal": "Ascend910-0,Ascend910-1"}

    assert list(held(a_world(a_pod(limits=2, annotations=notes), allotments=None))[0]) == ["0", "1"]
    assert held(a_world(a_pod(limits=1, annotations=notes), allotments=None)) == ({}, ["more_than_allotted"])


def test_a_variable_alone_names_devices_where_there_is_no_device_plugin():
    pod = a_pod(limits=0, environment={"ASCEND_VISIBLE_DEVICES": "2-3"})

    assert held(a_world(pod)) == (
        {"2": ("llm-0", "train", "environment"), "3": ("llm-0", "train", "environment")},
        [],
    )


def test_a_privileged_container_sees_all_devices_and_holds_none():
    pod = Pod("u", "team-a", "exporter", (Container("npu", {}, {"ASCEND_VISIBLE_DEVICES": "0-7"}, is_privileged=True),))

    assert held(a_world(pod)) == ({}, [])


def test_a_pod_that_is_gone_holds_nothing_whatever_the_kubelet_says():
    assert held(a_world(allotments=(allotted("Ascend910-0"),))) == ({}, [])


def test_two_pods_with_equal_claims_leave_the_device_without_holder():
    world = a_world(
        a_pod("a", limits=1),
        a_pod("b", limits=1),
        allotments=(allotted("Ascend910-0", pod="a"), allotted("Ascend910-0", pod="b")),
    )

    assert assignment(world) == Assignment(
        (),
        (
            Conflict("several_holders", "huawei", "team-a", "a", "0"),
            Conflict("several_holders", "huawei", "team-a", "b", "0"),
        ),
    )


def test_the_better_source_wins_between_pods_and_the_loser_is_named():
    world = a_world(
        a_pod("a", limits=1, annotations={"huawei.com/AscendReal": "Ascend910-0", "huawei.com/kltDev": "Ascend910-5"}),
        a_pod("b", limits=1),
        allotments=(allotted("Ascend910-5", pod="a"), allotted("Ascend910-0", pod="b")),
    )

    assert assignment(world) == Assignment(
        (Held("huawei", "0", Holder("team-a", "a", "train"), "ascend_real", 0),),
        (Conflict("outranked", "huawei", "team-a", "b", "0"),),
    )


def test_two_containers_of_a_pod_that_share_a_device_leave_the_container_open():
    pod = Pod("u", "team-a", "llm-0", (Container("a", {RESOURCE: 1}), Container("b", {RESOURCE: 1})))
    world = a_world(
        pod, allotments=(allotted("Ascend310P-0-1", container="a"), allotted("Ascend310P-0-2", container="b"))
    )

    assert held(world) == ({"0": ("llm-0", "", "kubelet")}, [])


def test_an_annotation_does_not_say_which_of_two_asking_containers():
    pod = Pod(
        "u",
        "team-a",
        "llm-0",
        (Container("a", {RESOURCE: 1}), Container("b", {RESOURCE: 1})),
        {"huawei.com/AscendReal": "Ascend910-0,Ascend910-1"},
    )
    allotments = (allotted("Ascend910-0", container="a"), allotted("Ascend910-1", container="b"))

    assert held(a_world(pod, allotments=allotments))[0] == {
        "0": ("llm-0", "", "ascend_real"),
        "1": ("llm-0", "", "ascend_real"),
    }


def test_a_device_that_the_node_does_not_have_is_a_conflict_and_nothing_else():
    world = a_world(a_pod(), allotments=(allotted("Ascend910-3", "Ascend910-12"),))

    assert held(world) == ({"3": ("llm-0", "train", "kubelet")}, ["unknown_device"])


def test_the_rank_table_orders_the_local_ranks():
    """Its numbers are texts; rank 5 of the job is the pod's second."""
    devices = [{"device_id": "6", "rank_id": "4"}, {"device_id": "3", "rank_id": "5"}]
    table = json.dumps({"status": "completed", "server_list": [{"container_ip": "10.0.0.9", "device": devices}]})
    pod = a_pod(address="10.0.0.9", rank_tables=("rings-config-llm",))
    world = a_world(
        pod,
        allotments=(allotted("Ascend910-3", "Ascend910-6"),),
        rank_tables={("team-a", "rings-config-llm"): table},
    )

    assert {one.device: one.local_rank for one in assignment(world).held} == {"6": 0, "3": 1}


def test_a_renamed_resource_is_known_by_the_install():
    world = a_world(
        a_pod(resource="acme.example/npu"), allotments=(allotted("acme-1", "acme-2", resource="acme.example/npu"),)
    )

    assert held(world) == ({}, [])
    assert list(held(world._replace(npu_resources=("acme.example/npu",)))[0]) == ["1", "2"]


def test_another_vendors_numbers_are_not_taken_for_npus():
    pods_resource = "example.com/fpga"

    assert held(a_world(a_pod(resource=pods_resource), allotments=(allotted("fpga-0", resource=pods_resource),))) == (
        {},
        [],
    )


@pytest.mark.parametrize(
    ("given", "device"),
    [
        (allotted("GPU-bbbb", resource="nvidia.com/gpu"), "1"),
        (allotted("GPU-bbbb::3", resource="nvidia.com/gpu.shared"), "1"),
        (allotted("MIG-cccc", resource="nvidia.com/mig-1g.10gb"), "0:1"),
        (allotted("nvidia0", resource="nvidia.com/gpu"), "0"),
    ],
)
def test_a_gpu_is_found_by_uuid_or_index(given, device):
    world = a_world(a_pod(resource="nvidia.com/gpu", limits=1), allotments=(given,), devices=GPUS)

    assert list(held(world)[0]) == [device]


@pytest.mark.parametrize(
    ("text", "devices"),
    [("GPU-aaaa", ["0"]), ("0,1", ["0", "1"]), ("all", []), ("none", []), ("void", []), ("MIG-cccc", ["0:1"])],
)
def test_nvidias_variable_names_devices_unless_it_means_all_or_none(text, devices):
    pod = a_pod(limits=0, environment={"NVIDIA_VISIBLE_DEVICES": text})

    assert sorted(held(a_world(pod, devices=GPUS))[0]) == devices


def test_a_gpu_pods_variable_does_not_outrank_the_kubelet():
    pod = a_pod(resource="nvidia.com/gpu", limits=1, environment={"NVIDIA_VISIBLE_DEVICES": "GPU-aaaa"})
    world = a_world(pod, allotments=(allotted("GPU-bbbb", resource="nvidia.com/gpu"),), devices=GPUS)

    assert held(world) == ({"1": ("llm-0", "train", "kubelet")}, ["sources_disagree"])


def test_a_pod_of_the_api_server_is_read():
    given = {
        "metadata": {
            "uid": "u",
            "namespace": "team-a",
            "name": "llm-0",
            "annotations": {
                "huawei.com/Ascend910": "Ascend910-0,Ascend910-1",
                "huawei.com/kltDev": "Ascend910-7",
                "x": "y",
            },
        },
        "spec": {
            "containers": [
                {
                    "name": "train",
                    "resources": {"limits": {"cpu": "1", RESOURCE: "2", "memory": "1Gi"}},
                    "env": [
                        {
                            "name": "ASCEND_VISIBLE_DEVICES",
                            "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['huawei.com/Ascend910']"}},
                        },
                        {"name": "SECRET", "value": "s"},
                    ],
                }
            ],
            "initContainers": [{"name": "once"}, {"name": "beside", "restartPolicy": "Always"}],
            "volumes": [
                {"name": "v", "configMap": {"name": "rings-config-llm"}},
                {"name": "w", "configMap": {"name": "z"}},
            ],
        },
        "status": {"phase": "Running", "podIP": "10.0.0.9"},
    }

    assert pods.pod(given) == Pod(
        "u",
        "team-a",
        "llm-0",
        (
            Container("train", {RESOURCE: 2}, {"ASCEND_VISIBLE_DEVICES": "Ascend910-0,Ascend910-1"}),
            Container("beside"),
        ),
        {"huawei.com/kltDev": "Ascend910-7"},
        "10.0.0.9",
        ("rings-config-llm",),
    )


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_holds_nothing(phase):
    assert pods.pod({"metadata": {"uid": "u"}, "status": {"phase": phase}}) is None


@pytest.mark.parametrize("given", [{}, {"metadata": []}, {"metadata": {"uid": "u"}, "spec": {"containers": [None, 3]}}])
def test_what_is_no_pod_does_not_raise(given):
    assert pods.pod(given) in (None, Pod("u", "", ""))


TEXTS = st.sampled_from(["Ascend910-0", "Ascend910-0,Ascend910-1", "0-7", "3", "npu-9", "Ascend910-2c-111-4", "", "x"])
NAMES = st.sampled_from(["a", "b", "c"])


@st.composite
def worlds(draw):
    """Three pods at most, about which anything may be said, true or not."""
    present = []
    for name in draw(st.sets(NAMES)):
        notes = {
            key: draw(TEXTS) for key in draw(st.sets(st.sampled_from(["huawei.com/AscendReal", "huawei.com/kltDev"])))
        }
        variable = draw(st.none() | TEXTS)
        environment = {} if variable is None else {"ASCEND_VISIBLE_DEVICES": variable}
        present.append(a_pod(name, limits=draw(st.integers(0, 3)), annotations=notes, environment=environment))
    ids = st.lists(TEXTS, max_size=3).map(tuple)
    given = st.builds(
        lambda pod, devices, pool: allotted(*devices, pod=pod, pool=pool), NAMES, ids, st.sampled_from(["", "n1"])
    )
    return World(NPUS, tuple(present), draw(st.none() | st.lists(given, max_size=4).map(tuple)))


@given(worlds())
def test_whatever_is_said_a_device_has_one_holder_at_most_which_is_there_and_the_answer_is_the_same_again(world):
    found = assignment(world)

    devices = [one.device for one in found.held]
    assert len(devices) == len(set(devices))
    assert {one.holder.pod for one in found.held} <= {pod.name for pod in world.pods}
    assert set(devices) <= {one.device for one in NPUS}
    assert assignment(world._replace(pods=world.pods[::-1])) == found


@given(worlds())
def test_what_tenants_may_write_never_holds_more_than_was_allotted(world):
    for name in {pod.name for pod in world.pods}:
        pod = next(pod for pod in world.pods if pod.name == name)
        own = [one for one in world.allotments or () if one.pod == name]
        limit = (
            sum(len(one.devices) for one in own)
            if world.allotments is not None
            else pod.containers[0].limits.get(RESOURCE, 0)
        )
        written = [
            one for one in assignment(world).held if one.holder.pod == name and one.source in ("ascend_real", "klt_dev")
        ]

        assert len(written) <= limit


def test_the_page_explains_every_source_in_order_and_every_conflict():
    page = (Path(__file__).parents[2] / "docs/devices.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|.*?\| (\d?) ?\| (\d?) ?\| (?:yes|no) \|$", page, re.MULTILINE)

    places = {
        "huawei": {name: npu for name, npu, _ in rows if npu},
        "nvidia": {name: gpu for name, _, gpu in rows if gpu},
    }
    assert {vendor: sorted(found, key=found.get) for vendor, found in places.items()} == {
        vendor: list(order) for vendor, order in PRECEDENCE.items()
    }
    assert all(f"| `{kind}` |" in page for kind in CONFLICTS)

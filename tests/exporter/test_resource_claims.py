"""Devices that pods hold by resource claims: what a driver publishes says which they are."""

from __future__ import annotations

import pytest

from rankbeat_exporter.model.assignment import Allotment, Claimed, Known, Pod, Published
from rankbeat_exporter.parsing import resource_slices
from rankbeat_exporter.parsing.assignment import World, assignment, claimed

GPUS = (Known("nvidia", "0", "GPU-aaaa"), Known("nvidia", "1", "GPU-bbbb"), Known("nvidia", "0:1", "MIG-cccc"))
HAMI = "ascend.project-hami.io"
NVIDIA = "gpu.nvidia.com"


def allotted(device, resource, pool=""):
    return Allotment("team-a", "llm-0", "train", resource, (device,), pool)


def held(given, attributes):
    """Device -> (pod, container, source), and the kinds of conflicts, where gpu-1 of pool n1 has these attributes."""
    published = Published({Claimed(NVIDIA, "n1", "gpu-1"): attributes})
    found = assignment(World(GPUS, (Pod("u", "team-a", "llm-0"),), (given,), published))
    return (
        {one.device: (one.holder.pod, one.holder.container, one.source) for one in found.held},
        [one.kind for one in found.conflicts],
    )


@pytest.mark.parametrize(
    ("attributes", "found"),
    [
        ({"uuid": "GPU-aaaa", "type": "gpu"}, ({"0": ("llm-0", "train", "resource_claim")}, [])),
        ({"uuid": "MIG-cccc", "parentUUID": "GPU-aaaa"}, ({"0:1": ("llm-0", "train", "resource_claim")}, [])),
        ({"parentUUID": "GPU-aaaa", "profile": "1g.10gb"}, ({}, ["unknown_device"])),
        ({"uuid": "GPU-elsewhere"}, ({}, ["unknown_device"])),
        ({}, ({}, ["unknown_device"])),
    ],
    ids=["uuid", "mig", "mig-made-on-demand", "unlisted", "nothing-published"],
)
def test_a_claimed_gpu_is_the_one_whose_uuid_its_driver_publishes_whatever_its_name(attributes, found):
    """Minor number 1 may be the driver's GPU 0: dra-driver-nvidia-gpu issues 427 and 563."""
    assert held(allotted("gpu-1", NVIDIA, pool="n1"), attributes) == found


def test_a_pool_of_another_name_has_other_devices():
    assert held(allotted("gpu-1", NVIDIA, pool="n2"), {"uuid": "GPU-aaaa"}) == ({}, ["unknown_device"])


def test_only_devices_that_claims_of_our_vendors_drivers_gave_are_asked_for():
    given = (
        allotted("gpu-1", NVIDIA, pool="n1"),
        allotted("npu-3-0", HAMI, pool="n1"),
        allotted("cpu-2", "dra.cpu", pool="n1"),
        allotted("Ascend910-4", "huawei.com/Ascend910"),
    )

    assert claimed(given) == {Claimed(NVIDIA, "n1", "gpu-1"), Claimed(HAMI, "n1", "npu-3-0")}


def a_slice(generation, *devices, driver=NVIDIA):
    spec = {"driver": driver, "pool": {"name": "n1", "generation": generation}, "devices": list(devices)}
    return {"metadata": {"name": f"n1-{generation}"}, "spec": spec}


def test_the_newest_generation_of_a_pool_says_what_a_name_means():
    index = {"index": {"int": 0}, "healthy": {"bool": True}, "driverVersion": {"version": "570.0.0"}}
    new = a_slice(2, {"name": "gpu-0", "attributes": {"uuid": {"string": "GPU-bbbb"}, **index}}, {"name": "gpu-1"})
    old = a_slice(1, {"name": "gpu-0", "attributes": {"uuid": {"string": "GPU-aaaa"}}})

    assert resource_slices.attributes({"items": [new, old]}) == {
        Claimed(NVIDIA, "n1", "gpu-0"): {"uuid": "GPU-bbbb", "index": "0"},
        Claimed(NVIDIA, "n1", "gpu-1"): {},
    }


@pytest.mark.parametrize(
    "given",
    [{}, {"items": None}, {"items": [None, {"spec": 3}, {"spec": {"devices": [3], "pool": {"generation": "x"}}}]}],
)
def test_what_is_no_list_of_slices_does_not_raise(given):
    assert resource_slices.attributes(given) == {}

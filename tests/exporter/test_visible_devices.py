"""Texts that name devices."""

from __future__ import annotations

import json

import pytest

from rankbeat_exporter.parsing import ascend_annotations, visible_devices


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0,1,2", (0, 1, 2)),
        ("0-3", (0, 1, 2, 3)),
        ("0-3,5,7", (0, 1, 2, 3, 5, 7)),
        ("Ascend910-0,Ascend910-1", (0, 1)),
        ("npu-0,npu-1", (0, 1)),
        (" 2 , 1", (1, 2)),
        ("1,1,0-1", (0, 1)),
        ("", ()),
        ("3-0", ()),
        ("3-0,5", (5,)),
        ("0,x,2,-1,1.5", (0, 2)),
        ("0=1", ()),
        ("0," * 600, ()),
        ("0-99999", ()),
        ("٣", ()),
    ],
)
def test_ascend_visible_devices(text, numbers):
    assert visible_devices.ascend_numbers(text) == numbers


@pytest.mark.parametrize(
    ("device_id", "number"),
    [
        ("Ascend910-3", 3),
        ("npu-12", 12),
        ("Ascend310P-5", 5),
        ("Ascend910-3_pool-a", 3),
        ("Ascend910-2c-111-0", 0),
        ("Ascend310P-4c.3cpu-100-1", 1),
        ("Ascend310P-0-99", 0),
        ("renamed-7", 7),
        ("Ascend910", None),
        ("3", None),
        ("GPU-aaaa", None),
        ("", None),
    ],
)
def test_ids_of_ascends_device_plugin(device_id, number):
    assert visible_devices.ascend_number(device_id) == number


def test_the_order_of_an_annotations_list_says_nothing():
    assert ascend_annotations.chips("Ascend910-10,Ascend910-2,bad,Ascend910-2") == ("2", "10")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "[" * 100000, '{"devices": 3}', '{"devices": [{"device_id": "x"}]}']
)
def test_a_configuration_that_is_none_names_no_chip(text):
    assert ascend_annotations.configured_chips({ascend_annotations.CONFIGURATIONS[0]: text}) == ()


def test_the_configuration_of_the_newest_products_is_read_too():
    notes = {
        "ascend.kubectl.kubernetes.io/ascend-npu-configuration": '{"devices": [{"device_id": 3}, {"device_id": "1"}]}'
    }

    assert ascend_annotations.configured_chips(notes) == ("1", "3")


@pytest.mark.parametrize(
    ("changes", "chips"),
    [
        ({}, ("4", "2")),
        ({"status": "initializing"}, ()),
        ({"server_list": "none"}, ()),
        ({"server_list": [{"container_ip": "10.0.0.2", "device": [{"device_id": "1", "rank_id": "0"}]}]}, ()),
    ],
)
def test_a_rank_table_names_the_pods_chips_in_the_order_of_ranks_once_it_is_complete(changes, chips):
    devices = [{"device_id": "2", "rank_id": "9"}, {"device_id": "4", "rank_id": "8"}]
    table = {"status": "completed", "server_list": [{"container_ip": "10.0.0.1", "device": devices}], **changes}

    assert ascend_annotations.ranked_chips(json.dumps(table), "10.0.0.1") == chips

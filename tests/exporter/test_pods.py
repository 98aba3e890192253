"""The join as it is served: labels, holders, conflicts, and what happens when a source falls silent."""

from __future__ import annotations

import pytest

from rankbeat_exporter.collectors.devices import DevicesCollector
from rankbeat_exporter.collectors.devices_series import DevicesSeries
from rankbeat_exporter.collectors.pods import PodsCollector, Sources
from rankbeat_exporter.errors import CannotMeasure, InvalidConfiguration
from rankbeat_exporter.model.accelerator import Answer, RawChip, Snapshot
from rankbeat_exporter.model.assignment import Allotment, Claimed, Container, Pod, Published
from rankbeat_exporter.model.configuration import DevicesSection
from rankbeat_exporter.server import parts
from rankbeat_exporter.server.exposition import text

RESOURCE = "huawei.com/Ascend910"
CHIPS = tuple(
    RawChip(card, 0, {"physical_id": Answer(0, (card,)), "temperature": Answer(0, (40 + card,))}) for card in (0, 1)
)


class Clock:
    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return 1796018231.25 + self.seconds, 100.0 + self.seconds


class Node:
    """Two chips, and sources that a test may change."""

    def __init__(self, *pods, allotments=()):
        self.pods = pods
        self.allotments = allotments
        self.published = Published()
        self.asked = []
        self.now = Clock()
        devices = DevicesCollector(lambda: (Snapshot("", chips=CHIPS),), 21.0, self.now)
        self._devices = devices
        sources = Sources(devices.known, self._allotted, lambda: self.pods, self._published)
        self._pods = PodsCollector(sources, 21.0, self.now)
        self._series = DevicesSeries("n1", devices.view, self._pods.view)

    def _allotted(self):
        if isinstance(self.allotments, Exception):
            raise self.allotments
        return self.allotments

    def _published(self, claimed):
        self.asked.append(claimed)
        return self.published

    def scrape(self, *starts):
        """Samples whose lines begin so, after a new round."""
        self._devices.collect()
        self._pods.collect()
        return self.shown(*starts)

    def shown(self, *starts):
        return [line for line in text(self._series.collect()).decode().splitlines() if line.startswith(starts)]


def a_pod(name="llm-0"):
    return Pod(f"uid-{name}", "team-a", name, (Container("train", {RESOURCE: 1}),))


def given(device, pod="llm-0"):
    return Allotment("team-a", pod, "train", RESOURCE, (device,))


TEMPERATURE = "rankbeat_node_accelerator_temperature_celsius{"
HOLDER = "rankbeat_node_accelerator_holder{"
CONFLICTS = "rankbeat_node_accelerator_holder_conflicts_total{"
PODS_SUCCESS = 'rankbeat_node_collector_success{collector="pods"'
PODS_FAILURE = 'rankbeat_node_collector_failure{collector="pods"'


def test_a_device_carries_the_pod_that_holds_it_and_the_others_carry_empty_labels():
    node = Node(a_pod(), allotments=(given("Ascend910-1"),))

    assert node.scrape(TEMPERATURE, HOLDER, PODS_SUCCESS) == [
        (
            'rankbeat_node_accelerator_temperature_celsius{container="",device="0",model="",namespace="",node="n1",pod="",'
            'uuid="",vendor="huawei"} 40.0'
        ),
        (
            'rankbeat_node_accelerator_temperature_celsius{container="train",device="1",model="",namespace="team-a",'
            'node="n1",pod="llm-0",uuid="",vendor="huawei"} 41.0'
        ),
        (
            'rankbeat_node_accelerator_holder{container="train",device="1",local_rank="0",namespace="team-a",node="n1",'
            'pod="llm-0",source="kubelet",vendor="huawei"} 1.0'
        ),
        'rankbeat_node_collector_success{collector="pods",node="n1"} 1.0',
    ]


def test_the_pods_series_end_with_the_round_after_the_pod():
    node = Node(a_pod(), allotments=(given("Ascend910-1"),))
    node.scrape()

    node.pods = ()

    assert node.scrape(HOLDER) == []
    assert not any('pod="llm-0"' in line for line in node.shown("rankbeat_"))
    assert len(node.shown(TEMPERATURE)) == 2


def test_before_the_api_server_has_spoken_no_pod_is_named():
    node = Node(a_pod(), allotments=(given("Ascend910-1"),))
    node.pods = None

    assert node.scrape(HOLDER, PODS_SUCCESS, PODS_FAILURE) == [
        'rankbeat_node_collector_success{collector="pods",node="n1"} 0.0',
        'rankbeat_node_collector_failure{collector="pods",node="n1",reason="PodsUnknown"} 1.0',
    ]


def test_a_silent_kubelet_is_said_and_devices_are_served_without_its_word():
    node = Node(a_pod(), allotments=CannotMeasure("KubeletUnavailable"))

    assert len(node.scrape(TEMPERATURE)) == 2
    assert node.shown(HOLDER) == []
    assert node.shown(PODS_FAILURE) == [
        'rankbeat_node_collector_failure{collector="pods",node="n1",reason="KubeletUnavailable"} 1.0'
    ]


def test_a_claimed_device_carries_its_pod_as_its_driver_publishes_it():
    device = Claimed("ascend.project-hami.io", "n1", "npu-0-0")
    node = Node(a_pod(), allotments=(Allotment("team-a", "llm-0", "train", device.driver, (device.device,), "n1"),))
    node.published = Published({device: {"physicalID": "1"}})

    assert node.scrape(HOLDER, PODS_SUCCESS) == [
        (
            'rankbeat_node_accelerator_holder{container="train",device="1",local_rank="0",namespace="team-a",node="n1",'
            'pod="llm-0",source="resource_claim",vendor="huawei"} 1.0'
        ),
        'rankbeat_node_collector_success{collector="pods",node="n1"} 1.0',
    ]
    assert node.asked == [{device}]


def test_slices_that_cannot_be_read_are_said_and_the_kubelets_other_word_is_served():
    claim = Allotment("team-a", "b", "train", "ascend.project-hami.io", ("npu-0-0",), "n1")
    node = Node(a_pod("a"), a_pod("b"), allotments=(given("Ascend910-1", "a"), claim))
    node.published = Published(reason="ApiRefused", detail="403")

    assert len(node.scrape(HOLDER)) == 1
    assert node.shown(CONFLICTS, PODS_FAILURE) == [
        'rankbeat_node_accelerator_holder_conflicts_total{kind="unknown_device",node="n1",vendor="huawei"} 1.0',
        'rankbeat_node_collector_failure{collector="pods",node="n1",reason="ApiRefused"} 1.0',
    ]


def test_a_conflict_counts_once_however_long_it_stands_and_again_when_it_comes_back():
    both = (given("Ascend910-1", "a"), given("Ascend910-1", "b"))
    node = Node(a_pod("a"), a_pod("b"), allotments=both)
    labels = '{kind="several_holders",node="n1",vendor="huawei"}'
    name = "rankbeat_node_accelerator_holder_conflicts_total"

    assert node.scrape(CONFLICTS) == [f"{name}{labels} 2.0"]
    assert node.scrape(CONFLICTS) == [f"{name}{labels} 2.0"]
    node.allotments = both[:1]
    assert node.scrape(CONFLICTS) == [f"{name}{labels} 2.0"]
    node.allotments = both
    assert node.scrape(CONFLICTS) == [f"{name}{labels} 4.0"]


def test_a_reading_that_is_too_old_names_no_pod():
    node = Node(a_pod(), allotments=(given("Ascend910-1"),))
    node.scrape()

    node.now.seconds = 21.5

    assert node.shown(HOLDER) == []
    assert node.shown(PODS_FAILURE) == [
        'rankbeat_node_collector_failure{collector="pods",node="n1",reason="Stale"} 1.0'
    ]


def test_without_a_join_nothing_is_said_of_pods():
    devices = DevicesCollector(lambda: (Snapshot("", chips=CHIPS),), 21.0)
    devices.collect()

    body = text(DevicesSeries("n1", devices.view).collect())

    assert b"pods" not in body
    assert HOLDER.encode() not in body


def test_outside_a_cluster_a_join_is_refused_with_what_to_do():
    section = DevicesSection(socket="/nowhere", pod_resources="/var/lib/kubelet/pod-resources/kubelet.sock")

    with pytest.raises(InvalidConfiguration, match="needs the API server: outside a cluster leave it out"):
        parts.devices_part("n1", section)

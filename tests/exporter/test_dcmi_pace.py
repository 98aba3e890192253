"""How often NPUs are asked, how long one call may take, and what becomes of one that does not return."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

import pytest

from rankbeat_exporter.collectors.devices import DevicesCollector
from rankbeat_exporter.model.accelerator import CODE_HUNG, Answer, RawChip, Snapshot, ToolText
from rankbeat_exporter.parsing import dcmi as meaning
from rankbeat_exporter.parsing import vendor
from rankbeat_exporter.sources import dcmi, dcmi_calls, dcmi_places, dcmi_schedule, driver_roots, vendor_supervisor
from rankbeat_exporter.sources.call_watch import CallWatch
from rankbeat_exporter.sources.dcmi_schedule import Schedule

REPOSITORY = Path(__file__).parents[2]
CHIPS = ((0, 0), (1, 0))
FIRST_GENERATION = tuple(call for call in (*dcmi_calls.IDENTITY, *dcmi_calls.FIGURES) if call.symbol)


HEALTHY, ILL = Answer(0, (0,)), Answer(0, (2,))


class Node:
    """NPUs in invented time: each call takes as long as seconds(call) says. asked: what was asked in this round."""

    def __init__(self, calls=FIRST_GENERATION, seconds=lambda _: 0.0):
        self.now = 1000.0
        self.asked = []
        self.answers = {"health": HEALTHY}
        self._seconds = seconds
        self.schedule = Schedule(calls, self._ask, lambda: self.now)

    def _ask(self, call, chip, answers):
        del answers
        self.now += self._seconds(call)
        self.asked.append((chip, call.key))
        return self.answers.get(call.key, Answer(0, (1,)))

    def round(self, chips=CHIPS, later=5.0):
        self.now += later
        self.asked = []
        return self.schedule.rounds(chips)


def keys(asked, chip=(0, 0)):
    return {key for one, key in asked if one == chip}


def test_all_is_asked_first_and_then_what_can_change_at_once():
    node = Node()

    first = node.round()
    everything = keys(node.asked)
    second = node.round()

    assert everything == set(first[0, 0].answers)
    assert first[0, 0].repeated == ()
    assert keys(node.asked) == {
        "health", "utilization", "vector_utilization", "cube_utilization", "overall_utilization", "frequency",
    }  # fmt: skip
    assert set(second[0, 0].answers) == everything
    assert set(second[0, 0].repeated) == everything - keys(node.asked)


@pytest.mark.parametrize("health", [ILL, Answer(-8008)], ids=["ill", "says nothing"])
def test_error_codes_are_asked_in_each_round_while_the_npu_is_not_healthy(health):
    node = Node()
    node.round()
    node.round()
    while_healthy = "errors" in keys(node.asked)

    node.answers["health"] = health
    while_ill = ["errors" in keys(node.round() and node.asked) for _ in range(2)]

    assert (while_healthy, while_ill) == (False, [True, True])


def test_what_an_npu_is_stays_until_it_is_asked_again_ten_minutes_later():
    node = Node()
    node.round()

    node.round(later=599.0)
    early = keys(node.asked)
    node.round(later=2.0)

    assert "die" not in early
    assert "die" in keys(node.asked)


def test_an_npu_whose_name_is_unknown_is_asked_for_it_in_each_round():
    node = Node()
    node.answers["die"] = Answer(-8012)
    node.round()
    node.round()
    asked_again = "die" in keys(node.asked)

    del node.answers["die"]
    node.round()
    node.round()

    assert asked_again
    assert "die" not in keys(node.asked)


def test_an_npu_that_comes_or_goes_makes_all_be_asked_anew():
    node = Node()
    everything = len(keys(node.round() and node.asked))

    node.round(((0, 0),))

    assert len(node.asked) == everything


def test_an_answer_that_is_not_renewed_is_unknown_in_the_end():
    """After a pause of an hour the first call that can wait takes all of the round's time."""
    pace = {"seconds": 0.0}
    node = Node(seconds=lambda call: pace["seconds"] if call.key == "network_health" else 0.0)
    first = node.round(((0, 0),))

    pace["seconds"] = 2.0
    last = node.round(((0, 0),), later=3600.0)

    assert "voltage" in first[0, 0].answers
    assert "voltage" not in last[0, 0].answers
    assert "health" in last[0, 0].answers


def slowest_published(call):
    """10 ms a call, 150 ms where a bandwidth is measured."""
    return 0.15 if call.key.endswith("_bandwidth") else 0.01


def test_sixteen_npus_with_the_slowest_published_latencies_fit_the_deadline_and_none_is_forgotten():
    node = Node(seconds=slowest_published)
    chips = tuple((card, 0) for card in range(16))
    durations, seen = [], {}

    for number in range(60):
        begin = node.now + 5.0
        node.round(chips)
        durations.append(node.now - begin)
        for one in node.asked:
            seen.setdefault(one, []).append(number)

    inventory = 16 * 2 * 0.01
    assert max(durations) + inventory < 4.0
    assert len(seen) == 16 * len([call for call in FIRST_GENERATION if call.key != "card_power"])
    assert max(numbers[0] for numbers in seen.values()) <= 12


def test_what_waits_longest_is_asked_first():
    node = Node(seconds=slowest_published)
    chips = tuple((card, 0) for card in range(16))
    for _ in range(40):
        node.round(chips)

    bandwidths = {}
    for number in range(40):
        node.round(chips)
        for chip, key in node.asked:
            if key == "hccs_bandwidth":
                bandwidths.setdefault(chip, []).append(number)

    counts = [len(numbers) for numbers in bandwidths.values()]
    assert len(counts) == 16
    assert max(counts) - min(counts) <= 1


@pytest.fixture
def child(driver_root, script, monkeypatch):
    """A VendorChild over the double whose calls may take 0.4 s each."""
    monkeypatch.setenv("DCMI_DOUBLE_SCRIPT", str(script.path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(str(REPOSITORY / part) for part in ("node_exporter", "agent")))
    roots = driver_roots.DriverRoots(driver_root)
    made = vendor_supervisor.VendorChild(partial(vendor_supervisor.start_child, "huawei", roots, 0.4), 10.0)
    yield made
    made.close()


def test_a_call_that_hangs_is_named_and_then_left_out_while_all_others_are_made(child, script):
    child.snapshot()
    script("1/0 hang dcmi_get_device_health\n")

    begin = time.monotonic()
    hung = child.snapshot()
    took = time.monotonic() - begin
    after = child.snapshot()

    assert (hung.reason, hung.hung, hung.chips) == ("DriverHung", "health 1/0", ())
    assert 0.4 <= took < 1.5
    assert (after.reason, after.restarts, after.unkillable) == ("", 1, 0)
    assert [chip.answers["health"] for chip in after.chips] == [(0, (0,)), (CODE_HUNG, ())]
    assert meaning.accelerator(after.chips[1])[1] == (("health", "hung"),)


@pytest.mark.parametrize(
    ("symbol", "named"),
    [
        ("dcmi_init", "dcmi_init"),
        ("dcmi_get_card_list", "dcmi_get_card_list"),
        ("dcmi_get_device_id_in_card", "devices_in_card 0"),
        ("dcmi_get_device_type", "type 0/0"),
    ],
)
def test_a_hang_before_the_first_figure_is_named_too_and_costs_no_whole_deadline(child, script, symbol, named):
    script(f"hang {symbol}\n")

    begin = time.monotonic()
    hung = child.snapshot()
    took = time.monotonic() - begin

    assert (hung.reason, hung.hung) == ("DriverHung", named)
    assert 0.4 <= took < 2.5  # with the child's start
    script("")
    assert len(child.snapshot().chips) == 2


def test_a_chip_whose_type_is_left_out_after_a_hang_stays_listed_and_is_read(child, script):
    script("1/0 hang dcmi_get_device_type\n")
    child.snapshot()

    after = child.snapshot()

    assert [chip.answers["health"].code for chip in after.chips] == [0, 0]


@pytest.mark.parametrize(
    ("symbol", "named"), [("dcmiv2_init", "dcmiv2_init"), ("dcmiv2_get_device_list", "dcmiv2_get_device_list")]
)
def test_a_hang_in_the_second_generations_inventory_is_named(doubles, tmp_path, script, monkeypatch, symbol, named):
    library = doubles.build_dcmi(tmp_path, symbols="dcmiv2_*")
    late = []
    watch = CallWatch(0.2, lambda call: (late.append(call), script("")))
    monkeypatch.setenv("DCMI_DOUBLE_SCRIPT", str(script.path))
    script(f"hang {symbol}\n")

    dcmi.Dcmi((library,), watch).chips()

    assert late == [named]


def test_a_call_that_hung_is_made_again_after_a_while(child, script, monkeypatch):
    script("1/0 hang dcmi_get_device_health\n")
    child.snapshot()
    script("")

    child._left_out["health 1/0"] = time.monotonic() - 1

    assert [chip.answers["health"].code for chip in child.snapshot().chips] == [0, 0]


def test_a_hang_is_counted_by_the_call_and_shown_as_its_deadline(child, script):
    script("0/0 hang dcmi_get_device_health\n")
    collector = DevicesCollector(lambda: (child.snapshot(),), 60.0)

    collector.collect()
    (view,) = collector.view().vendors

    assert view.failures == ((("health", "deadline"), 1),)
    assert (view.accelerators, view.source) == (None, "")


def test_a_slow_call_within_its_deadline_is_no_hang(child, script):
    script("latency dcmi_get_device_health 150\n")

    assert child.snapshot().reason == ""


def test_published_latencies_are_played_by_the_double(driver_root, script, monkeypatch):
    monkeypatch.setenv("DCMI_DOUBLE_SCRIPT", str(script.path))
    library = dcmi.Dcmi(dcmi_places.library_paths(driver_root))
    script((REPOSITORY / "dev/doubles/dcmi/realistic.txt").read_text() + "cards 0\n")

    begin = time.monotonic()
    library.chips()
    took = time.monotonic() - begin

    asked = len(FIRST_GENERATION)
    assert 0.2 + asked * 0.001 < took < 0.3 + dcmi_schedule.BUDGET_SECONDS + asked * 0.012


def test_a_watch_without_a_limit_starts_no_thread_and_calls_nobody():
    watch = CallWatch(0.0, lambda _: pytest.fail("called"))

    with watch.round(), watch.watched("health 0/0"):
        pass


def test_what_the_wire_carries_of_a_collection_beside_answers():
    chip = RawChip(0, 0, {"voltage": Answer(0, (88,))}, repeated=("voltage",))
    text = ToolText("hccn_tool -i 0 -link -g", "", "link status: UP\n")
    given = Snapshot("", chips=(chip,), unkillable=1, hung="", texts=(text,), repeated_texts=(text.command,))

    found = vendor.Reader().snapshot(vendor.snapshot_bytes(given))

    assert found == given
    assert found.chips[0].repeated == ("voltage",)

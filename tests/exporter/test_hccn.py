"""hccn_tool's texts: links, speeds, counters, optics in base units, and nothing that they do not say."""

from __future__ import annotations

import math
import random

import pytest

from ascend_support import FIXTURES, MUTATIONS, fixture, mutated, said
from rankbeat_exporter.model.accelerator import Answer, RawChip, Snapshot, ToolText
from rankbeat_exporter.parsing import ascend, hccn, network_counters


@pytest.mark.parametrize(
    ("text", "is_up"),
    [
        (fixture("hccn_link_up"), True),
        ("link status: DOWN\n", False),
        ("link status: \n", None),
        ("hccn_tool is busy, please try again\n", None),
        ("link status: UP\nlink status: DOWN\n", None),
    ],
)
def test_a_link_is_up_or_down_or_unknown(text, is_up):
    assert hccn.link_is_up(text) is is_up


@pytest.mark.parametrize(
    ("words", "state"),
    [
        ("Success", "success"), ("Socket fail", "socket_fail"), ("Socket failed", "socket_fail"),
        ("Receive timeout", "receive_timeout"), ("Unreachable", "unreachable"), ("Time exceeded", "time_exceeded"),
        ("Fault", "fault"), ("Init", "init"), ("Thread error", "thread_error"), ("Detect ip set", "detect_ip_set"),
        ("Unknown", None), ("", None),
    ],
)  # fmt: skip
def test_the_probes_state_is_one_of_the_librarys(words, state):
    assert hccn.network_state(f"net health status: {words}\n") == state


@pytest.mark.parametrize(
    ("text", "gigabits"),
    [
        (fixture("hccn_speed"), 200.0),
        ("Speed: 100000 Mb/s\n", 100.0),
        ("Speed: 200 G\n", 200.0),
        (fixture("hccn_speed_950"), 400.0),
        ("Speed: Unknown!\n", None),
        ("Speed: 100 furlongs\n", None),
    ],
)
def test_a_speed_is_bytes_a_second_whatever_its_unit(text, gigabits):
    assert hccn.speed_bytes_per_second(text) == (gigabits and gigabits * 1e9 / 8)


@pytest.mark.parametrize(
    ("name", "changes"), [("hccn_link_stat", {"up": 2, "down": 1}), ("hccn_link_stat_old", {"up": 2})]
)
def test_changes_of_the_link_are_counted_and_their_times_without_a_zone_ignored(name, changes):
    assert hccn.link_changes(fixture(name)) == changes


def test_counters_bear_the_librarys_names_also_where_the_tool_has_its_own():
    rows = list(network_counters.rows("0", hccn.counters(fixture("hccn_stat"))))

    assert rows == [
        ("network_pause_packets_total", ("0", "transmit"), 0.0),
        ("network_pause_packets_total", ("0", "receive"), 3.0),
        ("network_packets_total", ("0", "transmit"), 14.0),
        ("network_bytes_total", ("0", "transmit"), 123456789012.0),
        ("network_errors_total", ("0", "retransmit"), 7.0),
        ("network_errors_total", ("0", "queue_pair"), 1.0),
        ("network_errors_total", ("0", "unexpected_ack"), 2.0),
    ]


OPTICS = {
    ("optical_present",): 1.0,
    ("optical_temperature_celsius",): 45.0,
    ("optical_voltage_volts",): 3.3001,
    ("optical_power_watts", "transmit", "0"): 0.0010223,
    ("optical_power_watts", "transmit", "1"): 0.0009971,
    ("optical_power_watts", "receive", "0"): 0.0008,
    ("optical_bias_amperes", "0"): 0.007936,
}


def test_optics_are_in_base_units_and_what_is_na_is_absent():
    assert hccn.optics(fixture("hccn_optical")) == pytest.approx(OPTICS)


def test_an_absent_module_is_absent():
    assert hccn.optics(fixture("hccn_optical_absent")) == {("optical_present",): 0.0}


def test_not_present_with_full_readings_says_nothing_of_the_presence():
    text = fixture("hccn_optical").replace(": present", ": not present")

    assert hccn.optics(text) == pytest.approx({key: OPTICS[key] for key in OPTICS if key != ("optical_present",)})


def test_an_unreachable_module_gives_nothing():
    assert hccn.optics("optical info:\nControl link unreachable\n") == {}


def test_the_second_generations_table_has_pairs_in_boxes_and_power_in_decibels():
    assert hccn.optics(fixture("hccn_optical_950")) == pytest.approx(
        {
            ("optical_temperature_celsius",): 41.0,
            ("optical_voltage_volts",): 3.301,
            ("optical_power_watts", "transmit", "0"): math.pow(10, 0.05) / 1000,
        }
    )


def test_two_pairs_on_a_line_are_two():
    assert hccn.pairs(fixture("hccn_gateway")) == {"default gateway": "192.0.2.1", "iface": "eth0"}


def a_chip(**answers):
    return RawChip(0, 0, {"logic_id": Answer(0, (0,)), "physical_id": Answer(0, (6,)), **answers})


def texts(**outputs):
    commands = {question: ascend.hccn_command("6", question) for question in outputs}
    return tuple(
        ToolText(commands[question], *(("", given) if isinstance(given, str) else given))
        for question, given in outputs.items()
    )


def test_links_and_optics_are_added_to_the_chip_with_the_physical_id():
    asked = texts(link="link status: UP\n", speed="Speed: 100000 Mb/s\n", link_stat=fixture("hccn_link_stat"))

    (reading,), failures, source = ascend.readings(Snapshot("", chips=(a_chip(),), texts=asked))

    assert reading.rows == {
        "link_up": {("0",): 1.0},
        "link_speed_bytes_per_second": {("0",): 1.25e10},
        "link_changes_total": {("0", "up"): 2.0, ("0", "down"): 1.0},
    }
    assert (failures, source) == ((), "library")


def test_what_the_library_says_itself_is_not_asked_of_the_tool_twice():
    chip = a_chip(network_health=Answer(0, (5,)))

    (reading,), _, _ = ascend.readings(
        Snapshot("", chips=(chip,), texts=texts(net_health="net health status: Success\n"))
    )

    assert reading.rows["network_healthy"] == {("fault",): 0.0}


def test_a_tool_that_fails_or_prints_something_else_is_counted_and_adds_nothing():
    asked = texts(link=("timed_out", ""), optical="no such command\n")

    (reading,), failures, _ = ascend.readings(Snapshot("", chips=(a_chip(),), texts=asked))

    assert reading.rows == {}
    assert failures == (("hccn_tool -link", "timed_out"), ("hccn_tool -optical", "output_unknown"))


def values_of(text):
    """What all parsers make of a text."""
    yield from hccn.link_changes(text).values()
    yield from hccn.counters(text).values()
    for (figure, *_), number in hccn.optics(text).items():
        if figure in ("optical_power_watts", "optical_bias_amperes", "optical_voltage_volts"):
            yield number * 1000 if "dBm" not in text and "V\n" not in text.replace("mV", "") else math.nan
        elif figure != "optical_present":
            yield number
    speed = hccn.speed_bytes_per_second(text)
    if speed is not None:
        yield speed * 8 / (1e6 if "Mb/s" in text else 1e9)


@pytest.mark.parametrize("name", sorted(path.stem for path in FIXTURES.glob("hccn_*.txt")))
def test_ten_thousand_mutations_neither_crash_nor_invent_a_value(name):
    """Divided among the outputs."""
    chance = random.Random(f"hccn {name}")
    for _ in range(MUTATIONS // len(list(FIXTURES.glob("hccn_*.txt"))) + 1):
        text = mutated(fixture(name), chance)

        numbers = said(text)
        for value in values_of(text):
            assert math.isnan(value) or any(abs(value - each) <= 1e-6 * max(1.0, abs(each)) for each in numbers), (
                value,
                text,
            )
        assert hccn.link_is_up(text) in (
            None,
            *((True,) if "UP" in text else ()),
            *((False,) if "DOWN" in text else ()),
        )
        assert hccn.network_state(text) is None or "health status" in text

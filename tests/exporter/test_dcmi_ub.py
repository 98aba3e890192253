"""Ports between NPUs of a 950, by udie and port: links, flits, errors, and those that carry UB over Ethernet."""

from __future__ import annotations

import pytest

from rankbeat_exporter.model.accelerator import Answer, RawChip
from rankbeat_exporter.parsing import dcmi as meaning
from rankbeat_exporter.parsing import ub_ports
from rankbeat_exporter.sources import dcmi_ub_calls


@pytest.fixture(scope="module")
def root_950(doubles, tmp_path_factory):
    root = tmp_path_factory.mktemp("driver-950")
    doubles.build_dcmi(root, symbols="dcmiv2_*")
    return root


@pytest.fixture
def read(read_npus, root_950):
    """The first NPU's reading and failures."""
    return lambda text="": read_npus(f"cards 0\n{text}", root_950)[0]


def said(reading, figure):
    """The figure's numbers, zeros left out."""
    return {labels: number for labels, number in reading.rows.get(figure, {}).items() if number}


def test_ports_are_those_that_the_board_lists_each_with_its_udie(read):
    reading, failures = read("ub_ports 0/0 0/8 1/0 1/8\n")

    assert failures == ()
    assert set(reading.rows["ub_crc_errors_total"]) == {("0", "0"), ("0", "8"), ("1", "0"), ("1", "8")}


def test_counters_of_a_port_are_named_by_what_they_count(read):
    counted = {
        "rx_busi_flit_num": 100, "tx_busi_flit_num": 200, "retry_req_sum": 3, "retry_ack_sum": 4, "crc_error_sum": 5,
        "route_err_cnt_rx": 6, "out_err_cnt_rx": 7, "length_err_cnt_tx": 8, "drop_ind_cnt_rx": 9, "err_ind_cnt_tx": 10,
        "unknown_pkt_cnt_tx": 11,
    }  # fmt: skip

    reading, _ = read("ub_ports 1/3\n" + "".join(f"ub_packets/1/3 {name} {n}\n" for name, n in counted.items()))

    assert said(reading, "ub_flits_total") == {("1", "3", "receive"): 100.0, ("1", "3", "transmit"): 200.0}
    assert said(reading, "ub_retries_total") == {("1", "3", "requested"): 3.0, ("1", "3", "answered"): 4.0}
    assert said(reading, "ub_crc_errors_total") == {("1", "3"): 5.0}
    assert said(reading, "ub_errors_total") == {
        ("1", "3", "receive", "route"): 6.0, ("1", "3", "receive", "check"): 7.0,
        ("1", "3", "transmit", "length"): 8.0, ("1", "3", "receive", "drop"): 9.0,
        ("1", "3", "transmit", "error"): 10.0, ("1", "3", "transmit", "unknown"): 11.0,
    }  # fmt: skip


def test_a_port_that_carries_ethernet_has_the_counters_of_a_network_port_and_another_has_not(read):
    text = "".join(
        f"ub_packets/1/{port} core_mib_rx{name} {n}\n"
        for port in (7, 8)
        for name, n in (("pausepkts", 1), ("pfcpkts", 2), ("badpkts", 3), ("badoctets", 4))
    )

    reading, _ = read(f"ub_ports 1/7 1/8:1\nreturn dcmiv2_get_netdev_pkt_stats_info -8255\n{text}")

    assert said(reading, "network_pause_packets_total") == {("1/8", "receive"): 1.0}
    assert said(reading, "network_pfc_packets_total") == {("1/8", "receive"): 2.0}
    assert said(reading, "network_bad_packets_total") == {("1/8", "receive"): 3.0}
    assert said(reading, "network_bad_bytes_total") == {("1/8", "receive"): 4.0}


def test_a_count_that_is_unknown_is_absent_and_the_others_stay(read):
    reading, _ = read("ub_ports 0/4\nub_packets/0/4 crc_error_sum 0xFFFFFFFFFFFFFFFF\n")

    assert "ub_crc_errors_total" not in reading.rows
    assert reading.rows["ub_retries_total"] == {("0", "4", "requested"): 0.0, ("0", "4", "answered"): 0.0}


def test_a_port_that_does_not_answer_is_counted_once_and_hides_no_other(read):
    reading, failures = read(
        "ub_ports 0/4 0/5 0/6\nreturn dcmiv2_get_port_pkt_stats_info/0/4 -8005\n"
        "return dcmiv2_get_port_pkt_stats_info/0/6 -8005\n"
    )

    assert failures == (("ub_packets", "-8005"),)
    assert set(reading.rows["ub_crc_errors_total"]) == {("0", "5")}


def test_a_board_that_does_not_list_its_ports_shows_none(read):
    reading, failures = read("ub_ports\n")

    assert failures == (("ub_ports", "-8255"),)
    assert not [figure for figure in reading.rows if figure.startswith("ub_") and figure != "ub_link_up"]


@pytest.mark.parametrize(
    ("states", "rows"),
    [
        ("1 4:1 5:1", {("0", "4", "full"): 1.0, ("0", "5", "full"): 1.0}),
        ("2 4:2 8:3", {("0", "4", "partial"): 1.0, ("0", "8", "none"): 0.0}),
        ("3 4:1 8:3", {("0", "4", "full"): 1.0}),
        ("0", {}),
        ("1 4:9 5:1", {("0", "5", "full"): 1.0}),
        ("1 9:1", {}),
    ],
    ids=["all", "some lanes, one down", "no link needed", "no port", "unknown state", "beyond a card's ports"],
)
def test_the_link_of_a_port_is_up_over_all_or_some_of_its_lanes(read, states, rows):
    reading, failures = read(f"ub_links {states}\n")

    assert (reading.rows.get("ub_link_up", {}), failures) == (rows, ())


def test_a_server_whose_driver_tells_no_links_shows_none(read):
    """The call is one of cards."""
    reading, failures = read("ub_links\n")

    assert "ub_link_up" not in reading.rows
    assert failures == (("ub_links", "-8255"),)


def test_npus_of_the_first_generation_are_not_asked_for_such_ports(read_npus):
    found = read_npus("ub_ports 0/4\n")

    assert [figure for one, _ in found for figure in one.rows if figure.startswith("ub_")] == []
    assert [failures for _, failures in found] == [(), ()]


def test_each_port_that_the_vendors_structure_can_list_has_a_call():
    keys = [call.key for call in dcmi_ub_calls.CALLS]

    assert len(keys) == len(set(keys)) == 2 + 2 * 32


@pytest.mark.parametrize(
    ("call", "values"),
    [
        ("ub_packets 0/4", ()),
        ("ub_packets 0/4", (0, 4, 4, 0, 1)),
        ("ub_packets 0/4", ("text",) * 52),
        ("ub_packets 0/4", tuple(range(60))),
        ("ub_links", ()),
        ("ub_links", (1, 1, 1)),
        ("ub_links", ("text",) * 37),
    ],
    ids=["nothing", "short", "text", "long", "no links", "short links", "text of links"],
)
def test_a_structure_of_another_shape_is_malformed(call, values):
    _, failures = meaning.accelerator(RawChip(0, 0, {call: Answer(0, values)}))

    assert failures == ((call.split()[0], "malformed"),)


def test_a_list_of_ports_that_is_none_has_no_port():
    assert not ub_ports.has_port(None, 0, 4)
    assert not ub_ports.has_port(Answer(-8255), 0, 4)
    assert not ub_ports.has_port(Answer(0, (0,)), 0, 4)
    assert ub_ports.has_port(Answer(0, (0, 3, 0, 0, 4, 1)), 0, 4)

"""Figures of an NPU that have more labels: network port, flits, throughputs, processes, memory errors."""

from __future__ import annotations

import pytest

from ascend_support import GIB
from rankbeat_exporter.model.accelerator import Answer, RawChip
from rankbeat_exporter.parsing import dcmi as meaning


def rows_of(read_npus, text, figure, root=None):
    """The figure's labelled numbers of the first chip, zeros left out."""
    reading, failures = read_npus(text, root)[0] if root else read_npus(text)[0]
    assert failures == ()
    return {labels: number for labels, number in reading.rows.get(figure, {}).items() if number}


def test_memory_errors_are_counted_by_kind_since_the_start_and_in_the_devices_life(read_npus):
    parts = read_npus("ddr_size 100\nddr_available 100\necc hbm 1 5 1 9 2 3 4\necc ddr 1 0 7 0 8 0 0\n")[0][0].parts

    assert parts == {
        "ecc_errors_total": {"corrected": 5.0, "uncorrected": 1.0},
        "ecc_lifetime_errors_total": {"corrected": 9.0, "uncorrected": 2.0},
        "isolated_pages": {"corrected": 3.0, "uncorrected": 4.0},
        "ddr_ecc_errors_total": {"corrected": 0.0, "uncorrected": 7.0},
        "ddr_ecc_lifetime_errors_total": {"corrected": 0.0, "uncorrected": 8.0},
        "ddr_isolated_pages": {"corrected": 0.0, "uncorrected": 0.0},
    }


def test_a_count_that_is_unknown_is_absent_and_the_others_stay(read_npus):
    parts = read_npus("ecc hbm 1 4294967295 1 9 2 3 4\n")[0][0].parts

    assert parts["ecc_errors_total"] == {"uncorrected": 1.0}


@pytest.mark.parametrize(
    ("result", "row"),
    [
        (0, {("success",): 1.0}),
        (1, {("socket_fail",): 0.0}),
        (4, {("time_exceeded",): 0.0}),
        (6, {("init",): 1.0}),
        (8, {("detect_ip_set",): 0.0}),
        (9, {}),
        (0xFF, {}),
    ],
)
def test_the_network_probes_state_is_named_and_init_counts_as_healthy(read_npus, result, row):
    assert read_npus(f"network_health {result}\n")[0][0].rows.get("network_healthy", {}) == row


def test_counters_of_the_network_port_are_named_by_what_they_count(read_npus):
    text = (
        "packets mac_tx_total_oct_num 1000\npackets mac_rx_mac_pause_num 3\npackets roce_new_pkt_rty_num 7\n"
        "packets mac_rx_fcs_err_pkt_num 2\npackets roce_ecn_db_num 9\npackets roce_err_qp_status_num 4\n"
    )

    assert rows_of(read_npus, text, "network_bytes_total") == {("0", "transmit"): 1000.0}
    assert rows_of(read_npus, text, "network_pause_packets_total") == {("0", "receive"): 3.0}
    assert rows_of(read_npus, text, "network_errors_total") == {
        ("0", "retransmit"): 7.0, ("0", "frame_check"): 2.0, ("0", "queue_pair"): 4.0
    }  # fmt: skip
    assert rows_of(read_npus, text, "roce_ecn_packets_total") == {("0",): 9.0}


@pytest.mark.parametrize("narrow", ["", "return dcmi_get_device_info/16/5 -8255\n"], ids=["64 bit", "32 bit"])
def test_flits_between_npus_are_read_by_the_call_that_the_driver_has(read_npus, narrow):
    text = narrow + "hccs 1 11 12 0 0\nhccs 3 100 200 1 2\nhccs 0 5 5 5 5\nhccs 8 5 5 5 5\n"

    assert rows_of(read_npus, text, "hccs_flits_total") == {
        ("1", "transmit"): 11.0, ("1", "receive"): 12.0, ("3", "transmit"): 100.0, ("3", "receive"): 200.0
    }  # fmt: skip
    assert rows_of(read_npus, text, "hccs_crc_errors_total") == {("3",): 1.0}
    assert rows_of(read_npus, text, "hccs_retries_total") == {("3",): 2.0}


def test_the_super_pods_ports_between_npus_begin_at_two(read_npus):
    text = "mainboard 0x1c\nhccs 1 11 12 0 0\nhccs 2 1 2 0 0\n"

    assert rows_of(read_npus, text, "hccs_flits_total") == {("2", "transmit"): 1.0, ("2", "receive"): 2.0}


def test_throughputs_are_bytes_a_second(read_npus):
    text = "hccs_bandwidth 3 1.5 0.25\npcie_bandwidth 1 9 4\n"

    assert rows_of(read_npus, text, "hccs_bytes_per_second") == {
        ("3", "transmit"): 1.5 * GIB, ("3", "receive"): 0.25 * GIB
    }  # fmt: skip
    transactions = rows_of(read_npus, text, "pcie_transaction_bytes_per_second")
    assert len(transactions) == 18
    assert transactions["receive", "completion", "max"] == 9e9
    assert read_npus(text)[0][0].figures["pcie_transmit_bytes_per_second"] == 12e9


def test_processes_are_counted_and_their_memory_shown(read_npus):
    reading = read_npus("processes 4711:1048576 12:2097152\n")[0][0]

    assert (reading.figures["processes"], reading.figures["process_memory_bytes"]) == (2.0, 3145728.0)
    assert reading.rows["process_memory_by_pid_bytes"] == {("4711",): 1048576.0, ("12",): 2097152.0}


@pytest.mark.parametrize("call", ["ecc_hbm", "hccs", "hccs_bandwidth", "pcie_bandwidth", "pcie_errors", "packets"])
@pytest.mark.parametrize("values", [(), (1,), ("text",) * 400], ids=["empty", "short", "text"])
def test_a_structure_of_another_shape_is_malformed_and_gives_no_row(call, values):
    reading, failures = meaning.accelerator(RawChip(0, 0, {call: Answer(0, values)}))

    assert (reading.rows, reading.parts) == ({}, {})
    assert (call, "malformed") in failures

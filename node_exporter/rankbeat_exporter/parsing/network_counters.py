"""Counters of an NPU's network port under the driver's own names, from DCMI or from `hccn_tool -stat`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DCMI_ORDER = (
    "mac_tx_mac_pause_num",
    "mac_rx_mac_pause_num",
    "mac_tx_pfc_pkt_num",
    *(f"mac_tx_pfc_pri{priority}_pkt_num" for priority in range(8)),
    "mac_rx_pfc_pkt_num",
    *(f"mac_rx_pfc_pri{priority}_pkt_num" for priority in range(8)),
    "mac_tx_total_pkt_num",
    "mac_tx_total_oct_num",
    "mac_tx_bad_pkt_num",
    "mac_tx_bad_oct_num",
    "mac_rx_total_pkt_num",
    "mac_rx_total_oct_num",
    "mac_rx_bad_pkt_num",
    "mac_rx_bad_oct_num",
    "mac_rx_fcs_err_pkt_num",
    "roce_rx_rc_pkt_num",
    "roce_rx_all_pkt_num",
    "roce_rx_err_pkt_num",
    "roce_tx_rc_pkt_num",
    "roce_tx_all_pkt_num",
    "roce_tx_err_pkt_num",
    "roce_cqe_num",
    "roce_rx_cnp_pkt_num",
    "roce_tx_cnp_pkt_num",
    "roce_err_ack_num",
    "roce_err_psn_num",
    "roce_verification_err_num",
    "roce_err_qp_status_num",
    "roce_new_pkt_rty_num",
    "roce_ecn_db_num",
    "nic_tx_all_pkg_num",
    "nic_tx_all_oct_num",
    "nic_rx_all_pkg_num",
    "nic_rx_all_oct_num",
)
"""Of struct dcmi_network_pkt_stats_info."""
UNKNOWN = 2**64 - 1


class Counter(NamedTuple):
    """Our figure and its label after the port, if it has one."""

    figure: str
    label: str


COUNTERS = {
    "mac_tx_total_oct_num": Counter("network_bytes_total", "transmit"),
    "mac_rx_total_oct_num": Counter("network_bytes_total", "receive"),
    "mac_tx_total_pkt_num": Counter("network_packets_total", "transmit"),
    "mac_rx_total_pkt_num": Counter("network_packets_total", "receive"),
    "mac_tx_mac_pause_num": Counter("network_pause_packets_total", "transmit"),
    "mac_rx_mac_pause_num": Counter("network_pause_packets_total", "receive"),
    "mac_tx_pfc_pkt_num": Counter("network_pfc_packets_total", "transmit"),
    "mac_rx_pfc_pkt_num": Counter("network_pfc_packets_total", "receive"),
    "mac_tx_bad_pkt_num": Counter("network_bad_packets_total", "transmit"),
    "mac_rx_bad_pkt_num": Counter("network_bad_packets_total", "receive"),
    "mac_tx_bad_oct_num": Counter("network_bad_bytes_total", "transmit"),
    "mac_rx_bad_oct_num": Counter("network_bad_bytes_total", "receive"),
    "roce_tx_all_pkt_num": Counter("roce_packets_total", "transmit"),
    "roce_rx_all_pkt_num": Counter("roce_packets_total", "receive"),
    "roce_tx_err_pkt_num": Counter("roce_error_packets_total", "transmit"),
    "roce_rx_err_pkt_num": Counter("roce_error_packets_total", "receive"),
    "roce_tx_cnp_pkt_num": Counter("roce_congestion_packets_total", "transmit"),
    "roce_rx_cnp_pkt_num": Counter("roce_congestion_packets_total", "receive"),
    "mac_rx_fcs_err_pkt_num": Counter("network_errors_total", "frame_check"),
    "roce_new_pkt_rty_num": Counter("network_errors_total", "retransmit"),
    "roce_err_ack_num": Counter("network_errors_total", "unexpected_ack"),
    "roce_err_psn_num": Counter("network_errors_total", "out_of_order"),
    "roce_verification_err_num": Counter("network_errors_total", "verification"),
    "roce_err_qp_status_num": Counter("network_errors_total", "queue_pair"),
    "roce_ecn_db_num": Counter("roce_ecn_packets_total", ""),
}
"""What is shown, by the driver's name. Priorities of PFC, and what the control network counts, are left out."""
ALIASES = {
    "roce_qp_status_err_num": "roce_err_qp_status_num",
    "roce_unexpected_ack_num": "roce_err_ack_num",
    "roce_out_of_order_num": "roce_err_psn_num",
}
"""`hccn_tool -stat` and the driver's structure disagree about these names."""


def rows(port: str, counters: Mapping[str, int]) -> Iterator[tuple[str, tuple[str, ...], float]]:
    """Figure, label values, number for each known counter that has a value."""
    for name, number in counters.items():
        counter = COUNTERS.get(ALIASES.get(name, name))
        if counter is not None and 0 <= number < UNKNOWN:
            yield counter.figure, (port, counter.label) if counter.label else (port,), float(number)

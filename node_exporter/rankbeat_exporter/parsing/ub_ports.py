"""Ports between NPUs of a 950: udie and port, their links and counters under the driver's own names."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rankbeat_exporter.model.accelerator import Answer

_PACKETS = ("ub_ipv4_pkt", "ub_ipv6_pkt", "unic_ipv4_pkt", "unic_ipv6_pkt", "ub_compact_pkt")
_MEMORY = ("ub_umoc_ctph", "ub_umoc_ntph", "ub_mem_pkt", "unknown_pkt", "drop_ind", "err_ind")
ORDER = (
    *(f"{one}_cnt_rx" for one in (*_PACKETS, *_MEMORY)),
    *(f"to_{place}_pkt_cnt_rx" for place in ("host", "imp", "mar", "link", "noc")),
    "route_err_cnt_rx",
    "out_err_cnt_rx",
    "length_err_cnt_rx",
    "rx_busi_flit_num",
    "rx_send_ack_flit",
    *(f"{one}_cnt_tx" for one in (*_PACKETS, *_MEMORY)),
    "lpbk_ind_cnt_tx",
    "out_err_cnt_tx",
    "length_err_cnt_tx",
    "tx_busi_flit_num",
    "tx_recv_ack_flit",
    "retry_req_sum",
    "retry_ack_sum",
    "crc_error_sum",
    "core_mib_rxpausepkts",
    "core_mib_txpausepkts",
    "core_mib_rxpfcpkts",
    "core_mib_txpfcpkts",
    "core_mib_rxbadpkts",
    "core_mib_txbadpkts",
    "core_mib_rxbadoctets",
    "core_mib_txbadoctets",
)
"""Of struct dcmi_port_pkt_stats_info."""
UNKNOWN = 2**64 - 1
CARD_UDIE = "0"
CARD_PORTS = 9
"""A card tells the links of its first nine ports, all of udie 0; the others do not exist."""
LANES = {1: "full", 2: "partial", 3: "none"}
NO_LINK_NEEDED = 3


class Counter(NamedTuple):
    """Our figure and its labels after the port."""

    figure: str
    labels: tuple[str, ...] = ()


COUNTERS = {
    "rx_busi_flit_num": Counter("ub_flits_total", ("receive",)),
    "tx_busi_flit_num": Counter("ub_flits_total", ("transmit",)),
    "retry_req_sum": Counter("ub_retries_total", ("requested",)),
    "retry_ack_sum": Counter("ub_retries_total", ("answered",)),
    "crc_error_sum": Counter("ub_crc_errors_total"),
    "route_err_cnt_rx": Counter("ub_errors_total", ("receive", "route")),
    **{
        f"{name}_cnt_{end}": Counter("ub_errors_total", (direction, error))
        for end, direction in (("rx", "receive"), ("tx", "transmit"))
        for name, error in (
            ("unknown_pkt", "unknown"),
            ("drop_ind", "drop"),
            ("err_ind", "error"),
            ("out_err", "check"),
            ("length_err", "length"),
        )
    },
}
"""What is shown, by the driver's name. Packets by kind and by where they are led are left out."""
ETHERNET_COUNTERS = {
    f"core_mib_{end}{name}": Counter(figure, (direction,))
    for end, direction in (("rx", "receive"), ("tx", "transmit"))
    for name, figure in (
        ("pausepkts", "network_pause_packets_total"),
        ("pfcpkts", "network_pfc_packets_total"),
        ("badpkts", "network_bad_packets_total"),
        ("badoctets", "network_bad_bytes_total"),
    )
}
"""Of a port that carries UB over Ethernet: those of the other NPUs' network ports, the port named `UDIE/PORT`."""


def has_port(answer: Answer | None, udie: int, port: int) -> bool:
    """Whether the board's list has it."""
    numbers = answer.values if answer is not None and not answer.code else ()
    return (udie, port) in zip(numbers[::3], numbers[1::3], strict=False)


def link_rows(numbers: tuple[int, ...], _: tuple[int, ...]) -> Iterator[tuple[str, tuple[str, ...], float]]:
    """The whole chip's state, then that of each port. Where no link is needed one that is missing is no fault."""
    for port in range(CARD_PORTS):
        lanes = LANES.get(numbers[1 + port], "")
        if lanes and not (lanes == "none" and numbers[0] == NO_LINK_NEEDED):
            yield "ub_link_up", (CARD_UDIE, str(port), lanes), float(lanes != "none")


def packet_rows(numbers: tuple[int, ...], _: tuple[int, ...]) -> Iterator[tuple[str, tuple[str, ...], float]]:
    """udie and port that were asked for, what the driver says of them (port, whether it carries Ethernet), counters."""
    udie, port, _port, is_ethernet = numbers[0], numbers[1], numbers[2], numbers[3]
    counted = numbers[4:]
    if len(counted) != len(ORDER):
        raise IndexError(len(numbers))
    for name, number in zip(ORDER, counted, strict=True):
        if not 0 <= number < UNKNOWN:
            continue
        if name in COUNTERS:
            figure, labels = COUNTERS[name]
            yield figure, (str(udie), str(port), *labels), float(number)
        elif is_ethernet == 1 and name in ETHERNET_COUNTERS:
            figure, labels = ETHERNET_COUNTERS[name]
            yield figure, (f"{udie}/{port}", *labels), float(number)

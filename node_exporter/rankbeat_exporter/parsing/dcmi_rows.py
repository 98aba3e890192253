"""Figures of an NPU that have more labels: links, counters by port and direction, errors by memory, processes.

Label values are ours; the places of the numbers are those of the vendor's structures (sources.dcmi_layouts).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from rankbeat_exporter.parsing import network_counters, ub_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rankbeat_exporter.model.accelerator import Answer

    Rows = dict[str, dict[tuple[str, ...], float]]
    Row = tuple[str, tuple[str, ...], float]

NO_NUMBERS = frozenset({-1, 0xFFFFFFFF, 0x7FFFFFFF, 0xFFFFFFFFFFFFFFFF})
"""What -1 and the largest integers become in unsigned fields: unknown."""
MAX_CHIPS = 32
NANO = 10**9
PORTS_OF_A_STRUCTURE = 16
HCCS_PORTS = range(1, 8)
"""Of 16 places, those that 910B and 910_93 use."""
BOARDS_WITHOUT_PORT_1 = frozenset({0x1C, 0x1D})
"""Mainboards of the 910_93 super pod: their HCCS ports begin at 2 (dcmi_network_intf.h)."""
NETWORK_STATES = (
    "success",
    "socket_fail",
    "receive_timeout",
    "unreachable",
    "time_exceeded",
    "fault",
    "init",
    "thread_error",
    "detect_ip_set",
)
HEALTHY_NETWORK_STATES = frozenset({"success", "init"})
"""init: the probe is not set up, or has not run yet. The vendor's exporter counts it as healthy too."""
NETWORK_PORT = "0"
PCIE_MEGABYTE_PER_MILLISECOND = 10**9
PCIE_TRANSACTIONS = ("posted", "non_posted", "completion")
PCIE_STATISTICS = ("min", "max", "average")


def rows(answers: Mapping[str, Answer]) -> tuple[Rows, tuple[str, ...]]:
    """Figure -> label values -> number, and the calls whose answers have another shape than expected."""
    known = tuple(
        (call, answer) for call, answer in answers.items() if not answer.code and call.partition(" ")[0] in _PARSERS
    )
    found, malformed = _rows(known, _hccs_ports(answers))
    return dict(found), malformed


@functools.lru_cache(MAX_CHIPS)
def _rows(known: tuple[tuple[str, Answer], ...], hccs_ports: tuple[int, ...]) -> tuple[Rows, tuple[str, ...]]:
    """Not to be changed: the same for the same answers, which are asked twice a minute and repeated meanwhile."""
    found: Rows = {}
    malformed = []
    for call, answer in known:
        numbers = tuple(value for value in answer.values if isinstance(value, int))
        parse = _PARSERS[call.partition(" ")[0]]
        try:
            parsed = tuple(parse(numbers if len(numbers) == len(answer.values) else (), hccs_ports))
        except IndexError:
            malformed.append(call)
            continue
        for figure, labels, number in parsed:
            found.setdefault(figure, {})[labels] = number
    return found, tuple(malformed)


def network_health(state: str) -> Iterator[Row]:
    """From a word of NETWORK_STATES."""
    yield "network_healthy", (state,), float(state in HEALTHY_NETWORK_STATES)


def _network_health(numbers: tuple[int, ...], _: tuple[int, ...]) -> Iterator[Row]:
    if 0 <= numbers[0] < len(NETWORK_STATES):
        yield from network_health(NETWORK_STATES[numbers[0]])


def _ecc(prefix: str) -> Callable[[tuple[int, ...], tuple[int, ...]], Iterator[Row]]:
    """Of the memory whose figures begin with the prefix: none for the HBM, as for a GPU's memory."""

    def parse(numbers: tuple[int, ...], _: tuple[int, ...]) -> Iterator[Row]:
        for place, kind in enumerate(("corrected", "uncorrected")):
            for figure, first in (("ecc_errors_total", 1), ("ecc_lifetime_errors_total", 3), ("isolated_pages", 5)):
                if (number := numbers[first + place]) not in NO_NUMBERS:
                    yield prefix + figure, (kind,), float(number)

    return parse


def _hccs_ports(answers: Mapping[str, Answer]) -> tuple[int, ...]:
    board = answers.get("mainboard")
    is_without_1 = bool(board and not board.code and board.values and board.values[0] in BOARDS_WITHOUT_PORT_1)
    return tuple(port for port in HCCS_PORTS if port > 1 or not is_without_1)


def _hccs(numbers: tuple[int, ...], hccs_ports: tuple[int, ...]) -> Iterator[Row]:
    names = (
        ("hccs_flits_total", "transmit"),
        ("hccs_flits_total", "receive"),
        ("hccs_crc_errors_total", ""),
        ("hccs_retries_total", ""),
    )
    for place, (figure, direction) in enumerate(names):
        for port in hccs_ports:
            number = numbers[place * PORTS_OF_A_STRUCTURE + port]
            if number not in NO_NUMBERS:
                yield figure, (str(port), direction) if direction else (str(port),), float(number)


def _hccs_bandwidth(numbers: tuple[int, ...], hccs_ports: tuple[int, ...]) -> Iterator[Row]:
    """profiling_time, two totals, then 16 ports a direction; GB/s by 10^9, and a GB is 2^30."""
    for place, direction in enumerate(("transmit", "receive")):
        for port in hccs_ports:
            number = numbers[3 + place * PORTS_OF_A_STRUCTURE + port]
            if number >= 0:
                yield "hccs_bytes_per_second", (str(port), direction), number / NANO * (1 << 30)


def _pcie_bandwidth(numbers: tuple[int, ...], _: tuple[int, ...]) -> Iterator[Row]:
    """profiling_time, then triples: three kinds sent, a latency, three kinds received."""
    for direction, first in (("transmit", 1), ("receive", 13)):
        for kind, transaction in enumerate(PCIE_TRANSACTIONS):
            for place, statistic in enumerate(PCIE_STATISTICS):
                number = numbers[first + 3 * kind + place]
                if number not in NO_NUMBERS:
                    yield (
                        "pcie_transaction_bytes_per_second",
                        (direction, transaction, statistic),
                        float(number * PCIE_MEGABYTE_PER_MILLISECOND),
                    )


def _pcie_errors(numbers: tuple[int, ...], _: tuple[int, ...]) -> Iterator[Row]:
    for place, error in enumerate(("transmit", "receive", "link_crc", "end_to_end_crc")):
        if numbers[place] not in NO_NUMBERS:
            yield "pcie_errors_total", (error,), float(numbers[place])


def _packets(numbers: tuple[int, ...], _: tuple[int, ...]) -> Iterator[Row]:
    counters = dict(zip(network_counters.DCMI_ORDER, numbers, strict=False))
    if len(counters) < len(network_counters.DCMI_ORDER):
        raise IndexError(len(numbers))
    yield from network_counters.rows(NETWORK_PORT, counters)


def _processes(numbers: tuple[int, ...], _: tuple[int, ...]) -> Iterator[Row]:
    """Process id and bytes by turns; an id of 0 is an empty place."""
    for process, used in zip(numbers[::2], numbers[1::2], strict=True):
        if process > 0 and used not in NO_NUMBERS:
            yield "process_memory_by_pid_bytes", (str(process),), float(used)


_PARSERS: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], Iterator[Row]]] = {
    "network_health": _network_health,
    "ecc_hbm": _ecc(""),
    "ecc_ddr": _ecc("ddr_"),
    "hccs": _hccs,
    "hccs_bandwidth": _hccs_bandwidth,
    "pcie_bandwidth": _pcie_bandwidth,
    "pcie_errors": _pcie_errors,
    "packets": _packets,
    "processes": _processes,
    "ub_links": ub_ports.link_rows,
    "ub_packets": ub_ports.packet_rows,
}
"""By the first word of a call's key, what follows is the port: the numbers, and the HCCS ports that the board has."""

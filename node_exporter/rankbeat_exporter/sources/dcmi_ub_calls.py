"""What is asked of each port of a 950: it has udies with ports that speak UB, some of them over Ethernet.

Only dcmiv2 has these functions. Signatures are those of dcmi_interface_api_v2.h and the vendor's 950 DCMI reference
(hicann/driver), in our own words; not one was tried on hardware (docs/unverified.md).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rankbeat_exporter.parsing import ub_ports
from rankbeat_exporter.sources import dcmi_layouts as layouts
from rankbeat_exporter.sources.dcmi_calls import ONCE, SELDOM, SOON, Call, words

if TYPE_CHECKING:
    from rankbeat_exporter.model.accelerator import Answer
    from rankbeat_exporter.sources.dcmi_calls import Results, Value

PORTS, LINKS, PACKETS = "ub_ports", "ub_links", "ub_packets"


def _ports(results: Results) -> tuple[Value, ...]:
    """udie, port, mode (0 UB, 1 UB over Ethernet) of each port."""
    listed = results[0]
    if not isinstance(listed, layouts.UbPortList):
        raise TypeError(listed)
    dies = listed.die_list_data[: min(max(listed.die_nums, 0), layouts.MAX_UDIES)]
    return tuple(
        number
        for die in dies
        for port in die.port_list_data[: min(max(die.port_nums, 0), layouts.MAX_PORTS_OF_A_UDIE)]
        for number in (die.die_index, port.port_index, port.mode)
    )


def _port_and_statistics(udie: int, port: int) -> Results:
    return layouts.UbPort(udie, port), layouts.UbPortStatistics()


def _both(results: Results) -> tuple[Value, ...]:
    return words(results[:1]) + words(results[1:])


def _has_port(udie: int, port: int, answers: dict[str, Answer]) -> bool:
    return ub_ports.has_port(answers.get(PORTS), udie, port)


CALLS = (
    Call(PORTS, "", "dcmiv2_get_device_port_list_info", lambda: (layouts.UbPortList(),), _ports, (), ONCE),
    Call(LINKS, "", "dcmiv2_get_ub_port_link_status", lambda: (layouts.UbLinks(),), words, (), SOON),
    *(
        Call(
            f"{PACKETS} {udie}/{port}",
            "",
            "dcmiv2_get_port_pkt_stats_info",
            partial(_port_and_statistics, udie, port),
            _both,
            every_seconds=SELDOM,
            is_wanted=partial(_has_port, udie, port),
        )
        for udie in range(layouts.MAX_UDIES)
        for port in range(layouts.MAX_PORTS_OF_A_UDIE)
    ),
)
"""The board lists its ports; each is a call of its own, with a deadline and a failure of its own."""

"""Structures of libdcmi.so: our ctypes against the C compiler, and counters by their place."""

from __future__ import annotations

import ctypes

from rankbeat_exporter.parsing import network_counters, ub_ports
from rankbeat_exporter.sources import adjtimex
from rankbeat_exporter.sources import dcmi_layouts as layouts


def test_structures_lie_in_memory_as_the_c_compiler_lays_them(doubles, tmp_path):
    ours = {
        "dcmi_chip_info": layouts.ChipInfo,
        "dcmi_chip_info_v2": layouts.ChipInfoV2,
        "dcmi_hbm_info": layouts.HbmInfo,
        "dcmi_get_memory_info_stru": layouts.MemoryInfo,
        "dcmi_ecc_info": layouts.EccInfo,
        "dcmi_pcie_info_all": layouts.PcieInfoAll,
        "dcmi_pcie_link_error_info": layouts.PcieLinkErrors,
        "dcmi_pcie_link_bandwidth_info": layouts.PcieBandwidth,
        "dcmi_hccs_bandwidth_info": layouts.HccsBandwidth,
        "dcmi_hccs_statistic_info": layouts.HccsStatistics,
        "dcmi_hccs_statistic_info_u64": layouts.HccsStatisticsU64,
        "dcmi_proc_mem_info": layouts.ProcessMemory,
        "dcmi_die_id": layouts.DieId,
        "dcmi_multi_utilization_info": layouts.Utilizations,
        "dcmi_network_pkt_stats_info": layouts.PacketStatistics,
        "dcmi_ub_port_info": layouts.UbPort,
        "dcmi_port_pkt_stats_info": layouts.UbPortStatistics,
        "port_info": layouts.UbPortOfUdie,
        "die_port_list_info": layouts.UbUdie,
        "dcmi_port_list_info": layouts.UbPortList,
        "dcmi_ub_port_link_status": layouts.UbLinks,
        "timex": adjtimex.TimexStructure,
    }

    given = doubles.layouts(tmp_path)

    assert {structure for structure, _ in given} == set(ours)
    for (structure, field), number in given.items():
        layout = ours[structure]
        found = ctypes.sizeof(layout) if field == "*" else getattr(layout, field).offset
        assert found == number, (structure, field)
    for structure, layout in ours.items():
        assert {field for name, field in given if name == structure} >= {
            entry[0] for entry in layout._fields_ if structure != "timex"
        }


def test_every_counter_of_the_network_port_is_known_by_the_structures_order():
    assert [name for name, _ in layouts.PacketStatistics._fields_][: len(network_counters.DCMI_ORDER)] == list(
        network_counters.DCMI_ORDER
    )
    assert set(network_counters.COUNTERS) <= set(network_counters.DCMI_ORDER)


def test_every_counter_of_a_ub_port_that_is_shown_is_one_of_the_structures():
    assert len(set(ub_ports.ORDER)) == len(ub_ports.ORDER) == 48
    assert {*ub_ports.COUNTERS, *ub_ports.ETHERNET_COUNTERS} <= set(ub_ports.ORDER)

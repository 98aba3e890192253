"""Structures of libdcmi.so as C lays them out; tests/exporter/test_dcmi.py asserts each offset against the C compiler.

In our own words after dcmi_interface_api.h (hicann/driver, src/custom/include) and the vendor's DCMI reference.
"""

from __future__ import annotations

import ctypes

from rankbeat_exporter.parsing import ub_ports
from rankbeat_exporter.parsing.network_counters import DCMI_ORDER

MAX_HCCS_PORTS = 16
MAX_UDIES = 2
MAX_PORTS_OF_A_UDIE = 32
MAX_UB_PORTS = 36

_name = ctypes.c_char * 32


class ChipInfo(ctypes.Structure):
    """struct dcmi_chip_info: three names of 32 bytes and the number of AI cores."""

    _fields_ = (
        ("chip_type", _name),
        ("chip_name", _name),
        ("chip_ver", _name),
        ("aicore_cnt", ctypes.c_uint),
    )


class ChipInfoV2(ctypes.Structure):
    """struct dcmi_chip_info_v2: the same and the NPU's name."""

    _fields_ = (*ChipInfo._fields_, ("npu_name", _name))


class HbmInfo(ctypes.Structure):
    """struct dcmi_hbm_info: MB, MHz, MB, degrees Celsius, percent."""

    _fields_ = (
        ("memory_size", ctypes.c_ulonglong),
        ("freq", ctypes.c_uint),
        ("memory_usage", ctypes.c_ulonglong),
        ("temp", ctypes.c_int),
        ("bandwith_util_rate", ctypes.c_uint),
    )


class MemoryInfo(ctypes.Structure):
    """struct dcmi_get_memory_info_stru, DDR: MB, MB, MHz, KB, pages, pages, percent."""

    _fields_ = (
        ("memory_size", ctypes.c_ulonglong),
        ("memory_available", ctypes.c_ulonglong),
        ("freq", ctypes.c_uint),
        ("hugepagesize", ctypes.c_ulong),
        ("hugepages_total", ctypes.c_ulong),
        ("hugepages_free", ctypes.c_ulong),
        ("utiliza", ctypes.c_uint),
        ("reserve", ctypes.c_ubyte * 60),
    )


class EccInfo(ctypes.Structure):
    """struct dcmi_ecc_info: counts since the start, counts of the device's life, isolated pages."""

    _fields_ = (
        ("enable_flag", ctypes.c_int),
        ("single_bit_error_cnt", ctypes.c_uint),
        ("double_bit_error_cnt", ctypes.c_uint),
        ("total_single_bit_error_cnt", ctypes.c_uint),
        ("total_double_bit_error_cnt", ctypes.c_uint),
        ("single_bit_isolated_pages_cnt", ctypes.c_uint),
        ("double_bit_isolated_pages_cnt", ctypes.c_uint),
    )


class PcieInfoAll(ctypes.Structure):
    """struct dcmi_pcie_info_all, 64 bytes."""

    _fields_ = (
        ("venderid", ctypes.c_uint),
        ("subvenderid", ctypes.c_uint),
        ("deviceid", ctypes.c_uint),
        ("subdeviceid", ctypes.c_uint),
        ("domain", ctypes.c_int),
        ("bdf_busid", ctypes.c_uint),
        ("bdf_deviceid", ctypes.c_uint),
        ("bdf_funcid", ctypes.c_uint),
        ("reserve", ctypes.c_ubyte * 32),
    )


class PcieLinkErrors(ctypes.Structure):
    """struct dcmi_pcie_link_error_info: counts."""

    _fields_ = (
        ("tx_err_cnt", ctypes.c_uint),
        ("rx_err_cnt", ctypes.c_uint),
        ("lcrc_err_cnt", ctypes.c_uint),
        ("ecrc_err_cnt", ctypes.c_uint),
        ("retry_cnt", ctypes.c_uint),
        ("rsv", ctypes.c_uint * 32),
    )


_triple = ctypes.c_uint * 3


class PcieBandwidth(ctypes.Structure):
    """struct dcmi_pcie_link_bandwidth_info: ms, then MB/ms of posted, non-posted and completion packets.

    Three of each: the least, the most, the mean.
    """

    _fields_ = (
        ("profiling_time", ctypes.c_int),
        ("tx_p_bw", _triple),
        ("tx_np_bw", _triple),
        ("tx_cpl_bw", _triple),
        ("tx_np_lantency", _triple),
        ("rx_p_bw", _triple),
        ("rx_np_bw", _triple),
        ("rx_cpl_bw", _triple),
    )


class HccsBandwidth(ctypes.Structure):
    """struct dcmi_hccs_bandwidth_info: ms, then GB/s. The library adds to the totals: they must be 0 before."""

    _fields_ = (
        ("profiling_time", ctypes.c_int),
        ("total_txbw", ctypes.c_double),
        ("total_rxbw", ctypes.c_double),
        ("tx_bandwidth", ctypes.c_double * MAX_HCCS_PORTS),
        ("rx_bandwidth", ctypes.c_double * MAX_HCCS_PORTS),
    )


class HccsStatistics(ctypes.Structure):
    """struct dcmi_hccs_statistic_info: flits and counts, 32 bits."""

    _fields_ = (
        ("tx_cnt", ctypes.c_uint * MAX_HCCS_PORTS),
        ("rx_cnt", ctypes.c_uint * MAX_HCCS_PORTS),
        ("crc_err_cnt", ctypes.c_uint * MAX_HCCS_PORTS),
        ("retry_cnt", ctypes.c_uint * MAX_HCCS_PORTS),
        ("reserved_field_cnt", ctypes.c_uint * 64),
    )


class HccsStatisticsU64(ctypes.Structure):
    """struct dcmi_hccs_statistic_info_u64: the same, 64 bits."""

    _fields_ = (
        ("tx_cnt", ctypes.c_ulonglong * MAX_HCCS_PORTS),
        ("rx_cnt", ctypes.c_ulonglong * MAX_HCCS_PORTS),
        ("crc_err_cnt", ctypes.c_ulonglong * MAX_HCCS_PORTS),
        ("retry_cnt", ctypes.c_ulonglong * MAX_HCCS_PORTS),
        ("reserved", ctypes.c_ulonglong * 64),
    )


class ProcessMemory(ctypes.Structure):
    """struct dcmi_proc_mem_info: process id, bytes."""

    _fields_ = (("proc_id", ctypes.c_int), ("proc_mem_usage", ctypes.c_ulong))


class DieId(ctypes.Structure):
    """struct dcmi_die_id: five words."""

    _fields_ = (("soc_die", ctypes.c_uint * 5),)


class Utilizations(ctypes.Structure):
    """struct dcmi_multi_utilization_info: percent of cube, vector, AI Core, whole chip."""

    _fields_ = (
        ("aic_util", ctypes.c_uint),
        ("aiv_util", ctypes.c_uint),
        ("aicore_util", ctypes.c_uint),
        ("npu_util", ctypes.c_uint),
        ("reserved", ctypes.c_uint * 8),
    )


class PacketStatistics(ctypes.Structure):
    """struct dcmi_network_pkt_stats_info: counters of one network port."""

    _fields_ = (
        *((counter, ctypes.c_ulonglong) for counter in DCMI_ORDER),
        ("tv_sec", ctypes.c_long),
        ("tv_usec", ctypes.c_long),
        ("reserved", ctypes.c_ubyte * 64),
    )


class UbPort(ctypes.Structure):
    """struct dcmi_ub_port_info: which port is asked for."""

    _fields_ = (("udie_id", ctypes.c_int), ("port_id", ctypes.c_int))


class UbPortStatistics(ctypes.Structure):
    """struct dcmi_port_pkt_stats_info: counters of a UB port; the last eight only where it carries Ethernet."""

    _fields_ = (
        ("port_id", ctypes.c_uint),
        ("is_uboe_port", ctypes.c_uint),
        *((counter, ctypes.c_ulonglong) for counter in ub_ports.ORDER),
        ("reserved", ctypes.c_ubyte * 128),
    )


class UbPortOfUdie(ctypes.Structure):
    """struct port_info: its number, and 1 where it carries UB over Ethernet."""

    _fields_ = (("port_index", ctypes.c_int), ("mode", ctypes.c_int))


class UbUdie(ctypes.Structure):
    """struct die_port_list_info."""

    _fields_ = (
        ("die_index", ctypes.c_int),
        ("port_nums", ctypes.c_int),
        ("port_list_data", UbPortOfUdie * MAX_PORTS_OF_A_UDIE),
    )


class UbPortList(ctypes.Structure):
    """struct dcmi_port_list_info."""

    _fields_ = (("die_nums", ctypes.c_int), ("die_list_data", UbUdie * MAX_UDIES))


class UbLinks(ctypes.Structure):
    """struct dcmi_ub_port_link_status: states of the chip and of each port, C enums."""

    _fields_ = (("ub_link_status", ctypes.c_int), ("ub_port_status", ctypes.c_int * MAX_UB_PORTS))

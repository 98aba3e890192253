"""Names under which vendors' own exporters show what rankbeat_node_accelerator_... shows.

One table for two uses: the exporter can show NPUs under npu-exporter's names too, so that dashboards made for it go on;
and where npu-exporter or dcgm-exporter runs instead of ours, recording rules map its names to ours.
"""

from typing import NamedTuple, Tuple

MEBIBYTE = 1 << 20
GIBIBYTE = 1 << 30
MEGA = 10**6
PERCENT = 0.01
MILLI = 0.001
MEGABIT_BYTES = MEGA / 8
PCIE_UNIT = 10**9
"""MB/ms."""

NPU_LABELS = (
    "id",
    "model_name",
    "vdie_id",
    "pcie_bus_info",
    "namespace",
    "pod_name",
    "container_name",
)
"""Of npu-exporter's series of a chip. id is the physical id."""
SHARED_BY_PODS = "not_displayed_for_multi_pod"
"""What npu-exporter writes in place of a pod where several have the chip."""


class VendorName(NamedTuple):
    """A vendor's metric: ours is `factor` times it, with our further labels at these values."""

    name: str
    figure: str
    """Key of ACCELERATOR_FIGURES, ACCELERATOR_PARTS or ACCELERATOR_ROWS."""
    factor: float = 1.0
    labels: Tuple[Tuple[str, str], ...] = ()
    more_labels: Tuple[Tuple[str, str], ...] = ()
    """The vendor's further labels at these values."""


def _directed(figure: str, transmit: str, receive: str, *labels: Tuple[str, str]) -> Tuple[VendorName, ...]:
    return tuple(
        VendorName(name, figure, 1.0, (*labels, ("direction", direction)))
        for name, direction in ((transmit, "transmit"), (receive, "receive"))
    )


_PORT = ("port", "0")
_HCCS_PORTS = tuple(map(str, range(1, 8)))

NPU = (
    VendorName("npu_chip_info_utilization", "utilization_ratio", PERCENT),
    VendorName("npu_chip_info_vector_utilization", "vector_utilization_ratio", PERCENT),
    VendorName("npu_chip_info_cube_utilization", "cube_utilization_ratio", PERCENT),
    VendorName("npu_chip_info_overall_utilization", "overall_utilization_ratio", PERCENT),
    VendorName("npu_chip_info_temperature", "temperature_celsius"),
    VendorName("npu_chip_info_power", "power_watts"),
    VendorName("npu_chip_info_voltage", "voltage_volts"),
    VendorName("npu_chip_info_aicore_current_freq", "frequency_hertz", MEGA),
    VendorName("npu_chip_info_process_info_num", "processes"),
    VendorName("npu_chip_info_used_memory", "ddr_used_bytes", MEBIBYTE),
    VendorName("npu_chip_info_total_memory", "ddr_size_bytes", MEBIBYTE),
    VendorName("npu_chip_info_hbm_used_memory", "memory_used_bytes", MEBIBYTE),
    VendorName("npu_chip_info_hbm_total_memory", "memory_size_bytes", MEBIBYTE),
    VendorName("npu_chip_info_hbm_bandwidth_utilization", "memory_bandwidth_utilization_ratio", PERCENT),
    VendorName("npu_chip_info_hbm_temperature", "memory_temperature_celsius"),
    VendorName("npu_chip_info_hbm_ecc_enable_flag", "ecc_enabled"),
    *(
        VendorName(f"npu_chip_info_hbm_ecc_{part}", figure, 1.0, (("kind", kind),))
        for part, figure, kind in (
            ("single_bit_error_cnt", "ecc_errors_total", "corrected"),
            ("double_bit_error_cnt", "ecc_errors_total", "uncorrected"),
            ("total_single_bit_error_cnt", "ecc_lifetime_errors_total", "corrected"),
            ("total_double_bit_error_cnt", "ecc_lifetime_errors_total", "uncorrected"),
            ("single_bit_isolated_pages_cnt", "isolated_pages", "corrected"),
            ("double_bit_isolated_pages_cnt", "isolated_pages", "uncorrected"),
        )
    ),
    VendorName("npu_chip_info_link_status", "link_up", 1.0, (_PORT,)),
    VendorName("npu_chip_link_speed", "link_speed_bytes_per_second", MEGABIT_BYTES, (_PORT,)),
    VendorName("npu_chip_link_up_num", "link_changes_total", 1.0, (_PORT, ("to", "up"))),
    *_directed("network_pause_packets_total", "npu_chip_mac_tx_pause_num", "npu_chip_mac_rx_pause_num", _PORT),
    *_directed("network_pfc_packets_total", "npu_chip_mac_tx_pfc_pkt_num", "npu_chip_mac_rx_pfc_pkt_num", _PORT),
    *_directed("network_bad_packets_total", "npu_chip_mac_tx_bad_pkt_num", "npu_chip_mac_rx_bad_pkt_num", _PORT),
    *_directed("network_bad_bytes_total", "npu_chip_mac_tx_bad_oct_num", "npu_chip_mac_rx_bad_oct_num", _PORT),
    *_directed("roce_packets_total", "npu_chip_roce_tx_all_pkt_num", "npu_chip_roce_rx_all_pkt_num", _PORT),
    *_directed("roce_error_packets_total", "npu_chip_roce_tx_err_pkt_num", "npu_chip_roce_rx_err_pkt_num", _PORT),
    *_directed("roce_congestion_packets_total", "npu_chip_roce_tx_cnp_pkt_num", "npu_chip_roce_rx_cnp_pkt_num", _PORT),
    *(
        VendorName(name, "network_errors_total", 1.0, (_PORT, ("error", error)))
        for name, error in (
            ("npu_chip_info_rx_fcs_num", "frame_check"),
            ("npu_chip_roce_new_pkt_rty_num", "retransmit"),
            ("npu_chip_roce_unexpected_ack_num", "unexpected_ack"),
            ("npu_chip_roce_out_of_order_num", "out_of_order"),
            ("npu_chip_roce_verification_err_num", "verification"),
            ("npu_chip_roce_qp_status_err_num", "queue_pair"),
        )
    ),
    VendorName("npu_chip_info_rx_ecn_num", "roce_ecn_packets_total", 1.0, (_PORT,)),
    VendorName("npu_chip_optical_state", "optical_present", 1.0, (_PORT,)),
    VendorName("npu_chip_optical_temp", "optical_temperature_celsius", 1.0, (_PORT,)),
    VendorName("npu_chip_optical_vcc", "optical_voltage_volts", MILLI, (_PORT,)),
    *(
        VendorName(
            f"npu_chip_optical_{short}_power_{lane}",
            "optical_power_watts",
            MILLI,
            (_PORT, ("direction", direction), ("lane", str(lane))),
        )
        for short, direction in (("tx", "transmit"), ("rx", "receive"))
        for lane in range(4)
    ),
    *(
        name
        for port in _HCCS_PORTS
        for name in (
            *_directed(
                "hccs_flits_total",
                f"npu_chip_info_hccs_statistic_info_tx_cnt_{port}",
                f"npu_chip_info_hccs_statistic_info_rx_cnt_{port}",
                ("port", port),
            ),
            VendorName(
                f"npu_chip_info_hccs_statistic_info_crc_err_cnt_{port}",
                "hccs_crc_errors_total",
                1.0,
                (("port", port),),
            ),
            *(
                one._replace(factor=GIBIBYTE)
                for one in _directed(
                    "hccs_bytes_per_second",
                    f"npu_chip_info_hccs_bandwidth_info_tx_{port}",
                    f"npu_chip_info_hccs_bandwidth_info_rx_{port}",
                    ("port", port),
                )
            ),
        )
    ),
    *(
        VendorName(
            f"npu_chip_info_pcie_{short}_{kind}_bw",
            "pcie_transaction_bytes_per_second",
            PCIE_UNIT,
            (("direction", direction), ("transaction", transaction), ("statistic", statistic)),
            (("pcie_bw_type", bandwidth),),
        )
        for short, direction in (("tx", "transmit"), ("rx", "receive"))
        for kind, transaction in (("p", "posted"), ("np", "non_posted"), ("cpl", "completion"))
        for bandwidth, statistic in (("minPcieBw", "min"), ("maxPcieBw", "max"), ("avgPcieBw", "average"))
    ),
)
"""npu-exporter's, of a chip. -1 means unknown in some of them."""

GPU_LABELS = ("gpu", "UUID", "modelName")
"""Of dcgm-exporter's series of a GPU, for device, uuid and model."""

GPU = (
    VendorName("DCGM_FI_DEV_GPU_UTIL", "utilization_ratio", PERCENT),
    VendorName("DCGM_FI_DEV_MEM_COPY_UTIL", "memory_busy_ratio", PERCENT),
    VendorName("DCGM_FI_DEV_FB_USED", "memory_used_bytes", MEBIBYTE),
    VendorName("DCGM_FI_DEV_FB_RESERVED", "memory_reserved_bytes", MEBIBYTE),
    VendorName("DCGM_FI_DEV_GPU_TEMP", "temperature_celsius"),
    VendorName("DCGM_FI_DEV_MEMORY_TEMP", "memory_temperature_celsius"),
    VendorName("DCGM_FI_DEV_POWER_USAGE", "power_watts"),
    VendorName("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "energy_joules_total", MILLI),
    VendorName("DCGM_FI_DEV_SM_CLOCK", "frequency_hertz", MEGA),
    VendorName("DCGM_FI_DEV_MEM_CLOCK", "memory_frequency_hertz", MEGA),
    VendorName("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "pcie_replays_total"),
    VendorName("DCGM_FI_PROF_PCIE_TX_BYTES", "pcie_transmit_bytes_per_second"),
    VendorName("DCGM_FI_PROF_PCIE_RX_BYTES", "pcie_receive_bytes_per_second"),
    VendorName("DCGM_FI_DEV_ROW_REMAP_FAILURE", "row_remap_failure"),
    VendorName("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "remapped_rows_total", 1.0, (("kind", "correctable"),)),
    VendorName("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "remapped_rows_total", 1.0, (("kind", "uncorrectable"),)),
    VendorName("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "ecc_errors_total", 1.0, (("kind", "corrected"),)),
    VendorName("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "ecc_errors_total", 1.0, (("kind", "uncorrected"),)),
    VendorName("DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", "ecc_lifetime_errors_total", 1.0, (("kind", "corrected"),)),
    VendorName("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", "ecc_lifetime_errors_total", 1.0, (("kind", "uncorrected"),)),
)
"""dcgm-exporter's, of a GPU; the ECC counters only where its list of counters was changed."""

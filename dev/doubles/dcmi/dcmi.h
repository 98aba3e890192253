/* The part of the DCMI ABI that Rankbeat calls, in our own words after the vendor's public reference: hicann/driver
 * docs/<language>/Ascend_<chip>_DCMI_API (one page a function) and src/custom/include/dcmi_interface_api.h.
 * Nothing here was compared with a library on hardware. */
#ifndef RANKBEAT_DOUBLE_DCMI_H
#define RANKBEAT_DOUBLE_DCMI_H

struct dcmi_chip_info {
    unsigned char chip_type[32];
    unsigned char chip_name[32];
    unsigned char chip_ver[32];
    unsigned int aicore_cnt;
};

struct dcmi_chip_info_v2 {
    unsigned char chip_type[32];
    unsigned char chip_name[32];
    unsigned char chip_ver[32];
    unsigned int aicore_cnt;
    unsigned char npu_name[32];
};

struct dcmi_hbm_info {
    unsigned long long memory_size;  /* MB */
    unsigned int freq;               /* MHz */
    unsigned long long memory_usage; /* MB */
    int temp;                        /* degrees Celsius */
    unsigned int bandwith_util_rate; /* percent; the vendor's spelling */
};

struct dcmi_get_memory_info_stru {
    unsigned long long memory_size;      /* MB */
    unsigned long long memory_available; /* MB */
    unsigned int freq;                   /* MHz */
    unsigned long hugepagesize;          /* KB */
    unsigned long hugepages_total;
    unsigned long hugepages_free;
    unsigned int utiliza; /* percent */
    unsigned char reserve[60];
};

struct dcmi_ecc_info {
    int enable_flag;
    unsigned int single_bit_error_cnt, double_bit_error_cnt;             /* since the start */
    unsigned int total_single_bit_error_cnt, total_double_bit_error_cnt; /* of the device's life */
    unsigned int single_bit_isolated_pages_cnt, double_bit_isolated_pages_cnt;
};

struct dcmi_pcie_info_all {
    unsigned int venderid, subvenderid, deviceid, subdeviceid;
    int domain;
    unsigned int bdf_busid, bdf_deviceid, bdf_funcid;
    unsigned char reserve[32];
};

struct dcmi_pcie_link_error_info {
    unsigned int tx_err_cnt, rx_err_cnt, lcrc_err_cnt, ecrc_err_cnt, retry_cnt;
    unsigned int rsv[32];
};

struct dcmi_pcie_link_bandwidth_info {
    int profiling_time; /* ms, in */
    /* MB/ms: least, most, mean */
    unsigned int tx_p_bw[3], tx_np_bw[3], tx_cpl_bw[3], tx_np_lantency[3];
    unsigned int rx_p_bw[3], rx_np_bw[3], rx_cpl_bw[3];
};

struct dcmi_hccs_bandwidth_info {
    int profiling_time;           /* ms, in */
    double total_txbw, total_rxbw; /* GB/s; the library adds to them */
    double tx_bandwidth[16], rx_bandwidth[16];
};

struct dcmi_hccs_statistic_info {
    unsigned int tx_cnt[16], rx_cnt[16], crc_err_cnt[16], retry_cnt[16];
    unsigned int reserved_field_cnt[64];
};

struct dcmi_hccs_statistic_info_u64 {
    unsigned long long tx_cnt[16], rx_cnt[16], crc_err_cnt[16], retry_cnt[16];
    unsigned long long reserved[64];
};

struct dcmi_proc_mem_info {
    int proc_id;
    unsigned long proc_mem_usage; /* bytes */
};

struct dcmi_die_id {
    unsigned int soc_die[5];
};

struct dcmi_multi_utilization_info {
    unsigned int aic_util, aiv_util, aicore_util, npu_util; /* percent */
    unsigned int reserved[8];
};

#define DCMI_PRIORITIES(prefix)                                                                                   \
    prefix##_pfc_pri0_pkt_num, prefix##_pfc_pri1_pkt_num, prefix##_pfc_pri2_pkt_num, prefix##_pfc_pri3_pkt_num,   \
        prefix##_pfc_pri4_pkt_num, prefix##_pfc_pri5_pkt_num, prefix##_pfc_pri6_pkt_num, prefix##_pfc_pri7_pkt_num

struct dcmi_network_pkt_stats_info {
    unsigned long long mac_tx_mac_pause_num, mac_rx_mac_pause_num;
    unsigned long long mac_tx_pfc_pkt_num, DCMI_PRIORITIES(mac_tx);
    unsigned long long mac_rx_pfc_pkt_num, DCMI_PRIORITIES(mac_rx);
    unsigned long long mac_tx_total_pkt_num, mac_tx_total_oct_num, mac_tx_bad_pkt_num, mac_tx_bad_oct_num;
    unsigned long long mac_rx_total_pkt_num, mac_rx_total_oct_num, mac_rx_bad_pkt_num, mac_rx_bad_oct_num;
    unsigned long long mac_rx_fcs_err_pkt_num;
    unsigned long long roce_rx_rc_pkt_num, roce_rx_all_pkt_num, roce_rx_err_pkt_num;
    unsigned long long roce_tx_rc_pkt_num, roce_tx_all_pkt_num, roce_tx_err_pkt_num;
    unsigned long long roce_cqe_num, roce_rx_cnp_pkt_num, roce_tx_cnp_pkt_num;
    unsigned long long roce_err_ack_num, roce_err_psn_num, roce_verification_err_num, roce_err_qp_status_num;
    unsigned long long roce_new_pkt_rty_num, roce_ecn_db_num;
    unsigned long long nic_tx_all_pkg_num, nic_tx_all_oct_num, nic_rx_all_pkg_num, nic_rx_all_oct_num;
    long tv_sec, tv_usec;
    unsigned char reserved[64];
};

/* 950: udies with ports that speak UB, some of them over Ethernet. */
struct dcmi_ub_port_info {
    int udie_id, port_id;
};

#define DCMI_UB_KINDS(end)                                                                                             \
    ub_ipv4_pkt_cnt_##end, ub_ipv6_pkt_cnt_##end, unic_ipv4_pkt_cnt_##end, unic_ipv6_pkt_cnt_##end,                     \
        ub_compact_pkt_cnt_##end, ub_umoc_ctph_cnt_##end, ub_umoc_ntph_cnt_##end, ub_mem_pkt_cnt_##end,                \
        unknown_pkt_cnt_##end, drop_ind_cnt_##end, err_ind_cnt_##end

struct dcmi_port_pkt_stats_info {
    unsigned int port_id, is_uboe_port;
    union {
        struct {
            unsigned long long DCMI_UB_KINDS(rx);
            unsigned long long to_host_pkt_cnt_rx, to_imp_pkt_cnt_rx, to_mar_pkt_cnt_rx, to_link_pkt_cnt_rx;
            unsigned long long to_noc_pkt_cnt_rx, route_err_cnt_rx, out_err_cnt_rx, length_err_cnt_rx;
            unsigned long long rx_busi_flit_num, rx_send_ack_flit;
            unsigned long long DCMI_UB_KINDS(tx);
            unsigned long long lpbk_ind_cnt_tx, out_err_cnt_tx, length_err_cnt_tx, tx_busi_flit_num, tx_recv_ack_flit;
            unsigned long long retry_req_sum, retry_ack_sum, crc_error_sum;
            union {
                struct {
                    unsigned long long core_mib_rxpausepkts, core_mib_txpausepkts, core_mib_rxpfcpkts;
                    unsigned long long core_mib_txpfcpkts, core_mib_rxbadpkts, core_mib_txbadpkts;
                    unsigned long long core_mib_rxbadoctets, core_mib_txbadoctets;
                } uboe; /* where is_uboe_port is 1 */
            };
        };
        unsigned long long pkt_num[48];
    };
    unsigned char reserved[128];
};

struct port_info {
    int port_index, mode; /* 0 UB, 1 UB over Ethernet */
};

struct die_port_list_info {
    int die_index, port_nums;
    struct port_info port_list_data[32];
};

struct dcmi_port_list_info {
    int die_nums;
    struct die_port_list_info die_list_data[2];
};

typedef enum { DCMI_UB_NO_LINK, DCMI_UB_LINK, DCMI_UB_PARTIAL_LINK, DCMI_UB_NO_NEED_LINK } dcmi_entire_ub_status;
typedef enum { DCMI_UB_NONE, DCMI_UB_FULL, DCMI_UB_PARTIAL, DCMI_UB_INITIAL } dcmi_ub_port_status;

struct dcmi_ub_port_link_status {
    dcmi_entire_ub_status ub_link_status;
    dcmi_ub_port_status ub_port_status[36];
};

/* C enums of the reference, passed as int: dcmi_unit_type (NPU 0, MCU 1, CPU 2), dcmi_die_type (NDIE 0, VDIE 1),
 * dcmi_freq_type (AI core now 7, rated 9, vector 12), dcmi_device_type (DDR 0, HBM 2), dcmi_main_cmd (HCCS 16, PCIe 55),
 * dcmi_rdfx_detect_result (0 to 8). */
enum { DCMI_MAIN_HCCS = 16, DCMI_HCCS_STATISTICS = 3, DCMI_HCCS_STATISTICS_U64 = 5, DCMI_MAIN_PCIE = 55 };

int dcmi_init(void);
int dcmi_get_card_list(int *card_num, int *card_list, int list_len);
int dcmi_get_card_num_list(int *card_num, int *card_list, int list_len);
int dcmi_get_device_num_in_card(int card_id, int *device_num);
int dcmi_get_device_id_in_card(int card_id, int *device_id_max, int *mcu_id, int *cpu_id);
int dcmi_get_device_logic_id(int *device_logic_id, int card_id, int device_id);
int dcmi_get_device_phyid_from_logicid(unsigned int logicid, unsigned int *phyid);
int dcmi_get_device_chip_info(int card_id, int device_id, struct dcmi_chip_info *chip_info);
int dcmi_get_device_memory_info_v3(int card_id, int device_id, struct dcmi_get_memory_info_stru *memory_info);
int dcmi_mcu_get_power_info(int card_id, int *power);
int dcmi_get_hccs_link_bandwidth_info(int card_id, int device_id, struct dcmi_hccs_bandwidth_info *bandwidth);

int dcmiv2_init(void);
int dcmiv2_get_device_list(int *device_list, int *device_num, int list_len);
int dcmiv2_get_chip_phy_id_by_dev_id(unsigned int dev_id, unsigned int *phyid);
int dcmiv2_get_device_chip_info(int dev_id, struct dcmi_chip_info_v2 *chip_info);
int dcmiv2_get_device_port_list_info(int dev_id, struct dcmi_port_list_info *port_list_info);
int dcmiv2_get_port_pkt_stats_info(int dev_id, struct dcmi_ub_port_info *ub_port_info,
                                   struct dcmi_port_pkt_stats_info *port_pkt_stats_info);
int dcmiv2_get_ub_port_link_status(int dev_id, struct dcmi_ub_port_link_status *ub_status);

/* What both generations have: the first with card and chip, the second with the device's number. */
#define DCMI_BOTH(v1, v2, ...)                         \
    int dcmi_##v1(int card_id, int device_id, __VA_ARGS__); \
    int dcmiv2_##v2(int dev_id, __VA_ARGS__);

DCMI_BOTH(get_device_type, get_device_type, int *device_type)
DCMI_BOTH(get_device_die_v2, get_device_die_id, int input_type, struct dcmi_die_id *die_id)
DCMI_BOTH(get_device_pcie_info_v2, get_device_pcie_info, struct dcmi_pcie_info_all *pcie_info)
DCMI_BOTH(get_device_health, get_device_health, unsigned int *health)
DCMI_BOTH(get_device_errorcode_v2, get_device_error_code_list, int *error_count, unsigned int *error_code_list,
          unsigned int list_len)
DCMI_BOTH(get_device_utilization_rate, get_device_utilization_rate, int input_type, unsigned int *utilization_rate)
DCMI_BOTH(get_device_multi_utilization_rate, get_device_multi_utilization_rate, struct dcmi_multi_utilization_info *info)
DCMI_BOTH(get_device_hbm_info, get_device_hbm_info, struct dcmi_hbm_info *hbm_info)
DCMI_BOTH(get_device_ecc_info, get_device_ecc_info, int input_type, struct dcmi_ecc_info *ecc_info)
DCMI_BOTH(get_device_temperature, get_device_temperature, int *temperature)
DCMI_BOTH(get_device_voltage, get_device_voltage, unsigned int *voltage)
DCMI_BOTH(get_device_power_info, get_device_power_info, int *power)
DCMI_BOTH(get_device_frequency, get_device_frequency, int input_type, unsigned int *frequency)
DCMI_BOTH(get_device_network_health, get_device_network_health, int *result)
DCMI_BOTH(get_device_resource_info, get_device_proc_mem_info, struct dcmi_proc_mem_info *proc_info, int *proc_num)
DCMI_BOTH(get_device_info, get_device_info, int main_cmd, unsigned int sub_cmd, void *buffer, unsigned int *size)
DCMI_BOTH(get_netdev_pkt_stats_info, get_netdev_pkt_stats_info, int port_id, struct dcmi_network_pkt_stats_info *info)
DCMI_BOTH(get_mainboard_id, get_mainboard_id, unsigned int *mainboard_id)
DCMI_BOTH(get_pcie_link_bandwidth_info, get_pcie_link_bandwidth_info, struct dcmi_pcie_link_bandwidth_info *bandwidth)

#endif

/* A libdcmi.so without hardware, for tests and the demo. What it answers stands in a text file that is read anew at each
 * call: $DCMI_DOUBLE_SCRIPT, or dcmi_double.txt beside the library, or the defaults below (two cards of one chip).
 *
 * One setting a line, `#` begins a comment, a later line wins. `CARD/DEVICE` before a key narrows it to one chip; for the
 * second generation's functions CARD is the device's number and DEVICE is 0.
 *   cards 0 1                            card ids; `cards` alone: none
 *   chips 2                              chips in each card; an MCU follows them
 *   0/0 temperature 0x7ffd               values: health utilization vector_utilization cube_utilization
 *                                        overall_utilization temperature power voltage frequency frequency_max
 *                                        vector_frequency network_health mainboard
 *                                        hbm_size hbm_used hbm_frequency hbm_temperature hbm_bandwidth ddr_size ddr_available
 *   0/-1 card_power 1200                 of the card, by its MCU
 *   1/0 errors 0x80E01801 0x80DE1801     error codes
 *   0/0 ecc hbm 1 5 0 7 0 2 0            enabled, single, double, both of the life, isolated pages of both; `ecc ddr`
 *   0/0 hccs 3 100 200 1 2               port: flits sent, received, CRC errors, retries
 *   0/0 hccs_bandwidth 3 1.5 2.5         port: GB/s sent, received
 *   0/0 packets roce_new_pkt_rty_num 7   counters of the network port, by the structure's field
 *   0/0 ub_ports 0/4 1/8:1               ports of a 950, UDIE/PORT; `:1` carries Ethernet
 *   0/0 ub_packets/1/8 crc_error_sum 3   a counter of a port, by the structure's field
 *   0/0 ub_links 1 4:1 5:3               states of the chip and of ports by number; `ub_links` alone: not supported
 *   0/0 pcie_errors 1 2 3 4 5            sent, received, link CRC, end-to-end CRC, retries
 *   0/0 pcie_bandwidth 1 9 4             MB/ms of every kind: least, most, mean
 *   0/0 processes 4711:1048576 12:0      process id and bytes
 *   chip_name 910B3                      also chip_type, chip_version
 *   0/1 type 1                           0 NPU, 1 MCU, 2 CPU
 *   0/0 return dcmi_get_device_health -8255
 *   latency dcmi_get_device_health 5     milliseconds, or a range: 1-10; `*` for every function
 *   hang dcmi_get_device_health          never returns; also narrowed, also `*`
 *   record /tmp/calls                    appends the name and the chip of each call to this file
 *   print hello                          writes to standard output, as vendors' libraries do
 * dev/doubles/dcmi/realistic.txt holds latencies as published.
 */
#include "dcmi.h"
#include "script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NPU = 0, MCU = 1, MAX_CARDS = 64, NO_DEVICE = -8008, BAD_PARAMETER = -8001, NOT_SUPPORTED = -8255 };

static int cards(int *list)
{
    char rest[1024] = "0 1";
    int count = 0;
    setting(ANY, ANY, "cards", NULL, rest, sizeof rest);
    for (char *at = strtok(rest, " \t"); at != NULL && count < MAX_CARDS; at = strtok(NULL, " \t"))
        list[count++] = (int)strtol(at, NULL, 0);
    return count;
}

static int chips_in(int card)
{
    return (int)number(card, ANY, "chips", 1);
}

/* The chip's place among all chips, which is its logical and its physical id here; -1 where there is no such chip. */
static int place(int card, int device)
{
    int list[MAX_CARDS], count = cards(list), before = 0;
    for (int i = 0; i < count; i++) {
        if (list[i] == card)
            return device >= 0 && device < chips_in(card) ? before + device : -1;
        before += chips_in(list[i]);
    }
    return -1;
}

static unsigned int unsigned_number(int card, int device, const char *key, long long otherwise)
{
    return (unsigned int)number(card, device, key, otherwise);
}

/* Up to `count` numbers of a setting; those that it does not give stay as they are. */
static void numbers(int card, int device, const char *key, const char *word, double *out, int count)
{
    char rest[1024] = "";
    int at = 0;
    setting(card, device, key, word, rest, sizeof rest);
    for (char *one = strtok(rest, " \t"); one != NULL && at < count; one = strtok(NULL, " \t"))
        out[at++] = strtod(one, NULL);
}

static int begin_chip(const char *function, int card, int device, const void *result)
{
    int code = preamble(function, card, device);
    if (code != 0)
        return code;
    if (result == NULL)
        return BAD_PARAMETER;
    return place(card, device) < 0 ? NO_DEVICE : 0;
}

#define BEGIN_CHIP(result)                                                   \
    int code_ = begin_chip(function, card_id, device_id, result);            \
    if (code_ != 0)                                                          \
        return code_

/* One body for both generations. NAMES: how the parameters are passed on. */
#define BOTH(v1, v2, PARAMETERS, NAMES)                                             \
    static int v1##_of(const char *function, int card_id, int device_id, UNPACK PARAMETERS); \
    int dcmi_##v1(int card_id, int device_id, UNPACK PARAMETERS)                    \
    {                                                                               \
        return v1##_of("dcmi_" #v1, card_id, device_id, UNPACK NAMES);              \
    }                                                                               \
    int dcmiv2_##v2(int dev_id, UNPACK PARAMETERS)                                  \
    {                                                                               \
        return v1##_of("dcmiv2_" #v2, dev_id, 0, UNPACK NAMES);                     \
    }                                                                               \
    static int v1##_of(const char *function, int card_id, int device_id, UNPACK PARAMETERS)
#define UNPACK(...) __VA_ARGS__

int dcmi_init(void)
{
    return preamble(__func__, ANY, ANY);
}

int dcmiv2_init(void)
{
    return preamble(__func__, ANY, ANY);
}

static int card_list(const char *function, int *card_num, int *list, int list_len)
{
    int code = preamble(function, ANY, ANY), all[MAX_CARDS], count = cards(all);
    if (code != 0)
        return code;
    if (card_num == NULL || list == NULL || list_len < count)
        return BAD_PARAMETER;
    memcpy(list, all, sizeof(int) * (size_t)count);
    *card_num = count;
    return 0;
}

int dcmi_get_card_list(int *card_num, int *list, int list_len)
{
    return card_list(__func__, card_num, list, list_len);
}

int dcmi_get_card_num_list(int *card_num, int *list, int list_len)
{
    return card_list(__func__, card_num, list, list_len);
}

int dcmiv2_get_device_list(int *device_list, int *device_num, int list_len)
{
    return card_list(__func__, device_num, device_list, list_len);
}

int dcmi_get_device_num_in_card(int card_id, int *device_num)
{
    int code = preamble(__func__, card_id, ANY);
    if (code != 0)
        return code;
    *device_num = chips_in(card_id);
    return 0;
}

int dcmi_get_device_id_in_card(int card_id, int *device_id_max, int *mcu_id, int *cpu_id)
{
    int code = preamble(__func__, card_id, ANY);
    if (code != 0)
        return code;
    *device_id_max = chips_in(card_id);
    *mcu_id = *device_id_max;
    *cpu_id = -1;
    return 0;
}

BOTH(get_device_type, get_device_type, (int *device_type), (device_type))
{
    int code = preamble(function, card_id, device_id);
    if (code != 0)
        return code;
    *device_type = (int)number(card_id, device_id, "type", device_id < chips_in(card_id) ? NPU : MCU);
    return 0;
}

int dcmi_get_device_logic_id(int *device_logic_id, int card_id, int device_id)
{
    const char *function = __func__;
    BEGIN_CHIP(device_logic_id);
    *device_logic_id = place(card_id, device_id);
    return 0;
}

int dcmi_get_device_phyid_from_logicid(unsigned int logicid, unsigned int *phyid)
{
    int code = preamble(__func__, ANY, ANY);
    if (code != 0)
        return code;
    *phyid = logicid;
    return 0;
}

int dcmiv2_get_chip_phy_id_by_dev_id(unsigned int dev_id, unsigned int *phyid)
{
    const char *function = __func__;
    int card_id = (int)dev_id, device_id = 0;
    BEGIN_CHIP(phyid);
    *phyid = (unsigned int)place(card_id, device_id);
    return 0;
}

static int chip_names(const char *function, int card_id, int device_id, struct dcmi_chip_info_v2 *names)
{
    BEGIN_CHIP(names);
    text(card_id, device_id, "chip_type", "Ascend", names->chip_type);
    text(card_id, device_id, "chip_name", "910B3", names->chip_name);
    text(card_id, device_id, "chip_version", "V1", names->chip_ver);
    names->aicore_cnt = 20;
    text(card_id, device_id, "npu_name", "NPU", names->npu_name);
    return 0;
}

int dcmi_get_device_chip_info(int card_id, int device_id, struct dcmi_chip_info *chip_info)
{
    struct dcmi_chip_info_v2 names;
    int code = chip_names(__func__, card_id, device_id, &names);
    if (code == 0)
        memcpy(chip_info, &names, sizeof *chip_info); /* the one begins as the other */
    return code;
}

int dcmiv2_get_device_chip_info(int dev_id, struct dcmi_chip_info_v2 *chip_info)
{
    return chip_names(__func__, dev_id, 0, chip_info);
}

BOTH(get_device_die_v2, get_device_die_id, (int input_type, struct dcmi_die_id *die_id), (input_type, die_id))
{
    BEGIN_CHIP(die_id);
    if (input_type != 1)
        return NOT_SUPPORTED;
    for (unsigned int i = 0; i < 5; i++)
        die_id->soc_die[i] = 0xD0B1E000u + (unsigned int)place(card_id, device_id) * 16 + i;
    return 0;
}

BOTH(get_device_pcie_info_v2, get_device_pcie_info, (struct dcmi_pcie_info_all *pcie_info), (pcie_info))
{
    BEGIN_CHIP(pcie_info);
    memset(pcie_info, 0, sizeof *pcie_info);
    pcie_info->venderid = 0x19e5;
    pcie_info->bdf_busid = 0xc1u + (unsigned int)place(card_id, device_id);
    return 0;
}

BOTH(get_device_health, get_device_health, (unsigned int *health), (health))
{
    BEGIN_CHIP(health);
    *health = unsigned_number(card_id, device_id, "health", 0);
    return 0;
}

BOTH(get_device_errorcode_v2, get_device_error_code_list,
     (int *error_count, unsigned int *error_code_list, unsigned int list_len), (error_count, error_code_list, list_len))
{
    char rest[1024] = "";
    unsigned int count = 0;
    BEGIN_CHIP(error_count);
    setting(card_id, device_id, "errors", NULL, rest, sizeof rest);
    for (char *at = strtok(rest, " \t"); at != NULL && count < list_len; at = strtok(NULL, " \t"))
        error_code_list[count++] = (unsigned int)strtoul(at, NULL, 0);
    *error_count = (int)count;
    return 0;
}

BOTH(get_device_utilization_rate, get_device_utilization_rate, (int input_type, unsigned int *utilization_rate),
     (input_type, utilization_rate))
{
    const char *key = input_type == 2 ? "utilization" : input_type == 12 ? "vector_utilization"
        : input_type == 13 ? "overall_utilization" : NULL; /* the cube's, 14, is not among those of 910B */
    BEGIN_CHIP(utilization_rate);
    if (key == NULL)
        return NOT_SUPPORTED;
    *utilization_rate = unsigned_number(card_id, device_id, key, 0);
    return 0;
}

BOTH(get_device_multi_utilization_rate, get_device_multi_utilization_rate, (struct dcmi_multi_utilization_info *info),
     (info))
{
    BEGIN_CHIP(info);
    memset(info, 0, sizeof *info);
    info->aic_util = unsigned_number(card_id, device_id, "cube_utilization", 0);
    info->aiv_util = unsigned_number(card_id, device_id, "vector_utilization", 0);
    info->aicore_util = unsigned_number(card_id, device_id, "utilization", 0);
    info->npu_util = unsigned_number(card_id, device_id, "overall_utilization", 0);
    return 0;
}

BOTH(get_device_hbm_info, get_device_hbm_info, (struct dcmi_hbm_info *hbm_info), (hbm_info))
{
    BEGIN_CHIP(hbm_info);
    hbm_info->memory_size = (unsigned long long)number(card_id, device_id, "hbm_size", 65536);
    hbm_info->freq = unsigned_number(card_id, device_id, "hbm_frequency", 1600);
    hbm_info->memory_usage = (unsigned long long)number(card_id, device_id, "hbm_used", 4096);
    hbm_info->temp = (int)number(card_id, device_id, "hbm_temperature", 46);
    hbm_info->bandwith_util_rate = unsigned_number(card_id, device_id, "hbm_bandwidth", 0);
    return 0;
}

int dcmi_get_device_memory_info_v3(int card_id, int device_id, struct dcmi_get_memory_info_stru *memory_info)
{
    const char *function = __func__;
    BEGIN_CHIP(memory_info);
    memset(memory_info, 0, sizeof *memory_info);
    memory_info->memory_size = (unsigned long long)number(card_id, device_id, "ddr_size", 0);
    memory_info->memory_available = (unsigned long long)number(card_id, device_id, "ddr_available", 0);
    return 0;
}

BOTH(get_device_ecc_info, get_device_ecc_info, (int input_type, struct dcmi_ecc_info *ecc_info), (input_type, ecc_info))
{
    double all[7] = {1};
    BEGIN_CHIP(ecc_info);
    if (input_type != 0 && input_type != 2)
        return NOT_SUPPORTED;
    numbers(card_id, device_id, "ecc", input_type == 2 ? "hbm" : "ddr", all, 7);
    ecc_info->enable_flag = (int)all[0];
    ecc_info->single_bit_error_cnt = (unsigned int)all[1];
    ecc_info->double_bit_error_cnt = (unsigned int)all[2];
    ecc_info->total_single_bit_error_cnt = (unsigned int)all[3];
    ecc_info->total_double_bit_error_cnt = (unsigned int)all[4];
    ecc_info->single_bit_isolated_pages_cnt = (unsigned int)all[5];
    ecc_info->double_bit_isolated_pages_cnt = (unsigned int)all[6];
    return 0;
}

BOTH(get_device_temperature, get_device_temperature, (int *temperature), (temperature))
{
    BEGIN_CHIP(temperature);
    *temperature = (int)number(card_id, device_id, "temperature", 42);
    return 0;
}

BOTH(get_device_voltage, get_device_voltage, (unsigned int *voltage), (voltage))
{
    BEGIN_CHIP(voltage);
    *voltage = unsigned_number(card_id, device_id, "voltage", 88);
    return 0;
}

BOTH(get_device_power_info, get_device_power_info, (int *power), (power))
{
    BEGIN_CHIP(power);
    *power = (int)number(card_id, device_id, "power", 953);
    return 0;
}

int dcmi_mcu_get_power_info(int card_id, int *power)
{
    int code = preamble(__func__, card_id, ANY);
    if (code != 0)
        return code;
    *power = (int)number(card_id, ANY, "card_power", 1200);
    return 0;
}

BOTH(get_device_frequency, get_device_frequency, (int input_type, unsigned int *frequency), (input_type, frequency))
{
    const char *key = input_type == 7 ? "frequency" : input_type == 9 ? "frequency_max"
        : input_type == 12 ? "vector_frequency" : NULL;
    BEGIN_CHIP(frequency);
    if (key == NULL)
        return NOT_SUPPORTED;
    *frequency = unsigned_number(card_id, device_id, key, 1800);
    return 0;
}

BOTH(get_device_network_health, get_device_network_health, (int *result), (result))
{
    BEGIN_CHIP(result);
    *result = (int)number(card_id, device_id, "network_health", 0);
    return 0;
}

BOTH(get_device_resource_info, get_device_proc_mem_info, (struct dcmi_proc_mem_info *proc_info, int *proc_num),
     (proc_info, proc_num))
{
    char rest[1024] = "";
    int count = 0;
    BEGIN_CHIP(proc_num);
    setting(card_id, device_id, "processes", NULL, rest, sizeof rest);
    for (char *at = strtok(rest, " \t"); at != NULL && count < 32; at = strtok(NULL, " \t"), count++) {
        char *end;
        proc_info[count].proc_id = (int)strtol(at, &end, 0);
        proc_info[count].proc_mem_usage = *end == ':' ? strtoul(end + 1, NULL, 0) : 0;
    }
    *proc_num = count;
    return 0;
}

static void hccs(int card_id, int device_id, struct dcmi_hccs_statistic_info_u64 *info)
{
    memset(info, 0, sizeof *info);
    for (int port = 0; port < 16; port++) {
        char name[16];
        double all[4] = {0};
        snprintf(name, sizeof name, "%d", port);
        numbers(card_id, device_id, "hccs", name, all, 4);
        info->tx_cnt[port] = (unsigned long long)all[0];
        info->rx_cnt[port] = (unsigned long long)all[1];
        info->crc_err_cnt[port] = (unsigned long long)all[2];
        info->retry_cnt[port] = (unsigned long long)all[3];
    }
}

static void narrow(const struct dcmi_hccs_statistic_info_u64 *wide, struct dcmi_hccs_statistic_info *info)
{
    memset(info, 0, sizeof *info);
    for (int port = 0; port < 16; port++) {
        info->tx_cnt[port] = (unsigned int)wide->tx_cnt[port];
        info->rx_cnt[port] = (unsigned int)wide->rx_cnt[port];
        info->crc_err_cnt[port] = (unsigned int)wide->crc_err_cnt[port];
        info->retry_cnt[port] = (unsigned int)wide->retry_cnt[port];
    }
}

static int pcie_errors(int card_id, int device_id, struct dcmi_pcie_link_error_info *info)
{
    double all[5] = {0};
    memset(info, 0, sizeof *info);
    numbers(card_id, device_id, "pcie_errors", NULL, all, 5);
    info->tx_err_cnt = (unsigned int)all[0];
    info->rx_err_cnt = (unsigned int)all[1];
    info->lcrc_err_cnt = (unsigned int)all[2];
    info->ecrc_err_cnt = (unsigned int)all[3];
    info->retry_cnt = (unsigned int)all[4];
    return 0;
}

BOTH(get_device_info, get_device_info, (int main_cmd, unsigned int sub_cmd, void *buffer, unsigned int *size),
     (main_cmd, sub_cmd, buffer, size))
{
    struct dcmi_hccs_statistic_info_u64 wide;
    char name[96];
    BEGIN_CHIP(buffer);
    /* `return dcmi_get_device_info/16/5 -8255` narrows to a command. */
    snprintf(name, sizeof name, "%s/%d/%u", function, main_cmd, sub_cmd);
    int code = preamble(name, card_id, device_id);
    if (code != 0)
        return code;
    if (main_cmd == DCMI_MAIN_PCIE && sub_cmd == 1 && *size >= sizeof(struct dcmi_pcie_link_error_info))
        return pcie_errors(card_id, device_id, buffer);
    if (main_cmd != DCMI_MAIN_HCCS)
        return NOT_SUPPORTED;
    hccs(card_id, device_id, &wide);
    if (sub_cmd == DCMI_HCCS_STATISTICS_U64 && *size >= sizeof wide)
        memcpy(buffer, &wide, sizeof wide);
    else if (sub_cmd == DCMI_HCCS_STATISTICS && *size >= sizeof(struct dcmi_hccs_statistic_info))
        narrow(&wide, buffer);
    else
        return NOT_SUPPORTED;
    return 0;
}

BOTH(get_netdev_pkt_stats_info, get_netdev_pkt_stats_info, (int port_id, struct dcmi_network_pkt_stats_info *info),
     (port_id, info))
{
    static const char *const NAMES[] = {
        "mac_tx_mac_pause_num", "mac_rx_mac_pause_num", "mac_tx_pfc_pkt_num", "", "", "", "", "", "", "", "",
        "mac_rx_pfc_pkt_num", "", "", "", "", "", "", "", "", "mac_tx_total_pkt_num", "mac_tx_total_oct_num",
        "mac_tx_bad_pkt_num", "mac_tx_bad_oct_num", "mac_rx_total_pkt_num", "mac_rx_total_oct_num",
        "mac_rx_bad_pkt_num", "mac_rx_bad_oct_num", "mac_rx_fcs_err_pkt_num", "roce_rx_rc_pkt_num",
        "roce_rx_all_pkt_num", "roce_rx_err_pkt_num", "roce_tx_rc_pkt_num", "roce_tx_all_pkt_num",
        "roce_tx_err_pkt_num", "roce_cqe_num", "roce_rx_cnp_pkt_num", "roce_tx_cnp_pkt_num", "roce_err_ack_num",
        "roce_err_psn_num", "roce_verification_err_num", "roce_err_qp_status_num", "roce_new_pkt_rty_num",
        "roce_ecn_db_num"};
    unsigned long long *counters = (unsigned long long *)info;
    BEGIN_CHIP(info);
    if (port_id != 0)
        return BAD_PARAMETER;
    memset(info, 0, sizeof *info);
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        double one[1] = {0};
        if (*NAMES[i] != 0)
            numbers(card_id, device_id, "packets", NAMES[i], one, 1);
        counters[i] = (unsigned long long)one[0];
    }
    return 0;
}

BOTH(get_mainboard_id, get_mainboard_id, (unsigned int *mainboard_id), (mainboard_id))
{
    BEGIN_CHIP(mainboard_id);
    *mainboard_id = unsigned_number(card_id, device_id, "mainboard", 0x02);
    return 0;
}

int dcmi_get_hccs_link_bandwidth_info(int card_id, int device_id, struct dcmi_hccs_bandwidth_info *bandwidth)
{
    const char *function = __func__;
    BEGIN_CHIP(bandwidth);
    for (int port = 0; port < 16; port++) {
        char name[16];
        double all[2] = {0};
        snprintf(name, sizeof name, "%d", port);
        numbers(card_id, device_id, "hccs_bandwidth", name, all, 2);
        bandwidth->tx_bandwidth[port] = all[0];
        bandwidth->rx_bandwidth[port] = all[1];
        bandwidth->total_txbw += all[0];
        bandwidth->total_rxbw += all[1];
    }
    return 0;
}

BOTH(get_pcie_link_bandwidth_info, get_pcie_link_bandwidth_info, (struct dcmi_pcie_link_bandwidth_info *bandwidth),
     (bandwidth))
{
    unsigned int *triples[] = {bandwidth->tx_p_bw, bandwidth->tx_np_bw, bandwidth->tx_cpl_bw, bandwidth->tx_np_lantency,
                               bandwidth->rx_p_bw, bandwidth->rx_np_bw, bandwidth->rx_cpl_bw};
    double all[3] = {0};
    BEGIN_CHIP(bandwidth);
    numbers(card_id, device_id, "pcie_bandwidth", NULL, all, 3);
    for (size_t i = 0; i < sizeof triples / sizeof *triples; i++)
        for (int j = 0; j < 3; j++)
            triples[i][j] = (unsigned int)all[j];
    return 0;
}

/* Calls `take` with udie, port and mode of each port that `ub_ports` names. */
static void each_port(int card, void (*take)(int udie, int port, int mode, void *), void *with)
{
    char rest[1024] = "0/4 0/5 0/6", *next; /* of a card that is one of four */
    setting(card, 0, "ub_ports", NULL, rest, sizeof rest);
    for (char *at = strtok_r(rest, " \t", &next); at != NULL; at = strtok_r(NULL, " \t", &next)) {
        int udie = 0, port = 0, mode = 0;
        if (sscanf(at, "%d/%d:%d", &udie, &port, &mode) >= 2)
            take(udie, port, mode, with);
    }
}

static void list_port(int udie, int port, int mode, void *with)
{
    struct dcmi_port_list_info *list = with;
    int place = 0;
    while (place < list->die_nums && list->die_list_data[place].die_index != udie)
        place++;
    if (place == 2)
        return;
    struct die_port_list_info *die = &list->die_list_data[place];
    if (place == list->die_nums)
        list->die_nums++;
    die->die_index = udie;
    if (die->port_nums < 32)
        die->port_list_data[die->port_nums++] = (struct port_info){port, mode};
}

int dcmiv2_get_device_port_list_info(int dev_id, struct dcmi_port_list_info *port_list_info)
{
    const char *function = __func__;
    int card_id = dev_id, device_id = 0;
    BEGIN_CHIP(port_list_info);
    memset(port_list_info, 0, sizeof *port_list_info);
    each_port(card_id, list_port, port_list_info);
    return port_list_info->die_nums > 0 ? 0 : NOT_SUPPORTED;
}

struct sought {
    int udie, port, mode;
};

static void find_port(int udie, int port, int mode, void *with)
{
    struct sought *sought = with;
    if (udie == sought->udie && port == sought->port)
        sought->mode = mode;
}

int dcmiv2_get_port_pkt_stats_info(int dev_id, struct dcmi_ub_port_info *ub_port_info,
                                   struct dcmi_port_pkt_stats_info *port_pkt_stats_info)
{
    static const struct {
        const char *name;
        size_t offset;
    } COUNTERS[] = {
#define COUNTER(field) {#field, offsetof(struct dcmi_port_pkt_stats_info, field)}
#define ETHERNET(field) {#field, offsetof(struct dcmi_port_pkt_stats_info, uboe.field)}
        COUNTER(rx_busi_flit_num), COUNTER(tx_busi_flit_num), COUNTER(retry_req_sum), COUNTER(retry_ack_sum),
        COUNTER(crc_error_sum), COUNTER(route_err_cnt_rx), COUNTER(out_err_cnt_rx), COUNTER(out_err_cnt_tx),
        COUNTER(length_err_cnt_rx), COUNTER(length_err_cnt_tx), COUNTER(drop_ind_cnt_rx), COUNTER(drop_ind_cnt_tx),
        COUNTER(err_ind_cnt_rx), COUNTER(err_ind_cnt_tx), COUNTER(unknown_pkt_cnt_rx), COUNTER(unknown_pkt_cnt_tx),
        COUNTER(ub_mem_pkt_cnt_rx), COUNTER(ub_mem_pkt_cnt_tx), ETHERNET(core_mib_rxpausepkts),
        ETHERNET(core_mib_txpausepkts), ETHERNET(core_mib_rxpfcpkts), ETHERNET(core_mib_txpfcpkts),
        ETHERNET(core_mib_rxbadpkts), ETHERNET(core_mib_txbadpkts), ETHERNET(core_mib_rxbadoctets),
        ETHERNET(core_mib_txbadoctets)};
    const char *function = __func__;
    int card_id = dev_id, device_id = 0;
    char name[16], which[96], rest[1024];
    BEGIN_CHIP(port_pkt_stats_info);
    struct sought sought = {ub_port_info->udie_id, ub_port_info->port_id, -1};
    each_port(card_id, find_port, &sought);
    if (sought.mode < 0)
        return BAD_PARAMETER;
    snprintf(name, sizeof name, "%d/%d", sought.udie, sought.port);
    /* `return dcmiv2_get_port_pkt_stats_info/1/8 -8005` narrows to a port. */
    snprintf(which, sizeof which, "%s/%s", function, name);
    int code = preamble(which, card_id, device_id);
    if (code != 0)
        return code;
    memset(port_pkt_stats_info, 0, sizeof *port_pkt_stats_info);
    port_pkt_stats_info->port_id = (unsigned int)sought.port;
    port_pkt_stats_info->is_uboe_port = (unsigned int)sought.mode;
    for (size_t i = 0; i < sizeof COUNTERS / sizeof *COUNTERS; i++) {
        char key[64];
        snprintf(key, sizeof key, "ub_packets/%s", name);
        if (setting(card_id, device_id, key, COUNTERS[i].name, rest, sizeof rest))
            *(unsigned long long *)((char *)port_pkt_stats_info + COUNTERS[i].offset) = strtoull(rest, NULL, 0);
    }
    return 0;
}

int dcmiv2_get_ub_port_link_status(int dev_id, struct dcmi_ub_port_link_status *ub_status)
{
    const char *function = __func__;
    int card_id = dev_id, device_id = 0;
    char rest[1024] = "1 4:1 5:1 6:1";
    BEGIN_CHIP(ub_status);
    memset(ub_status, 0, sizeof *ub_status);
    setting(card_id, device_id, "ub_links", NULL, rest, sizeof rest);
    char *at = strtok(rest, " \t");
    if (at == NULL)
        return NOT_SUPPORTED;
    ub_status->ub_link_status = (dcmi_entire_ub_status)strtol(at, NULL, 0);
    while ((at = strtok(NULL, " \t")) != NULL) {
        int port = 0, state = 0;
        if (sscanf(at, "%d:%d", &port, &state) == 2 && port >= 0 && port < 36)
            ub_status->ub_port_status[port] = (dcmi_ub_port_status)state;
    }
    return 0;
}

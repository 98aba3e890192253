/* A libdcmi.so without hardware, for tests and the demo. What it answers stands in a text file that is read anew at each
 * call: $DCMI_DOUBLE_SCRIPT, or dcmi_double.txt beside the library, or the defaults below (two cards of one chip).
 *
 * One setting a line, `#` begins a comment, a later line wins. `CARD/DEVICE` before a key narrows it to one chip.
 *   cards 0 1                            card ids; `cards` alone: none
 *   chips 2                              chips in each card; an MCU follows them
 *   0/0 temperature 0x7ffd               values: health utilization temperature power frequency frequency_max
 *                                        hbm_size hbm_used hbm_frequency hbm_temperature hbm_bandwidth
 *   1/0 errors 0x80E01801 0x80DE1801     error codes
 *   chip_name 910B3                      also chip_type, chip_version
 *   0/1 type 1                           0 NPU, 1 MCU, 2 CPU
 *   0/0 return dcmi_get_device_health -8255
 *   latency dcmi_get_device_health 5     milliseconds; `*` for every function
 *   hang dcmi_get_device_health          never returns; also narrowed, also `*`
 *   print hello                          writes to standard output, as vendors' libraries do
 */
#define _GNU_SOURCE
#include "dcmi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NPU = 0, MCU = 1, MAX_CARDS = 64, NO_DEVICE = -8008, BAD_PARAMETER = -8001, NOT_SUPPORTED = -8255, ANY = -1 };

static FILE *open_script(void)
{
    const char *named = getenv("DCMI_DOUBLE_SCRIPT");
    Dl_info self;
    char path[4096];
    if (named != NULL)
        return fopen(named, "r");
    if (!dladdr((void *)&dcmi_init, &self) || strlen(self.dli_fname) > sizeof path - 32)
        return NULL;
    strcpy(path, self.dli_fname);
    char *slash = strrchr(path, '/');
    strcpy(slash != NULL ? slash + 1 : path, "dcmi_double.txt");
    return fopen(path, "r");
}

/* The rest of the last line that sets `key` (of two words where `word` is not NULL) for this chip; 0 where none does. */
static int setting(int card, int device, const char *key, const char *word, char *rest, size_t size)
{
    char line[1024];
    int is_found = 0;
    FILE *script = open_script();
    if (script == NULL)
        return 0;
    while (fgets(line, sizeof line, script) != NULL) {
        int line_card, line_device, used = 0;
        char *at = line, *end = strpbrk(line, "#\n");
        if (end != NULL)
            *end = 0;
        if (sscanf(at, " %d/%d %n", &line_card, &line_device, &used) == 2 && used > 0) {
            if (line_card != card || line_device != device)
                continue;
            at += used;
        }
        at += strspn(at, " \t");
        const char *words[] = {key, word};
        int matches = 1;
        for (int i = 0; i < 2 && words[i] != NULL && matches; i++) {
            size_t length = strcspn(at, " \t");
            int is_any = i == 1 && length == 1 && *at == '*';
            matches = is_any || (length == strlen(words[i]) && memcmp(at, words[i], length) == 0);
            at += length;
            at += strspn(at, " \t");
        }
        if (matches) {
            snprintf(rest, size, "%s", at);
            is_found = 1;
        }
    }
    fclose(script);
    return is_found;
}

static long long number(int card, int device, const char *key, long long otherwise)
{
    char rest[1024];
    return setting(card, device, key, NULL, rest, sizeof rest) ? strtoll(rest, NULL, 0) : otherwise;
}

static void text(int card, int device, const char *key, const char *otherwise, unsigned char *out)
{
    char rest[1024];
    snprintf((char *)out, 32, "%.31s", setting(card, device, key, NULL, rest, sizeof rest) ? rest : otherwise);
}

/* Delay, hang and return code of a function, before it does anything. */
static int preamble(const char *function, int card, int device)
{
    char rest[1024];
    if (setting(card, device, "print", NULL, rest, sizeof rest)) {
        printf("%s\n", rest);
        fflush(stdout);
    }
    if (setting(card, device, "latency", function, rest, sizeof rest)) {
        long milliseconds = strtol(rest, NULL, 0);
        struct timespec wait = {milliseconds / 1000, milliseconds % 1000 * 1000000};
        nanosleep(&wait, NULL);
    }
    while (setting(card, device, "hang", function, rest, sizeof rest))
        usleep(10000);
    return setting(card, device, "return", function, rest, sizeof rest) ? (int)strtol(rest, NULL, 0) : 0;
}

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

#define BEGIN_CHIP(pointer)                                      \
    int code_ = preamble(__func__, card_id, device_id);          \
    if (code_ != 0)                                              \
        return code_;                                            \
    if ((pointer) == NULL)                                       \
        return BAD_PARAMETER;                                    \
    if (place(card_id, device_id) < 0)                           \
        return NO_DEVICE

int dcmi_init(void)
{
    return preamble(__func__, ANY, ANY);
}

static int card_list(const char *function, int *card_num, int *list, int list_len)
{
    int all[MAX_CARDS], count = cards(all), code = preamble(function, ANY, ANY);
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

int dcmi_get_device_type(int card_id, int device_id, int *device_type)
{
    int code = preamble(__func__, card_id, device_id);
    if (code != 0)
        return code;
    *device_type = (int)number(card_id, device_id, "type", device_id < chips_in(card_id) ? NPU : MCU);
    return 0;
}

int dcmi_get_device_logic_id(int *device_logic_id, int card_id, int device_id)
{
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

int dcmi_get_device_chip_info(int card_id, int device_id, struct dcmi_chip_info *chip_info)
{
    BEGIN_CHIP(chip_info);
    text(card_id, device_id, "chip_type", "Ascend", chip_info->chip_type);
    text(card_id, device_id, "chip_name", "910B3", chip_info->chip_name);
    text(card_id, device_id, "chip_version", "V1", chip_info->chip_ver);
    chip_info->aicore_cnt = 20;
    return 0;
}

int dcmi_get_device_die_v2(int card_id, int device_id, int input_type, struct dcmi_die_id *die_id)
{
    BEGIN_CHIP(die_id);
    if (input_type != 1)
        return NOT_SUPPORTED;
    for (unsigned int i = 0; i < 5; i++)
        die_id->soc_die[i] = 0xD0B1E000u + (unsigned int)place(card_id, device_id) * 16 + i;
    return 0;
}

int dcmi_get_device_pcie_info_v2(int card_id, int device_id, struct dcmi_pcie_info_all *pcie_info)
{
    BEGIN_CHIP(pcie_info);
    memset(pcie_info, 0, sizeof *pcie_info);
    pcie_info->venderid = 0x19e5;
    pcie_info->bdf_busid = 0xc1u + (unsigned int)place(card_id, device_id);
    return 0;
}

int dcmi_get_device_health(int card_id, int device_id, unsigned int *health)
{
    BEGIN_CHIP(health);
    *health = (unsigned int)number(card_id, device_id, "health", 0);
    return 0;
}

int dcmi_get_device_errorcode_v2(int card_id, int device_id, int *error_count, unsigned int *error_code_list,
                                 unsigned int list_len)
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

int dcmi_get_device_utilization_rate(int card_id, int device_id, int input_type, unsigned int *utilization_rate)
{
    BEGIN_CHIP(utilization_rate);
    if (input_type != 2)
        return NOT_SUPPORTED;
    *utilization_rate = (unsigned int)number(card_id, device_id, "utilization", 0);
    return 0;
}

int dcmi_get_device_hbm_info(int card_id, int device_id, struct dcmi_hbm_info *hbm_info)
{
    BEGIN_CHIP(hbm_info);
    hbm_info->memory_size = (unsigned long long)number(card_id, device_id, "hbm_size", 65536);
    hbm_info->freq = (unsigned int)number(card_id, device_id, "hbm_frequency", 1600);
    hbm_info->memory_usage = (unsigned long long)number(card_id, device_id, "hbm_used", 4096);
    hbm_info->temp = (int)number(card_id, device_id, "hbm_temperature", 46);
    hbm_info->bandwith_util_rate = (unsigned int)number(card_id, device_id, "hbm_bandwidth", 0);
    return 0;
}

int dcmi_get_device_temperature(int card_id, int device_id, int *temperature)
{
    BEGIN_CHIP(temperature);
    *temperature = (int)number(card_id, device_id, "temperature", 42);
    return 0;
}

int dcmi_get_device_power_info(int card_id, int device_id, int *power)
{
    BEGIN_CHIP(power);
    *power = (int)number(card_id, device_id, "power", 953);
    return 0;
}

int dcmi_get_device_frequency(int card_id, int device_id, int input_type, unsigned int *frequency)
{
    BEGIN_CHIP(frequency);
    if (input_type != 7 && input_type != 9)
        return NOT_SUPPORTED;
    *frequency = (unsigned int)number(card_id, device_id, input_type == 7 ? "frequency" : "frequency_max", 1800);
    return 0;
}

/* A libnvidia-ml.so.1 without hardware, for tests and the demo. What it answers stands in a text file that is read anew
 * when it changes: $NVML_DOUBLE_SCRIPT, or nvml_double.txt beside the library, or the defaults below (two GPUs, 18 links).
 *
 * One setting a line, `#` begins a comment, a later line wins. `gpu1` before a key narrows it to that GPU, `gpu1:0` to one
 * of its MIG instances.
 *   gpus 2                                how many there are
 *   gpu0 temperature 91                   values, as the library gives them: utilization memory_utilization memory_total
 *                                         memory_used memory_reserved temperature memory_temperature power power_limit
 *                                         energy clock clock_max memory_clock throttle violation_0..5 ecc ecc_VOLATILE_KIND
 *                                         remapped_correctable remapped_uncorrectable remap_pending remap_failure
 *                                         retired_pending pcie_generation pcie_generation_max pcie_width pcie_width_max
 *                                         pcie_replays pcie_tx pcie_rx (KB/s) links link_up link_errors_0..4 mig
 *                                         field_ID (`field_82 48`; `field_82 unsupported`)
 *   gpu0 name NVIDIA H100                 also uuid
 *   gpu0 link_down 3                      one link
 *   gpu0 processes 4711:1048576 4712:-    pid and bytes, - where the driver does not know
 *   gpu0 mig 1, gpu0 instances 0 2        MIG mode, and which of its seven places are filled
 *   gpu1 lost                             every call about the GPU answers 15, and so does a wait for events of it
 *   gpu0 xids 31 79                       XIDs since the library was made; those that are new since events were registered
 *                                         come as events, one for each word
 *   gpu0 return nvmlDeviceGetName 999     also without a GPU, also `*` for every function
 *   latency nvmlDeviceGetName 5           milliseconds
 *   hang nvmlDeviceGetPowerUsage          never returns
 *   print hello                           writes to standard output
 */
#define _GNU_SOURCE
#include "nvml.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, TIMEOUT = 10, IS_LOST = 15,
    VERSION_MISMATCH = 25, MAX_GPUS = 32, PLACES = 7, NO_GPU = -1, NO_PLACE = -1, XID = 8, WORD = 64,
    INSUFFICIENT_RESOURCES = 23
};

struct device {
    int gpu, place; /* place: NO_PLACE for the GPU itself */
    int seen_xids;
    struct event_set *set; /* NULL where its events are not registered */
};

struct event_set {
    int is_made;
};

static struct device gpus[MAX_GPUS], instances[MAX_GPUS][PLACES];
static struct event_set sets[WORD];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The script's text, read again where the file is another or was changed. */
static const char *script(void)
{
    static char text[1 << 16], path[4096];
    static struct stat before;
    struct stat now;
    Dl_info self;
    const char *named = getenv("NVML_DOUBLE_SCRIPT");
    if (named != NULL) {
        snprintf(path, sizeof path, "%s", named);
    } else if (dladdr((void *)&script, &self) != 0) {
        const char *slash = strrchr(self.dli_fname, '/');
        int folder = slash != NULL ? (int)(slash - self.dli_fname) + 1 : 0;
        snprintf(path, sizeof path, "%.*snvml_double.txt", folder, self.dli_fname);
    }
    if (stat(path, &now) != 0) {
        memset(&before, 0, sizeof before);
        text[0] = 0;
    } else if (now.st_ino != before.st_ino || now.st_size != before.st_size ||
               memcmp(&now.st_mtim, &before.st_mtim, sizeof now.st_mtim) != 0) {
        FILE *file = fopen(path, "r");
        text[file != NULL ? fread(text, 1, sizeof text - 1, file) : 0] = 0;
        if (file != NULL)
            fclose(file);
        before = now;
    }
    return text;
}

static int takes(const char **at, const char *word)
{
    size_t length = strcspn(*at, " \t\n#");
    int is_any = length == 1 && **at == '*';
    if (!is_any && (length != strlen(word) || memcmp(*at, word, length) != 0))
        return 0;
    *at += length;
    *at += strspn(*at, " \t");
    return 1;
}

/* The rest of the last line that sets `key` (of two words where `word` is not NULL) for the device; 0 where none does. */
static int setting(const struct device *device, const char *key, const char *word, char *rest, size_t size)
{
    int is_found = 0;
    pthread_mutex_lock(&lock);
    for (const char *line = script(); *line != 0; line += strcspn(line, "\n"), line += *line == '\n') {
        int gpu, place, used = 0;
        const char *at = line + strspn(line, " \t");
        if (sscanf(at, "gpu%d:%d%n", &gpu, &place, &used) < 2 || used == 0) {
            place = NO_PLACE;
            used = 0;
            if (sscanf(at, "gpu%d%n", &gpu, &used) < 1 || used == 0)
                gpu = NO_GPU;
        }
        if (gpu != NO_GPU) {
            if (device == NULL || device->gpu != gpu || (place != NO_PLACE && device->place != place))
                continue;
            at += used;
            at += strspn(at, " \t");
        }
        if (!takes(&at, key) || (word != NULL && !takes(&at, word)))
            continue;
        snprintf(rest, size, "%.*s", (int)strcspn(at, "#\n"), at);
        for (size_t end = strlen(rest); end > 0 && strchr(" \t", rest[end - 1]) != NULL; end--)
            rest[end - 1] = 0;
        is_found = 1;
    }
    pthread_mutex_unlock(&lock);
    return is_found;
}

static unsigned long long number(const struct device *device, const char *key, unsigned long long otherwise)
{
    char rest[1024];
    return setting(device, key, NULL, rest, sizeof rest) ? strtoull(rest, NULL, 0) : otherwise;
}

static int count(void)
{
    unsigned long long asked = number(NULL, "gpus", 2);
    return asked < MAX_GPUS ? (int)asked : MAX_GPUS;
}

/* Delay, hang and return code of a function, before it does anything. */
static int preamble(const char *function, const struct device *device)
{
    char rest[1024];
    if (setting(device, "print", NULL, rest, sizeof rest)) {
        printf("%s\n", rest);
        fflush(stdout);
    }
    if (setting(device, "latency", function, rest, sizeof rest))
        usleep((useconds_t)strtoul(rest, NULL, 0) * 1000);
    while (setting(device, "hang", function, rest, sizeof rest))
        usleep(10000);
    if (device != NULL && setting(device, "lost", NULL, rest, sizeof rest))
        return IS_LOST;
    return setting(device, "return", function, rest, sizeof rest) ? (int)strtol(rest, NULL, 0) : 0;
}

#define BEGIN(pointer)                          \
    do {                                        \
        int code_ = preamble(__func__, device); \
        if (code_ != 0)                         \
            return code_;                       \
        if ((pointer) == NULL)                  \
            return INVALID_ARGUMENT;            \
    } while (0)

#define NUMBER(function, type, key, otherwise)        \
    int function(nvmlDevice_t device, type *value)    \
    {                                                 \
        BEGIN(value);                                 \
        *value = (type)number(device, key, otherwise); \
        return 0;                                     \
    }

NUMBER(nvmlDeviceGetPowerUsage, unsigned int, "power", 412500)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned int, "power_limit", 700000)
NUMBER(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, "energy", 987654321)
NUMBER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, "throttle", 0)
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, "throttle", 0)
NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, unsigned int, "retired_pending", 0)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int, "pcie_generation", 5)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int, "pcie_generation_max", 5)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, unsigned int, "pcie_width", 16)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, unsigned int, "pcie_width_max", 16)
NUMBER(nvmlDeviceGetPcieReplayCounter, unsigned int, "pcie_replays", 0)
NUMBER(nvmlDeviceGetMaxMigDeviceCount, unsigned int, "mig_limit", PLACES)

int nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    for (int gpu = 0; gpu < MAX_GPUS; gpu++) {
        gpus[gpu] = (struct device){gpu, NO_PLACE, 0, NULL};
        for (int place = 0; place < PLACES; place++)
            instances[gpu][place] = (struct device){gpu, place, 0, NULL};
    }
    return preamble(__func__, NULL);
}

int nvmlShutdown(void)
{
    return preamble(__func__, NULL);
}

int nvmlDeviceGetCount_v2(unsigned int *value)
{
    struct device *device = NULL;
    BEGIN(value);
    *value = (unsigned int)count();
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *handle)
{
    struct device *device = index < MAX_GPUS ? &gpus[index] : NULL;
    BEGIN(handle);
    if (index >= (unsigned int)count())
        return INVALID_ARGUMENT;
    *handle = device;
    return 0;
}

static int text(const struct device *device, const char *key, const char *otherwise, char *out, unsigned int size)
{
    char rest[256];
    if (!setting(device, key, NULL, rest, sizeof rest))
        snprintf(rest, sizeof rest, "%s", otherwise);
    if (strlen(rest) >= size)
        return INSUFFICIENT_SIZE;
    strcpy(out, rest);
    return 0;
}

int nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int size)
{
    const char *otherwise = device->place == NO_PLACE ? "NVIDIA H100 80GB HBM3" : "NVIDIA H100 80GB HBM3 MIG 1g.10gb";
    BEGIN(name);
    return text(device, "name", otherwise, name, size);
}

int nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int size)
{
    char otherwise[WORD];
    BEGIN(uuid);
    snprintf(otherwise, sizeof otherwise, "%s-d0b1e000-0000-0000-0000-0000000000%02x",
             device->place == NO_PLACE ? "GPU" : "MIG", device->gpu * 16 + (device->place == NO_PLACE ? 0 : device->place + 1));
    return text(device, "uuid", otherwise, uuid, size);
}

int nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, struct pci_info *pci)
{
    BEGIN(pci);
    memset(pci, 0, sizeof *pci);
    pci->bus = 0x1bu + (unsigned int)device->gpu;
    snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
    return 0;
}

int nvmlDeviceGetUtilizationRates(nvmlDevice_t device, struct utilization *value)
{
    BEGIN(value);
    value->gpu = (unsigned int)number(device, "utilization", 87);
    value->memory = (unsigned int)number(device, "memory_utilization", 41);
    return 0;
}

/* v1 counts what driver and firmware keep as used, v2 tells it apart. */
static struct memory_v2 memory_of(const struct device *device)
{
    struct memory_v2 found = {.total = number(device, "memory_total", 85520809984), .version = 0};
    found.reserved = number(device, "memory_reserved", 587202560);
    found.used = number(device, "memory_used", 42949672960);
    found.free = found.total - found.reserved - found.used;
    return found;
}

int nvmlDeviceGetMemoryInfo(nvmlDevice_t device, struct memory *value)
{
    BEGIN(value);
    struct memory_v2 found = memory_of(device);
    *value = (struct memory){found.total, found.free, found.used + found.reserved};
    return 0;
}

int nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, struct memory_v2 *value)
{
    BEGIN(value);
    unsigned int version = value->version;
    if (version != (sizeof *value | 2u << 24))
        return VERSION_MISMATCH;
    *value = memory_of(device);
    value->version = version;
    return 0;
}

int nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned int sensor, unsigned int *value)
{
    BEGIN(value);
    if (sensor != 0)
        return INVALID_ARGUMENT;
    *value = (unsigned int)number(device, "temperature", 61);
    return 0;
}

int nvmlDeviceGetTemperatureV(nvmlDevice_t device, struct temperature_v1 *value)
{
    BEGIN(value);
    if (value->version != (sizeof *value | 1u << 24))
        return VERSION_MISMATCH;
    if (value->sensorType != 0)
        return INVALID_ARGUMENT;
    value->temperature = (int)number(device, "temperature", 61);
    return 0;
}

int nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned int clock, unsigned int *value)
{
    BEGIN(value);
    if (clock > 3)
        return INVALID_ARGUMENT;
    *value = (unsigned int)(clock == 2 ? number(device, "memory_clock", 2619) : number(device, "clock", 1980));
    return 0;
}

int nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned int clock, unsigned int *value)
{
    BEGIN(value);
    if (clock > 3)
        return INVALID_ARGUMENT;
    *value = (unsigned int)(clock == 2 ? 2619 : number(device, "clock_max", 1980));
    return 0;
}

int nvmlDeviceGetViolationStatus(nvmlDevice_t device, unsigned int policy, struct violation_time *value)
{
    char key[WORD];
    BEGIN(value);
    snprintf(key, sizeof key, "violation_%u", policy);
    *value = (struct violation_time){1, number(device, key, 0)};
    return 0;
}

int nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    BEGIN(current);
    *current = *pending = (unsigned int)number(device, "ecc", 1);
    return 0;
}

int nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned int kind, unsigned int counter, unsigned long long *value)
{
    char key[WORD];
    BEGIN(value);
    if (kind > 1 || counter > 1)
        return INVALID_ARGUMENT;
    snprintf(key, sizeof key, "ecc_%s_%s", counter == 0 ? "volatile" : "lifetime", kind == 0 ? "corrected" : "uncorrected");
    *value = number(device, key, 0);
    return 0;
}

int nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *correctable, unsigned int *uncorrectable,
                              unsigned int *pending, unsigned int *failure)
{
    BEGIN(correctable);
    *correctable = (unsigned int)number(device, "remapped_correctable", 0);
    *uncorrectable = (unsigned int)number(device, "remapped_uncorrectable", 0);
    *pending = (unsigned int)number(device, "remap_pending", 0);
    *failure = (unsigned int)number(device, "remap_failure", 0);
    return 0;
}

/* The library listens for 20 ms. */
int nvmlDeviceGetPcieThroughput(nvmlDevice_t device, unsigned int counter, unsigned int *value)
{
    BEGIN(value);
    usleep(20000);
    *value = (unsigned int)number(device, counter == 0 ? "pcie_tx" : "pcie_rx", 1500);
    return 0;
}

int nvmlDeviceGetFieldValues(nvmlDevice_t device, int values_count, struct field_value *values)
{
    BEGIN(values);
    for (int i = 0; i < values_count; i++) {
        /* memory temperature; NVLink payload sent and received in KiB, of all links; PCIe bytes sent and received */
        static const unsigned int known[][2] = {{82, 55}, {138, 7340032}, {139, 7340033}, {197, 90000000}, {198, 80000000}};
        char key[WORD], rest[1024];
        snprintf(key, sizeof key, "field_%u", values[i].fieldId);
        int is_set = setting(device, key, NULL, rest, sizeof rest);
        values[i].valueType = values[i].fieldId == 82 ? 1 : 3;
        values[i].nvmlReturn = NOT_SUPPORTED;
        for (size_t j = 0; j < sizeof known / sizeof *known; j++)
            if (known[j][0] == values[i].fieldId && (!is_set || strcmp(rest, "unsupported") != 0)) {
                values[i].nvmlReturn = 0;
                values[i].value.ullVal = is_set ? strtoull(rest, NULL, 0) : known[j][1];
            }
        int is_link_total = values[i].fieldId == 138 || values[i].fieldId == 139;
        if (is_link_total && values[i].scopeId != 0xFFFFFFFFu)
            values[i].value.ullVal /= 18;
    }
    return 0;
}

static int link_is_up(const struct device *device, unsigned int link)
{
    char rest[1024];
    return (int)number(device, "link_up", 1) &&
           !(setting(device, "link_down", NULL, rest, sizeof rest) && strtoul(rest, NULL, 0) == link);
}

int nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, unsigned int *is_active)
{
    BEGIN(is_active);
    if (link >= number(device, "links", 18))
        return number(device, "links", 18) == 0 ? NOT_SUPPORTED : INVALID_ARGUMENT;
    *is_active = (unsigned int)link_is_up(device, link);
    return 0;
}

int nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned int link, unsigned int counter, unsigned long long *value)
{
    char key[WORD];
    BEGIN(value);
    if (link >= number(device, "links", 18) || counter > 4)
        return INVALID_ARGUMENT;
    if (!link_is_up(device, link))
        return NOT_SUPPORTED;
    snprintf(key, sizeof key, "link_errors_%u", counter);
    *value = number(device, key, 0);
    return 0;
}

int nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    BEGIN(current);
    *current = *pending = (unsigned int)number(device, "mig", 0);
    return 0;
}

int nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int place, nvmlDevice_t *instance)
{
    char rest[1024] = "";
    BEGIN(instance);
    setting(device, "instances", NULL, rest, sizeof rest);
    for (char *save, *at = strtok_r(rest, " \t", &save); at != NULL; at = strtok_r(NULL, " \t", &save))
        if (place < PLACES && strtoul(at, NULL, 0) == place) {
            *instance = &instances[device->gpu][place];
            return 0;
        }
    return NOT_FOUND;
}

int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *room, struct process_info *processes)
{
    char rest[1024] = "";
    unsigned int found = 0;
    BEGIN(room);
    setting(device, "processes", NULL, rest, sizeof rest);
    for (char *save, *at = strtok_r(rest, " \t", &save); at != NULL; at = strtok_r(NULL, " \t", &save)) {
        const char *bytes = strchr(at, ':');
        if (processes != NULL && found < *room)
            processes[found] = (struct process_info){
                (unsigned int)strtoul(at, NULL, 0),
                bytes == NULL || bytes[1] == '-' ? ~0ull : strtoull(bytes + 1, NULL, 0), ~0u, ~0u};
        found++;
    }
    int is_small = found > (processes != NULL ? *room : 0);
    *room = found;
    return is_small ? INSUFFICIENT_SIZE : 0;
}

static int xids_of(const struct device *device, unsigned long long *codes, int room)
{
    char rest[1024] = "";
    int found = 0;
    setting(device, "xids", NULL, rest, sizeof rest);
    for (char *save, *at = strtok_r(rest, " \t", &save); at != NULL && found < room; at = strtok_r(NULL, " \t", &save))
        codes[found++] = strtoull(at, NULL, 0);
    return found;
}

int nvmlEventSetCreate(nvmlEventSet_t *set)
{
    struct device *device = NULL;
    BEGIN(set);
    for (int number = 0; number < WORD; number++)
        if (!sets[number].is_made) {
            sets[number].is_made = 1;
            *set = &sets[number];
            return 0;
        }
    return INSUFFICIENT_RESOURCES;
}

int nvmlEventSetFree(nvmlEventSet_t set)
{
    set->is_made = 0;
    return 0;
}

int nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long kinds, nvmlEventSet_t set)
{
    unsigned long long codes[WORD];
    BEGIN(set);
    if ((kinds & ~(unsigned long long)XID) != 0)
        return NOT_SUPPORTED;
    device->seen_xids = xids_of(device, codes, WORD);
    device->set = set;
    return 0;
}

int nvmlEventSetWait_v2(nvmlEventSet_t set, struct event_data *event, unsigned int timeout_milliseconds)
{
    struct device *device = NULL;
    BEGIN(set);
    for (unsigned int waited = 0; waited <= timeout_milliseconds; waited += 10, usleep(10000))
        for (int gpu = 0; gpu < MAX_GPUS; gpu++) {
            unsigned long long codes[WORD];
            if (gpus[gpu].set != set)
                continue;
            if (xids_of(&gpus[gpu], codes, WORD) > gpus[gpu].seen_xids) {
                *event = (struct event_data){&gpus[gpu], XID, codes[gpus[gpu].seen_xids++], ~0u, ~0u};
                return 0;
            }
            int code = preamble(__func__, &gpus[gpu]); /* one lost GPU of a set makes every wait on it fail at once */
            if (code != 0)
                return code;
        }
    return TIMEOUT;
}

/* The part of NVML's ABI that Rankbeat calls through nvidia-ml-py, in our own words after that package's structures and
 * the library's public reference. tests/exporter/test_nvml.py holds the layouts against the package's. */
#ifndef RANKBEAT_DOUBLE_NVML_H
#define RANKBEAT_DOUBLE_NVML_H

typedef struct device *nvmlDevice_t;
typedef struct event_set *nvmlEventSet_t;

struct utilization {
    unsigned int gpu, memory; /* percent */
};

struct memory {
    unsigned long long total, free, used; /* bytes */
};

struct memory_v2 {
    unsigned int version;
    unsigned long long total, reserved, free, used; /* bytes */
};

struct pci_info {
    char busIdLegacy[16];
    unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
};

struct temperature_v1 {
    unsigned int version, sensorType;
    int temperature; /* degrees Celsius */
};

union value {
    double dVal;
    unsigned int uiVal;
    unsigned long ulVal;
    unsigned long long ullVal;
    long long sllVal;
    int siVal;
    unsigned short usVal;
};

struct field_value {
    unsigned int fieldId, scopeId;
    long long timestamp, latencyUsec;
    unsigned int valueType, nvmlReturn;
    union value value;
};

struct violation_time {
    unsigned long long referenceTime, violationTime; /* microseconds, nanoseconds */
};

struct process_info {
    unsigned int pid;
    unsigned long long usedGpuMemory; /* bytes, all ones where it is not known */
    unsigned int gpuInstanceId, computeInstanceId;
};

struct event_data {
    nvmlDevice_t device;
    unsigned long long eventType, eventData;
    unsigned int gpuInstanceId, computeInstanceId;
};

#endif

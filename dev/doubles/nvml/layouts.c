/* Prints `structure field offset` for each field and `structure * size`, named as in nvidia-ml-py. */
#include "nvml.h"

#include <stddef.h>
#include <stdio.h>

#define FIELD(structure, name, field) printf(name " " #field " %zu\n", offsetof(struct structure, field))
#define SIZE(structure, name) printf(name " * %zu\n", sizeof(struct structure))

int main(void)
{
    FIELD(utilization, "c_nvmlUtilization_t", gpu);
    FIELD(utilization, "c_nvmlUtilization_t", memory);
    SIZE(utilization, "c_nvmlUtilization_t");
    FIELD(memory, "c_nvmlMemory_t", total);
    FIELD(memory, "c_nvmlMemory_t", used);
    SIZE(memory, "c_nvmlMemory_t");
    FIELD(memory_v2, "c_nvmlMemory_v2_t", total);
    FIELD(memory_v2, "c_nvmlMemory_v2_t", reserved);
    FIELD(memory_v2, "c_nvmlMemory_v2_t", used);
    SIZE(memory_v2, "c_nvmlMemory_v2_t");
    FIELD(pci_info, "nvmlPciInfo_t", domain);
    FIELD(pci_info, "nvmlPciInfo_t", busId);
    SIZE(pci_info, "nvmlPciInfo_t");
    FIELD(temperature_v1, "c_nvmlTemperature_v1_t", sensorType);
    FIELD(temperature_v1, "c_nvmlTemperature_v1_t", temperature);
    SIZE(temperature_v1, "c_nvmlTemperature_v1_t");
    FIELD(field_value, "c_nvmlFieldValue_t", fieldId);
    FIELD(field_value, "c_nvmlFieldValue_t", scopeId);
    FIELD(field_value, "c_nvmlFieldValue_t", valueType);
    FIELD(field_value, "c_nvmlFieldValue_t", nvmlReturn);
    FIELD(field_value, "c_nvmlFieldValue_t", value);
    SIZE(field_value, "c_nvmlFieldValue_t");
    FIELD(violation_time, "c_nvmlViolationTime_t", violationTime);
    SIZE(violation_time, "c_nvmlViolationTime_t");
    FIELD(process_info, "c_nvmlProcessInfo_v2_t", pid);
    FIELD(process_info, "c_nvmlProcessInfo_v2_t", usedGpuMemory);
    SIZE(process_info, "c_nvmlProcessInfo_v2_t");
    FIELD(event_data, "c_nvmlEventData_t", device);
    FIELD(event_data, "c_nvmlEventData_t", eventType);
    FIELD(event_data, "c_nvmlEventData_t", eventData);
    SIZE(event_data, "c_nvmlEventData_t");
    return 0;
}

/* Prints `structure field offset` for each field and `structure * size`: the compiler's word against our ctypes. */
#include "dcmi.h"

#include <stddef.h>
#include <stdio.h>
#include <sys/timex.h>

#define FIELD(structure, field) printf(#structure " " #field " %zu\n", offsetof(struct structure, field))
#define SIZE(structure) printf(#structure " * %zu\n", sizeof(struct structure))

int main(void)
{
    FIELD(dcmi_chip_info, chip_type);
    FIELD(dcmi_chip_info, chip_name);
    FIELD(dcmi_chip_info, chip_ver);
    FIELD(dcmi_chip_info, aicore_cnt);
    SIZE(dcmi_chip_info);
    FIELD(dcmi_hbm_info, memory_size);
    FIELD(dcmi_hbm_info, freq);
    FIELD(dcmi_hbm_info, memory_usage);
    FIELD(dcmi_hbm_info, temp);
    FIELD(dcmi_hbm_info, bandwith_util_rate);
    SIZE(dcmi_hbm_info);
    FIELD(dcmi_pcie_info_all, venderid);
    FIELD(dcmi_pcie_info_all, domain);
    FIELD(dcmi_pcie_info_all, bdf_busid);
    FIELD(dcmi_pcie_info_all, bdf_deviceid);
    FIELD(dcmi_pcie_info_all, bdf_funcid);
    SIZE(dcmi_pcie_info_all);
    SIZE(dcmi_die_id);
    FIELD(timex, modes);
    FIELD(timex, offset);
    FIELD(timex, maxerror);
    FIELD(timex, esterror);
    FIELD(timex, status);
    FIELD(timex, tai);
    SIZE(timex);
    return 0;
}

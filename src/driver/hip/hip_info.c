/*
 * hip_info.c - describes a device without opening it: the runtime's attributes, and the PCIe link from sysfs.
 */
#include "driver/hip/hip_driver.h"

#include "base/pci.h"

#include <stdio.h>
#include <string.h>

/* One attribute, 0 where the runtime does not know it: it only serves to inform. */
static uint32_t attribute(const struct hip_api *api, hi_device device, hi_device_attribute which)
{
    int value;

    if (api->device_attribute(&value, which, device) != LEATI_hipSuccess || value < 0)
        return 0;
    return (uint32_t)value;
}

/* The devices whose memory this one can reach directly. What cannot be asked counts as out of reach. */
static uint64_t find_peers(const struct hip_driver *hip, hi_device device)
{
    uint64_t peers = 0;
    int reachable;

    for (int i = 0; i < hip->base.device_count && i < 64; i++)
        if (i != device && hip->api.device_can_access_peer(&reachable, device, i) == LEATI_hipSuccess && reachable)
            peers |= UINT64_C(1) << i;
    return peers;
}

/* The architecture is in no attribute, only in the properties, of which HIP 6 has another struct. */
void leati_hip_architecture(const struct hip_api *api, int ordinal, char *text, size_t text_bytes)
{
    hi_properties_5 five;
    hi_properties_6 six;
    const char *name = "";

    memset(&six, 0, sizeof six);
    memset(&five, 0, sizeof five);
    if (api->device_properties_6 && api->device_properties_6(&six, ordinal) == LEATI_hipSuccess)
        name = six.architecture;
    else if (api->device_properties_5 && api->device_properties_5(&five, ordinal) == LEATI_hipSuccess)
        name = five.architecture;
    snprintf(text, text_bytes, "%.*s", (int)strcspn(name, ":"), name);
}

leat_status leati_hip_device_info(struct leati_driver *driver, int ordinal, leat_device_info *info)
{
    const struct hip_api *api = &leati_hip_of(driver)->api;
    hi_device device;
    size_t bytes;
    hi_result code;

    code = api->device_get(&device, ordinal);
    if (code != LEATI_hipSuccess)
        return leati_hip_fail(api, leati_hip_names.device_get, code);
    code = api->device_name(info->model, sizeof info->model, device);
    if (code != LEATI_hipSuccess)
        return leati_hip_fail(api, leati_hip_names.device_name, code);
    info->model[sizeof info->model - 1] = '\0';
    code = api->device_total_memory(&bytes, device);
    if (code != LEATI_hipSuccess)
        return leati_hip_fail(api, leati_hip_names.device_total_memory, code);

    info->ordinal = ordinal;
    info->memory_bytes = bytes;
    leati_hip_architecture(api, device, info->architecture, sizeof info->architecture);
    info->compute_units = attribute(api, device, LEATI_hipDeviceAttributeMultiprocessorCount);
    info->max_block_threads = attribute(api, device, LEATI_hipDeviceAttributeMaxThreadsPerBlock);
    info->max_shared_bytes = attribute(api, device, LEATI_hipDeviceAttributeMaxSharedMemoryPerBlock);
    info->memory_clock_khz = attribute(api, device, LEATI_hipDeviceAttributeMemoryClockRate);
    info->memory_bus_bits = attribute(api, device, LEATI_hipDeviceAttributeMemoryBusWidth);
    info->copy_engines = attribute(api, device, LEATI_hipDeviceAttributeAsyncEngineCount);
    info->peer_mask = find_peers(leati_hip_of(driver), device);
    info->unified_addressing = 1; /* every GPU that ROCm drives */
    info->managed_memory = attribute(api, device, LEATI_hipDeviceAttributeManagedMemory) != 0;
    info->virtual_memory = attribute(api, device, LEATI_hipDeviceAttributeVirtualMemoryManagementSupported) != 0;
    info->strict = 0;
    if (api->device_pci_address(info->pci_address, sizeof info->pci_address, device) != LEATI_hipSuccess)
        info->pci_address[0] = '\0';
    leati_pci_describe(info);
    return LEAT_OK;
}

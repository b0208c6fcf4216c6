/*
 * cuda_info.c - describes a device without opening it: the driver's attributes, and the PCIe link from sysfs.
 */
#include "driver/cuda/cuda_driver.h"

#include "base/pci.h"

#include <stdio.h>

/* One attribute, 0 where the driver does not know it: it only serves to inform. */
static uint32_t attribute(const struct cuda_api *cu, cu_device device, cu_device_attribute which)
{
    int value;

    if (cu->device_attribute(&value, which, device) != LEATI_CUDA_SUCCESS || value < 0)
        return 0;
    return (uint32_t)value;
}

/* The devices whose memory this one can reach directly. What cannot be asked counts as out of reach. */
static uint64_t find_peers(const struct cuda_driver *cuda, cu_device device)
{
    uint64_t peers = 0;
    cu_device other;
    int reachable;

    for (int i = 0; i < cuda->base.device_count && i < 64; i++)
        if (cuda->cu.device_get(&other, i) == LEATI_CUDA_SUCCESS && other != device &&
            cuda->cu.device_can_access_peer(&reachable, device, other) == LEATI_CUDA_SUCCESS && reachable)
            peers |= UINT64_C(1) << i;
    return peers;
}

leat_status leati_cuda_device_info(struct leati_driver *driver, int ordinal, leat_device_info *info)
{
    const struct cuda_api *cu = &leati_cuda_of(driver)->cu;
    cu_device device;
    size_t bytes;
    cu_result code;

    code = cu->device_get(&device, ordinal);
    if (code != LEATI_CUDA_SUCCESS)
        return leati_cuda_fail(cu, leati_cuda_names.device_get, code);
    code = cu->device_name(info->model, sizeof info->model, device);
    if (code != LEATI_CUDA_SUCCESS)
        return leati_cuda_fail(cu, leati_cuda_names.device_name, code);
    info->model[sizeof info->model - 1] = '\0';
    code = cu->device_total_memory(&bytes, device);
    if (code != LEATI_CUDA_SUCCESS)
        return leati_cuda_fail(cu, leati_cuda_names.device_total_memory, code);

    info->ordinal = ordinal;
    info->memory_bytes = bytes;
    snprintf(info->architecture, sizeof info->architecture, "sm_%u%u",
             attribute(cu, device, LEATI_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
             attribute(cu, device, LEATI_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
    info->compute_units = attribute(cu, device, LEATI_CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    info->max_block_threads = attribute(cu, device, LEATI_CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    info->max_shared_bytes = attribute(cu, device, LEATI_CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    info->memory_clock_khz = attribute(cu, device, LEATI_CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
    info->memory_bus_bits = attribute(cu, device, LEATI_CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
    info->copy_engines = attribute(cu, device, LEATI_CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
    info->peer_mask = find_peers(leati_cuda_of(driver), device);
    info->unified_addressing = attribute(cu, device, LEATI_CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) != 0;
    info->managed_memory = attribute(cu, device, LEATI_CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY) != 0;
    info->virtual_memory =
        attribute(cu, device, LEATI_CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) != 0;
    info->strict = 0;
    if (cu->device_pci_address(info->pci_address, sizeof info->pci_address, device) != LEATI_CUDA_SUCCESS)
        info->pci_address[0] = '\0';
    leati_pci_describe(info);
    return LEAT_OK;
}

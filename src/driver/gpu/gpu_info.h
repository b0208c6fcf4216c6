/*
 * gpu_info.h - describes a device without opening it: the vendor's attributes, and the PCIe link from sysfs. See
 * gpu_driver.h.
 *
 * The vendor's file has
 *
 *   find_peers()         returns a bit for each device whose memory this device can access directly, if known
 *   put_architecture()   writes the name of the architecture to text
 *   put_kernel_code()    writes to text in which form leat's kernels are loaded: see leat_device_info.kernel_code
 *   is_unified()         returns true if host and devices share one address space
 */
#include "driver/gpu/gpu_driver.h"

#include "base/pci.h"

#include <stdio.h>

static uint64_t find_peers(const struct gpu_driver *gpu, gpu_number device);
static void put_architecture(const struct gpu_api *api, gpu_number device, char *text, size_t text_bytes);
static void put_kernel_code(struct gpu_driver *gpu, int ordinal, gpu_number device, char *text, size_t text_bytes);
static bool is_unified(const struct gpu_api *api, gpu_number device);

/* Returns an attribute. Returns 0 if the vendor does not know the attribute, because attributes are for
 * information only. */
static uint32_t attribute(const struct gpu_api *api, gpu_number device, gpu_attribute which)
{
    int value;

    if (api->device_attribute(&value, which, device) != GPU_SUCCESS || value < 0)
        return 0;
    return (uint32_t)value;
}

leat_status GPU(device_info)(struct leati_driver *driver, int ordinal, leat_device_info *info)
{
    const struct gpu_api *api = &gpu_of(driver)->api;
    gpu_number device;
    size_t bytes;
    gpu_result code;

    code = api->device_get(&device, ordinal);
    if (code != GPU_SUCCESS)
        return GPU(fail)(api, GPU(names).device_get, code);
    code = api->device_name(info->model, sizeof info->model, device);
    if (code != GPU_SUCCESS)
        return GPU(fail)(api, GPU(names).device_name, code);
    info->model[sizeof info->model - 1] = '\0';
    code = api->device_total_memory(&bytes, device);
    if (code != GPU_SUCCESS)
        return GPU(fail)(api, GPU(names).device_total_memory, code);

    info->ordinal = ordinal;
    info->memory_bytes = bytes;
    put_architecture(api, device, info->architecture, sizeof info->architecture);
    info->compute_units = attribute(api, device, GPU_ATTRIBUTE_COMPUTE_UNITS);
    info->max_block_threads = attribute(api, device, GPU_ATTRIBUTE_BLOCK_THREADS);
    info->max_shared_bytes = attribute(api, device, GPU_ATTRIBUTE_SHARED_BYTES);
    info->memory_clock_khz = attribute(api, device, GPU_ATTRIBUTE_MEMORY_CLOCK);
    info->memory_bus_bits = attribute(api, device, GPU_ATTRIBUTE_MEMORY_BUS);
    info->copy_engines = attribute(api, device, GPU_ATTRIBUTE_COPY_ENGINES);
    info->peer_mask = find_peers(gpu_of(driver), device);
    info->unified_addressing = is_unified(api, device);
    info->managed_memory = attribute(api, device, GPU_ATTRIBUTE_MANAGED) != 0;
    info->virtual_memory = attribute(api, device, GPU_ATTRIBUTE_VIRTUAL) != 0;
    info->strict = 0;
    put_kernel_code(gpu_of(driver), ordinal, device, info->kernel_code, sizeof info->kernel_code);
    if (api->device_pci_address(info->pci_address, sizeof info->pci_address, device) != GPU_SUCCESS)
        info->pci_address[0] = '\0';
    leati_pci_describe(info);
    return LEAT_OK;
}

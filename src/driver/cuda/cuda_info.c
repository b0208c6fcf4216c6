/*
 * cuda_info.c - describes a device without opening it: the driver's attributes, and the PCIe link from sysfs.
 */
#include "driver/cuda/cuda_driver.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One attribute, 0 where the driver does not know it: it only serves to inform. */
static uint32_t attribute(const struct cuda_api *cu, cu_device device, cu_device_attribute which)
{
    int value;

    if (cu->device_attribute(&value, which, device) != LEATI_CUDA_SUCCESS || value < 0)
        return 0;
    return (uint32_t)value;
}

/* Reads one line of a device's folder in sysfs. */
static bool read_line(const char *pci_address, const char *file, char *line, int line_bytes)
{
    char path[96];
    FILE *stream;
    bool ok;

    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/%s", pci_address, file);
    stream = fopen(path, "re");
    if (!stream)
        return false;
    ok = fgets(line, line_bytes, stream) != NULL;
    fclose(stream);
    return ok;
}

/* The generation of a speed such as "32.0 GT/s PCIe". */
static uint32_t generation(const char *speed)
{
    static const double rates[] = {2.5, 5, 8, 16, 32, 64, 128};
    double rate = strtod(speed, NULL);
    uint32_t found = 0;

    for (uint32_t i = 0; i < sizeof rates / sizeof rates[0]; i++)
        if (rate >= rates[i])
            found = i + 1;
    return found;
}

static void describe_link(leat_device_info *info)
{
    char line[64];

    info->numa_node = -1;
    if (!info->pci_address[0])
        return;
    if (read_line(info->pci_address, "numa_node", line, sizeof line))
        info->numa_node = atoi(line);
    if (read_line(info->pci_address, "current_link_speed", line, sizeof line))
        info->link_gen = generation(line);
    if (read_line(info->pci_address, "current_link_width", line, sizeof line))
        info->link_width = (uint32_t)strtoul(line, NULL, 10);
}

/* "0000:1b:00.0": the driver gives upper case, sysfs wants lower case. */
static void put_pci_address(const struct cuda_api *cu, cu_device device, leat_device_info *info)
{
    if (cu->device_pci_address(info->pci_address, sizeof info->pci_address, device) != LEATI_CUDA_SUCCESS)
        info->pci_address[0] = '\0';
    info->pci_address[sizeof info->pci_address - 1] = '\0';
    for (char *p = info->pci_address; *p; p++)
        *p = (char)tolower((unsigned char)*p);
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
    put_pci_address(cu, device, info);
    info->link_gen = 0;
    info->link_width = 0;
    describe_link(info);
    return LEAT_OK;
}

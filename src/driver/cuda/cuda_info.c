/*
 * cuda_info.c - finds peers, architecture and addressing of a device with CUDA's calls. gpu/gpu_info.h has the
 * rest.
 */
#include "driver/cuda/cuda_driver.h"

#include "driver/gpu/gpu_info.h"

static uint64_t find_peers(const struct gpu_driver *cuda, cu_device device)
{
    uint64_t peers = 0;
    cu_device other;
    int reachable;

    for (int i = 0; i < cuda->base.device_count && i < 64; i++)
        if (cuda->api.device_get(&other, i) == LEATI_CUDA_SUCCESS && other != device &&
            cuda->api.device_can_access_peer(&reachable, device, other) == LEATI_CUDA_SUCCESS && reachable)
            peers |= UINT64_C(1) << i;
    return peers;
}

static void put_architecture(const struct gpu_api *api, cu_device device, char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "sm_%u%u",
             attribute(api, device, LEATI_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
             attribute(api, device, LEATI_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
}

static bool is_unified(const struct gpu_api *api, cu_device device)
{
    return attribute(api, device, LEATI_CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) != 0;
}

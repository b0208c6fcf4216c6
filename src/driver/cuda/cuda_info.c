/*
 * cuda_info.c - finds peers, architecture and addressing of a device with CUDA's calls, and the machine code for
 * it. gpu/gpu_info.h has the rest.
 */
#include "driver/cuda/cuda_driver.h"

#include "driver/gpu/gpu_info.h"
#include "kernels/builtin.h"

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

unsigned leati_cuda_machine_code(struct gpu_driver *cuda, int ordinal, cu_device device)
{
    static const unsigned architectures[] = {LEATI_MACHINE_CODE_LIST};
    uint64_t refused = atomic_load_explicit(&cuda->refused_code, memory_order_relaxed);
    unsigned major = attribute(&cuda->api, device, LEATI_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    unsigned minor = attribute(&cuda->api, device, LEATI_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    unsigned best = 0;

    if (cuda->api.number < LEATI_MACHINE_CODE_DRIVER || (ordinal < 64 && refused >> ordinal & 1))
        return 0;
    for (size_t i = 0; i < sizeof architectures / sizeof architectures[0]; i++)
        if (architectures[i] / 10 == major && architectures[i] % 10 <= minor)
            best = architectures[i];
    return best;
}

static void put_kernel_code(struct gpu_driver *cuda, int ordinal, cu_device device, char *text, size_t text_bytes)
{
    unsigned architecture = leati_cuda_machine_code(cuda, ordinal, device);

    if (architecture)
        snprintf(text, text_bytes, "sm_%u", architecture);
    else
        snprintf(text, text_bytes, "PTX");
}

static bool is_unified(const struct gpu_api *api, cu_device device)
{
    return attribute(api, device, LEATI_CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) != 0;
}

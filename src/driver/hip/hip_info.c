/*
 * hip_info.c - finds the peers and the architecture of a device with HIP's calls. gpu/gpu_info.h has the rest.
 */
#include "driver/hip/hip_driver.h"

#include "driver/gpu/gpu_info.h"
#include "kernels/builtin.h"

#include <string.h>

static uint64_t find_peers(const struct gpu_driver *hip, hi_device device)
{
    uint64_t peers = 0;
    int reachable;

    for (int i = 0; i < hip->base.device_count && i < 64; i++)
        if (i != device && hip->api.device_can_access_peer(&reachable, device, i) == LEATI_hipSuccess && reachable)
            peers |= UINT64_C(1) << i;
    return peers;
}

/* HIP has no attribute for the architecture. The architecture is in the device properties, whose struct changed
 * with HIP 6. */
void leati_hip_architecture(const struct gpu_api *api, int ordinal, char *text, size_t text_bytes)
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

static void put_architecture(const struct gpu_api *api, hi_device device, char *text, size_t text_bytes)
{
    leati_hip_architecture(api, device, text, text_bytes);
}

static void put_kernel_code(struct gpu_driver *hip, int ordinal, hi_device device, char *text, size_t text_bytes)
{
    char architecture[64];

    (void)ordinal;
    leati_hip_architecture(&hip->api, device, architecture, sizeof architecture);
    for (size_t i = 0; i < leati_code_object_count; i++)
        if (!strcmp(leati_code_objects[i].architecture, architecture))
            snprintf(text, text_bytes, "%.15s", architecture);
}

/* All GPUs that ROCm supports have unified addressing. */
static bool is_unified(const struct gpu_api *api, hi_device device)
{
    (void)api, (void)device;
    return true;
}

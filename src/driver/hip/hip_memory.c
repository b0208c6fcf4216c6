/*
 * hip_memory.c - queries the memory of a pointer; gpu/gpu_memory.h allocates memory.
 */
#include "base/lock.h"
#include "driver/hip/hip_driver.h"

#include "driver/gpu/gpu_memory.h"

/* Returns the first open device with this ordinal. */
static void *find_device(struct gpu_driver *hip, int ordinal)
{
    struct gpu_device *found;

    leati_lock(&hip->open_lock);
    found = hip->open;
    while (found && found->number != ordinal)
        found = found->next;
    leati_unlock(&hip->open_lock);
    return found;
}

/* Returns the kind of memory. HIP 6 renumbered the memory types and added a type for addresses that it does not
 * know. HIP 5 returns an error for unknown addresses. */
static leat_kind kind_of(const struct gpu_api *api, const hi_pointer_attributes *found)
{
    bool six = api->number >= LEATI_HIP_VERSION(6, 0);
    unsigned host = six ? LEATI_HIP_6_hipMemoryTypeHost : LEATI_HIP_5_hipMemoryTypeHost;
    unsigned device = six ? LEATI_HIP_6_hipMemoryTypeDevice : LEATI_HIP_5_hipMemoryTypeDevice;

    if (found->is_managed || (six && found->type == LEATI_HIP_6_hipMemoryTypeManaged))
        return LEAT_KIND_MANAGED;
    return found->type == device ? LEAT_KIND_DEVICE : found->type == host ? LEAT_KIND_PINNED : LEAT_KIND_PAGEABLE;
}

leat_status leati_hip_pointer_query(struct leati_driver *driver, const void *ptr, struct leati_pointer_info *info)
{
    struct gpu_driver *hip = gpu_of(driver);
    hi_pointer_attributes found = {0};
    hi_deviceptr base = NULL;
    size_t bytes = 0;
    hi_result code;

    code = hip->api.pointer_attributes(&found, ptr);
    if (code != LEATI_hipSuccess && code != LEATI_hipErrorInvalidValue)
        return leati_hip_fail(&hip->api, leati_hip_names.pointer_attributes, code);
    *info = (struct leati_pointer_info){.kind = LEAT_KIND_PAGEABLE};
    if (code == LEATI_hipSuccess)
        info->kind = kind_of(&hip->api, &found);
    if (info->kind == LEAT_KIND_PAGEABLE)
        return LEAT_OK;
    info->device = find_device(hip, found.device);
    info->device_pointer = found.device_pointer;
    if (hip->api.mem_range(&base, &bytes, (void *)(uintptr_t)ptr) == LEATI_hipSuccess && base) {
        info->base = (uintptr_t)base;
        info->bytes = bytes;
    }
    return LEAT_OK;
}

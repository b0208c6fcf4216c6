/*
 * hip_memory.c - device, pinned and managed memory, and what the driver knows of an address.
 */
#include "driver/hip/hip_driver.h"

leat_status leati_hip_mem_alloc(struct leati_driver *driver, void *device, size_t bytes, void **ptr)
{
    struct hip_device *self = device;
    void *address;

    (void)driver;
    LEATI_HIP_TRY(self, mem_alloc, &address, bytes);
    *ptr = address;
    return LEAT_OK;
}

leat_status leati_hip_mem_free(struct leati_driver *driver, void *device, void *ptr)
{
    struct hip_device *self = device;

    (void)driver;
    LEATI_HIP_TRY(self, mem_free, ptr);
    return LEAT_OK;
}

static leat_status fail_without_pools(void)
{
    return leati_fail(LEAT_ERROR_UNSUPPORTED, "the GPU or its driver has no memory pools");
}

leat_status leati_hip_mem_alloc_async(struct leati_driver *driver, void *stream, size_t bytes, void **ptr)
{
    struct hip_stream *on = stream;
    void *address;

    (void)driver;
    if (!on->device->pools)
        return fail_without_pools();
    LEATI_HIP_TRY(on->device, mem_alloc_async, &address, bytes, on->handle);
    *ptr = address;
    return LEAT_OK;
}

leat_status leati_hip_mem_free_async(struct leati_driver *driver, void *stream, void *ptr)
{
    struct hip_stream *on = stream;

    (void)driver;
    if (!on->device->pools)
        return fail_without_pools();
    LEATI_HIP_TRY(on->device, mem_free_async, ptr, on->handle);
    return LEAT_OK;
}

leat_status leati_hip_host_alloc(struct leati_driver *driver, void *device, size_t bytes, void **ptr)
{
    struct hip_device *self = device;
    hi_result code;
    void *memory;

    (void)driver;
    LEATI_HIP_CALL(self, code, host_alloc, &memory, bytes,
                   LEATI_hipHostMallocPortable | LEATI_hipHostMallocMapped);
    if (code == LEATI_hipErrorOutOfMemory)
        return leati_hip_fail_as(self->api, LEAT_ERROR_HOST_MEMORY, leati_hip_names.host_alloc, code);
    if (code != LEATI_hipSuccess)
        return leati_hip_fail(self->api, leati_hip_names.host_alloc, code);
    *ptr = memory;
    return LEAT_OK;
}

leat_status leati_hip_host_free(struct leati_driver *driver, void *device, void *ptr)
{
    struct hip_device *self = device;

    (void)driver;
    LEATI_HIP_TRY(self, host_free, ptr);
    return LEAT_OK;
}

leat_status leati_hip_host_register(struct leati_driver *driver, void *device, void *ptr, size_t bytes)
{
    struct hip_device *self = device;
    leat_status status;
    hi_result code;

    (void)driver;
    LEATI_HIP_CALL(self, code, host_register, ptr, bytes,
                   LEATI_hipHostRegisterPortable | LEATI_hipHostRegisterMapped);
    switch (code) {
    case LEATI_hipSuccess:
        return LEAT_OK;
    case LEATI_hipErrorOutOfMemory:
        return leati_hip_fail_as(self->api, LEAT_ERROR_HOST_MEMORY, leati_hip_names.host_register, code);
    case LEATI_hipErrorInvalidValue:
        /* The flags are right, so it is the range that is not. */
        status = leati_hip_fail_as(self->api, LEAT_ERROR_POINTER, leati_hip_names.host_register, code);
        return leati_fail_in(status, "the range is not plain, writable, wholly mapped host memory");
    default:
        return leati_hip_fail(self->api, leati_hip_names.host_register, code);
    }
}

leat_status leati_hip_host_unregister(struct leati_driver *driver, void *device, void *ptr)
{
    struct hip_device *self = device;

    (void)driver;
    LEATI_HIP_TRY(self, host_unregister, ptr);
    return LEAT_OK;
}

leat_status leati_hip_host_device_pointer(struct leati_driver *driver, void *device, void *ptr,
                                          void **device_pointer)
{
    struct hip_device *self = device;
    void *address;

    (void)driver;
    LEATI_HIP_TRY(self, host_device_pointer, &address, ptr, 0);
    *device_pointer = address;
    return LEAT_OK;
}

leat_status leati_hip_managed_alloc(struct leati_driver *driver, void *device, size_t bytes, void **ptr)
{
    struct hip_device *self = device;
    void *address;

    (void)driver;
    if (!self->managed)
        return leati_fail(LEAT_ERROR_UNSUPPORTED, "the GPU has no managed memory");
    LEATI_HIP_TRY(self, mem_alloc_managed, &address, bytes, LEATI_hipMemAttachGlobal);
    *ptr = address;
    return LEAT_OK;
}

/* The first open device of that number. */
static void *find_device(struct hip_driver *hip, int ordinal)
{
    struct hip_device *found;

    pthread_mutex_lock(&hip->open_lock);
    found = hip->open;
    while (found && found->number != ordinal)
        found = found->next;
    pthread_mutex_unlock(&hip->open_lock);
    return found;
}

/* HIP 6 gave the types other numbers, and one to memory that it does not know; HIP 5 refuses such an address. */
static leat_kind kind_of(const struct hip_api *api, const hi_pointer_attributes *found)
{
    bool six = api->version >= LEATI_HIP_VERSION(6, 0);
    unsigned host = six ? LEATI_HIP_6_hipMemoryTypeHost : LEATI_HIP_5_hipMemoryTypeHost;
    unsigned device = six ? LEATI_HIP_6_hipMemoryTypeDevice : LEATI_HIP_5_hipMemoryTypeDevice;

    if (found->is_managed || (six && found->type == LEATI_HIP_6_hipMemoryTypeManaged))
        return LEAT_KIND_MANAGED;
    return found->type == device ? LEAT_KIND_DEVICE : found->type == host ? LEAT_KIND_PINNED : LEAT_KIND_PAGEABLE;
}

leat_status leati_hip_pointer_query(struct leati_driver *driver, const void *ptr, struct leati_place *place)
{
    struct hip_driver *hip = leati_hip_of(driver);
    hi_pointer_attributes found = {0};
    hi_deviceptr base = NULL;
    size_t bytes = 0;
    hi_result code;

    code = hip->api.pointer_attributes(&found, ptr);
    if (code != LEATI_hipSuccess && code != LEATI_hipErrorInvalidValue)
        return leati_hip_fail(&hip->api, leati_hip_names.pointer_attributes, code);
    *place = (struct leati_place){.kind = LEAT_KIND_PAGEABLE};
    if (code == LEATI_hipSuccess)
        place->kind = kind_of(&hip->api, &found);
    if (place->kind == LEAT_KIND_PAGEABLE)
        return LEAT_OK;
    place->device = find_device(hip, found.device);
    place->device_pointer = found.device_pointer;
    if (hip->api.mem_range(&base, &bytes, (void *)(uintptr_t)ptr) == LEATI_hipSuccess && base) {
        place->base = (uintptr_t)base;
        place->bytes = bytes;
    }
    return LEAT_OK;
}

/*
 * gpu_memory.h - allocates and frees device, pinned and managed memory. See gpu_driver.h.
 *
 * The vendor's file has GPU(pointer_query).
 */
#include "driver/gpu/gpu_driver.h"
#include "base/assert.h"

leat_status GPU(mem_alloc)(struct leati_driver *driver, void *device, size_t bytes, void **ptr)
{
    struct gpu_device *self = device;
    gpu_address address;

    (void)driver;
    GPU_TRY(self, mem_alloc, &address, bytes);
    *ptr = gpu_pointer_of(address);
    return LEAT_OK;
}

leat_status GPU(mem_free)(struct leati_driver *driver, void *device, void *ptr)
{
    struct gpu_device *self = device;

    (void)driver;
    GPU_TRY(self, mem_free, gpu_address_of(ptr));
    return LEAT_OK;
}

static leat_status fail_without_pools(void)
{
    return leati_fail(LEAT_ERROR_UNSUPPORTED, "the GPU or its driver has no memory pools");
}

leat_status GPU(mem_alloc_async)(struct leati_driver *driver, void *stream, size_t bytes, void **ptr)
{
    struct gpu_stream *on = stream;
    gpu_address address;

    (void)driver;
    if (!on->device->pools)
        return fail_without_pools();
    GPU_TRY(on->device, mem_alloc_async, &address, bytes, on->handle);
    *ptr = gpu_pointer_of(address);
    return LEAT_OK;
}

leat_status GPU(mem_free_async)(struct leati_driver *driver, void *stream, void *ptr)
{
    struct gpu_stream *on = stream;

    (void)driver;
    if (!on->device->pools)
        return fail_without_pools();
    GPU_TRY(on->device, mem_free_async, gpu_address_of(ptr), on->handle);
    return LEAT_OK;
}

leat_status GPU(host_alloc)(struct leati_driver *driver, void *device, size_t bytes, void **ptr)
{
    struct gpu_device *self = device;
    gpu_result code;
    void *memory;

    (void)driver;
    leati_assert(bytes);
    GPU_CALL(self, code, host_alloc, &memory, bytes, GPU_HOST_ALLOC_FLAGS);
    /* For this call the vendor's "out of memory" means host memory. */
    if (code == GPU_ERROR_OUT_OF_MEMORY)
        return GPU(fail_as)(self->api, LEAT_ERROR_HOST_MEMORY, GPU(names).host_alloc, code);
    if (code != GPU_SUCCESS)
        return GPU(fail)(self->api, GPU(names).host_alloc, code);
    *ptr = memory;
    return LEAT_OK;
}

leat_status GPU(host_free)(struct leati_driver *driver, void *device, void *ptr)
{
    struct gpu_device *self = device;

    (void)driver;
    GPU_TRY(self, host_free, ptr);
    return LEAT_OK;
}

leat_status GPU(host_register)(struct leati_driver *driver, void *device, void *ptr, size_t bytes)
{
    struct gpu_device *self = device;
    leat_status status;
    gpu_result code;

    (void)driver;
    leati_assert(ptr && bytes);
    GPU_CALL(self, code, host_register, ptr, bytes, GPU_HOST_REGISTER_FLAGS);
    switch (code) {
    case GPU_SUCCESS:
        return LEAT_OK;
    case GPU_ERROR_OUT_OF_MEMORY:
        return GPU(fail_as)(self->api, LEAT_ERROR_HOST_MEMORY, GPU(names).host_register, code);
    case GPU_ERROR_INVALID_VALUE:
        /* The flags are valid, so INVALID_VALUE must be about the range. */
        status = GPU(fail_as)(self->api, LEAT_ERROR_POINTER, GPU(names).host_register, code);
        return leati_fail_in(status, "the range is not plain, writable, wholly mapped host memory");
    default:
        return GPU(fail)(self->api, GPU(names).host_register, code);
    }
}

leat_status GPU(host_unregister)(struct leati_driver *driver, void *device, void *ptr)
{
    struct gpu_device *self = device;

    (void)driver;
    GPU_TRY(self, host_unregister, ptr);
    return LEAT_OK;
}

leat_status GPU(host_device_pointer)(struct leati_driver *driver, void *device, void *ptr, void **device_pointer)
{
    struct gpu_device *self = device;
    gpu_address address;

    (void)driver;
    GPU_TRY(self, host_device_pointer, &address, ptr, 0);
    *device_pointer = gpu_pointer_of(address);
    return LEAT_OK;
}

leat_status GPU(managed_alloc)(struct leati_driver *driver, void *device, size_t bytes, void **ptr)
{
    struct gpu_device *self = device;
    gpu_address address;

    (void)driver;
    if (!self->managed)
        return leati_fail(LEAT_ERROR_UNSUPPORTED, "the GPU has no managed memory");
    GPU_TRY(self, mem_alloc_managed, &address, bytes, GPU_MEM_ATTACH_GLOBAL);
    *ptr = gpu_pointer_of(address);
    return LEAT_OK;
}

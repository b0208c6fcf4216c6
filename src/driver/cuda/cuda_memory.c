/*
 * cuda_memory.c - device, pinned and managed memory, and what the driver knows of an address.
 */
#include "driver/cuda/cuda_driver.h"

#include <stdlib.h>

leat_status leati_cuda_mem_alloc(struct leati_driver *driver, void *device, size_t bytes, void **ptr)
{
    struct cuda_device *self = device;
    cu_deviceptr address;

    (void)driver;
    LEATI_CUDA_TRY(self, mem_alloc, &address, bytes);
    *ptr = leati_cuda_pointer(address);
    return LEAT_OK;
}

leat_status leati_cuda_mem_free(struct leati_driver *driver, void *device, void *ptr)
{
    struct cuda_device *self = device;

    (void)driver;
    LEATI_CUDA_TRY(self, mem_free, leati_cuda_address(ptr));
    return LEAT_OK;
}

static leat_status fail_without_pools(void)
{
    return leati_fail(LEAT_ERROR_UNSUPPORTED, "the GPU or its driver has no memory pools");
}

leat_status leati_cuda_mem_alloc_async(struct leati_driver *driver, void *stream, size_t bytes, void **ptr)
{
    struct cuda_stream *on = stream;
    cu_deviceptr address;

    (void)driver;
    if (!on->device->pools)
        return fail_without_pools();
    LEATI_CUDA_TRY(on->device, mem_alloc_async, &address, bytes, on->handle);
    *ptr = leati_cuda_pointer(address);
    return LEAT_OK;
}

leat_status leati_cuda_mem_free_async(struct leati_driver *driver, void *stream, void *ptr)
{
    struct cuda_stream *on = stream;

    (void)driver;
    if (!on->device->pools)
        return fail_without_pools();
    LEATI_CUDA_TRY(on->device, mem_free_async, leati_cuda_address(ptr), on->handle);
    return LEAT_OK;
}

leat_status leati_cuda_host_alloc(struct leati_driver *driver, void *device, size_t bytes, void **ptr)
{
    struct cuda_device *self = device;
    cu_result code;
    void *memory;

    (void)driver;
    LEATI_CUDA_CALL(self, code, host_alloc, &memory, bytes,
                    LEATI_CU_MEMHOSTALLOC_PORTABLE | LEATI_CU_MEMHOSTALLOC_DEVICEMAP);
    if (code == LEATI_CUDA_ERROR_OUT_OF_MEMORY)
        return leati_cuda_fail_as(self->cu, LEAT_ERROR_HOST_MEMORY, leati_cuda_names.host_alloc, code);
    if (code != LEATI_CUDA_SUCCESS)
        return leati_cuda_fail(self->cu, leati_cuda_names.host_alloc, code);
    *ptr = memory;
    return LEAT_OK;
}

leat_status leati_cuda_host_free(struct leati_driver *driver, void *device, void *ptr)
{
    struct cuda_device *self = device;

    (void)driver;
    LEATI_CUDA_TRY(self, host_free, ptr);
    return LEAT_OK;
}

leat_status leati_cuda_host_register(struct leati_driver *driver, void *device, void *ptr, size_t bytes)
{
    struct cuda_device *self = device;
    leat_status status;
    cu_result code;

    (void)driver;
    LEATI_CUDA_CALL(self, code, host_register, ptr, bytes,
                    LEATI_CU_MEMHOSTREGISTER_PORTABLE | LEATI_CU_MEMHOSTREGISTER_DEVICEMAP);
    switch (code) {
    case LEATI_CUDA_SUCCESS:
        return LEAT_OK;
    case LEATI_CUDA_ERROR_OUT_OF_MEMORY:
        return leati_cuda_fail_as(self->cu, LEAT_ERROR_HOST_MEMORY, leati_cuda_names.host_register, code);
    case LEATI_CUDA_ERROR_INVALID_VALUE:
        /* The flags are right, so it is the range that is not. */
        status = leati_cuda_fail_as(self->cu, LEAT_ERROR_POINTER, leati_cuda_names.host_register, code);
        return leati_fail_in(status, "the range is not plain, writable, wholly mapped host memory");
    default:
        return leati_cuda_fail(self->cu, leati_cuda_names.host_register, code);
    }
}

leat_status leati_cuda_host_unregister(struct leati_driver *driver, void *device, void *ptr)
{
    struct cuda_device *self = device;

    (void)driver;
    LEATI_CUDA_TRY(self, host_unregister, ptr);
    return LEAT_OK;
}

leat_status leati_cuda_host_device_pointer(struct leati_driver *driver, void *device, void *ptr,
                                           void **device_pointer)
{
    struct cuda_device *self = device;
    cu_deviceptr address;

    (void)driver;
    LEATI_CUDA_TRY(self, host_device_pointer, &address, ptr, 0);
    *device_pointer = leati_cuda_pointer(address);
    return LEAT_OK;
}

leat_status leati_cuda_managed_alloc(struct leati_driver *driver, void *device, size_t bytes, void **ptr)
{
    struct cuda_device *self = device;
    cu_deviceptr address;

    (void)driver;
    if (!self->managed)
        return leati_fail(LEAT_ERROR_UNSUPPORTED, "the GPU has no managed memory");
    LEATI_CUDA_TRY(self, mem_alloc_managed, &address, bytes, LEATI_CU_MEM_ATTACH_GLOBAL);
    *ptr = leati_cuda_pointer(address);
    return LEAT_OK;
}

/* The open device that an address belongs to: the one with its context, else the first of its number, since memory
 * from pools and virtual memory belong to no context. */
static void *find_device(struct cuda_driver *cuda, cu_context context, int ordinal)
{
    struct cuda_device *found = NULL;

    pthread_mutex_lock(&cuda->open_lock);
    for (struct cuda_device *device = cuda->open; device; device = device->next) {
        if (context && device->context == context) {
            found = device;
            break;
        }
        if (!context && device->number == ordinal && (!found || device->primary))
            found = device;
    }
    pthread_mutex_unlock(&cuda->open_lock);
    return found;
}

leat_status leati_cuda_pointer_query(struct leati_driver *driver, const void *ptr, struct leati_place *place)
{
    struct cuda_driver *cuda = leati_cuda_of(driver);
    cu_context context = NULL;
    unsigned int type = 0;
    unsigned int managed = 0;
    int ordinal = -1;
    cu_deviceptr device_pointer = 0;
    cu_deviceptr base = 0;
    size_t bytes = 0;
    cu_pointer_attribute wanted[] = {
        LEATI_CU_POINTER_ATTRIBUTE_CONTEXT,        LEATI_CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        LEATI_CU_POINTER_ATTRIBUTE_IS_MANAGED,     LEATI_CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        LEATI_CU_POINTER_ATTRIBUTE_DEVICE_POINTER, LEATI_CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        LEATI_CU_POINTER_ATTRIBUTE_RANGE_SIZE,
    };
    void *values[] = {&context, &type, &managed, &ordinal, &device_pointer, &base, &bytes};
    cu_result code;

    /* Most addresses that are asked for are the driver's least: its type alone tells, in a fraction of the time.
     */
    code = cuda->cu.pointer_attributes(1, &wanted[1], &values[1], leati_cuda_address(ptr));
    if (code == LEATI_CUDA_SUCCESS && type)
        code =
            cuda->cu.pointer_attributes(sizeof wanted / sizeof wanted[0], wanted, values, leati_cuda_address(ptr));
    if (code != LEATI_CUDA_SUCCESS && code != LEATI_CUDA_ERROR_INVALID_VALUE &&
        code != LEATI_CUDA_ERROR_INVALID_CONTEXT)
        return leati_cuda_fail(&cuda->cu, leati_cuda_names.pointer_attributes, code);

    /* An address that the driver does not know has no type. */
    *place = (struct leati_place){.kind = LEAT_KIND_PAGEABLE};
    if (code != LEATI_CUDA_SUCCESS || (type != LEATI_CU_MEMORYTYPE_HOST && type != LEATI_CU_MEMORYTYPE_DEVICE))
        return LEAT_OK;
    if (managed)
        place->kind = LEAT_KIND_MANAGED;
    else
        place->kind = type == LEATI_CU_MEMORYTYPE_DEVICE ? LEAT_KIND_DEVICE : LEAT_KIND_PINNED;
    place->device = find_device(cuda, context, ordinal);
    place->base = (uintptr_t)base;
    place->bytes = base ? bytes : 0;
    place->device_pointer = leati_cuda_pointer(device_pointer);
    return LEAT_OK;
}

/*
 * cuda_memory.c - queries the memory of a pointer; gpu/gpu_memory.h allocates memory.
 */
#include "base/lock.h"
#include "driver/cuda/cuda_driver.h"

#include "driver/gpu/gpu_memory.h"

/* Returns the open device that owns an address, or NULL. If the memory has a context, this is the device with this
 * context. Memory of pools and virtual memory have no context. For these it is an open device with this ordinal,
 * preferably one that uses the primary context. */
static void *find_device(struct gpu_driver *cuda, cu_context context, int ordinal)
{
    struct gpu_device *found = NULL;

    leati_lock(&cuda->open_lock);
    for (struct gpu_device *device = cuda->open; device; device = device->next) {
        if (context && device->context == context) {
            found = device;
            break;
        }
        if (!context && device->number == ordinal && (!found || device->primary))
            found = device;
    }
    leati_unlock(&cuda->open_lock);
    return found;
}

leat_status leati_cuda_pointer_query(struct leati_driver *driver, const void *ptr, struct leati_pointer_info *info)
{
    struct gpu_driver *cuda = gpu_of(driver);
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

    /* First query only the memory type. Most addresses do not belong to CUDA and have no type, and this short
     * query takes a fraction of the time of a full query. */
    code = cuda->api.pointer_attributes(1, &wanted[1], &values[1], gpu_address_of(ptr));
    if (code == LEATI_CUDA_SUCCESS && type)
        code = cuda->api.pointer_attributes(sizeof wanted / sizeof wanted[0], wanted, values, gpu_address_of(ptr));
    if (code != LEATI_CUDA_SUCCESS && code != LEATI_CUDA_ERROR_INVALID_VALUE &&
        code != LEATI_CUDA_ERROR_INVALID_CONTEXT)
        return leati_cuda_fail(&cuda->api, leati_cuda_names.pointer_attributes, code);

    /* An address that CUDA does not know has no type, and counts as pageable. */
    *info = (struct leati_pointer_info){.kind = LEAT_KIND_PAGEABLE};
    if (code != LEATI_CUDA_SUCCESS || (type != LEATI_CU_MEMORYTYPE_HOST && type != LEATI_CU_MEMORYTYPE_DEVICE))
        return LEAT_OK;
    if (managed)
        info->kind = LEAT_KIND_MANAGED;
    else
        info->kind = type == LEATI_CU_MEMORYTYPE_DEVICE ? LEAT_KIND_DEVICE : LEAT_KIND_PINNED;
    info->device = find_device(cuda, context, ordinal);
    info->base = (uintptr_t)base;
    info->bytes = base ? bytes : 0;
    info->device_pointer = gpu_pointer_of(device_pointer);
    return LEAT_OK;
}

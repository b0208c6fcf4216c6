/*
 * cuda_device.c - opening and closing devices, contexts, peers.
 */
#include "driver/cuda/cuda_driver.h"

#include <stdlib.h>

/* A thread that once had another context than the device's is likely to have it at its next calls too. To push the
 * device's without a look is right whatever is current; a look every now and then finds out when it need not be.
 */
#define UNASKED_CALLS 15
static _Thread_local __attribute__((tls_model("initial-exec"))) unsigned unasked; /* calls left without a look */

leat_status leati_cuda_enter(const struct cuda_device *device, bool *pushed)
{
    const struct cuda_api *cu = device->cu;
    cu_context current = NULL;
    cu_result code;

    if (unasked) {
        unasked--;
    } else {
        code = cu->context_current(&current);
        if (code != LEATI_CUDA_SUCCESS)
            return leati_cuda_fail(cu, leati_cuda_names.context_current, code);
        if (current != device->context)
            unasked = UNASKED_CALLS;
    }
    *pushed = current != device->context;
    if (!*pushed)
        return LEAT_OK;
    code = cu->context_push(device->context);
    if (code != LEATI_CUDA_SUCCESS)
        return leati_cuda_fail(cu, leati_cuda_names.context_push, code);
    return LEAT_OK;
}

void leati_cuda_leave(const struct cuda_device *device, bool pushed)
{
    cu_context popped;

    /* What pop returns can only be an earlier failure of the context, which the call in between returned as well.
     */
    if (pushed)
        device->cu->context_pop(&popped);
}

static leat_status read_attribute(const struct cuda_device *device, cu_device_attribute which, int *value)
{
    cu_result code = device->cu->device_attribute(value, which, device->number);

    if (code != LEATI_CUDA_SUCCESS)
        return leati_cuda_fail(device->cu, leati_cuda_names.device_attribute, code);
    return LEAT_OK;
}

static leat_status read_attributes(struct cuda_device *device)
{
    const struct cuda_api *cu = device->cu;
    int unified, pools, managed, concurrent, virtual_memory, exportable;

    LEATI_TRY(read_attribute(device, LEATI_CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, &unified));
    LEATI_TRY(read_attribute(device, LEATI_CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, &pools));
    LEATI_TRY(read_attribute(device, LEATI_CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, &managed));
    LEATI_TRY(read_attribute(device, LEATI_CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, &concurrent));
    LEATI_TRY(
        read_attribute(device, LEATI_CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, &virtual_memory));
    LEATI_TRY(read_attribute(device, LEATI_CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                             &exportable));
    LEATI_TRY(read_attribute(device, LEATI_CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
                             &device->max_shared_bytes));
    if (!unified)
        return leati_fail(LEAT_ERROR_UNSUPPORTED,
                          "the GPU has no unified addressing, which leat needs to tell host "
                          "from device pointers; use a 64-bit driver");
    device->pools = pools && cu->mem_alloc_async && cu->mem_free_async;
    device->managed = managed != 0;
    device->concurrent = concurrent != 0;
    device->virtual_memory = virtual_memory != 0;
    device->exportable = exportable != 0;
    return LEAT_OK;
}

/* Takes the user's context after a look whether it is one of this device. */
static leat_status take_context(struct cuda_device *device, void *native_context)
{
    cu_device number;

    device->context = native_context;
    LEATI_CUDA_TRY(device, context_device, &number);
    if (number != device->number)
        return leati_fail(LEAT_ERROR_INVALID,
                          "the context belongs to cuda:%d, not to cuda:%d; name the device that it was made for",
                          number, device->ordinal);
    return LEAT_OK;
}

static leat_status retain_context(struct cuda_device *device)
{
    cu_result code = device->cu->primary_context_retain(&device->context, device->number);

    if (code != LEATI_CUDA_SUCCESS)
        return leati_cuda_fail(device->cu, leati_cuda_names.primary_context_retain, code);
    device->primary = true;
    return LEAT_OK;
}

leat_status leati_cuda_device_open(struct leati_driver *driver, int ordinal, void *native_context, void **device)
{
    struct cuda_driver *cuda = leati_cuda_of(driver);
    struct cuda_device *opened;
    leat_status status;
    cu_result code;

    opened = calloc(1, sizeof *opened);
    if (!opened)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the device's description");
    opened->cu = &cuda->cu;
    opened->ordinal = ordinal;
    pthread_mutex_init(&opened->maps_lock, NULL);
    code = cuda->cu.device_get(&opened->number, ordinal);
    if (code != LEATI_CUDA_SUCCESS) {
        status = leati_cuda_fail(&cuda->cu, leati_cuda_names.device_get, code);
        goto free_device;
    }

    /* The context comes last: nothing after it can fail, so there is none to give back. */
    status = read_attributes(opened);
    if (status == LEAT_OK)
        status = native_context ? take_context(opened, native_context) : retain_context(opened);
    if (status != LEAT_OK)
        goto free_device;

    pthread_mutex_lock(&cuda->open_lock);
    opened->next = cuda->open;
    cuda->open = opened;
    pthread_mutex_unlock(&cuda->open_lock);
    *device = opened;
    return LEAT_OK;

free_device:
    pthread_mutex_destroy(&opened->maps_lock);
    free(opened);
    return status;
}

leat_status leati_cuda_device_close(struct leati_driver *driver, void *device)
{
    struct cuda_driver *cuda = leati_cuda_of(driver);
    struct cuda_device *closed = device;
    struct cuda_device **link = &cuda->open;
    leat_status status = LEAT_OK;
    cu_result code;

    pthread_mutex_lock(&cuda->open_lock);
    while (*link != closed)
        link = &(*link)->next;
    *link = closed->next;
    pthread_mutex_unlock(&cuda->open_lock);

    if (closed->primary) {
        code = cuda->cu.primary_context_release(closed->number);
        if (code != LEATI_CUDA_SUCCESS)
            status = leati_cuda_fail(&cuda->cu, leati_cuda_names.primary_context_release, code);
    }
    leati_ranges_clear(&closed->maps);
    pthread_mutex_destroy(&closed->maps_lock);
    free(closed);
    return status;
}

leat_status leati_cuda_device_synchronize(struct leati_driver *driver, void *device)
{
    struct cuda_device *self = device;
    cu_result code;
    bool pushed = false;

    (void)driver;
    LEATI_TRY(leati_cuda_enter(self, &pushed));
    code = self->cu->context_synchronize();
    leati_cuda_leave(self, pushed);
    if (code != LEATI_CUDA_SUCCESS)
        return leati_cuda_fail(self->cu, leati_cuda_names.context_synchronize, code);
    return LEAT_OK;
}

void *leati_cuda_device_native(struct leati_driver *driver, void *device)
{
    (void)driver;
    return ((struct cuda_device *)device)->context;
}

leat_status leati_cuda_device_memory(struct leati_driver *driver, void *device, uint64_t *free_bytes,
                                     uint64_t *total_bytes)
{
    struct cuda_device *self = device;
    size_t available, total;

    (void)driver;
    LEATI_CUDA_TRY(self, mem_info, &available, &total);
    *free_bytes = available;
    *total_bytes = total;
    return LEAT_OK;
}

leat_status leati_cuda_peer_enable(struct leati_driver *driver, void *device, void *peer)
{
    struct cuda_device *self = device;
    struct cuda_device *other = peer;
    cu_result code;
    int reachable;

    (void)driver;
    code = self->cu->device_can_access_peer(&reachable, self->number, other->number);
    if (code != LEATI_CUDA_SUCCESS)
        return leati_cuda_fail(self->cu, leati_cuda_names.device_can_access_peer, code);

    /* A device is no peer of itself, not even between two contexts. */
    if (!reachable || self->number == other->number)
        return LEAT_OK;
    LEATI_CUDA_CALL(self, code, context_enable_peer, other->context, 0);
    switch (code) {
    case LEATI_CUDA_SUCCESS:
    case LEATI_CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED: /* by the user's own code */
        return other->virtual_memory ? leati_cuda_vm_add_peer(other, self) : LEAT_OK;
    case LEATI_CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
    case LEATI_CUDA_ERROR_TOO_MANY_PEERS: /* copies then go through host memory */
        return LEAT_OK;
    default:
        return leati_cuda_fail(self->cu, leati_cuda_names.context_enable_peer, code);
    }
}

/*
 * cuda_device.c - selects contexts, reads capabilities of devices, and enables peer access. gpu/gpu_device.h opens
 * and closes devices.
 */
#include "driver/cuda/cuda_driver.h"

#include "driver/gpu/gpu_device.h"

/* If the device's context is not a thread's current context, it will probably not be current at the thread's next
 * calls either. Pushing the context without a check is always correct, so such a thread checks only at every 16th
 * call whether it still needs the push. */
#define UNASKED_CALLS 15
static _Thread_local __attribute__((tls_model("initial-exec"))) unsigned unasked; /* calls that may still push
                                                                                   * without a check */

leat_status leati_cuda_enter(const struct gpu_device *device, gpu_before *pushed)
{
    const struct gpu_api *api = device->api;
    cu_context current = NULL;
    cu_result code;

    if (unasked) {
        unasked--;
    } else {
        code = api->context_current(&current);
        if (code != LEATI_CUDA_SUCCESS)
            return leati_cuda_fail(api, leati_cuda_names.context_current, code);
        if (current != device->context)
            unasked = UNASKED_CALLS;
    }
    *pushed = current != device->context;
    if (!*pushed)
        return LEAT_OK;
    code = api->context_push(device->context);
    if (code != LEATI_CUDA_SUCCESS)
        return leati_cuda_fail(api, leati_cuda_names.context_push, code);
    return LEAT_OK;
}

void leati_cuda_leave(const struct gpu_device *device, gpu_before pushed)
{
    cu_context popped;

    /* Ignore the result, because it can only be an earlier failure of the context, which the vendor call between
     * enter and leave has returned too. */
    if (pushed)
        device->api->context_pop(&popped);
}

static leat_status read_attribute(const struct gpu_device *device, cu_device_attribute which, int *value)
{
    cu_result code = device->api->device_attribute(value, which, device->number);

    if (code != LEATI_CUDA_SUCCESS)
        return leati_cuda_fail(device->api, leati_cuda_names.device_attribute, code);
    return LEAT_OK;
}

static leat_status read_attributes(struct gpu_device *device)
{
    const struct gpu_api *api = device->api;
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
                          "the GPU has no unified addressing, which leat needs; use a 64-bit driver");
    device->pools = pools && api->mem_alloc_async && api->mem_free_async;
    device->managed = managed != 0;
    device->concurrent = concurrent != 0;
    device->virtual_memory = virtual_memory != 0;
    device->exportable = exportable != 0;
    device->mem_ops = api->stream_mem_ops != NULL;
    return LEAT_OK;
}

static leat_status take_context(struct gpu_device *device, void *native_context)
{
    cu_device number;

    if (!native_context)
        return retain_context(device);
    /* Check that the program's context belongs to this device. */
    device->context = native_context;
    GPU_TRY(device, context_device, &number);
    if (number != device->number)
        return leati_fail(LEAT_ERROR_INVALID,
                          "the context belongs to cuda:%d, not to cuda:%d; name the device that it was made for",
                          number, device->ordinal);
    return LEAT_OK;
}

leat_status leati_cuda_peer_enable(struct leati_driver *driver, void *device, void *peer)
{
    struct gpu_device *self = device;
    struct gpu_device *other = peer;
    cu_result code;
    int reachable;

    (void)driver;
    code = self->api->device_can_access_peer(&reachable, self->number, other->number);
    if (code != LEATI_CUDA_SUCCESS)
        return leati_cuda_fail(self->api, leati_cuda_names.device_can_access_peer, code);

    /* A device has no peer access to itself, not even between two of its contexts. */
    if (!reachable || self->number == other->number)
        return LEAT_OK;
    GPU_CALL(self, code, context_enable_peer, other->context, 0);
    switch (code) {
    case LEATI_CUDA_SUCCESS:
    case LEATI_CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED: /* the program has enabled it with a CUDA call */
        return other->virtual_memory ? leati_cuda_vm_add_peer(other, self) : LEAT_OK;
    case LEATI_CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
    case LEATI_CUDA_ERROR_TOO_MANY_PEERS: /* copies to these peers go through host memory */
        return LEAT_OK;
    default:
        return leati_cuda_fail(self->api, leati_cuda_names.context_enable_peer, code);
    }
}

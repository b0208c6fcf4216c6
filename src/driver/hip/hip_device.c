/*
 * hip_device.c - sets the thread's current device, reads capabilities of devices, and enables peer access.
 * gpu/gpu_device.h opens and closes devices.
 */
#include "driver/hip/hip_driver.h"

#include "driver/gpu/gpu_device.h"

leat_status leati_hip_enter(const struct gpu_device *device, gpu_before *before)
{
    const struct gpu_api *api = device->api;
    hi_result code;

    code = api->device_current(before);
    if (code != LEATI_hipSuccess)
        return leati_hip_fail(api, leati_hip_names.device_current, code);
    if (*before == device->number)
        return LEAT_OK;
    code = api->device_set(device->number);
    if (code != LEATI_hipSuccess)
        return leati_hip_fail(api, leati_hip_names.device_set, code);
    return LEAT_OK;
}

void leati_hip_leave(const struct gpu_device *device, gpu_before before)
{
    /* Ignore the result, because it can only be an earlier failure, which the HIP call between enter and leave has
     * returned too. */
    if (before != device->number)
        device->api->device_set(before);
}

/* Returns an attribute's value, or 0 if the library is too old to know the attribute. */
static int optional_attribute(const struct gpu_device *device, hi_device_attribute which)
{
    int value;

    return device->api->device_attribute(&value, which, device->number) == LEATI_hipSuccess ? value : 0;
}

static leat_status read_attributes(struct gpu_device *device)
{
    const struct gpu_api *api = device->api;
    hi_result code;

    code = api->device_attribute(&device->max_shared_bytes, LEATI_hipDeviceAttributeMaxSharedMemoryPerBlock,
                                 device->number);
    if (code != LEATI_hipSuccess)
        return leati_hip_fail(api, leati_hip_names.device_attribute, code);
    device->pools = optional_attribute(device, LEATI_hipDeviceAttributeMemoryPoolsSupported) &&
                    api->mem_alloc_async && api->mem_free_async;
    device->managed = optional_attribute(device, LEATI_hipDeviceAttributeManagedMemory) != 0;
    device->concurrent = optional_attribute(device, LEATI_hipDeviceAttributeConcurrentManagedAccess) != 0;
    device->virtual_memory =
        optional_attribute(device, LEATI_hipDeviceAttributeVirtualMemoryManagementSupported) &&
        api->vm_granularity && api->vm_reserve && api->vm_unreserve && api->vm_create && api->vm_release &&
        api->vm_map && api->vm_unmap && api->vm_set_access && api->vm_export && api->vm_import;
    device->exportable = device->virtual_memory;
    device->mem_ops = optional_attribute(device, LEATI_hipDeviceAttributeCanUseStreamWaitValue) &&
                      api->stream_wait_value && api->stream_write_value;
    leati_hip_architecture(api, device->number, device->architecture, sizeof device->architecture);
    return LEAT_OK;
}

/* HIP has contexts only for compatibility. Each device has exactly one, which all callers share. */
static leat_status take_context(struct gpu_device *device, void *native_context)
{
    LEATI_TRY(retain_context(device));
    if (!native_context || native_context == device->context)
        return LEAT_OK;
    device->api->primary_context_release(device->number);
    return leati_fail(LEAT_ERROR_INVALID,
                      "the context is not that of hip:%d, which has only one; open the device by its name instead",
                      device->number);
}

leat_status leati_hip_peer_enable(struct leati_driver *driver, void *device, void *peer)
{
    struct gpu_device *self = device;
    struct gpu_device *other = peer;
    hi_result code;
    int reachable;

    (void)driver;
    if (self->number == other->number)
        return LEAT_OK;
    code = self->api->device_can_access_peer(&reachable, self->number, other->number);
    if (code != LEATI_hipSuccess)
        return leati_hip_fail(self->api, leati_hip_names.device_can_access_peer, code);
    if (!reachable)
        return LEAT_OK;
    GPU_CALL(self, code, device_enable_peer, other->number, 0);
    switch (code) {
    case LEATI_hipSuccess:
    case LEATI_hipErrorPeerAccessAlreadyEnabled: /* the program has enabled it with a HIP call */
        return other->virtual_memory ? leati_hip_vm_add_peer(other, self) : LEAT_OK;
    case LEATI_hipErrorPeerAccessUnsupported: /* copies to this peer go through host memory */
        return LEAT_OK;
    default:
        return leati_hip_fail(self->api, leati_hip_names.device_enable_peer, code);
    }
}

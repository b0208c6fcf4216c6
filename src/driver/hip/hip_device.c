/*
 * hip_device.c - opening and closing devices, the thread's current device, peers.
 */
#include "driver/hip/hip_driver.h"

#include <stdlib.h>
#include <string.h>

leat_status leati_hip_enter(const struct hip_device *device, int *before)
{
    const struct hip_api *api = device->api;
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

void leati_hip_leave(const struct hip_device *device, int before)
{
    /* What this returns can only be an earlier failure, which the call in between returned as well. */
    if (before != device->number)
        device->api->device_set(before);
}

/* A number that an older library may not know, which is then 0. */
static int optional_attribute(const struct hip_device *device, hi_device_attribute which)
{
    int value;

    return device->api->device_attribute(&value, which, device->number) == LEATI_hipSuccess ? value : 0;
}

static leat_status read_attributes(struct hip_device *device)
{
    const struct hip_api *api = device->api;
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
    device->values = optional_attribute(device, LEATI_hipDeviceAttributeCanUseStreamWaitValue) &&
                     api->stream_wait_value && api->stream_write_value;
    leati_hip_architecture(api, device->number, device->architecture, sizeof device->architecture);
    return LEAT_OK;
}

/* HIP's contexts are what is left of an older form of it: each device has one, whoever asks for it. */
static leat_status retain_context(struct hip_device *device, void *native_context)
{
    hi_result code = device->api->primary_context_retain(&device->context, device->number);

    if (code != LEATI_hipSuccess)
        return leati_hip_fail(device->api, leati_hip_names.primary_context_retain, code);
    if (!native_context || native_context == device->context)
        return LEAT_OK;
    device->api->primary_context_release(device->number);
    return leati_fail(
        LEAT_ERROR_INVALID,
        "the context is not that of hip:%d, which is the only one that HIP has there; open the device "
        "by its name instead",
        device->number);
}

leat_status leati_hip_device_open(struct leati_driver *driver, int ordinal, void *native_context, void **device)
{
    struct hip_driver *hip = leati_hip_of(driver);
    struct hip_device *opened;
    leat_status status;
    hi_result code;

    opened = calloc(1, sizeof *opened);
    if (!opened)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the device's description");
    opened->api = &hip->api;
    pthread_mutex_init(&opened->maps_lock, NULL);
    code = hip->api.device_get(&opened->number, ordinal);
    if (code != LEATI_hipSuccess) {
        status = leati_hip_fail(&hip->api, leati_hip_names.device_get, code);
        goto free_device;
    }

    /* The context comes last: nothing after it can fail, so there is none to give back. */
    status = read_attributes(opened);
    if (status == LEAT_OK)
        status = retain_context(opened, native_context);
    if (status != LEAT_OK)
        goto free_device;

    pthread_mutex_lock(&hip->open_lock);
    opened->next = hip->open;
    hip->open = opened;
    pthread_mutex_unlock(&hip->open_lock);
    *device = opened;
    return LEAT_OK;

free_device:
    pthread_mutex_destroy(&opened->maps_lock);
    free(opened);
    return status;
}

leat_status leati_hip_device_close(struct leati_driver *driver, void *device)
{
    struct hip_driver *hip = leati_hip_of(driver);
    struct hip_device *closed = device;
    struct hip_device **link = &hip->open;
    leat_status status = LEAT_OK;
    hi_result code;

    pthread_mutex_lock(&hip->open_lock);
    while (*link != closed)
        link = &(*link)->next;
    *link = closed->next;
    pthread_mutex_unlock(&hip->open_lock);

    code = hip->api.primary_context_release(closed->number);
    if (code != LEATI_hipSuccess)
        status = leati_hip_fail(&hip->api, leati_hip_names.primary_context_release, code);
    leati_ranges_clear(&closed->maps);
    pthread_mutex_destroy(&closed->maps_lock);
    free(closed);
    return status;
}

leat_status leati_hip_device_synchronize(struct leati_driver *driver, void *device)
{
    struct hip_device *self = device;
    hi_result code;
    int before;

    (void)driver;
    LEATI_TRY(leati_hip_enter(self, &before));
    code = self->api->device_synchronize();
    leati_hip_leave(self, before);
    if (code != LEATI_hipSuccess)
        return leati_hip_fail(self->api, leati_hip_names.device_synchronize, code);
    return LEAT_OK;
}

void *leati_hip_device_native(struct leati_driver *driver, void *device)
{
    (void)driver;
    return ((struct hip_device *)device)->context;
}

leat_status leati_hip_device_memory(struct leati_driver *driver, void *device, uint64_t *free_bytes,
                                    uint64_t *total_bytes)
{
    struct hip_device *self = device;
    size_t available, total;

    (void)driver;
    LEATI_HIP_TRY(self, mem_info, &available, &total);
    *free_bytes = available;
    *total_bytes = total;
    return LEAT_OK;
}

leat_status leati_hip_peer_enable(struct leati_driver *driver, void *device, void *peer)
{
    struct hip_device *self = device;
    struct hip_device *other = peer;
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
    LEATI_HIP_CALL(self, code, device_enable_peer, other->number, 0);
    switch (code) {
    case LEATI_hipSuccess:
    case LEATI_hipErrorPeerAccessAlreadyEnabled: /* by the user's own code */
        return other->virtual_memory ? leati_hip_vm_add_peer(other, self) : LEAT_OK;
    case LEATI_hipErrorPeerAccessUnsupported: /* copies then go through host memory */
        return LEAT_OK;
    default:
        return leati_hip_fail(self->api, leati_hip_names.device_enable_peer, code);
    }
}

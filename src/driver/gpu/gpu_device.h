/*
 * gpu_device.h - opens and closes devices. See gpu_driver.h.
 *
 * The vendor's file has GPU(enter), GPU(leave) and GPU(peer_enable), and
 *
 *   read_attributes()   fills in the device's capabilities
 *   take_context()      uses the user's context; if native_context is NULL, retains the primary context
 */
#include "driver/gpu/gpu_driver.h"
#include "base/assert.h"

#include <stdlib.h>

static leat_status read_attributes(struct gpu_device *device);
static leat_status take_context(struct gpu_device *device, void *native_context);

static leat_status retain_context(struct gpu_device *device)
{
    gpu_result code = device->api->primary_context_retain(&device->context, device->number);

    if (code != GPU_SUCCESS)
        return GPU(fail)(device->api, GPU(names).primary_context_retain, code);
    device->primary = true;
    return LEAT_OK;
}

leat_status GPU(device_open)(struct leati_driver *driver, int ordinal, void *native_context, void **device)
{
    struct gpu_driver *gpu = gpu_of(driver);
    struct gpu_device *opened;
    leat_status status;
    gpu_result code;

    opened = calloc(1, sizeof *opened);
    if (!opened)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the device's description");
    opened->api = &gpu->api;
    opened->ordinal = ordinal;
    leati_lock_init(&opened->maps_lock);
    code = gpu->api.device_get(&opened->number, ordinal);
    if (code != GPU_SUCCESS) {
        status = GPU(fail)(&gpu->api, GPU(names).device_get, code);
        goto free_device;
    }

    /* Take the context last. No later step can fail, so no error path needs to release the context. */
    status = read_attributes(opened);
    if (status == LEAT_OK)
        status = take_context(opened, native_context);
    if (status != LEAT_OK)
        goto free_device;

    leati_assert(opened->context);
    leati_lock(&gpu->open_lock);
    opened->next = gpu->open;
    gpu->open = opened;
    leati_unlock(&gpu->open_lock);
    *device = opened;
    return LEAT_OK;

free_device:
    leati_lock_destroy(&opened->maps_lock);
    free(opened);
    return status;
}

leat_status GPU(device_close)(struct leati_driver *driver, void *device)
{
    struct gpu_driver *gpu = gpu_of(driver);
    struct gpu_device *closed = device;
    struct gpu_device **link = &gpu->open;
    leat_status status = LEAT_OK;
    gpu_result code;

    leati_lock(&gpu->open_lock);
    leati_assert(gpu->open);
    while (*link != closed)
        link = &(*link)->next;
    *link = closed->next;
    leati_unlock(&gpu->open_lock);

    if (closed->primary) {
        code = gpu->api.primary_context_release(closed->number);
        if (code != GPU_SUCCESS)
            status = GPU(fail)(&gpu->api, GPU(names).primary_context_release, code);
    }
    leati_assert(closed->context);
    leati_ranges_clear(&closed->maps);
    leati_lock_destroy(&closed->maps_lock);
    free(closed);
    return status;
}

leat_status GPU(device_synchronize)(struct leati_driver *driver, void *device)
{
    struct gpu_device *self = device;
    gpu_result code;
    gpu_before before = {0};

    (void)driver;
    LEATI_TRY(GPU(enter)(self, &before));
    code = self->api->device_synchronize();
    GPU(leave)(self, before);
    if (code != GPU_SUCCESS)
        return GPU(fail)(self->api, GPU(names).device_synchronize, code);
    return LEAT_OK;
}

void *GPU(device_native)(struct leati_driver *driver, void *device)
{
    (void)driver;
    return ((struct gpu_device *)device)->context;
}

leat_status GPU(device_memory)(struct leati_driver *driver, void *device, uint64_t *free_bytes,
                               uint64_t *total_bytes)
{
    struct gpu_device *self = device;
    size_t available, total;

    (void)driver;
    GPU_TRY(self, mem_info, &available, &total);
    *free_bytes = available;
    *total_bytes = total;
    return LEAT_OK;
}

/*
 * gpu_stream.h - creates, adopts, queries and orders streams and events. See gpu_driver.h.
 *
 * The vendor's file has GPU(stream_mem_ops), GPU(launch_host) and check_native().
 */
#include "driver/gpu/gpu_driver.h"

#include "base/assert.h"
#include "base/quick.h"

#include <stdlib.h>

/* Fails if the vendor's stream is known to belong to another device. The handles of default streams are valid for
 * each device, because they mean the stream of the current device or context. May replace *native by another
 * handle of the same stream. */
static leat_status check_native(const struct gpu_device *device, gpu_stream_handle *native);

/* Allocates a struct gpu_stream. Returns NULL, with a message, if there is no memory. */
static struct gpu_stream *describe_stream(struct gpu_device *device, gpu_stream_handle handle, bool owned)
{
    struct gpu_stream *made = malloc(sizeof *made);

    if (made)
        *made = (struct gpu_stream){.handle = handle, .device = device, .owned = owned};
    else
        leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the stream's description");
    return made;
}

leat_status GPU(stream_create)(struct leati_driver *driver, void *device, void **stream)
{
    struct gpu_device *self = device;
    struct gpu_stream *made;
    leat_status status;
    gpu_result code;
    gpu_before before;

    (void)driver;
    made = describe_stream(self, NULL, true);
    if (!made)
        return LEAT_ERROR_HOST_MEMORY;
    status = GPU(enter)(self, &before);
    if (status != LEAT_OK)
        goto free_made;

    /* Without GPU_STREAM_NON_BLOCKING the stream would wait for the legacy default stream, which other code in the
     * process may use. */
    code = self->api->stream_create(&made->handle, GPU_STREAM_NON_BLOCKING);
    GPU(leave)(self, before);
    if (code != GPU_SUCCESS) {
        status = GPU(fail)(self->api, GPU(names).stream_create, code);
        goto free_made;
    }
    *stream = made;
    return LEAT_OK;

free_made:
    free(made);
    return status;
}

leat_status GPU(stream_destroy)(struct leati_driver *driver, void *stream)
{
    struct gpu_stream *gone = stream;
    struct gpu_stream copy = *gone;

    (void)driver;
    leati_assert(gone->device);
    /* Free the struct before the vendor's call, because the core treats the stream as destroyed even if the call
     * fails (driver.h). */
    free(gone);
    if (copy.owned)
        GPU_TRY(copy.device, stream_destroy, copy.handle);
    return LEAT_OK;
}

leat_status GPU(stream_adopt)(struct leati_driver *driver, void *device, void *native, void **stream)
{
    gpu_stream_handle handle = native;
    struct gpu_stream *made;

    (void)driver;
    LEATI_TRY(check_native(device, &handle));
    made = describe_stream(device, handle, false);
    if (!made)
        return LEAT_ERROR_HOST_MEMORY;
    *stream = made;
    return LEAT_OK;
}

void *GPU(stream_native)(struct leati_driver *driver, void *stream)
{
    (void)driver;
    return ((struct gpu_stream *)stream)->handle;
}

LEATI_HOT leat_status GPU(stream_query)(struct leati_driver *driver, void *stream)
{
    struct gpu_stream *self = stream;

    (void)driver;
    leati_assert(self->device && self->device->api);
    GPU_TRY(self->device, stream_query, self->handle);
    return LEAT_OK;
}

LEATI_HOT leat_status GPU(stream_synchronize)(struct leati_driver *driver, void *stream)
{
    struct gpu_stream *self = stream;

    (void)driver;
    GPU_TRY(self->device, stream_synchronize, self->handle);
    return LEAT_OK;
}

leat_status GPU(stream_wait)(struct leati_driver *driver, void *stream, void *event)
{
    struct gpu_stream *self = stream;
    struct gpu_event *fence = event;

    (void)driver;
    leati_assert(self->device && fence->device);
    GPU_TRY(self->device, stream_wait, self->handle, fence->handle, 0);
    return LEAT_OK;
}

leat_status GPU(capture_mode)(struct leati_driver *driver, unsigned *mode)
{
    const struct gpu_api *api = &((struct gpu_driver *)driver)->api;
    gpu_result code;

    /* The vendor's call needs no context. HIP has it since ROCm 5.1. */
    if (!api->capture_mode)
        return leati_fail(LEAT_ERROR_UNSUPPORTED, "this driver has no %s", GPU(names).capture_mode);
    code = api->capture_mode(mode);
    return code == GPU_SUCCESS ? LEAT_OK : GPU(fail)(api, GPU(names).capture_mode, code);
}

/* Allocates a struct gpu_event. Returns NULL, with a message, if there is no memory. */
static struct gpu_event *describe_event(struct gpu_device *device, gpu_event_handle handle, bool owned)
{
    struct gpu_event *made = malloc(sizeof *made);

    if (made)
        *made = (struct gpu_event){.handle = handle, .device = device, .owned = owned};
    else
        leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the event's description");
    return made;
}

leat_status GPU(event_create)(struct leati_driver *driver, void *device, void **event)
{
    struct gpu_device *self = device;
    struct gpu_event *made;
    leat_status status;
    gpu_result code;
    gpu_before before;

    (void)driver;
    made = describe_event(self, NULL, true);
    if (!made)
        return LEAT_ERROR_HOST_MEMORY;
    status = GPU(enter)(self, &before);
    if (status != LEAT_OK)
        goto free_made;
    code = self->api->event_create(&made->handle, GPU_EVENT_DEFAULT);
    GPU(leave)(self, before);
    if (code != GPU_SUCCESS) {
        status = GPU(fail)(self->api, GPU(names).event_create, code);
        goto free_made;
    }
    *event = made;
    return LEAT_OK;

free_made:
    free(made);
    return status;
}

leat_status GPU(event_destroy)(struct leati_driver *driver, void *event)
{
    struct gpu_event *gone = event;
    struct gpu_event copy = *gone;

    (void)driver;
    leati_assert(gone->device);
    free(gone);
    if (copy.owned)
        GPU_TRY(copy.device, event_destroy, copy.handle);
    return LEAT_OK;
}

leat_status GPU(event_adopt)(struct leati_driver *driver, void *device, void *native, void **event)
{
    struct gpu_event *made;

    (void)driver;
    if (!native)
        return leati_fail(LEAT_ERROR_INVALID, "the " GPU_EVENT_TYPE " is NULL; give one that %s made",
                          GPU(names).event_create);
    made = describe_event(device, native, false);
    if (!made)
        return LEAT_ERROR_HOST_MEMORY;
    *event = made;
    return LEAT_OK;
}

void *GPU(event_native)(struct leati_driver *driver, void *event)
{
    (void)driver;
    return ((struct gpu_event *)event)->handle;
}

leat_status GPU(event_record)(struct leati_driver *driver, void *event, void *stream)
{
    struct gpu_event *self = event;
    struct gpu_stream *on = stream;

    (void)driver;
    leati_assert(on->device && self->device);
    GPU_TRY(on->device, event_record, self->handle, on->handle);
    return LEAT_OK;
}

leat_status GPU(event_query)(struct leati_driver *driver, void *event)
{
    struct gpu_event *self = event;

    (void)driver;
    GPU_TRY(self->device, event_query, self->handle);
    return LEAT_OK;
}

leat_status GPU(event_synchronize)(struct leati_driver *driver, void *event)
{
    struct gpu_event *self = event;

    (void)driver;
    GPU_TRY(self->device, event_synchronize, self->handle);
    return LEAT_OK;
}

leat_status GPU(event_elapsed)(struct leati_driver *driver, void *start, void *end, double *milliseconds)
{
    struct gpu_event *first = start;
    struct gpu_event *last = end;
    leat_status status;
    gpu_result code;
    float elapsed;

    (void)driver;
    GPU_CALL(first->device, code, event_elapsed, &elapsed, first->handle, last->handle);
    if (code == GPU_ERROR_INVALID_HANDLE) {
        status = GPU(fail_as)(first->device->api, LEAT_ERROR_INVALID, GPU(names).event_elapsed, code);
        return leati_fail_in(
            status, "an event was never recorded, was made without timing, or is of another " GPU_OTHER_PLACE);
    }
    if (code != GPU_SUCCESS)
        return GPU(fail)(first->device->api, GPU(names).event_elapsed, code);
    *milliseconds = (double)elapsed;
    return LEAT_OK;
}

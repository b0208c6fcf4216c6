/*
 * hip_stream.c - streams, events, host functions.
 */
#include "driver/hip/hip_driver.h"

#include <stdlib.h>

/* NULL, with a sentence, when out of memory. */
static struct hip_stream *describe_stream(struct hip_device *device, hi_stream handle, bool owned)
{
    struct hip_stream *made = malloc(sizeof *made);

    if (made)
        *made = (struct hip_stream){.handle = handle, .device = device, .owned = owned};
    else
        leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the stream's description");
    return made;
}

leat_status leati_hip_stream_create(struct leati_driver *driver, void *device, void **stream)
{
    struct hip_device *self = device;
    struct hip_stream *made;
    leat_status status;
    hi_result code;
    int before;

    (void)driver;
    made = describe_stream(self, NULL, true);
    if (!made)
        return LEAT_ERROR_HOST_MEMORY;
    status = leati_hip_enter(self, &before);
    if (status != LEAT_OK)
        goto free_made;

    /* Without this flag the stream would wait for the legacy default stream, which other code in the process uses.
     */
    code = self->api->stream_create(&made->handle, LEATI_hipStreamNonBlocking);
    leati_hip_leave(self, before);
    if (code != LEATI_hipSuccess) {
        status = leati_hip_fail(self->api, leati_hip_names.stream_create, code);
        goto free_made;
    }
    *stream = made;
    return LEAT_OK;

free_made:
    free(made);
    return status;
}

leat_status leati_hip_stream_destroy(struct leati_driver *driver, void *stream)
{
    struct hip_stream *gone = stream;
    struct hip_stream copy = *gone;

    (void)driver;
    free(gone);
    if (copy.owned)
        LEATI_HIP_TRY(copy.device, stream_destroy, copy.handle);
    return LEAT_OK;
}

/* Is native a stream of device? The default streams are of whichever device is current, and libraries before
 * HIP 5.6 cannot be asked. */
static leat_status check_native(const struct hip_device *device, hi_stream native)
{
    leat_status status;
    hi_result code;
    hi_device of;

    if (!native || native == LEATI_HIP_STREAM_LEGACY || native == LEATI_HIP_STREAM_PER_THREAD ||
        !device->api->stream_device)
        return LEAT_OK;
    LEATI_HIP_CALL(device, code, stream_device, native, &of);
    if (code != LEATI_hipSuccess) {
        status = leati_hip_fail_as(device->api, LEAT_ERROR_INVALID, leati_hip_names.stream_device, code);
        return leati_fail_in(status, "not a hipStream_t that is alive");
    }
    if (of == device->number)
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_INVALID,
                      "the stream belongs to hip:%d, not to hip:%d; wrap it for its own device", of,
                      device->number);
}

leat_status leati_hip_stream_adopt(struct leati_driver *driver, void *device, void *native, void **stream)
{
    struct hip_stream *made;

    (void)driver;
    LEATI_TRY(check_native(device, native));
    /* The number of the legacy default stream came with HIP 6; NULL is the same one. */
    if (native == LEATI_HIP_STREAM_LEGACY)
        native = NULL;
    made = describe_stream(device, native, false);
    if (!made)
        return LEAT_ERROR_HOST_MEMORY;
    *stream = made;
    return LEAT_OK;
}

void *leati_hip_stream_native(struct leati_driver *driver, void *stream)
{
    (void)driver;
    return ((struct hip_stream *)stream)->handle;
}

leat_status leati_hip_stream_query(struct leati_driver *driver, void *stream)
{
    struct hip_stream *self = stream;

    (void)driver;
    LEATI_HIP_TRY(self->device, stream_query, self->handle);
    return LEAT_OK;
}

leat_status leati_hip_stream_synchronize(struct leati_driver *driver, void *stream)
{
    struct hip_stream *self = stream;

    (void)driver;
    LEATI_HIP_TRY(self->device, stream_synchronize, self->handle);
    return LEAT_OK;
}

leat_status leati_hip_stream_wait(struct leati_driver *driver, void *stream, void *event)
{
    struct hip_stream *self = stream;
    struct hip_event *mark = event;

    (void)driver;
    LEATI_HIP_TRY(self->device, stream_wait, self->handle, mark->handle, 0);
    return LEAT_OK;
}

/* HIP compares the word as an unsigned number, where leat means the distance. Both are the same up to 2^31, and
 * leat's words start at 0 for each copy. */
leat_status leati_hip_stream_values(struct leati_driver *driver, void *stream, const struct leati_value *values,
                                    unsigned count)
{
    struct hip_stream *self = stream;

    (void)driver;
    if (!self->device->values)
        return leati_fail(LEAT_ERROR_UNSUPPORTED, "%s: this GPU or its HIP library does not have it",
                          leati_hip_names.stream_wait_value);
    for (unsigned i = 0; i < count; i++) {
        void *word = (void *)(uintptr_t)values[i].word;

        if (values[i].wait)
            LEATI_HIP_TRY(self->device, stream_wait_value, self->handle, word, values[i].value,
                          LEATI_hipStreamWaitValueGte, UINT32_MAX);
        else
            LEATI_HIP_TRY(self->device, stream_write_value, self->handle, word, values[i].value, 0);
    }
    return LEAT_OK;
}

struct callback {
    void (*function)(void *);
    void *argument;
};

static void run_callback(hi_stream stream, hi_result code, void *argument)
{
    struct callback *callback = argument;

    (void)stream, (void)code;
    callback->function(callback->argument);
    free(callback);
}

/* HIP 5.2 declares hipLaunchHostFunc, but its library does not have it. The older call does the same here. */
static leat_status launch_callback(struct hip_stream *self, void (*function)(void *), void *argument)
{
    struct callback *callback = malloc(sizeof *callback);
    leat_status status;
    hi_result code;
    int before;

    if (!callback)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the description of a host function");
    *callback = (struct callback){.function = function, .argument = argument};
    status = leati_hip_enter(self->device, &before);
    if (status != LEAT_OK)
        goto free_callback;
    code = self->device->api->stream_callback(self->handle, run_callback, callback, 0);
    leati_hip_leave(self->device, before);
    if (code == LEATI_hipSuccess)
        return LEAT_OK;
    status = leati_hip_fail(self->device->api, leati_hip_names.stream_callback, code);

free_callback:
    free(callback);
    return status;
}

leat_status leati_hip_launch_host(struct leati_driver *driver, void *stream, void (*function)(void *),
                                  void *argument)
{
    struct hip_stream *self = stream;

    (void)driver;
    if (!self->device->api->launch_host)
        return launch_callback(self, function, argument);
    LEATI_HIP_TRY(self->device, launch_host, self->handle, function, argument);
    return LEAT_OK;
}

/* NULL, with a sentence, when out of memory. */
static struct hip_event *describe_event(struct hip_device *device, hi_event handle, bool owned)
{
    struct hip_event *made = malloc(sizeof *made);

    if (made)
        *made = (struct hip_event){.handle = handle, .device = device, .owned = owned};
    else
        leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the event's description");
    return made;
}

leat_status leati_hip_event_create(struct leati_driver *driver, void *device, void **event)
{
    struct hip_device *self = device;
    struct hip_event *made;
    leat_status status;
    hi_result code;
    int before;

    (void)driver;
    made = describe_event(self, NULL, true);
    if (!made)
        return LEAT_ERROR_HOST_MEMORY;
    status = leati_hip_enter(self, &before);
    if (status != LEAT_OK)
        goto free_made;
    code = self->api->event_create(&made->handle, LEATI_hipEventDefault);
    leati_hip_leave(self, before);
    if (code != LEATI_hipSuccess) {
        status = leati_hip_fail(self->api, leati_hip_names.event_create, code);
        goto free_made;
    }
    *event = made;
    return LEAT_OK;

free_made:
    free(made);
    return status;
}

leat_status leati_hip_event_destroy(struct leati_driver *driver, void *event)
{
    struct hip_event *gone = event;
    struct hip_event copy = *gone;

    (void)driver;
    free(gone);
    if (copy.owned)
        LEATI_HIP_TRY(copy.device, event_destroy, copy.handle);
    return LEAT_OK;
}

leat_status leati_hip_event_adopt(struct leati_driver *driver, void *device, void *native, void **event)
{
    struct hip_event *made;

    (void)driver;
    if (!native)
        return leati_fail(LEAT_ERROR_INVALID, "the hipEvent_t is NULL; give one that hipEventCreate made");
    made = describe_event(device, native, false);
    if (!made)
        return LEAT_ERROR_HOST_MEMORY;
    *event = made;
    return LEAT_OK;
}

void *leati_hip_event_native(struct leati_driver *driver, void *event)
{
    (void)driver;
    return ((struct hip_event *)event)->handle;
}

leat_status leati_hip_event_record(struct leati_driver *driver, void *event, void *stream)
{
    struct hip_event *self = event;
    struct hip_stream *on = stream;

    (void)driver;
    LEATI_HIP_TRY(on->device, event_record, self->handle, on->handle);
    return LEAT_OK;
}

leat_status leati_hip_event_query(struct leati_driver *driver, void *event)
{
    struct hip_event *self = event;

    (void)driver;
    LEATI_HIP_TRY(self->device, event_query, self->handle);
    return LEAT_OK;
}

leat_status leati_hip_event_synchronize(struct leati_driver *driver, void *event)
{
    struct hip_event *self = event;

    (void)driver;
    LEATI_HIP_TRY(self->device, event_synchronize, self->handle);
    return LEAT_OK;
}

leat_status leati_hip_event_elapsed(struct leati_driver *driver, void *start, void *end, double *milliseconds)
{
    struct hip_event *first = start;
    struct hip_event *last = end;
    leat_status status;
    hi_result code;
    float elapsed;

    (void)driver;
    LEATI_HIP_CALL(first->device, code, event_elapsed, &elapsed, first->handle, last->handle);
    if (code == LEATI_hipErrorInvalidHandle) {
        status = leati_hip_fail_as(first->device->api, LEAT_ERROR_INVALID, leati_hip_names.event_elapsed, code);
        return leati_fail_in(status,
                             "an event was never recorded, was made without timing, or is of another device");
    }
    if (code != LEATI_hipSuccess)
        return leati_hip_fail(first->device->api, leati_hip_names.event_elapsed, code);
    *milliseconds = (double)elapsed;
    return LEAT_OK;
}

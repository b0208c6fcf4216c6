/*
 * cuda_stream.c - streams, events, host functions.
 */
#include "driver/cuda/cuda_driver.h"

#include "base/quick.h"
#include <stdlib.h>

/* NULL, with a sentence, when out of memory. */
static struct cuda_stream *describe_stream(struct cuda_device *device, cu_stream handle, bool owned)
{
    struct cuda_stream *made = malloc(sizeof *made);

    if (made)
        *made = (struct cuda_stream){.handle = handle, .device = device, .owned = owned};
    else
        leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the stream's description");
    return made;
}

leat_status leati_cuda_stream_create(struct leati_driver *driver, void *device, void **stream)
{
    struct cuda_device *self = device;
    struct cuda_stream *made;
    leat_status status;
    cu_result code;
    bool pushed;

    (void)driver;
    made = describe_stream(self, NULL, true);
    if (!made)
        return LEAT_ERROR_HOST_MEMORY;
    status = leati_cuda_enter(self, &pushed);
    if (status != LEAT_OK)
        goto free_made;

    /* Without this flag the stream would wait for the legacy default stream, which other code in the process uses.
     */
    code = self->cu->stream_create(&made->handle, LEATI_CU_STREAM_NON_BLOCKING);
    leati_cuda_leave(self, pushed);
    if (code != LEATI_CUDA_SUCCESS) {
        status = leati_cuda_fail(self->cu, leati_cuda_names.stream_create, code);
        goto free_made;
    }
    *stream = made;
    return LEAT_OK;

free_made:
    free(made);
    return status;
}

leat_status leati_cuda_stream_destroy(struct leati_driver *driver, void *stream)
{
    struct cuda_stream *gone = stream;
    struct cuda_stream copy = *gone;

    (void)driver;
    free(gone);
    if (copy.owned)
        LEATI_CUDA_TRY(copy.device, stream_destroy, copy.handle);
    return LEAT_OK;
}

/* Is native a stream of device's context? The default streams are of whichever context is current. */
static leat_status check_native(const struct cuda_device *device, cu_stream native)
{
    cu_context context;
    leat_status status;
    cu_result code;

    if (!native || native == LEATI_CU_STREAM_LEGACY || native == LEATI_CU_STREAM_PER_THREAD)
        return LEAT_OK;
    LEATI_CUDA_CALL(device, code, stream_context, native, &context);
    switch (code) {
    case LEATI_CUDA_SUCCESS:
        if (context == device->context)
            return LEAT_OK;
        return leati_fail(LEAT_ERROR_INVALID,
                          "the stream belongs to another context than the device's; wrap it for the "
                          "device of its own context (leat_device_wrap)");
    case LEATI_CUDA_ERROR_NOT_SUPPORTED:
        /* A stream of a green context, whose context CUDA does not tell. */
        return LEAT_OK;
    case LEATI_CUDA_ERROR_INVALID_VALUE:
    case LEATI_CUDA_ERROR_INVALID_HANDLE:
    case LEATI_CUDA_ERROR_INVALID_CONTEXT:
        status = leati_cuda_fail_as(device->cu, LEAT_ERROR_INVALID, leati_cuda_names.stream_context, code);
        return leati_fail_in(status, "not a CUstream that is alive");
    default:
        return leati_cuda_fail(device->cu, leati_cuda_names.stream_context, code);
    }
}

leat_status leati_cuda_stream_adopt(struct leati_driver *driver, void *device, void *native, void **stream)
{
    struct cuda_stream *made;

    (void)driver;
    LEATI_TRY(check_native(device, native));
    made = describe_stream(device, native, false);
    if (!made)
        return LEAT_ERROR_HOST_MEMORY;
    *stream = made;
    return LEAT_OK;
}

void *leati_cuda_stream_native(struct leati_driver *driver, void *stream)
{
    (void)driver;
    return ((struct cuda_stream *)stream)->handle;
}

LEATI_HOT leat_status leati_cuda_stream_query(struct leati_driver *driver, void *stream)
{
    struct cuda_stream *self = stream;

    (void)driver;
    LEATI_CUDA_TRY(self->device, stream_query, self->handle);
    return LEAT_OK;
}

LEATI_HOT leat_status leati_cuda_stream_synchronize(struct leati_driver *driver, void *stream)
{
    struct cuda_stream *self = stream;

    (void)driver;
    LEATI_CUDA_TRY(self->device, stream_synchronize, self->handle);
    return LEAT_OK;
}

leat_status leati_cuda_stream_wait(struct leati_driver *driver, void *stream, void *event)
{
    struct cuda_stream *self = stream;
    struct cuda_event *mark = event;

    (void)driver;
    LEATI_CUDA_TRY(self->device, stream_wait, self->handle, mark->handle, 0);
    return LEAT_OK;
}

LEATI_HOT leat_status leati_cuda_stream_values(struct leati_driver *driver, void *stream, const struct leati_value *values,
                                     unsigned count)
{
    struct cuda_stream *self = stream;
    cu_value_operation operations[4] = {{0}};

    (void)driver;
    if (!self->device->cu->stream_values)
        return leati_fail(LEAT_ERROR_UNSUPPORTED, "%s: this CUDA driver is older than 11.7 and does not have it",
                          leati_cuda_names.stream_values);
    for (unsigned i = 0; i < count; i++) {
        operations[i].operation =
            values[i].wait ? LEATI_CU_STREAM_MEM_OP_WAIT_VALUE_32 : LEATI_CU_STREAM_MEM_OP_WRITE_VALUE_32;
        operations[i].address = leati_cuda_address((const void *)values[i].word);
        operations[i].value = values[i].value;
        operations[i].flags = values[i].wait ? LEATI_CU_STREAM_WAIT_VALUE_GEQ : LEATI_CU_STREAM_WRITE_VALUE_DEFAULT;
    }
    LEATI_CUDA_TRY(self->device, stream_values, self->handle, count, operations, 0);
    return LEAT_OK;
}

leat_status leati_cuda_launch_host(struct leati_driver *driver, void *stream, void (*function)(void *),
                                   void *argument)
{
    struct cuda_stream *self = stream;

    (void)driver;
    LEATI_CUDA_TRY(self->device, launch_host, self->handle, function, argument);
    return LEAT_OK;
}

/* NULL, with a sentence, when out of memory. */
static struct cuda_event *describe_event(struct cuda_device *device, cu_event handle, bool owned)
{
    struct cuda_event *made = malloc(sizeof *made);

    if (made)
        *made = (struct cuda_event){.handle = handle, .device = device, .owned = owned};
    else
        leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the event's description");
    return made;
}

leat_status leati_cuda_event_create(struct leati_driver *driver, void *device, void **event)
{
    struct cuda_device *self = device;
    struct cuda_event *made;
    leat_status status;
    cu_result code;
    bool pushed;

    (void)driver;
    made = describe_event(self, NULL, true);
    if (!made)
        return LEAT_ERROR_HOST_MEMORY;
    status = leati_cuda_enter(self, &pushed);
    if (status != LEAT_OK)
        goto free_made;
    code = self->cu->event_create(&made->handle, LEATI_CU_EVENT_DEFAULT);
    leati_cuda_leave(self, pushed);
    if (code != LEATI_CUDA_SUCCESS) {
        status = leati_cuda_fail(self->cu, leati_cuda_names.event_create, code);
        goto free_made;
    }
    *event = made;
    return LEAT_OK;

free_made:
    free(made);
    return status;
}

leat_status leati_cuda_event_destroy(struct leati_driver *driver, void *event)
{
    struct cuda_event *gone = event;
    struct cuda_event copy = *gone;

    (void)driver;
    free(gone);
    if (copy.owned)
        LEATI_CUDA_TRY(copy.device, event_destroy, copy.handle);
    return LEAT_OK;
}

leat_status leati_cuda_event_adopt(struct leati_driver *driver, void *device, void *native, void **event)
{
    struct cuda_event *made;

    (void)driver;
    if (!native)
        return leati_fail(LEAT_ERROR_INVALID, "the CUevent is NULL; give one that cuEventCreate made");
    made = describe_event(device, native, false);
    if (!made)
        return LEAT_ERROR_HOST_MEMORY;
    *event = made;
    return LEAT_OK;
}

void *leati_cuda_event_native(struct leati_driver *driver, void *event)
{
    (void)driver;
    return ((struct cuda_event *)event)->handle;
}

leat_status leati_cuda_event_record(struct leati_driver *driver, void *event, void *stream)
{
    struct cuda_event *self = event;
    struct cuda_stream *on = stream;

    (void)driver;
    LEATI_CUDA_TRY(on->device, event_record, self->handle, on->handle);
    return LEAT_OK;
}

leat_status leati_cuda_event_query(struct leati_driver *driver, void *event)
{
    struct cuda_event *self = event;

    (void)driver;
    LEATI_CUDA_TRY(self->device, event_query, self->handle);
    return LEAT_OK;
}

leat_status leati_cuda_event_synchronize(struct leati_driver *driver, void *event)
{
    struct cuda_event *self = event;

    (void)driver;
    LEATI_CUDA_TRY(self->device, event_synchronize, self->handle);
    return LEAT_OK;
}

leat_status leati_cuda_event_elapsed(struct leati_driver *driver, void *start, void *end, double *milliseconds)
{
    struct cuda_event *first = start;
    struct cuda_event *last = end;
    leat_status status;
    cu_result code;
    float elapsed;

    (void)driver;
    LEATI_CUDA_CALL(first->device, code, event_elapsed, &elapsed, first->handle, last->handle);
    if (code == LEATI_CUDA_ERROR_INVALID_HANDLE) {
        status = leati_cuda_fail_as(first->device->cu, LEAT_ERROR_INVALID, leati_cuda_names.event_elapsed, code);
        return leati_fail_in(status,
                             "an event was never recorded, was made without timing, or is of another context");
    }
    if (code != LEATI_CUDA_SUCCESS)
        return leati_cuda_fail(first->device->cu, leati_cuda_names.event_elapsed, code);
    *milliseconds = (double)elapsed;
    return LEAT_OK;
}

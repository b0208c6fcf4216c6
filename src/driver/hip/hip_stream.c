/*
 * hip_stream.c - checks the device of a stream, and submits memory operations and host functions to streams.
 * gpu/gpu_stream.h has the rest.
 */
#include "driver/hip/hip_driver.h"

#include "driver/gpu/gpu_stream.h"

#include <stdlib.h>

/* HIP libraries before 5.6 cannot report a stream's device. With these leat does not check the stream. */
static leat_status check_native(const struct gpu_device *device, hi_stream *native)
{
    leat_status status;
    hi_result code;
    hi_device of;

    /* HIP 6 introduced this handle for the legacy default stream. NULL means the legacy default stream in all
     * versions. */
    if (*native == LEATI_HIP_STREAM_LEGACY)
        *native = NULL;
    if (!*native || *native == LEATI_HIP_STREAM_PER_THREAD || !device->api->stream_device)
        return LEAT_OK;
    GPU_CALL(device, code, stream_device, *native, &of);
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

/* HIP compares flags as unsigned numbers, but driver.h requires a comparison of their signed distance. Both have
 * the same result for values below 2^31 and flags that start at 0. leat's copies only wait for such flags, and
 * leat_stream_wait_u32() requires them on HIP. */
leat_status leati_hip_stream_mem_ops(struct leati_driver *driver, void *stream, const struct leati_mem_op *ops,
                                     unsigned count)
{
    struct gpu_stream *self = stream;

    (void)driver;
    if (!self->device->mem_ops)
        return leati_fail(LEAT_ERROR_UNSUPPORTED, "%s: this GPU or its HIP library does not have it",
                          leati_hip_names.stream_wait_value);
    for (unsigned i = 0; i < count; i++)
        if (ops[i].wait && ops[i].value > INT32_MAX)
            return leati_fail(LEAT_ERROR_UNSUPPORTED,
                              "%s: HIP compares counters as unsigned numbers, so a stream cannot wait for %u: the largest value is %d",
                              leati_hip_names.stream_wait_value, ops[i].value, INT32_MAX);
    for (unsigned i = 0; i < count; i++) {
        void *flag = (void *)(uintptr_t)ops[i].flag;

        if (ops[i].wait)
            GPU_TRY(self->device, stream_wait_value, self->handle, flag, ops[i].value, LEATI_hipStreamWaitValueGte,
                    UINT32_MAX);
        else
            GPU_TRY(self->device, stream_write_value, self->handle, flag, ops[i].value, 0);
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

/* Runs a host function by hipStreamAddCallback, also in stream order, if the library has no hipLaunchHostFunc. The
 * header of HIP 5.2 declares hipLaunchHostFunc, but the library does not export it. */
static leat_status launch_callback(struct gpu_stream *self, void (*function)(void *), void *argument)
{
    struct callback *callback = malloc(sizeof *callback);
    leat_status status;
    hi_result code;
    gpu_before before;

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
    struct gpu_stream *self = stream;

    (void)driver;
    if (!self->device->api->launch_host)
        return launch_callback(self, function, argument);
    GPU_TRY(self->device, launch_host, self->handle, function, argument);
    return LEAT_OK;
}

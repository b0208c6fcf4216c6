/*
 * cuda_stream.c - checks the context of a stream, and submits memory operations and host functions to streams.
 * gpu/gpu_stream.h has the rest.
 */
#include "driver/cuda/cuda_driver.h"

#include "base/quick.h"
#include "driver/gpu/gpu_stream.h"

static leat_status check_native(const struct gpu_device *device, cu_stream *native)
{
    cu_context context;
    leat_status status;
    cu_result code;

    if (leati_cuda_is_default(*native))
        return LEAT_OK;
    GPU_CALL(device, code, stream_context, *native, &context);
    switch (code) {
    case LEATI_CUDA_SUCCESS:
        if (context == device->context)
            return LEAT_OK;
        return leati_fail(
            LEAT_ERROR_INVALID,
            "the stream belongs to another context; wrap it for its own context's device (leat_device_wrap)");
    case LEATI_CUDA_ERROR_NOT_SUPPORTED:
        /* The stream belongs to a green context. CUDA does not report green contexts, so leat cannot check it. */
        return LEAT_OK;
    case LEATI_CUDA_ERROR_INVALID_VALUE:
    case LEATI_CUDA_ERROR_INVALID_HANDLE:
    case LEATI_CUDA_ERROR_INVALID_CONTEXT:
        status = leati_cuda_fail_as(device->api, LEAT_ERROR_INVALID, leati_cuda_names.stream_context, code);
        return leati_fail_in(status, "not a CUstream that is alive");
    default:
        return leati_cuda_fail(device->api, leati_cuda_names.stream_context, code);
    }
}

LEATI_HOT leat_status leati_cuda_stream_mem_ops(struct leati_driver *driver, void *stream,
                                                const struct leati_mem_op *ops, unsigned count)
{
    struct gpu_stream *self = stream;
    cu_value_operation operations[4] = {{0}};

    (void)driver;
    if (!self->device->mem_ops)
        return leati_fail(LEAT_ERROR_UNSUPPORTED, "%s: this CUDA driver is older than 11.7 and does not have it",
                          leati_cuda_names.stream_mem_ops);
    for (unsigned i = 0; i < count; i++) {
        operations[i].operation =
            ops[i].wait ? LEATI_CU_STREAM_MEM_OP_WAIT_VALUE_32 : LEATI_CU_STREAM_MEM_OP_WRITE_VALUE_32;
        operations[i].address = gpu_address_of((const void *)ops[i].flag);
        operations[i].value = ops[i].value;
        operations[i].flags = ops[i].wait ? LEATI_CU_STREAM_WAIT_VALUE_GEQ : LEATI_CU_STREAM_WRITE_VALUE_DEFAULT;
    }
    GPU_TRY(self->device, stream_mem_ops, self->handle, count, operations, 0);
    return LEAT_OK;
}

leat_status leati_cuda_launch_host(struct leati_driver *driver, void *stream, void (*function)(void *),
                                   void *argument)
{
    struct gpu_stream *self = stream;

    (void)driver;
    GPU_TRY(self->device, launch_host, self->handle, function, argument);
    return LEAT_OK;
}

/*
 * cuda_copy.c - copies and fills.
 *
 * What "asynchronous" means depends on the memory. "API synchronization behavior" in the driver API manual says of
 * the Async functions: between device and pageable memory they "might be synchronous with respect to host", and
 * from host to host they are always synchronous. A copy of the latter sort is therefore a host function of the
 * stream, so that it keeps its place in the stream's order, also among the work of other threads.
 */
#include "driver/cuda/cuda_driver.h"

#include <stdlib.h>
#include <string.h>

struct host_copy {
    void *dst;
    const void *src;
    size_t bytes;
};

static void run_host_copy(void *argument)
{
    struct host_copy *copy = argument;

    memcpy(copy->dst, copy->src, copy->bytes);
    free(copy);
}

/* When the context has failed CUDA drops what waits, and this piece of memory with it. */
static leat_status copy_on_host(struct cuda_stream *on, void *dst, const void *src, size_t bytes)
{
    struct host_copy *copy;
    leat_status status;
    cu_result code;
    bool pushed;

    copy = malloc(sizeof *copy);
    if (!copy)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the description of a copy");
    *copy = (struct host_copy){.dst = dst, .src = src, .bytes = bytes};
    status = leati_cuda_enter(on->device, &pushed);
    if (status != LEAT_OK)
        goto free_copy;
    code = on->device->cu->launch_host(on->handle, run_host_copy, copy);
    leati_cuda_leave(on->device, pushed);
    if (code == LEATI_CUDA_SUCCESS)
        return LEAT_OK;
    status = leati_cuda_fail(on->device->cu, leati_cuda_names.launch_host, code);

free_copy:
    free(copy);
    return status;
}

static bool on_host(const struct leati_end *end)
{
    return end->kind == LEAT_KIND_PAGEABLE || end->kind == LEAT_KIND_PINNED;
}

leat_status leati_cuda_copy(struct leati_driver *driver, void *stream, struct leati_end dst, struct leati_end src,
                            size_t bytes)
{
    struct cuda_stream *on = stream;
    struct cuda_device *to = dst.kind == LEAT_KIND_DEVICE ? dst.device : NULL;
    struct cuda_device *from = src.kind == LEAT_KIND_DEVICE ? src.device : NULL;
    /* The copy is given in the context of the device that has the memory, which need not be the stream's: memory
     * of a pool cannot be reached from another one, while the stream may be of any ("Stream and Event Behavior" in
     * the CUDA C++ programming guide; both seen on two H200s). */
    struct cuda_device *owner = to ? to : from ? from : on->device;

    (void)driver;
    if (on_host(&dst) && on_host(&src))
        LEATI_TRY(copy_on_host(on, dst.ptr, src.ptr, bytes));
    else if (to && from && to != from)
        LEATI_CUDA_TRY(on->device, copy_peer, leati_cuda_address(dst.ptr), to->context,
                       leati_cuda_address(src.ptr), from->context, bytes, on->handle);
    else
        LEATI_CUDA_TRY(owner, copy, leati_cuda_address(dst.ptr), leati_cuda_address(src.ptr), bytes, on->handle);
    return LEAT_OK;
}

leat_status leati_cuda_fill(struct leati_driver *driver, void *stream, void *dst, uint32_t pattern,
                            unsigned pattern_bytes, size_t count)
{
    struct cuda_stream *on = stream;
    cu_deviceptr address = leati_cuda_address(dst);

    (void)driver;
    switch (pattern_bytes) {
    case 1:
        LEATI_CUDA_TRY(on->device, fill_8, address, (unsigned char)pattern, count, on->handle);
        return LEAT_OK;
    case 2:
        LEATI_CUDA_TRY(on->device, fill_16, address, (unsigned short)pattern, count, on->handle);
        return LEAT_OK;
    default:
        LEATI_CUDA_TRY(on->device, fill_32, address, pattern, count, on->handle);
        return LEAT_OK;
    }
}

/*
 * cuda_copy.c - copies and fills.
 *
 * What "asynchronous" means depends on the memory. "API synchronization behavior" in the driver API manual says of
 * the Async functions: between device and pageable memory they "might be synchronous with respect to host", and
 * from host to host they are always synchronous. A copy of the latter sort is therefore a host function of the
 * stream, so that it keeps its place in the stream's order, also among the work of other threads.
 */
#include "driver/cuda/cuda_driver.h"

#include "base/quick.h"
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

/* When the context has failed CUDA drops what waits, and the argument with it. */
static leat_status give_to_host(struct cuda_stream *on, cu_host_function function, void *argument)
{
    LEATI_CUDA_TRY(on->device, launch_host, on->handle, function, argument);
    return LEAT_OK;
}

static leat_status copy_on_host(struct cuda_stream *on, void *dst, const void *src, size_t bytes)
{
    struct host_copy *copy = malloc(sizeof *copy);
    leat_status status;

    if (!copy)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the description of a copy");
    *copy = (struct host_copy){.dst = dst, .src = src, .bytes = bytes};
    status = give_to_host(on, run_host_copy, copy);
    if (status != LEAT_OK)
        free(copy);
    return status;
}

static bool on_host(const struct leati_end *end)
{
    return end->kind == LEAT_KIND_PAGEABLE || end->kind == LEAT_KIND_PINNED;
}

/* Within one device, or between it and the host: by the call that is told which, as the benchmarks' own copies
 * are. An H200's driver takes as long for cuMemcpyAsync, which finds out by itself; managed memory needs that one.
 * The core has checked all but whether pageable memory is there, so that is what is wrong when the driver finds a
 * value invalid. */
static leat_status copy_within(struct cuda_device *owner, struct leati_end dst, struct leati_end src, size_t bytes,
                               cu_stream stream)
{
    cu_deviceptr to = leati_cuda_address(dst.ptr), from = leati_cuda_address(src.ptr);
    const char *const *name; /* read only where the call failed */
    cu_result code;

    if (dst.kind == LEAT_KIND_DEVICE && on_host(&src)) {
        name = &leati_cuda_names.copy_in;
        LEATI_CUDA_CALL(owner, code, copy_in, to, src.ptr, bytes, stream);
    } else if (on_host(&dst) && src.kind == LEAT_KIND_DEVICE) {
        name = &leati_cuda_names.copy_out;
        LEATI_CUDA_CALL(owner, code, copy_out, dst.ptr, from, bytes, stream);
    } else if (dst.kind == LEAT_KIND_DEVICE && src.kind == LEAT_KIND_DEVICE) {
        name = &leati_cuda_names.copy_on_device;
        LEATI_CUDA_CALL(owner, code, copy_on_device, to, from, bytes, stream);
    } else {
        name = &leati_cuda_names.copy;
        LEATI_CUDA_CALL(owner, code, copy, to, from, bytes, stream);
    }
    if (code == LEATI_CUDA_SUCCESS)
        return LEAT_OK;
    if (code == LEATI_CUDA_ERROR_INVALID_VALUE &&
        (dst.kind == LEAT_KIND_PAGEABLE || src.kind == LEAT_KIND_PAGEABLE))
        return leati_fail_in(leati_cuda_fail_as(owner->cu, LEAT_ERROR_POINTER, *name, code),
                             "the pageable memory at %p is not all there",
                             dst.kind == LEAT_KIND_PAGEABLE ? dst.ptr : src.ptr);
    return leati_cuda_fail(owner->cu, *name, code);
}

/* The driver may read a pageable source during the call, whatever the stream still has to do. So the work that may
 * write the source must be done before. */
static leat_status wait_for_source(struct cuda_stream *on, const struct leati_end *src)
{
    if (src->kind == LEAT_KIND_PAGEABLE)
        LEATI_CUDA_TRY(on->device, stream_synchronize, on->handle);
    return LEAT_OK;
}

LEATI_HOT leat_status leati_cuda_copy(struct leati_driver *driver, void *stream, struct leati_end dst, struct leati_end src,
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
        return copy_on_host(on, dst.ptr, src.ptr, bytes);
    LEATI_TRY(wait_for_source(on, &src));
    if (to && from && to != from)
        LEATI_CUDA_TRY(on->device, copy_peer, leati_cuda_address(dst.ptr), to->context,
                       leati_cuda_address(src.ptr), from->context, bytes, on->handle);
    else
        LEATI_TRY(copy_within(owner, dst, src, bytes, on->handle));
    return LEAT_OK;
}

/* ---- rectangles ---- */

/* The vendor's longest pitch (CU_DEVICE_ATTRIBUTE_MAX_PITCH, the same on all GPUs). */
#define PITCH_MOST ((size_t)INT32_MAX)

struct host_box {
    char *dst;
    const char *src;
    leat_copy_box box;
};

static void run_host_box(void *argument)
{
    struct host_box *work = argument;
    const leat_copy_box *box = &work->box;

    for (size_t z = 0; z < box->depth; z++)
        for (size_t y = 0; y < box->height; y++)
            memcpy(work->dst + z * box->dst_slice_bytes + y * box->dst_pitch_bytes,
                   work->src + z * box->src_slice_bytes + y * box->src_pitch_bytes, box->width_bytes);
    free(work);
}

static leat_status copy_box_on_host(struct cuda_stream *on, void *dst, const void *src, const leat_copy_box *box)
{
    struct host_box *work = malloc(sizeof *work);
    leat_status status;

    if (!work)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the description of a copy");
    *work = (struct host_box){.dst = dst, .src = src, .box = *box};
    if (box->depth == 1)
        work->box.dst_slice_bytes = work->box.src_slice_bytes = 0;
    status = give_to_host(on, run_host_box, work);
    if (status != LEAT_OK)
        free(work);
    return status;
}

static unsigned memory_type(const struct leati_end *end)
{
    return on_host(end)                     ? LEATI_CU_MEMORYTYPE_HOST
           : end->kind == LEAT_KIND_MANAGED ? LEATI_CU_MEMORYTYPE_UNIFIED
                                            : LEATI_CU_MEMORYTYPE_DEVICE;
}

static cu_context context_of(const struct leati_end *end)
{
    return ((struct cuda_device *)end->device)->context;
}

static leat_status give_box(struct cuda_stream *on, const struct leati_end *dst, const struct leati_end *src,
                            const leat_copy_box *box)
{
    struct cuda_device *to = dst->kind == LEAT_KIND_DEVICE ? dst->device : NULL;
    struct cuda_device *from = src->kind == LEAT_KIND_DEVICE ? src->device : NULL;
    struct cuda_device *owner = to ? to : from ? from : on->device; /* as leati_cuda_copy() */
    cu_box_copy copy = {.src_type = memory_type(src),
                        .dst_type = memory_type(dst),
                        .src_pitch = box->src_pitch_bytes,
                        .dst_pitch = box->dst_pitch_bytes,
                        .width = box->width_bytes,
                        .height = box->height,
                        .depth = box->depth};

    if (on_host(src))
        copy.src_host = src->ptr;
    else
        copy.src_device = leati_cuda_address(src->ptr);
    if (on_host(dst))
        copy.dst_host = dst->ptr;
    else
        copy.dst_device = leati_cuda_address(dst->ptr);
    copy.src_height = box->depth > 1 ? box->src_slice_bytes / box->src_pitch_bytes : box->height;
    copy.dst_height = box->depth > 1 ? box->dst_slice_bytes / box->dst_pitch_bytes : box->height;
    LEATI_TRY(wait_for_source(on, src));
    if (!to || !from || to == from) {
        LEATI_CUDA_TRY(owner, copy_box, &copy, on->handle);
        return LEAT_OK;
    }
    copy.src_context = context_of(src);
    copy.dst_context = context_of(dst);
    LEATI_CUDA_TRY(on->device, copy_box_peer, &copy, on->handle);
    return LEAT_OK;
}

/* The vendor counts slices in rows: others go slice by slice. A single slice makes the same call either way. */
static bool slices_are_rows(const leat_copy_box *box)
{
    return box->src_slice_bytes % box->src_pitch_bytes == 0 && box->dst_slice_bytes % box->dst_pitch_bytes == 0;
}

static struct leati_end move_end(struct leati_end end, size_t bytes)
{
    end.ptr = (char *)end.ptr + bytes;
    return end;
}

static leat_status copy_rows(struct leati_driver *driver, void *stream, struct leati_end dst, struct leati_end src,
                             const leat_copy_box *box)
{
    for (size_t y = 0; y < box->height; y++)
        LEATI_TRY(leati_cuda_copy(driver, stream, move_end(dst, y * box->dst_pitch_bytes),
                                  move_end(src, y * box->src_pitch_bytes), box->width_bytes));
    return LEAT_OK;
}

leat_status leati_cuda_copy_rectangle(struct leati_driver *driver, void *stream, struct leati_end dst,
                                      struct leati_end src, const leat_copy_box *box)
{
    bool long_pitch = box->dst_pitch_bytes > PITCH_MOST || box->src_pitch_bytes > PITCH_MOST;
    leat_copy_box slice = *box;

    if (on_host(&dst) && on_host(&src))
        return copy_box_on_host(stream, dst.ptr, src.ptr, box);
    if (!long_pitch && slices_are_rows(box))
        return give_box(stream, &dst, &src, box);
    slice.depth = 1;
    for (size_t z = 0; z < box->depth; z++) {
        struct leati_end to = move_end(dst, z ? z * box->dst_slice_bytes : 0);
        struct leati_end from = move_end(src, z ? z * box->src_slice_bytes : 0);

        LEATI_TRY(long_pitch ? copy_rows(driver, stream, to, from, &slice) : give_box(stream, &to, &from, &slice));
    }
    return LEAT_OK;
}

/* ---- fills ---- */

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

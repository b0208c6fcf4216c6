/*
 * cuda_copy.c - chooses the CUDA call for a copy, and the context of the call. gpu/gpu_copy.h has the rest.
 */
#include "driver/cuda/cuda_driver.h"

#include "base/quick.h"
#include "driver/gpu/gpu_copy.h"

/* Copies within a device, or between a device and the host. If no end is managed memory, uses the CUDA call for
 * the direction, as most programs do. For managed memory it uses cuMemcpyAsync, which finds out the direction and
 * is as fast on an H200. The core has checked the arguments, but not whether pageable memory is mapped, so
 * INVALID_VALUE from CUDA means that a part of the pageable range is not mapped. */
static leat_status copy_within(struct gpu_device *owner, struct leati_location dst, struct leati_location src,
                               size_t bytes, cu_stream stream)
{
    cu_deviceptr to = gpu_address_of(dst.ptr), from = gpu_address_of(src.ptr);
    const char *const *name; /* used only if the call fails */
    cu_result code;

    if (dst.kind == LEAT_KIND_DEVICE && on_host(&src)) {
        name = &leati_cuda_names.copy_in;
        GPU_CALL(owner, code, copy_in, to, src.ptr, bytes, stream);
    } else if (on_host(&dst) && src.kind == LEAT_KIND_DEVICE) {
        name = &leati_cuda_names.copy_out;
        GPU_CALL(owner, code, copy_out, dst.ptr, from, bytes, stream);
    } else if (dst.kind == LEAT_KIND_DEVICE && src.kind == LEAT_KIND_DEVICE) {
        name = &leati_cuda_names.copy_on_device;
        GPU_CALL(owner, code, copy_on_device, to, from, bytes, stream);
    } else {
        name = &leati_cuda_names.copy;
        GPU_CALL(owner, code, copy, to, from, bytes, stream);
    }
    if (code == LEATI_CUDA_SUCCESS)
        return LEAT_OK;
    if (code == LEATI_CUDA_ERROR_INVALID_VALUE &&
        (dst.kind == LEAT_KIND_PAGEABLE || src.kind == LEAT_KIND_PAGEABLE))
        return leati_fail_in(leati_cuda_fail_as(owner->api, LEAT_ERROR_POINTER, *name, code),
                             "the pageable memory at %p is not fully mapped",
                             dst.kind == LEAT_KIND_PAGEABLE ? dst.ptr : src.ptr);
    return leati_cuda_fail(owner->api, *name, code);
}

/* Returns true if the copy needs copy_beside(). owner: the device whose context the copy needs. */
static bool is_beside(const struct gpu_stream *on, const struct gpu_device *owner)
{
    return owner != on->device && leati_cuda_is_default(on->handle);
}

/*
 * Makes a copy in the context of owner, in the order of a default stream of another context. The handle of a
 * default stream means another stream in each context, so the copy goes on a stream of its own, which waits for
 * the default stream, and for which the default stream then waits. region: NULL for a copy of bytes.
 */
static leat_status copy_beside(struct leati_driver *driver, struct gpu_stream *on, struct gpu_device *owner,
                               const struct leati_location *dst, const struct leati_location *src, size_t bytes,
                               const leat_copy_region *region)
{
    void *beside = NULL, *before = NULL, *after = NULL;
    leat_status status = leati_cuda_stream_create(driver, owner, &beside);

    if (status == LEAT_OK)
        status = leati_cuda_event_create(driver, on->device, &before);
    if (status == LEAT_OK)
        status = leati_cuda_event_create(driver, owner, &after);
    if (status == LEAT_OK)
        status = leati_cuda_event_record(driver, before, on);
    if (status == LEAT_OK)
        status = leati_cuda_stream_wait(driver, beside, before);
    if (status == LEAT_OK)
        status = region ? submit_region(driver, beside, dst, src, region)
                        : leati_cuda_copy(driver, beside, *dst, *src, bytes);
    if (status == LEAT_OK)
        status = leati_cuda_event_record(driver, after, beside);
    if (status == LEAT_OK)
        status = leati_cuda_stream_wait(driver, on, after);
    /* CUDA keeps a destroyed stream or event until its work is complete. */
    if (before)
        (void)LEATI_QUIETLY(leati_cuda_event_destroy(driver, before));
    if (after)
        (void)LEATI_QUIETLY(leati_cuda_event_destroy(driver, after));
    if (beside)
        (void)LEATI_QUIETLY(leati_cuda_stream_destroy(driver, beside));
    return status;
}

LEATI_HOT leat_status leati_cuda_copy(struct leati_driver *driver, void *stream, struct leati_location dst,
                                      struct leati_location src, size_t bytes)
{
    struct gpu_stream *on = stream;
    struct gpu_device *to = dst.kind == LEAT_KIND_DEVICE ? dst.device : NULL;
    struct gpu_device *from = src.kind == LEAT_KIND_DEVICE ? src.device : NULL;
    /* Submit in the context of the device that owns the memory, which may differ from the stream's device. Memory
     * of a CUDA pool is not accessible from another context, but the stream may belong to any context ("Stream and
     * Event Behavior" in the CUDA C++ programming guide; both confirmed on two H200s). */
    struct gpu_device *owner = to ? to : from ? from : on->device;

    if (on_host(&dst) && on_host(&src))
        return copy_on_host(driver, stream, dst.ptr, src.ptr, bytes);
    if (!(to && from && to != from) && is_beside(on, owner))
        return copy_beside(driver, on, owner, &dst, &src, bytes, NULL);
    LEATI_TRY(wait_for_source(on, &src));
    if (to && from && to != from)
        GPU_TRY(on->device, copy_peer, gpu_address_of(dst.ptr), to->context, gpu_address_of(src.ptr),
                from->context, bytes, on->handle);
    else
        LEATI_TRY(copy_within(owner, dst, src, bytes, on->handle));
    return LEAT_OK;
}

static unsigned memory_type(const struct leati_location *end)
{
    return on_host(end)                     ? LEATI_CU_MEMORYTYPE_HOST
           : end->kind == LEAT_KIND_MANAGED ? LEATI_CU_MEMORYTYPE_UNIFIED
                                            : LEATI_CU_MEMORYTYPE_DEVICE;
}

static cu_context context_of(const struct leati_location *end)
{
    return ((struct gpu_device *)end->device)->context;
}

static leat_status submit_region(struct leati_driver *driver, struct gpu_stream *on,
                                 const struct leati_location *dst, const struct leati_location *src,
                                 const leat_copy_region *region)
{
    struct gpu_device *to = dst->kind == LEAT_KIND_DEVICE ? dst->device : NULL;
    struct gpu_device *from = src->kind == LEAT_KIND_DEVICE ? src->device : NULL;
    struct gpu_device *owner = to ? to : from ? from : on->device; /* see leati_cuda_copy() */
    cu_region_copy copy = {.src_type = memory_type(src),
                           .dst_type = memory_type(dst),
                           .src_pitch = region->src_pitch_bytes,
                           .dst_pitch = region->dst_pitch_bytes,
                           .width = region->width_bytes,
                           .height = region->height,
                           .depth = region->depth};

    if (!(to && from && to != from) && is_beside(on, owner))
        return copy_beside(driver, on, owner, dst, src, 0, region);
    if (on_host(src))
        copy.src_host = src->ptr;
    else
        copy.src_device = gpu_address_of(src->ptr);
    if (on_host(dst))
        copy.dst_host = dst->ptr;
    else
        copy.dst_device = gpu_address_of(dst->ptr);
    copy.src_height = region->depth > 1 ? region->src_slice_bytes / region->src_pitch_bytes : region->height;
    copy.dst_height = region->depth > 1 ? region->dst_slice_bytes / region->dst_pitch_bytes : region->height;
    LEATI_TRY(wait_for_source(on, src));
    if (!to || !from || to == from) {
        GPU_TRY(owner, copy_region, &copy, on->handle);
        return LEAT_OK;
    }
    copy.src_context = context_of(src);
    copy.dst_context = context_of(dst);
    GPU_TRY(on->device, copy_region_peer, &copy, on->handle);
    return LEAT_OK;
}

/*
 * hip_copy.c - chooses the HIP call for a copy; gpu/gpu_copy.h has the rest.
 *
 * Unlike in CUDA, a stream can access the memory of all devices, whichever device is current. leat still makes the
 * stream's device current for the call, because the handle of a default stream means the stream of the current
 * device.
 */
#include "driver/hip/hip_driver.h"

#include "driver/gpu/gpu_copy.h"

/* Returns the direction of a copy. For managed memory it returns hipMemcpyDefault, because only HIP's runtime
 * knows where the memory is. */
static hi_copy_kind kind_of(const struct leati_location *dst, const struct leati_location *src)
{
    if (dst->kind == LEAT_KIND_MANAGED || src->kind == LEAT_KIND_MANAGED)
        return LEATI_hipMemcpyDefault;
    if (on_host(dst))
        return on_host(src) ? LEATI_hipMemcpyHostToHost : LEATI_hipMemcpyDeviceToHost;
    return on_host(src) ? LEATI_hipMemcpyHostToDevice : LEATI_hipMemcpyDeviceToDevice;
}

leat_status leati_hip_copy(struct leati_driver *driver, void *stream, struct leati_location dst,
                           struct leati_location src, size_t bytes)
{
    struct gpu_stream *on = stream;
    struct gpu_device *to = dst.kind == LEAT_KIND_DEVICE ? dst.device : NULL;
    struct gpu_device *from = src.kind == LEAT_KIND_DEVICE ? src.device : NULL;

    if (on_host(&dst) && on_host(&src))
        return copy_on_host(driver, stream, dst.ptr, src.ptr, bytes);
    LEATI_TRY(wait_for_source(on, &src));
    if (to && from && to->number != from->number)
        GPU_TRY(on->device, copy_peer, dst.ptr, to->number, src.ptr, from->number, bytes, on->handle);
    else
        GPU_TRY(on->device, copy, dst.ptr, src.ptr, bytes, kind_of(&dst, &src), on->handle);
    return LEAT_OK;
}

static leat_status submit_region(struct leati_driver *driver, struct gpu_stream *on,
                                 const struct leati_location *dst, const struct leati_location *src,
                                 const leat_copy_region *region)
{
    hi_region_copy copy = {
        .src = {.ptr = src->ptr, .pitch = region->src_pitch_bytes, .width = region->width_bytes},
        .dst = {.ptr = dst->ptr, .pitch = region->dst_pitch_bytes, .width = region->width_bytes},
        .width = region->width_bytes,
        .height = region->height,
        .depth = region->depth,
        .kind = kind_of(dst, src)};

    (void)driver;
    copy.src.height = region->depth > 1 ? region->src_slice_bytes / region->src_pitch_bytes : region->height;
    copy.dst.height = region->depth > 1 ? region->dst_slice_bytes / region->dst_pitch_bytes : region->height;
    LEATI_TRY(wait_for_source(on, src));
    GPU_TRY(on->device, copy_region, &copy, on->handle);
    return LEAT_OK;
}

/*
 * hip_copy.c - copies and fills.
 *
 * As on CUDA, what "asynchronous" means depends on the memory: with a pageable end the runtime may copy at once or
 * later. A copy between two host ends is a host function of the stream, so that it keeps its place in the stream's
 * order, also among the work of other threads. Unlike on CUDA a stream reaches the memory of all devices,
 * whichever is current; the stream's own is made current for the sake of the default streams, which are of the
 * current one.
 */
#include "driver/hip/hip_driver.h"

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

static leat_status copy_on_host(struct leati_driver *driver, void *stream, void *dst, const void *src,
                                size_t bytes)
{
    struct host_copy *copy = malloc(sizeof *copy);
    leat_status status;

    if (!copy)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the description of a copy");
    *copy = (struct host_copy){.dst = dst, .src = src, .bytes = bytes};
    status = leati_hip_launch_host(driver, stream, run_host_copy, copy);
    if (status != LEAT_OK)
        free(copy);
    return status;
}

static bool on_host(const struct leati_end *end)
{
    return end->kind == LEAT_KIND_PAGEABLE || end->kind == LEAT_KIND_PINNED;
}

/* Managed memory is wherever it is, so the runtime has to look. */
static hi_copy_kind kind_of(const struct leati_end *dst, const struct leati_end *src)
{
    if (dst->kind == LEAT_KIND_MANAGED || src->kind == LEAT_KIND_MANAGED)
        return LEATI_hipMemcpyDefault;
    if (on_host(dst))
        return on_host(src) ? LEATI_hipMemcpyHostToHost : LEATI_hipMemcpyDeviceToHost;
    return on_host(src) ? LEATI_hipMemcpyHostToDevice : LEATI_hipMemcpyDeviceToDevice;
}

leat_status leati_hip_copy(struct leati_driver *driver, void *stream, struct leati_end dst, struct leati_end src,
                           size_t bytes)
{
    struct hip_stream *on = stream;
    struct hip_device *to = dst.kind == LEAT_KIND_DEVICE ? dst.device : NULL;
    struct hip_device *from = src.kind == LEAT_KIND_DEVICE ? src.device : NULL;

    /* The runtime may read a pageable source at once, whatever the stream still has to do: it must be what earlier
     * work leaves there. */
    if (src.kind == LEAT_KIND_PAGEABLE && !on_host(&dst))
        LEATI_HIP_TRY(on->device, stream_synchronize, on->handle);
    if (on_host(&dst) && on_host(&src))
        return copy_on_host(driver, stream, dst.ptr, src.ptr, bytes);
    if (to && from && to->number != from->number)
        LEATI_HIP_TRY(on->device, copy_peer, dst.ptr, to->number, src.ptr, from->number, bytes, on->handle);
    else
        LEATI_HIP_TRY(on->device, copy, dst.ptr, src.ptr, bytes, kind_of(&dst, &src), on->handle);
    return LEAT_OK;
}

/* ---- rectangles ---- */

/* The longest pitch (hipDeviceAttributeMaxPitch) that every AMD GPU takes. */
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

static leat_status copy_box_on_host(struct leati_driver *driver, void *stream, void *dst, const void *src,
                                    const leat_copy_box *box)
{
    struct host_box *work = malloc(sizeof *work);
    leat_status status;

    if (!work)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the description of a copy");
    *work = (struct host_box){.dst = dst, .src = src, .box = *box};
    if (box->depth == 1)
        work->box.dst_slice_bytes = work->box.src_slice_bytes = 0;
    status = leati_hip_launch_host(driver, stream, run_host_box, work);
    if (status != LEAT_OK)
        free(work);
    return status;
}

static leat_status give_box(struct hip_stream *on, const struct leati_end *dst, const struct leati_end *src,
                            const leat_copy_box *box)
{
    hi_box_copy copy = {.src = {.ptr = src->ptr, .pitch = box->src_pitch_bytes, .width = box->width_bytes},
                        .dst = {.ptr = dst->ptr, .pitch = box->dst_pitch_bytes, .width = box->width_bytes},
                        .width = box->width_bytes,
                        .height = box->height,
                        .depth = box->depth,
                        .kind = kind_of(dst, src)};

    copy.src.height = box->depth > 1 ? box->src_slice_bytes / box->src_pitch_bytes : box->height;
    copy.dst.height = box->depth > 1 ? box->dst_slice_bytes / box->dst_pitch_bytes : box->height;
    if (src->kind == LEAT_KIND_PAGEABLE) /* as leati_hip_copy() */
        LEATI_HIP_TRY(on->device, stream_synchronize, on->handle);
    LEATI_HIP_TRY(on->device, copy_box, &copy, on->handle);
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
        LEATI_TRY(leati_hip_copy(driver, stream, move_end(dst, y * box->dst_pitch_bytes),
                                 move_end(src, y * box->src_pitch_bytes), box->width_bytes));
    return LEAT_OK;
}

leat_status leati_hip_copy_rectangle(struct leati_driver *driver, void *stream, struct leati_end dst,
                                     struct leati_end src, const leat_copy_box *box)
{
    bool long_pitch = box->dst_pitch_bytes > PITCH_MOST || box->src_pitch_bytes > PITCH_MOST;
    leat_copy_box slice = *box;

    if (on_host(&dst) && on_host(&src))
        return copy_box_on_host(driver, stream, dst.ptr, src.ptr, box);
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

leat_status leati_hip_fill(struct leati_driver *driver, void *stream, void *dst, uint32_t pattern,
                           unsigned pattern_bytes, size_t count)
{
    struct hip_stream *on = stream;

    (void)driver;
    switch (pattern_bytes) {
    case 1:
        LEATI_HIP_TRY(on->device, fill_8, dst, (unsigned char)pattern, count, on->handle);
        return LEAT_OK;
    case 2:
        LEATI_HIP_TRY(on->device, fill_16, dst, (unsigned short)pattern, count, on->handle);
        return LEAT_OK;
    default:
        LEATI_HIP_TRY(on->device, fill_32, dst, (int)pattern, count, on->handle);
        return LEAT_OK;
    }
}

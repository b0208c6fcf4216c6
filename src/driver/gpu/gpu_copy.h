/*
 * gpu_copy.h - implements copies between two host ends, 3-D copies and fills. See gpu_driver.h.
 *
 * The kind of memory determines whether a vendor's Async function is asynchronous. CUDA's driver API manual ("API
 * synchronization behavior") says that copies between device and pageable memory "might be synchronous with
 * respect to host", and that copies from host to host are always synchronous. HIP's runtime, too, may copy
 * pageable memory at once or later. leat submits a copy between two host ends as a host function of the stream, so
 * that the copy is asynchronous and in stream order.
 *
 * The vendor's file has GPU(copy) and submit_region().
 */
#include "driver/gpu/gpu_driver.h"

#include <stdlib.h>
#include <string.h>

/* The longest pitch that every GPU supports (CU_DEVICE_ATTRIBUTE_MAX_PITCH, hipDeviceAttributeMaxPitch). */
#define PITCH_MOST ((size_t)INT32_MAX)

/* Submits a region by one vendor call. At most one end is on the host, and the slice size of each side is a
 * multiple of the pitch of this side. */
static leat_status submit_region(struct leati_driver *driver, struct gpu_stream *on,
                                 const struct leati_location *dst, const struct leati_location *src,
                                 const leat_copy_region *region);

static bool on_host(const struct leati_location *end)
{
    return end->kind == LEAT_KIND_PAGEABLE || end->kind == LEAT_KIND_PINNED;
}

/* Waits for the stream if the source is pageable. The vendor's call may read a pageable source at once, but
 * earlier work of the stream may still write the source. */
static leat_status wait_for_source(struct gpu_stream *on, const struct leati_location *src)
{
    if (src->kind == LEAT_KIND_PAGEABLE)
        GPU_TRY(on->device, stream_synchronize, on->handle);
    return LEAT_OK;
}

/* ---- between two host ends ---- */

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

/* Submits a copy between two host ends. If the device fails later, the vendor drops queued host functions, and the
 * struct host_copy leaks. */
static leat_status copy_on_host(struct leati_driver *driver, void *stream, void *dst, const void *src,
                                size_t bytes)
{
    struct host_copy *copy = malloc(sizeof *copy);
    leat_status status;

    if (!copy)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the description of a copy");
    *copy = (struct host_copy){.dst = dst, .src = src, .bytes = bytes};
    status = GPU(launch_host)(driver, stream, run_host_copy, copy);
    if (status != LEAT_OK)
        free(copy);
    return status;
}

struct host_region {
    char *dst;
    const char *src;
    leat_copy_region region;
};

static void run_host_region(void *argument)
{
    struct host_region *work = argument;
    const leat_copy_region *region = &work->region;

    for (size_t z = 0; z < region->depth; z++)
        for (size_t y = 0; y < region->height; y++)
            memcpy(work->dst + z * region->dst_slice_bytes + y * region->dst_pitch_bytes,
                   work->src + z * region->src_slice_bytes + y * region->src_pitch_bytes, region->width_bytes);
    free(work);
}

static leat_status copy_region_on_host(struct leati_driver *driver, void *stream, void *dst, const void *src,
                                       const leat_copy_region *region)
{
    struct host_region *work = malloc(sizeof *work);
    leat_status status;

    if (!work)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the description of a copy");
    *work = (struct host_region){.dst = dst, .src = src, .region = *region};
    if (region->depth == 1)
        work->region.dst_slice_bytes = work->region.src_slice_bytes = 0;
    status = GPU(launch_host)(driver, stream, run_host_region, work);
    if (status != LEAT_OK)
        free(work);
    return status;
}

/* ---- 3-D copies ---- */

/* Returns true if one vendor call can copy all slices. The call takes the size of a slice as a number of rows, so
 * each slice size must be a multiple of the pitch. Other regions are copied slice by slice. */
static bool slices_are_rows(const leat_copy_region *region)
{
    return region->src_slice_bytes % region->src_pitch_bytes == 0 &&
           region->dst_slice_bytes % region->dst_pitch_bytes == 0;
}

static struct leati_location move_end(struct leati_location end, size_t bytes)
{
    end.ptr = (char *)end.ptr + bytes;
    return end;
}

static leat_status copy_rows(struct leati_driver *driver, void *stream, struct leati_location dst,
                             struct leati_location src, const leat_copy_region *region)
{
    for (size_t y = 0; y < region->height; y++)
        LEATI_TRY(GPU(copy)(driver, stream, move_end(dst, y * region->dst_pitch_bytes),
                            move_end(src, y * region->src_pitch_bytes), region->width_bytes));
    return LEAT_OK;
}

leat_status GPU(copy_3d)(struct leati_driver *driver, void *stream, struct leati_location dst,
                         struct leati_location src, const leat_copy_region *region)
{
    bool long_pitch = region->dst_pitch_bytes > PITCH_MOST || region->src_pitch_bytes > PITCH_MOST;
    leat_copy_region slice = *region;

    if (on_host(&dst) && on_host(&src))
        return copy_region_on_host(driver, stream, dst.ptr, src.ptr, region);
    if (!long_pitch && slices_are_rows(region))
        return submit_region(driver, stream, &dst, &src, region);
    slice.depth = 1;
    for (size_t z = 0; z < region->depth; z++) {
        struct leati_location to = move_end(dst, z ? z * region->dst_slice_bytes : 0);
        struct leati_location from = move_end(src, z ? z * region->src_slice_bytes : 0);

        LEATI_TRY(long_pitch ? copy_rows(driver, stream, to, from, &slice)
                             : submit_region(driver, stream, &to, &from, &slice));
    }
    return LEAT_OK;
}

/* ---- fills ---- */

leat_status GPU(fill)(struct leati_driver *driver, void *stream, void *dst, uint32_t pattern,
                      unsigned pattern_bytes, size_t count)
{
    struct gpu_stream *on = stream;
    gpu_address address = gpu_address_of(dst);

    (void)driver;
    switch (pattern_bytes) {
    case 1:
        GPU_TRY(on->device, fill_8, address, (unsigned char)pattern, count, on->handle);
        return LEAT_OK;
    case 2:
        GPU_TRY(on->device, fill_16, address, (unsigned short)pattern, count, on->handle);
        return LEAT_OK;
    default:
        GPU_TRY(on->device, fill_32, address, (gpu_pattern)pattern, count, on->handle);
        return LEAT_OK;
    }
}

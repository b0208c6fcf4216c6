/* region.c - checks, simplifies and moves pitched regions. See region.h. */
#include "copy/region.h"
#include "base/assert.h"

#include "copy/costs.h"
#include "copy/layout.h"

/*
 * DMA engines move rows one by one if the rows are shorter than NARROW_BYTES, or shorter than ODD_BYTES and not
 * aligned to ODD_UNIT bytes. leat ignores this for fewer than FEW_ROWS rows. Not measured yet, see docs/copies.md.
 */
#define NARROW_BYTES ((size_t)64)
#define ODD_BYTES ((size_t)1024)
#define ODD_UNIT 4
#define FEW_ROWS ((size_t)64)

static size_t pitch_of(const leat_copy_region *region, enum leati_region_side side)
{
    return side == LEATI_REGION_DST ? region->dst_pitch_bytes : region->src_pitch_bytes;
}

static size_t slice_of(const leat_copy_region *region, enum leati_region_side side)
{
    return side == LEATI_REGION_DST ? region->dst_slice_bytes : region->src_slice_bytes;
}

size_t leati_region_reach(const leat_copy_region *region, enum leati_region_side side)
{
    size_t slices = region->depth > 1 ? (region->depth - 1) * slice_of(region, side) : 0;

    leati_assert(region->width_bytes && region->height && region->depth);
    return slices + (region->height - 1) * pitch_of(region, side) + region->width_bytes;
}

bool leati_region_is_dense(const leat_copy_region *region, enum leati_region_side side)
{
    return (region->height == 1 || pitch_of(region, side) == region->width_bytes) &&
           (region->depth == 1 || slice_of(region, side) == region->height * region->width_bytes);
}

/* ---- checks and simplification ---- */

static leat_status check_side(const leat_copy_region *region, enum leati_region_side side)
{
    const char *name = side == LEATI_REGION_DST ? "dst" : "src";
    size_t pitch = pitch_of(region, side), slice = slice_of(region, side), rows, slices, end;

    if (pitch < region->width_bytes)
        return leati_fail(LEAT_ERROR_INVALID, "%s_pitch_bytes is %zu, below the width of a row, %zu", name, pitch,
                          region->width_bytes);
    if (__builtin_mul_overflow(region->height, pitch, &rows))
        return leati_fail(LEAT_ERROR_INVALID,
                          "%zu rows with a %s_pitch_bytes of %zu are more than 64 bits can count", region->height,
                          name, pitch);
    if (region->depth == 1)
        return LEAT_OK;
    if (slice < rows)
        return leati_fail(LEAT_ERROR_INVALID, "%s_slice_bytes is %zu, below that of %zu rows of pitch %zu", name,
                          slice, region->height, pitch);
    if (__builtin_mul_overflow(region->depth - 1, slice, &slices) || __builtin_add_overflow(slices, rows, &end))
        return leati_fail(LEAT_ERROR_INVALID, "%zu slices of %s_slice_bytes %zu are more than 64 bits can count",
                          region->depth, name, slice);
    return LEAT_OK;
}

leat_status leati_region_check(const leat_copy_region *region)
{
    LEATI_TRY(check_side(region, LEATI_REGION_DST));
    return check_side(region, LEATI_REGION_SRC);
}

/* The slices of this region have one row each. Turns the slices into the rows of one slice. */
static void lay_flat(leat_copy_region *region)
{
    region->height = region->depth;
    region->dst_pitch_bytes = region->dst_slice_bytes;
    region->src_pitch_bytes = region->src_slice_bytes;
    region->depth = 1;
}

void leati_region_simplify(leat_copy_region *region)
{
    if (region->depth > 1 && region->height == 1)
        lay_flat(region);
    if (region->depth > 1 && region->dst_slice_bytes == region->height * region->dst_pitch_bytes &&
        region->src_slice_bytes == region->height * region->src_pitch_bytes) {
        region->height *= region->depth;
        region->depth = 1;
    }
    if (region->dst_pitch_bytes == region->width_bytes && region->src_pitch_bytes == region->width_bytes) {
        region->width_bytes *= region->height;
        region->height = 1;
        if (region->depth > 1)
            lay_flat(region);
    }
    leati_assert(region->depth == 1 || region->height > 1);
    if (region->height == 1)
        region->dst_pitch_bytes = region->src_pitch_bytes = region->width_bytes;
    if (region->depth == 1)
        region->dst_slice_bytes = region->src_slice_bytes = 0;
}

void leati_region_layouts(const leat_copy_region *region, leat_layout *dst, leat_layout *src)
{
    *dst = (leat_layout){
        .dims = 3,
        .element_bytes = 1,
        .size = {(int64_t)region->depth, (int64_t)region->height, (int64_t)region->width_bytes},
        .stride_bytes = {(int64_t)region->dst_slice_bytes, (int64_t)region->dst_pitch_bytes, 1},
    };
    *src = *dst;
    src->stride_bytes[0] = (int64_t)region->src_slice_bytes;
    src->stride_bytes[1] = (int64_t)region->src_pitch_bytes;
}

/* ---- choosing ---- */

static bool is_on_host(const struct leati_location *end)
{
    return end->kind == LEAT_KIND_PAGEABLE || end->kind == LEAT_KIND_PINNED;
}

bool leati_region_suits_kernel(const leat_stream *stream, const struct leati_location *dst,
                               const struct leati_location *src, const char **why_not)
{
    void *device = stream->device->native;

    *why_not = NULL;
    if (dst->kind == LEAT_KIND_PAGEABLE || src->kind == LEAT_KIND_PAGEABLE)
        *why_not = "a side is pageable";
    else if ((dst->kind == LEAT_KIND_DEVICE && dst->device != device) ||
             (src->kind == LEAT_KIND_DEVICE && src->device != device))
        *why_not = "a side is another device's memory";
    else if (is_on_host(dst) && is_on_host(src))
        *why_not = "both sides are in host memory";
    return !*why_not;
}

bool leati_region_is_narrow(const leat_copy_region *region, const void *dst, const void *src)
{
    size_t odd = (uintptr_t)dst | (uintptr_t)src | region->width_bytes | region->dst_pitch_bytes |
                 region->src_pitch_bytes | region->dst_slice_bytes | region->src_slice_bytes;

    if (region->height * region->depth < FEW_ROWS)
        return false;
    return region->width_bytes < NARROW_BYTES || (region->width_bytes < ODD_BYTES && odd % ODD_UNIT);
}

uint64_t leati_region_cost(const leat_device *device, enum leati_protocol_id protocol, const void *dst,
                           const void *src, const leat_copy_region *region)
{
    size_t rows = region->height * region->depth, bytes = rows * region->width_bytes;
    bool narrow = device->driver->can->dma_engines && leati_region_is_narrow(region, dst, src);

    if (protocol == LEATI_PROTOCOL_KERNEL)
        return leati_cost_kernel(device, bytes);
    return device->driver->ops->copy_3d ? leati_cost_rows(rows, bytes, narrow) : leati_cost_ranges(rows, bytes);
}

/* Gets the layout plan of a region; the caller must drop the plan. */
static leat_status plan_of(const struct leati_location *dst, const struct leati_location *src,
                           const leat_copy_region *region, struct leati_layout_plan **plan,
                           struct leati_layout_start *start)
{
    leat_layout to, from;

    leati_region_layouts(region, &to, &from);
    return leati_layout_plan_get(&to, leati_layout_align(dst->ptr), &from, leati_layout_align(src->ptr), plan,
                                 start);
}

static leat_status load_kernel(leat_device *device, const struct leati_location *dst,
                               const struct leati_location *src, const leat_copy_region *region)
{
    struct leati_layout_start start;
    struct leati_layout_plan *plan;
    leat_kernel *kernel;
    leat_status status;

    LEATI_TRY(plan_of(dst, src, region, &plan, &start));
    status = leati_kernel_builtin(device, plan->gpu.module, plan->gpu.kernel, &kernel);
    leati_layout_plan_drop(plan);
    return status;
}

bool leati_region_has_kernel(leat_device *device, const struct leati_location *dst,
                             const struct leati_location *src, const leat_copy_region *region)
{
    return LEATI_QUIETLY(load_kernel(device, dst, src, region)) == LEAT_OK;
}

enum leati_protocol_id leati_region_choose(leat_stream *stream, enum leati_protocol_id forced,
                                           const struct leati_location *dst, const struct leati_location *src,
                                           const leat_copy_region *region)
{
    leat_device *device = stream->device;
    const char *why_not;
    bool kernel = leati_region_suits_kernel(stream, dst, src, &why_not) && forced != LEATI_PROTOCOL_DRIVER;

    kernel = kernel && (forced == LEATI_PROTOCOL_KERNEL ||
                        leati_region_cost(device, LEATI_PROTOCOL_KERNEL, dst->ptr, src->ptr, region) <
                            leati_region_cost(device, LEATI_PROTOCOL_DRIVER, dst->ptr, src->ptr, region));
    return kernel && leati_region_has_kernel(device, dst, src, region) ? LEATI_PROTOCOL_KERNEL
                                                                       : LEATI_PROTOCOL_DRIVER;
}

void leati_region_explain(struct leati_strbuf *text, const leat_stream *stream, enum leati_protocol_id protocol,
                          const struct leati_location *dst, const struct leati_location *src,
                          const leat_copy_region *region)
{
    struct leati_layout_start start;
    struct leati_layout_plan *plan;

    if (protocol != LEATI_PROTOCOL_KERNEL) {
        leati_strbuf_add(text, stream->device->driver->ops->copy_3d ? "the driver's call for rectangles"
                                                                    : "the driver's call for each row");
        return;
    }
    leati_strbuf_add(text, "one kernel");
    if (LEATI_QUIETLY(plan_of(dst, src, region, &plan, &start)) != LEAT_OK)
        return;
    leati_strbuf_add(text, ", %s", plan->gpu.kernel);
    leati_layout_plan_drop(plan);
    if (leati_region_is_narrow(region, dst->ptr, src->ptr))
        leati_strbuf_add(text, ", since the rows are narrow or lie across words");
}

/* ---- submitting ---- */

/* Fills *address with the address of a side for kernels. */
static leat_status kernel_address(leat_stream *stream, const struct leati_location *end, uintptr_t *address)
{
    struct leati_driver *driver = stream->device->driver;
    void *ptr = end->ptr;

    if (end->kind == LEAT_KIND_PINNED && driver->ops->host_device_pointer)
        LEATI_TRY(driver->ops->host_device_pointer(driver, stream->device->native, end->ptr, &ptr));
    *address = (uintptr_t)ptr;
    return LEAT_OK;
}

static leat_status launch(leat_stream *stream, const struct leati_location *dst, const struct leati_location *src,
                          const leat_copy_region *region)
{
    struct leati_layout_start start;
    struct leati_layout_plan *plan;
    uintptr_t to, from;
    leat_status status;

    LEATI_TRY(kernel_address(stream, dst, &to));
    LEATI_TRY(kernel_address(stream, src, &from));
    LEATI_TRY(plan_of(dst, src, region, &plan, &start));
    status = leati_layout_launch(stream, plan, to + (uintptr_t)start.dst, from + (uintptr_t)start.src, 0, 0);
    leati_layout_plan_drop(plan);
    return status;
}

static leat_status copy_rows(leat_stream *stream, struct leati_location dst, struct leati_location src,
                             const leat_copy_region *region)
{
    struct leati_driver *driver = stream->device->driver;

    for (size_t z = 0; z < region->depth; z++)
        for (size_t y = 0; y < region->height; y++)
            LEATI_TRY(driver->ops->copy(
                driver, stream->native,
                leati_location_at(dst, z * region->dst_slice_bytes + y * region->dst_pitch_bytes),
                leati_location_at(src, z * region->src_slice_bytes + y * region->src_pitch_bytes),
                region->width_bytes));
    return LEAT_OK;
}

leat_status leati_region_move(leat_stream *stream, enum leati_protocol_id protocol, struct leati_location dst,
                              struct leati_location src, const leat_copy_region *region)
{
    struct leati_driver *driver = stream->device->driver;

    if (protocol == LEATI_PROTOCOL_KERNEL)
        return launch(stream, &dst, &src, region);
    return driver->ops->copy_3d ? driver->ops->copy_3d(driver, stream->native, dst, src, region)
                                : copy_rows(stream, dst, src, region);
}

/* Copies whole slices, or rows of one slice. region: these slices or rows only. first: number of rows before them
 * in packed memory. */
static leat_status move_packed(leat_stream *stream, enum leati_protocol_id protocol, enum leati_region_side side,
                               struct leati_location placed, struct leati_location packed, leat_copy_region region,
                               size_t first)
{
    size_t height = region.height;

    /* The packed side has no gaps, so set its pitch and slice to the size of a row and of all rows of a slice. */
    if (side == LEATI_REGION_DST) {
        region.src_pitch_bytes = region.width_bytes;
        region.src_slice_bytes = region.depth > 1 ? height * region.width_bytes : 0;
    } else {
        region.dst_pitch_bytes = region.width_bytes;
        region.dst_slice_bytes = region.depth > 1 ? height * region.width_bytes : 0;
    }
    if (region.depth == 1)
        region.dst_slice_bytes = region.src_slice_bytes = 0;
    packed = leati_location_at(packed, first * region.width_bytes);
    return side == LEATI_REGION_DST ? leati_region_move(stream, protocol, placed, packed, &region)
                                    : leati_region_move(stream, protocol, packed, placed, &region);
}

leat_status leati_region_move_packed(leat_stream *stream, enum leati_protocol_id protocol,
                                     enum leati_region_side side, struct leati_location placed,
                                     struct leati_location packed, const leat_copy_region *region, size_t first,
                                     size_t count)
{
    leati_assert(count && first + count <= region->height * region->depth);
    for (size_t done = 0, height; done < count; done += height) {
        size_t z = (first + done) / region->height, y = (first + done) % region->height, left = count - done;
        leat_copy_region some = *region;

        /* The iterations copy first the rest of the first slice, then all whole slices, and then the rows of the
         * last slice. */
        some.depth = y == 0 && left >= region->height ? left / region->height : 1;
        if (some.depth == 1 && left < region->height - y)
            some.height = left;
        else if (some.depth == 1)
            some.height = region->height - y;
        height = some.height * some.depth;
        leati_assert(some.height && some.depth && height <= left &&
                     y + (some.depth == 1 ? some.height : 0) <= region->height);
        LEATI_TRY(move_packed(stream, protocol, side,
                              leati_location_at(placed, z * slice_of(region, side) + y * pitch_of(region, side)),
                              packed, some, done));
    }
    return LEAT_OK;
}

/*
 * copy.c - implements copies and fills: checks arguments and orders the work with other streams. engine.h states
 * the rules.
 *
 * Some calls must have read a pageable source before they return. If the stream is busy, such a call copies a
 * short source to pinned memory first. For a longer source it waits for the stream, as the vendors' libraries do.
 */
#include "engine/inside.h"

#include <string.h>

/* A longer pageable source is not copied to pinned memory: the call waits for the stream instead. */
#define BOUNCE_BYTES ((size_t)1 << 20)

struct sides {
    struct leatc_memory dst, src;
};

static bool is_pageable(const struct leatc_memory *memory)
{
    return memory->kind == LEATC_MEMORY_PAGEABLE;
}

static bool is_device(const struct leatc_memory *memory)
{
    return memory->kind == LEATC_MEMORY_DEVICE;
}

static bool is_host(const struct leatc_memory *memory)
{
    return !is_device(memory) && memory->kind != LEATC_MEMORY_MANAGED;
}

/* Corrects memory->ordinal for a range that a layer has added. Such a range may have mappings of several devices,
 * and the device of the mapping at ptr counts. */
static void correct_device(const void *ptr, struct leatc_memory *memory)
{
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;

    if (__builtin_expect(memory->foreign, 0) && is_device(memory) &&
        leat_pointer_get_info(ptr, &info) == LEAT_OK && leatc_device_ordinal(info.device) >= 0)
        memory->ordinal = leatc_device_ordinal(info.device);
}

static int find_memory(const void *ptr, struct leatc_memory *memory)
{
    LEATC_TRY(leatc_memory_find(ptr, memory));
    correct_device(ptr, memory);
    return LEATC_OK;
}

/* Returns a bit set with the device that has the memory. The set is empty for host and managed memory. */
static uint64_t device_of(const struct leatc_memory *memory)
{
    return is_device(memory) ? (uint64_t)1 << memory->ordinal : 0;
}

static int find_sides(void *dst, const void *src, int direction, struct sides *sides)
{
    bool to_device = direction == LEATC_HOST_TO_DEVICE || direction == LEATC_DEVICE_TO_DEVICE;
    bool from_device = direction == LEATC_DEVICE_TO_HOST || direction == LEATC_DEVICE_TO_DEVICE;

    LEATC_TRY(leatc_memory_find_both(dst, &sides->dst, src, &sides->src));
    correct_device(dst, &sides->dst);
    correct_device(src, &sides->src);
    if (direction == LEATC_DEFAULT)
        return LEATC_OK;
    if ((to_device ? is_pageable(&sides->dst) : is_device(&sides->dst)) ||
        (from_device ? is_pageable(&sides->src) : is_device(&sides->src)))
        return LEATC_INVALID_VALUE;
    return LEATC_OK;
}

/* Returns true if the copy must have completed when the call returns. */
static bool must_wait(const struct sides *sides, enum leatc_mode mode)
{
    if (mode == LEATC_ASYNC)
        return is_pageable(&sides->dst) || (is_host(&sides->dst) && is_host(&sides->src));
    return !is_device(&sides->dst) || !is_device(&sides->src) || sides->dst.synchronous || sides->src.synchronous;
}

/* Besides its own stream, a call is ordered with the legacy default streams of these devices. */
struct partners {
    uint64_t devices;
    bool all; /* true: the call is also ordered with the non-blocking streams of these devices */
};

/* Returns the devices that a copy is ordered with. used: the devices whose memory the copy uses. */
static struct partners partners_of(const struct leatc_work *work, uint64_t used, enum leatc_mode mode)
{
    uint64_t here = (uint64_t)1 << work->ordinal;

    if (mode == LEATC_ASYNC)
        return (struct partners){0, false};
    if (mode == LEATC_PEER || (work->record->legacy && used & (used - 1)))
        return (struct partners){used | here, true};
    return (struct partners){used & ~here, false};
}

static bool is_busy(leat_stream *stream)
{
    return leat_stream_query(stream) == LEAT_NOT_READY;
}

static leat_status pinned_block(const struct leatc_work *work, size_t bytes, void **ptr)
{
    leat_device *device = NULL;
    leat_status status = leat_stream_device(work->stream, &device);

    return status == LEAT_OK ? leat_memory_alloc(device, LEAT_KIND_PINNED, bytes, ptr) : status;
}

/* Frees a block after the work that uses it was submitted. Returns status, or the status of the free if status is
 * LEAT_OK. */
static leat_status and_free(leat_stream *stream, void *block, leat_status status)
{
    leat_status freed = leat_free(stream, block);

    return status != LEAT_OK ? status : freed;
}

/* ---- one range ---- */

/* Copies overlapping ranges, as memmove() does. */
static leat_status move(const struct leatc_work *work, void *dst, const void *src, size_t bytes,
                        const struct sides *sides)
{
    void *between = NULL;
    leat_status status;

    if (dst == src)
        return LEAT_OK;
    if (is_host(&sides->dst)) {
        status = leat_stream_synchronize(work->stream);
        if (status == LEAT_OK)
            memmove(dst, src, bytes);
        return status;
    }
    status = leat_alloc(work->stream, bytes, &between);
    if (status != LEAT_OK)
        return status;
    status = leat_copy(work->stream, between, src, bytes);
    if (status == LEAT_OK)
        status = leat_copy(work->stream, dst, between, bytes);
    return and_free(work->stream, between, status);
}

static leat_status bounce(const struct leatc_work *work, void *dst, const void *src, size_t bytes)
{
    void *between = NULL;
    leat_status status = pinned_block(work, bytes, &between);

    if (status != LEAT_OK)
        return status;
    memcpy(between, src, bytes);
    return and_free(work->stream, between, leat_copy(work->stream, dst, between, bytes));
}

static leat_status copy_range(const struct leatc_work *work, void *dst, const void *src, size_t bytes,
                              const struct sides *sides, bool wait)
{
    leat_status status;

    if (is_pageable(&sides->src) && !wait && bytes <= BOUNCE_BYTES && is_busy(work->stream))
        status = bounce(work, dst, src, bytes);
    else if (is_pageable(&sides->src) || is_pageable(&sides->dst))
        status = leat_copy_sync(work->stream, dst, src, bytes);
    else
        status = leat_copy(work->stream, dst, src, bytes);
    return status == LEAT_ERROR_OVERLAP ? move(work, dst, src, bytes, sides) : status;
}

/* Returns the number of bytes from ptr to the end of its allocation. leat counts adjacent mappings of one device
 * as one allocation. */
static size_t bytes_left(const char *ptr, const struct leatc_memory *memory)
{
    struct leatc_memory last = *memory, next;

    while (last.foreign && leatc_memory_find((char *)last.base + last.bytes, &next) == LEATC_OK && next.foreign &&
           next.ordinal == last.ordinal && next.base == (char *)last.base + last.bytes)
        last = next;
    return (size_t)((char *)last.base + last.bytes - ptr);
}

/*
 * Returns how many of the bytes at ptr are on the same device as the first byte. A range of virtual memory may
 * consist of mappings of several devices, which leat treats as separate allocations. If part of the range is not
 * mapped, returns bytes, so that leat then rejects the whole range.
 */
static size_t one_device_bytes(const char *ptr, const struct leatc_memory *memory, size_t bytes)
{
    struct leatc_memory next = *memory;
    size_t found = memory->foreign ? bytes_left(ptr, memory) : bytes;

    for (size_t covered = found; covered < bytes; covered += bytes_left(ptr + covered, &next))
        if (leatc_memory_find(ptr + covered, &next) != LEATC_OK || !next.foreign)
            return bytes;
    return found < bytes ? found : bytes;
}

/* Returns how many bytes at the start of a copy have both their source and their destination on one device
 * each. */
static size_t first_part(void *dst, const void *src, size_t bytes, const struct sides *sides)
{
    size_t to = one_device_bytes(dst, &sides->dst, bytes), from = one_device_bytes(src, &sides->src, bytes);

    return to < from ? to : from;
}

static bool has_bytes(const void *ptr, const struct leatc_memory *memory, size_t bytes)
{
    return is_pageable(memory) || bytes <= bytes_left(ptr, memory);
}

/* Returns true if the source or the destination is graph memory that is not live, which only nodes may use. */
static bool is_idle(const struct sides *sides)
{
    return sides->dst.idle || sides->src.idle;
}

/* Begins a copy or a fill. A synchronous one cannot be captured. */
static int begin(struct leatc_stream *stream, enum leatc_mode mode, struct leatc_work *work)
{
    if (mode == LEATC_ASYNC)
        return leatc_work_begin_capturable(stream, work);
    LEATC_TRY(leatc_capture_refuse_sync(stream));
    return leatc_work_begin(stream, work);
}

/* Ends a copy: waits for the copy if wait is set, and otherwise makes later work of the partners wait for it. */
static int end_copy(struct leatc_work *work, const struct partners *partners, leat_status status, bool wait)
{
    LEATC_TRY(leatc_work_end(work, status));
    return wait ? leatc_result_of(leat_stream_synchronize(work->stream))
                : leatc_devices_after_work(work, partners->devices, partners->all);
}

/* Returns the region with the rows of the destination (or, if dst is false, of the source) densely packed. */
static leat_copy_region packed_side(const leat_copy_region *region, bool dst)
{
    leat_copy_region packed = *region;

    if (dst) {
        packed.dst_pitch_bytes = region->width_bytes;
        packed.dst_slice_bytes = region->width_bytes * region->height;
    } else {
        packed.src_pitch_bytes = region->width_bytes;
        packed.src_slice_bytes = region->width_bytes * region->height;
    }
    return packed;
}

/* Copies a region through a temporary block. If by_host is set, the block is pinned memory, and the host copies
 * the source to it before this function returns. Otherwise the block is device memory. */
static leat_status region_between(const struct leatc_work *work, void *dst, const void *src,
                                  const leat_copy_region *region, bool by_host)
{
    leat_copy_region in = packed_side(region, true), out = packed_side(region, false);
    size_t bytes = region->width_bytes * region->height * region->depth;
    void *between = NULL;
    leat_status status = by_host ? pinned_block(work, bytes, &between) : leat_alloc(work->stream, bytes, &between);

    if (status != LEAT_OK)
        return status;
    if (by_host) {
        for (size_t z = 0; z < region->depth; z++)
            for (size_t y = 0; y < region->height; y++)
                memcpy((char *)between + z * in.dst_slice_bytes + y * in.dst_pitch_bytes,
                       (const char *)src + (region->depth > 1 ? z * region->src_slice_bytes : 0) +
                           y * region->src_pitch_bytes,
                       region->width_bytes);
    } else {
        status = leat_copy_3d(work->stream, between, src, &in);
    }
    if (status == LEAT_OK)
        status = leat_copy_3d(work->stream, dst, between, &out);
    return and_free(work->stream, between, status);
}

/* ---- nodes of graphs ---- */

static int place_of(const struct leatc_memory *memory)
{
    if (memory->kind == LEATC_MEMORY_MANAGED)
        return LEATC_PLACE_MANAGED;
    return is_device(memory) ? memory->ordinal : LEATC_PLACE_HOST;
}

/* Returns the number of bytes from the start of the source or destination to its end. SIZE_MAX: the number
 * overflows. */
static size_t region_extent(const leat_copy_region *region, size_t pitch, size_t slice)
{
    size_t rows, slices, last;

    return __builtin_mul_overflow(pitch, region->height - 1, &rows) ||
                   __builtin_mul_overflow(slice, region->depth - 1, &slices) ||
                   __builtin_add_overflow(rows, slices, &last) ||
                   __builtin_add_overflow(last, region->width_bytes, &last)
               ? SIZE_MAX
               : last;
}

/* Copies a range in parts, because each part must lie on one device: virtual memory may consist of mappings of
 * several devices. */
static int run_range(const struct leatc_copy_task *copy, struct leatc_work *work)
{
    size_t left = copy->region.width_bytes;
    char *dst = copy->dst;
    const char *src = copy->src;

    for (size_t part; left; dst += part, src += part, left -= part) {
        struct sides sides;
        leat_status status;

        LEATC_TRY(find_sides(dst, src, LEATC_DEFAULT, &sides));
        part = sides.dst.foreign || sides.src.foreign ? first_part(dst, src, left, &sides) : left;
        status = leat_copy(work->stream, dst, src, part);
        if (status == LEAT_ERROR_OVERLAP)
            status = move(work, dst, src, part, &sides);
        LEATC_TRY(leatc_result_of(status));
    }
    return LEATC_OK;
}

/* Runs a copy node. leat checks the arguments again, because memory may have been freed since the node was
 * made. */
static int run_copy(const void *payload, struct leatc_work *work)
{
    const struct leatc_copy_task *copy = payload;
    leat_status status;

    if (copy->region.height == 1 && copy->region.depth == 1)
        return run_range(copy, work);
    status = leat_copy_3d(work->stream, copy->dst, copy->src, &copy->region);
    if (status == LEAT_ERROR_OVERLAP)
        status =
            copy->dst == copy->src ? LEAT_OK : region_between(work, copy->dst, copy->src, &copy->region, false);
    return leatc_result_of(status);
}

static int make_copy(void *dst, const void *src, const leat_copy_region *region, int direction,
                     const struct sides *sides, struct leatc_task **task)
{
    struct leatc_copy_places copy = {
        .copy = {dst, src, *region, direction}, .dst = place_of(&sides->dst), .src = place_of(&sides->src)};

    if (!has_bytes(dst, &sides->dst, region_extent(region, region->dst_pitch_bytes, region->dst_slice_bytes)) ||
        !has_bytes(src, &sides->src, region_extent(region, region->src_pitch_bytes, region->src_slice_bytes)))
        return LEATC_INVALID_VALUE;
    return leatc_task_create(LEATC_NODE_COPY, run_copy, NULL, &copy, sizeof copy, task);
}

int leatc_copy_make(void *dst, const void *src, const leat_copy_region *region, int direction,
                    struct leatc_task **task)
{
    struct sides sides;

    if (direction < LEATC_HOST_TO_HOST || direction > LEATC_DEFAULT)
        return LEATC_INVALID_DIRECTION;
    if (!region->width_bytes || !region->height || !region->depth)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(find_sides(dst, src, direction, &sides));
    return make_copy(dst, src, region, direction, &sides, task);
}

static int capture_copy(struct leatc_work *work, void *dst, const void *src, const leat_copy_region *region,
                        int direction, const struct sides *sides)
{
    struct leatc_task *task;

    LEATC_TRY(make_copy(dst, src, region, direction, sides, &task));
    return leatc_capture_add(work, task);
}

/* ---- copies ---- */

int leatc_copy(void *dst, const void *src, size_t bytes, int direction, struct leatc_stream *stream,
               enum leatc_mode mode)
{
    struct partners partners;
    struct leatc_work work;
    struct sides sides;
    leat_status status;
    bool wait;

    if (direction < LEATC_HOST_TO_HOST || direction > LEATC_DEFAULT)
        return LEATC_INVALID_DIRECTION;
    LEATC_TRY(begin(stream, mode, &work));
    if (!bytes)
        return LEATC_OK;
    LEATC_TRY(find_sides(dst, src, direction, &sides));
    if (work.captured)
        return capture_copy(&work, dst, src, &(leat_copy_region){.width_bytes = bytes, .height = 1, .depth = 1},
                            direction, &sides);
    if (__builtin_expect(is_idle(&sides), 0))
        return LEATC_INVALID_VALUE;
    if (__builtin_expect(sides.dst.foreign || sides.src.foreign, 0)) {
        size_t part = first_part(dst, src, bytes, &sides);

        if (part < bytes) {
            /* The range is virtual memory of several devices. Copy the first part, which lies on one device at
             * each end, and then the rest. */
            LEATC_TRY(leatc_copy(dst, src, part, direction, stream, mode));
            return leatc_copy((char *)dst + part, (const char *)src + part, bytes - part, direction, stream, mode);
        }
    }
    wait = must_wait(&sides, mode);
    partners = partners_of(&work, device_of(&sides.dst) | device_of(&sides.src), mode);
    LEATC_TRY(leatc_work_after_devices(&work, partners.devices, partners.all));
    status = copy_range(&work, dst, src, bytes, &sides, wait);
    return end_copy(&work, &partners, status, wait);
}

/* ---- 3-D copies ---- */

static bool region_is_short(const leat_copy_region *region)
{
    size_t bytes;

    return !__builtin_mul_overflow(region->width_bytes, region->height, &bytes) &&
           !__builtin_mul_overflow(bytes, region->depth, &bytes) && bytes <= BOUNCE_BYTES;
}

int leatc_copy_region(void *dst, const void *src, const leat_copy_region *region, int direction,
                      struct leatc_stream *stream, enum leatc_mode mode)
{
    struct partners partners;
    struct leatc_work work;
    struct sides sides;
    leat_status status;
    bool wait;

    if (direction < LEATC_HOST_TO_HOST || direction > LEATC_DEFAULT)
        return LEATC_INVALID_DIRECTION;
    LEATC_TRY(begin(stream, mode, &work));
    if (!region->width_bytes || !region->height || !region->depth)
        return LEATC_OK;
    LEATC_TRY(find_sides(dst, src, direction, &sides));
    if (work.captured)
        return capture_copy(&work, dst, src, region, direction, &sides);
    if (is_idle(&sides))
        return LEATC_INVALID_VALUE;
    wait = must_wait(&sides, mode);
    partners = partners_of(&work, device_of(&sides.dst) | device_of(&sides.src), mode);
    LEATC_TRY(leatc_work_after_devices(&work, partners.devices, partners.all));
    if (is_pageable(&sides.src) && !wait && region_is_short(region) && is_busy(work.stream)) {
        status = region_between(&work, dst, src, region, true);
    } else {
        status = leat_copy_3d(work.stream, dst, src, region);
        wait |= is_pageable(&sides.src);
        if (status == LEAT_ERROR_OVERLAP)
            status = dst == src ? LEAT_OK : region_between(&work, dst, src, region, false);
    }
    return end_copy(&work, &partners, status, wait);
}

/* ---- fills ---- */

/* If rows are not longer than NARROW_BYTES, copies of template rows in pinned memory write them: one copy writes
 * many rows, whereas each fill would write one. */
#define NARROW_BYTES 4096
#define TEMPLATE_BYTES ((size_t)256 << 10)

/* A region to fill; sizes are in bytes. */
struct fill {
    char *dst;
    size_t pitch, slice, width, height, depth;
    uint32_t value;
    unsigned unit;
};

static leat_status fill_rows(leat_stream *stream, const struct fill *fill)
{
    leat_status status = LEAT_OK;

    for (size_t z = 0; z < fill->depth; z++)
        for (size_t y = 0; y < fill->height && status == LEAT_OK; y++)
            status = leat_fill_pattern(stream, fill->dst + z * fill->slice + y * fill->pitch, &fill->value,
                                       fill->unit, fill->width);
    return status;
}

static leat_status fill_narrow(leat_stream *stream, const struct fill *fill)
{
    size_t rows = TEMPLATE_BYTES / fill->width, bytes;
    leat_device *device = NULL;
    void *like = NULL;
    leat_status status = leat_stream_device(stream, &device);

    rows = rows < fill->height ? rows : fill->height;
    bytes = rows * fill->width;
    if (status == LEAT_OK)
        status = leat_memory_alloc(device, LEAT_KIND_PINNED, bytes, &like);
    if (status != LEAT_OK)
        return status;
    for (size_t i = 0; i < bytes; i += fill->unit)
        memcpy((char *)like + i, &fill->value, fill->unit);
    for (size_t z = 0; z < fill->depth; z++)
        for (size_t y = 0; y < fill->height && status == LEAT_OK; y += rows) {
            leat_copy_region region = {.width_bytes = fill->width,
                                       .height = fill->height - y < rows ? fill->height - y : rows,
                                       .depth = 1,
                                       .dst_pitch_bytes = fill->pitch,
                                       .src_pitch_bytes = fill->width};

            status = leat_copy_3d(stream, fill->dst + z * fill->slice + y * fill->pitch, like, &region);
        }
    return and_free(stream, like, status);
}

static leat_status fill_on(leat_stream *stream, const struct fill *fill)
{
    if (fill->width < NARROW_BYTES && fill->height > 8)
        return fill_narrow(stream, fill);
    return fill_rows(stream, fill);
}

/* Fills memory of another device in a stream of that device. The fill runs in the order of the caller's stream. A
 * synchronous fill uses that device's legacy default stream, with which it must be ordered anyway. */
static int fill_elsewhere(const struct leatc_work *work, int ordinal, const struct fill *fill,
                          enum leatc_mode mode)
{
    struct leatc_work there;
    leat_status status;

    LEATC_TRY(mode == LEATC_ASYNC ? leatc_work_begin_helper(work, ordinal, &there)
                                  : leatc_work_begin_legacy(ordinal, &there));
    status = leatc_stream_chain(work->record, there.record);
    if (status == LEAT_OK)
        status = fill_on(there.stream, fill);
    if (status == LEAT_OK)
        status = leatc_stream_chain(there.record, work->record);
    return leatc_work_end(&there, status);
}

static int fill_there(const struct leatc_work *work, const struct leatc_memory *memory, const struct fill *fill,
                      enum leatc_mode mode)
{
    return is_device(memory) && memory->ordinal != work->ordinal
               ? fill_elsewhere(work, memory->ordinal, fill, mode)
               : leatc_result_of(fill_on(work->stream, fill));
}

/* Makes rows without gaps between them a single row. */
static void join_rows(struct fill *fill)
{
    if (fill->height > 1 && fill->pitch == fill->width &&
        (fill->depth == 1 || fill->slice == fill->pitch * fill->height)) {
        fill->width *= fill->height * fill->depth;
        fill->height = fill->depth = 1;
    }
}

/* Returns true if the region lies within its allocation and no size overflows. */
static bool region_fits(const struct fill *fill, const struct leatc_memory *memory)
{
    size_t rows, slices, last;

    return !__builtin_mul_overflow(fill->pitch, fill->height - 1, &rows) &&
           !__builtin_mul_overflow(fill->slice, fill->depth - 1, &slices) &&
           !__builtin_add_overflow(rows, slices, &last) && !__builtin_add_overflow(last, fill->width, &last) &&
           (last <= memory->bytes - (size_t)(fill->dst - (char *)memory->base) ||
            last <= bytes_left(fill->dst, memory));
}

/* Runs a fill node. A node fills the rows of one slice: a captured region with several slices has a node for each
 * slice. */
static int run_fill(const void *payload, struct leatc_work *work)
{
    const struct leatc_fill_task *given = payload;
    struct fill fill = {.dst = given->dst,
                        .pitch = given->pitch_bytes,
                        .width = given->width * given->unit_bytes,
                        .height = given->height,
                        .depth = 1,
                        .value = given->value,
                        .unit = given->unit_bytes};
    struct leatc_memory memory;

    join_rows(&fill);
    for (size_t part, left = fill.width; left; fill.dst += part, left -= part) {
        LEATC_TRY(find_memory(fill.dst, &memory));
        part = memory.foreign && fill.height == 1 ? one_device_bytes(fill.dst, &memory, left) : left;
        fill.width = part;
        LEATC_TRY(fill_there(work, &memory, &fill, LEATC_ASYNC));
    }
    return LEATC_OK;
}

static int make_fill(const struct leatc_fill_task *fill, const struct leatc_memory *memory,
                     struct leatc_task **task)
{
    struct leatc_fill_place place = {.fill = *fill, .dst = place_of(memory)};

    return leatc_task_create(LEATC_NODE_FILL, run_fill, NULL, &place, sizeof place, task);
}

static bool may_fill(const struct fill *fill, const struct leatc_memory *memory)
{
    return !is_pageable(memory) && (uintptr_t)fill->dst % fill->unit == 0 && region_fits(fill, memory);
}

int leatc_fill_make(const struct leatc_fill_task *given, struct leatc_task **task)
{
    struct fill fill = {.dst = given->dst,
                        .pitch = given->pitch_bytes,
                        .height = given->height,
                        .depth = 1,
                        .unit = given->unit_bytes};
    struct leatc_memory memory;

    if ((given->unit_bytes != 1 && given->unit_bytes != 2 && given->unit_bytes != 4) || !given->width ||
        !given->height || __builtin_mul_overflow(given->width, (size_t)given->unit_bytes, &fill.width) ||
        (given->height > 1 && (given->pitch_bytes < fill.width || given->pitch_bytes % given->unit_bytes)))
        return LEATC_INVALID_VALUE;
    LEATC_TRY(find_memory(fill.dst, &memory));
    return may_fill(&fill, &memory) ? make_fill(given, &memory, task) : LEATC_INVALID_VALUE;
}

static int capture_fill(struct leatc_work *work, const struct fill *fill, const struct leatc_memory *memory)
{
    for (size_t z = 0; z < fill->depth; z++) {
        struct leatc_fill_task slice = {.dst = fill->dst + z * fill->slice,
                                        .pitch_bytes = fill->pitch,
                                        .value = fill->value,
                                        .unit_bytes = fill->unit,
                                        .width = fill->width / fill->unit,
                                        .height = fill->height};
        struct leatc_task *task;

        LEATC_TRY(make_fill(&slice, memory, &task));
        LEATC_TRY(leatc_capture_add(work, task));
    }
    return LEATC_OK;
}

static int fill_region(struct fill *fill, struct leatc_stream *stream, enum leatc_mode mode)
{
    struct leatc_work work;
    struct leatc_memory memory;
    int result;

    LEATC_TRY(begin(stream, mode, &work));
    if (!fill->width || !fill->height || !fill->depth)
        return LEATC_OK;
    LEATC_TRY(find_memory(fill->dst, &memory));
    if (work.captured)
        return may_fill(fill, &memory) ? capture_fill(&work, fill, &memory) : LEATC_INVALID_VALUE;
    if (memory.foreign && fill->height == 1 && fill->depth == 1) {
        struct fill rest = *fill;
        size_t part = one_device_bytes(fill->dst, &memory, fill->width);

        if (part < fill->width) {
            fill->width = part;
            rest.dst += part;
            rest.width -= part;
            /* The region is virtual memory of several devices. Fill the first device's part, then the rest. */
            LEATC_TRY(fill_region(fill, stream, mode));
            return fill_region(&rest, stream, mode);
        }
    }
    if (memory.idle || !may_fill(fill, &memory))
        return LEATC_INVALID_VALUE;
    join_rows(fill);
    result = fill_there(&work, &memory, fill, mode);
    (void)leatc_work_end(&work, LEAT_OK);
    LEATC_TRY(result);
    return mode == LEATC_ASYNC || (is_device(&memory) && !memory.synchronous)
               ? LEATC_OK
               : leatc_result_of(leat_stream_synchronize(work.stream));
}

int leatc_fill(void *dst, uint32_t value, unsigned unit_bytes, size_t count, struct leatc_stream *stream,
               enum leatc_mode mode)
{
    struct fill fill = {.dst = dst, .height = 1, .depth = 1, .value = value, .unit = unit_bytes};

    if (__builtin_mul_overflow(count, (size_t)unit_bytes, &fill.width))
        return LEATC_INVALID_VALUE;
    return fill_region(&fill, stream, mode);
}

int leatc_fill_region(void *dst, size_t pitch_bytes, size_t slice_bytes, uint32_t value, unsigned unit_bytes,
                      size_t width, size_t height, size_t depth, struct leatc_stream *stream, enum leatc_mode mode)
{
    struct fill fill = {.dst = dst,
                        .pitch = pitch_bytes,
                        .slice = slice_bytes,
                        .height = height,
                        .depth = depth,
                        .value = value,
                        .unit = unit_bytes};

    if (__builtin_mul_overflow(width, (size_t)unit_bytes, &fill.width))
        return LEATC_INVALID_VALUE;
    if (fill.width && height && depth &&
        ((height > 1 && pitch_bytes < fill.width) || pitch_bytes % unit_bytes || slice_bytes % unit_bytes))
        return LEATC_INVALID_VALUE;
    return fill_region(&fill, stream, mode);
}

/*
 * model_region.c - determines which bytes of a file a slice or a layout of a tensor needs, and reads them.
 *
 * If a region consists of rows of at least ROW_MIN bytes that are contiguous in the file and at the destination,
 * leat reads them directly. It reads other regions into temporary device memory, together with short gaps between
 * their blocks, and leat_copy_layout() copies them from there to the destination.
 */
#include "model_load.h"

#include <leat/memory.h>

#include <stdlib.h>
#include <string.h>

#define ROW_MIN ((int64_t)64 << 10) /* shortest row that is read directly, in bytes */
#define GAP_MAX ((int64_t)64 << 10) /* longest gap that a read includes, in bytes */
#define TEMPORARY_MAX ((int64_t)256 << 20)

/* ---- making a region ---- */

static leat_status check_slice(const leat_model_slice *slice, int64_t size, unsigned dim)
{
    if (slice->step >= 1 && slice->start >= 0 && slice->start <= slice->stop && slice->stop <= size)
        return LEAT_OK;
    return leatc_fail(
        LEAT_ERROR_INVALID,
        "slice[%u] is %lld to %lld by %lld; the dimension has %lld, and 0 <= start <= stop <= that, and step is at least 1",
        dim, (long long)slice->start, (long long)slice->stop, (long long)slice->step, (long long)size);
}

/* Returns the dimension of the tensor that is dimension dim of a region. They differ for a tensor in Fortran
 * order, because a region has the slowest dimension first. */
static unsigned dim_of(const leat_model_tensor_info *info, unsigned dim)
{
    return info->fortran_order ? info->dims - 1 - dim : dim;
}

/* Sets size and stride of one dimension of a region to the part that the item's slice selects. The dimension
 * consists of blocks of block elements that are pitch bytes apart. */
static leat_status select_part(struct leatm_region *region, unsigned number, const leat_model_tensor_info *info,
                               const leat_model_item *item, int64_t block, int64_t pitch)
{
    unsigned dim = dim_of(info, number);
    const leat_model_slice *slice = item->slice ? &item->slice[dim] : NULL;
    int64_t size = info->shape[dim], start = 0, count = size / block, step = 1;

    if (slice) {
        TRY(check_slice(slice, size, dim));
        if (block > 1 && (slice->start % block || slice->stop % block || slice->step != 1))
            return leatc_fail(
                LEAT_ERROR_INVALID,
                "slice[%u] is %lld to %lld by %lld; this type has blocks of %lld elements, which cannot be cut",
                dim, (long long)slice->start, (long long)slice->stop, (long long)slice->step, (long long)block);
        start = slice->start / block;
        step = slice->step;
        count = slice->stop / block - start;
        count = count / step + (count % step ? 1 : 0);
    }
    region->size[number] = count;
    /* A single element needs no stride, and pitch * step may overflow if the step is larger than the dimension. */
    region->from[number] = count > 1 ? pitch * step : pitch;
    region->offset += (uint64_t)(count ? start * pitch : 0);
    return LEAT_OK;
}

static leat_status make_source(const leat_model_tensor_info *info, const leat_model_item *item,
                               struct leatm_region *region)
{
    /* If a size is 0, the other sizes may be so large that strides overflow; a pitch of 0 prevents that. */
    int64_t pitch = info->bytes ? info->block_bytes : 0;

    region->offset = info->offset;
    region->block_bytes = info->block_bytes;
    region->dims = info->dims;
    if (info->block_elements > 1 && item->slice && info->dims &&
        info->shape[info->dims - 1] % (int64_t)info->block_elements)
        return leatc_fail(LEAT_ERROR_UNSUPPORTED,
                          "the rows of the tensor do not fill whole blocks of %u elements: load all of it",
                          info->block_elements);
    if (info->block_elements > 1 && !item->slice) {
        /* Without a slice, leat loads all blocks, so it does not matter that a block may span two rows. */
        region->dims = 1;
        region->size[0] = (int64_t)(info->bytes / info->block_bytes);
        region->from[0] = pitch;
        return LEAT_OK;
    }
    for (unsigned dim = info->dims; dim--;) {
        int64_t block = dim + 1 == info->dims ? (int64_t)info->block_elements : 1;

        TRY(select_part(region, dim, info, item, block, pitch));
        pitch *= info->shape[dim_of(info, dim)] / block;
    }
    return LEAT_OK;
}

/* Sets the strides of a dense destination, with the blocks in the order of the file. */
static leat_status make_dense(const leat_model_item *item, struct leatm_region *region)
{
    int64_t pitch = region->bytes ? region->block_bytes : 0;

    for (unsigned dim = region->dims; dim--;) {
        region->to[dim] = pitch;
        pitch *= region->size[dim];
    }
    if (region->bytes > item->dst_bytes)
        return leatc_fail(LEAT_ERROR_RANGE, "the slice has %llu bytes, and dst_bytes is %zu",
                          (unsigned long long)region->bytes, item->dst_bytes);
    return LEAT_OK;
}

static leat_status check_layout(const leat_model_tensor_info *info, const leat_layout *layout,
                                const struct leatm_region *region)
{
    if (info->block_elements != 1 || layout->index)
        return leatc_fail(
            LEAT_ERROR_UNSUPPORTED, "%s; load it without a layout, and rearrange it with leat_copy_layout()",
            layout->index ? "the layout has an index list" : "a layout needs elements of whole bytes");
    if (layout->dims != region->dims || layout->element_bytes != info->block_bytes)
        return leatc_fail(LEAT_ERROR_INVALID,
                          "the layout has %u dimensions of elements of %u bytes, and the slice has %u of %u",
                          layout->dims, layout->element_bytes, region->dims, info->block_bytes);
    for (unsigned number = 0; number < region->dims; number++) {
        unsigned dim = dim_of(info, number);

        if (layout->size[dim] != region->size[number])
            return leatc_fail(LEAT_ERROR_INVALID, "the layout's size[%u] is %lld, and the slice has %lld", dim,
                              (long long)layout->size[dim], (long long)region->size[number]);
    }
    return LEAT_OK;
}

static leat_status make_layout(const leat_model_tensor_info *info, const leat_model_item *item,
                               struct leatm_region *region)
{
    __int128 first = item->layout->offset_bytes, last = first;

    TRY(check_layout(info, item->layout, region));
    if (!region->bytes)
        return LEAT_OK;
    for (unsigned dim = 0; dim < region->dims; dim++) {
        __int128 reach;

        region->to[dim] = item->layout->stride_bytes[dim_of(info, dim)];
        reach = (__int128)region->to[dim] * (region->size[dim] - 1);
        *(reach < 0 ? &first : &last) += reach;
    }
    if (first < 0 || last + region->block_bytes > (__int128)item->dst_bytes)
        return leatc_fail(LEAT_ERROR_RANGE, "the layout reaches outside of the %zu bytes at dst", item->dst_bytes);
    region->dst += item->layout->offset_bytes;
    return LEAT_OK;
}

/* Drops dimensions of size 1, and joins neighbouring dimensions that are contiguous in the file and at the
 * destination. */
static void simplify(struct leatm_region *region)
{
    unsigned dims = 0;

    for (unsigned dim = 0; dim < region->dims; dim++) {
        if (region->size[dim] == 1)
            continue;
        if (dims && region->from[dims - 1] == region->from[dim] * region->size[dim] &&
            region->to[dims - 1] == region->to[dim] * region->size[dim]) {
            dims--;
            region->size[dims] *= region->size[dim];
        } else {
            region->size[dims] = region->size[dim];
        }
        region->from[dims] = region->from[dim];
        region->to[dims] = region->to[dim];
        dims++;
    }
    region->dims = dims;
}

/* *row receives the bytes of a row that is contiguous in the file and at the destination. Returns the number of
 * dimensions outside the row. */
static unsigned row_of(const struct leatm_region *region, int64_t *row)
{
    unsigned dims = region->dims;

    *row = region->block_bytes;
    if (dims && region->from[dims - 1] == *row && region->to[dims - 1] == *row)
        *row *= region->size[--dims];
    return dims;
}

/* Returns true only if it is certain that rows do not overlap at the destination. The check compares each stride,
 * in ascending order, with the span of the rows and dimensions below it. */
static bool rows_apart(const struct leatm_region *region, unsigned outer, int64_t row)
{
    bool taken[LEAT_MODEL_MAX_DIMS] = {false};
    __int128 span = row;

    for (unsigned done = 0; done < outer; done++) {
        unsigned least = outer;
        int64_t stride;

        for (unsigned dim = 0; dim < outer; dim++)
            if (!taken[dim] && (least == outer || llabs(region->to[dim]) < llabs(region->to[least])))
                least = dim;
        taken[least] = true;
        stride = llabs(region->to[least]);
        if (stride < span)
            return false;
        span += (__int128)stride * (region->size[least] - 1);
    }
    return true;
}

static void make_layouts(const struct leatm_region *region, leat_layout *from, leat_layout *to);

/* Returns INVALID if the layout has elements that overlap. leat_copy_layout() would refuse it too, but after other
 * items were started. */
static leat_status check_elements_are_apart(const leat_model_item *item, const struct leatm_region *region)
{
    leat_layout from, to;
    leat_layout_plan *plan;
    leat_device *device;

    make_layouts(region, &from, &to);
    TRY(leat_stream_device(item->stream, &device));
    TRY(leat_layout_plan_create(device, &to, 1, &from, 1, &plan));
    return leat_layout_plan_destroy(plan);
}

leat_status leatm_region_make(const leat_model *model, const leat_model_item *item, struct leatm_region *region)
{
    leat_model_tensor_info info = LEAT_MODEL_TENSOR_INFO_INIT;
    unsigned outer;
    int64_t row;
    bool apart;

    TRY(leat_model_get_tensor_info(model, item->tensor, &info));
    memset(region, 0, sizeof *region);
    region->dst = item->dst;
    TRY(make_source(&info, item, region));
    region->bytes = region->block_bytes;
    for (unsigned dim = 0; dim < region->dims; dim++)
        region->bytes *= (uint64_t)region->size[dim]; /* cannot overflow, unless a size is 0 */
    TRY(item->layout ? make_layout(&info, item, region) : make_dense(item, region));
    if (!region->bytes)
        return LEAT_OK;
    if (!item->dst)
        return leatc_fail(LEAT_ERROR_INVALID, "dst is NULL");
    simplify(region);
    outer = row_of(region, &row);
    apart = rows_apart(region, outer, row);
    region->staged = outer && (row < ROW_MIN || !apart);
    return apart ? LEAT_OK : check_elements_are_apart(item, region);
}

/* ---- direct reads ---- */

uint64_t leatm_region_rows(const struct leatm_region *region, uint64_t *row_bytes)
{
    int64_t row;
    unsigned outer = row_of(region, &row);
    uint64_t rows = 1;

    for (unsigned dim = 0; dim < outer; dim++)
        rows *= (uint64_t)region->size[dim];
    *row_bytes = (uint64_t)row;
    return rows;
}

void leatm_region_row(const struct leatm_region *region, uint64_t index, struct leatm_read *read)
{
    int64_t row;

    read->offset = region->offset;
    read->dst = region->dst;
    for (unsigned dim = row_of(region, &row); dim--;) {
        int64_t at = (int64_t)(index % (uint64_t)region->size[dim]);

        index /= (uint64_t)region->size[dim];
        read->offset += (uint64_t)(at * region->from[dim]);
        read->dst += at * region->to[dim];
    }
    read->bytes = (uint64_t)row;
}

/* ---- staged reads ---- */

/* *span receives the length of the file ranges that leat reads for a staged region. A range covers the inner
 * dimensions, including gaps of up to GAP_MAX. Returns the number of dimensions outside the range. */
static unsigned range_of(const struct leatm_region *region, int64_t *span)
{
    unsigned dims = region->dims;

    *span = region->block_bytes;
    while (dims && region->from[dims - 1] - *span <= GAP_MAX) {
        dims--;
        *span += region->from[dims] * (region->size[dims] - 1);
    }
    return dims;
}

/* Returns the bytes of temporary memory that a staged region needs: at most the bytes of the tensor. */
static int64_t temporary_bytes(const struct leatm_region *region)
{
    int64_t bytes;
    unsigned outer = range_of(region, &bytes);

    for (unsigned dim = 0; dim < outer; dim++)
        bytes *= region->size[dim];
    return bytes;
}

/* Makes the layouts of the temporary memory and of the destination. A layout's elements have at most 16 bytes, so
 * a larger block becomes a row of smaller elements. */
static void make_layouts(const struct leatm_region *region, leat_layout *from, leat_layout *to)
{
    uint32_t element = region->block_bytes;
    int64_t bytes;
    unsigned outer = range_of(region, &bytes);

    if (element > LEAT_LAYOUT_MAX_ELEMENT_BYTES)
        for (element = LEAT_LAYOUT_MAX_ELEMENT_BYTES; region->block_bytes % element;)
            element--;
    memset(from, 0, sizeof *from);
    from->dims = region->dims;
    from->element_bytes = element;
    memcpy(from->size, region->size, region->dims * sizeof from->size[0]);
    *to = *from;
    for (unsigned dim = region->dims; dim--;) {
        from->stride_bytes[dim] = region->from[dim];
        to->stride_bytes[dim] = region->to[dim];
        if (dim < outer) {
            from->stride_bytes[dim] = bytes;
            bytes *= region->size[dim];
        }
    }
    if (element == region->block_bytes)
        return;
    /* There is room for one more dimension: only types of GGUF have blocks above 16 bytes, and GGUF tensors have
     * at most 4 dimensions. */
    from->size[from->dims] = to->size[to->dims] = region->block_bytes / element;
    from->stride_bytes[from->dims++] = to->stride_bytes[to->dims++] = element;
}

/* Returns the read of the range with this index. */
static struct leatm_read range_at(const struct leatm_region *region, uint64_t index)
{
    struct leatm_read read = {.offset = region->offset};
    int64_t span;

    for (unsigned dim = range_of(region, &span); dim--;) {
        read.offset += index % (uint64_t)region->size[dim] * (uint64_t)region->from[dim];
        index /= (uint64_t)region->size[dim];
    }
    read.bytes = (uint64_t)span;
    return read;
}

/* ---- several staged regions ---- */

/* A stack of the parts of a region that are not loaded yet. A part that needs too much temporary memory is
 * replaced by its two halves. */
struct parts {
    struct leatm_region waiting[64];
    unsigned count;
};

/* Takes the next part from the stack. */
static void take_part(struct parts *parts, struct leatm_region *part)
{
    for (;;) {
        struct leatm_region *last = &parts->waiting[parts->count - 1], *half = last + 1;
        unsigned dim = 0;

        while (dim < last->dims && last->size[dim] == 1)
            dim++;
        if (temporary_bytes(last) <= TEMPORARY_MAX || dim == last->dims || parts->count == 64) {
            *part = *last;
            parts->count--;
            return;
        }
        *half = *last;
        half->size[dim] = last->size[dim] / 2;
        last->size[dim] -= half->size[dim];
        last->offset += (uint64_t)(half->size[dim] * last->from[dim]);
        last->dst += half->size[dim] * last->to[dim];
        parts->count++;
    }
}

/* One region while it is loaded, part by part. */
struct stage {
    const struct leatm_staged *staged;
    struct parts parts;
    struct leatm_region part;
    uint64_t ranges; /* of the part */
    int64_t span;    /* bytes of a range */
    char *temporary; /* memory for the part; NULL: the region has no part at this time */
};

/* Prepares the next part of a region, if there is one. */
static leat_status begin_part(struct stage *stage)
{
    void *temporary;

    if (!stage->parts.count)
        return LEAT_OK;
    take_part(&stage->parts, &stage->part);
    stage->ranges = 1;
    for (unsigned dim = range_of(&stage->part, &stage->span); dim--;)
        stage->ranges *= (uint64_t)stage->part.size[dim];
    TRY(leat_alloc(stage->staged->item->stream, (size_t)temporary_bytes(&stage->part), &temporary));
    stage->temporary = temporary;
    return LEAT_OK;
}

/* Adds the reads of the ranges from first on, at most LEATM_BATCH_MAX of them. */
static leat_status add_ranges(const leat_model *model, const struct stage *stage, uint64_t first,
                              struct leatm_read **reads, size_t *room, size_t *count)
{
    uint32_t file = model->tensors[stage->staged->item->tensor].file;

    for (uint64_t i = first; stage->temporary && i < stage->ranges && i - first < LEATM_BATCH_MAX; i++) {
        struct leatm_read read = range_at(&stage->part, i);

        read.stream = stage->staged->item->stream;
        read.file = model->files[file].file;
        read.file_number = file;
        read.dst = stage->temporary + i * (uint64_t)stage->span;
        TRY(leatm_model_room(reads, room, *count, sizeof **reads));
        (*reads)[(*count)++] = read;
    }
    return LEAT_OK;
}

/* Reads the present parts of all regions. */
static leat_status read_parts(leat_model_load *load, const leat_model *model, const struct stage *stages,
                              size_t stage_count)
{
    struct leatm_read *reads = NULL;
    leat_status status = LEAT_OK;
    size_t room = 0, count;

    for (uint64_t first = 0; status == LEAT_OK; first += LEATM_BATCH_MAX) {
        count = 0;
        for (size_t i = 0; i < stage_count && status == LEAT_OK; i++)
            status = add_ranges(model, &stages[i], first, &reads, &room, &count);
        if (!count)
            break;
        if (status == LEAT_OK)
            status = leatm_load_reads(load, reads, count);
    }
    free(reads);
    return status;
}

/* Copies a part from its temporary memory to its destination. */
static leat_status place_part(const struct stage *stage)
{
    leat_layout from, to;

    make_layouts(&stage->part, &from, &to);
    return leat_copy_layout(stage->staged->item->stream, stage->part.dst, &to, stage->temporary, &from);
}

/* Frees the temporary memory of all regions, in the order of their streams. Keeps the message of an earlier
 * failure. */
static leat_status end_parts(struct stage *stages, size_t count, leat_status status)
{
    char message[1024] = "";

    if (status != LEAT_OK) {
        (void)leatc_fail_in(status, "through temporary memory");
        strncpy(message, leat_last_error(), sizeof message - 1);
    }
    for (size_t i = 0; i < count; i++) {
        leat_status freed =
            stages[i].temporary ? leat_free(stages[i].staged->item->stream, stages[i].temporary) : LEAT_OK;

        stages[i].temporary = NULL;
        status = status == LEAT_OK ? freed : status;
    }
    return message[0] ? leat_error_set(status, message) : status;
}

/* Loads the next part of each region. *more becomes false if no region has another part. */
static leat_status stage_parts(leat_model_load *load, const leat_model *model, struct stage *stages, size_t count,
                               bool *more, size_t *failed)
{
    leat_status status = LEAT_OK;
    size_t i;

    *more = false;
    for (i = 0; i < count && status == LEAT_OK; i++) {
        *failed = stages[i].staged->index;
        status = begin_part(&stages[i]);
        *more = *more || stages[i].parts.count;
    }
    if (status == LEAT_OK) {
        *failed = stages[0].staged->index;
        status = read_parts(load, model, stages, count);
    }
    for (i = 0; i < count && status == LEAT_OK; i++)
        if (stages[i].temporary) {
            *failed = stages[i].staged->index;
            status = place_part(&stages[i]);
        }
    return end_parts(stages, count, status);
}

leat_status leatm_regions_stage(leat_model_load *load, const leat_model *model, const struct leatm_staged *staged,
                                size_t count, size_t *failed)
{
    struct stage *stages = calloc(count, sizeof *stages);
    leat_status status = LEAT_OK;
    bool more = true;

    if (!stages)
        return leatc_fail(LEAT_ERROR_HOST_MEMORY, "no memory for %zu slices of a tensor", count);
    for (size_t i = 0; i < count; i++) {
        stages[i].staged = &staged[i];
        stages[i].parts.waiting[0] = staged[i].region;
        stages[i].parts.count = 1;
    }
    while (more && status == LEAT_OK)
        status = stage_parts(load, model, stages, count, &more, failed);
    free(stages);
    return status;
}

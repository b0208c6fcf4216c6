/* layout.c - defines the API calls that make and change layouts. They only compute sizes and strides. */
#include "base/assume.h"
#include "base/error.h"
#include "layout/canonical.h"

#include <leat/layout.h>

#include <string.h>

/* Returns status. If it is an error, puts the call's name in front of its message. */
static leat_status of_call(const char *call, leat_status status)
{
    return status == LEAT_OK ? status : leati_fail_in(status, "%s", call);
}

static leat_status check_dim(const leat_layout *layout, const char *name, uint32_t dim)
{
    LEATI_TRY(leati_layout_check("layout", layout));
    if (dim >= layout->dims)
        return leati_fail(LEAT_ERROR_INVALID, "%s is %u, and the layout has %u dimensions, counted from 0", name,
                          dim, layout->dims);
    return LEAT_OK;
}

/* Checks the number of a dimension for calls that cannot change the dimension with an index list. */
static leat_status check_plain_dim(const leat_layout *layout, uint32_t dim)
{
    LEATI_TRY(check_dim(layout, "dim", dim));
    if (layout->index && dim == layout->index_dim)
        return leati_fail(LEAT_ERROR_INVALID, "dimension %u has a list of indices; change the list instead", dim);
    return LEAT_OK;
}

static bool has_nothing(uint32_t dims, const int64_t *size)
{
    for (uint32_t i = 0; i < dims; i++)
        if (size[i] == 0)
            return true;
    return false;
}

/* Sets *elements to the product of all sizes. Fails if it overflows. */
static leat_status count_elements(uint32_t dims, const int64_t *size, uint64_t *elements)
{
    *elements = !has_nothing(dims, size);
    for (uint32_t i = 0; i < dims; i++)
        if (__builtin_mul_overflow(*elements, (uint64_t)size[i], elements))
            return leati_fail(LEAT_ERROR_RANGE, "the sizes multiply to more elements than 64 bits can count");
    return LEAT_OK;
}

/* Checks the number of dimensions and the sizes that the user passes. */
static leat_status check_sizes(uint32_t dims, const int64_t *size)
{
    if (dims > LEAT_LAYOUT_MAX_DIMS)
        return leati_fail(LEAT_ERROR_INVALID, "dims is %u; a layout has %d dimensions at most", dims,
                          LEAT_LAYOUT_MAX_DIMS);
    if (dims && !size)
        return leati_fail(LEAT_ERROR_INVALID, "size is NULL and dims is %u", dims);
    for (uint32_t i = 0; i < dims; i++)
        if (size[i] < 0)
            return leati_fail(LEAT_ERROR_INVALID, "size[%u] is %lld; sizes are 0 or more", i, (long long)size[i]);
    return LEAT_OK;
}

/* ---- dense ---- */

/* Makes a dense layout. If a size is 0, no stride is ever used, and the strides are computed as if that size were
 * 1. */
static leat_status make_dense(leat_layout *layout, uint32_t dims, const int64_t *size, uint32_t element_bytes)
{
    leat_layout made = {.dims = dims, .element_bytes = element_bytes};
    uint64_t stride = element_bytes;
    bool overflows = false;

    if (!layout)
        return leati_fail(LEAT_ERROR_INVALID, "layout is NULL");
    LEATI_TRY(check_sizes(dims, size));
    LEATI_TRY(leati_layout_check("layout", &made));
    for (uint32_t i = dims; i-- > 0;) {
        made.size[i] = size[i];
        made.stride_bytes[i] = (int64_t)stride;
        overflows |= size[i] && __builtin_mul_overflow(stride, (uint64_t)size[i], &stride);
        overflows |= stride > INT64_MAX;
    }
    if (overflows && !has_nothing(dims, size))
        return leati_fail(LEAT_ERROR_RANGE,
                          "the sizes multiply to more bytes, with elements of %u, than 63 bits can count",
                          element_bytes);
    *layout = made;
    return LEAT_OK;
}

leat_status leat_layout_dense(leat_layout *layout, uint32_t dims, const int64_t *size, uint32_t element_bytes)
{
    return of_call("leat_layout_dense", make_dense(layout, dims, size, element_bytes));
}

/* ---- the order of dimensions ---- */

static leat_status permute(leat_layout *layout, const uint32_t *order)
{
    leat_layout made;
    uint64_t seen = 0;

    LEATI_TRY(leati_layout_check("layout", layout));
    if (layout->dims && !order)
        return leati_fail(LEAT_ERROR_INVALID, "order is NULL and the layout has %u dimensions", layout->dims);
    made = *layout;
    for (uint32_t i = 0; i < layout->dims; i++) {
        if (order[i] >= layout->dims || (seen >> order[i] & 1))
            return leati_fail(LEAT_ERROR_INVALID,
                              "order[%u] is %u; each of the numbers 0 to %u must be there once", i, order[i],
                              layout->dims - 1);
        seen |= (uint64_t)1 << order[i];
        made.size[i] = layout->size[order[i]];
        made.stride_bytes[i] = layout->stride_bytes[order[i]];
        if (layout->index && order[i] == layout->index_dim)
            made.index_dim = i;
    }
    *layout = made;
    return LEAT_OK;
}

leat_status leat_layout_permute(leat_layout *layout, const uint32_t *order)
{
    return of_call("leat_layout_permute", permute(layout, order));
}

static leat_status transpose(leat_layout *layout, uint32_t a, uint32_t b)
{
    uint32_t order[LEAT_LAYOUT_MAX_DIMS];

    LEATI_TRY(check_dim(layout, "a", a));
    LEATI_TRY(check_dim(layout, "b", b));
    for (uint32_t i = 0; i < layout->dims; i++)
        order[i] = i == a ? b : i == b ? a : i;
    return permute(layout, order);
}

leat_status leat_layout_transpose(leat_layout *layout, uint32_t a, uint32_t b)
{
    return of_call("leat_layout_transpose", transpose(layout, a, b));
}

/* ---- parts of a dimension ---- */

static leat_status check_slice(int64_t size, int64_t start, int64_t stop, int64_t step)
{
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;

    if (step == 0)
        return leati_fail(LEAT_ERROR_INVALID, "step is 0");
    if (start < low || start > high || stop < low || stop > high)
        return leati_fail(LEAT_ERROR_INVALID,
                          "start %lld and stop %lld; with a step of %lld and a size of %lld both are %lld to %lld",
                          (long long)start, (long long)stop, (long long)step, (long long)size, (long long)low,
                          (long long)high);
    if (step > 0 ? stop < start : stop > start)
        return leati_fail(LEAT_ERROR_INVALID, "from start %lld a step of %lld leads away from stop %lld",
                          (long long)start, (long long)step, (long long)stop);
    return LEAT_OK;
}

/* Changes a dimension so that it begins at element start and has count elements, every step-th of the old ones. */
static leat_status step_through(leat_layout *layout, uint32_t dim, int64_t start, int64_t step, int64_t count)
{
    int64_t stride = layout->stride_bytes[dim], offset = layout->offset_bytes, distance = 0, next = stride;

    if (count &&
        (__builtin_mul_overflow(start, stride, &distance) || __builtin_add_overflow(offset, distance, &offset)))
        return leati_fail(LEAT_ERROR_RANGE, "element %lld of dimension %u is more than 63 bits can count away",
                          (long long)start, dim);
    if (count > 1 && __builtin_mul_overflow(stride, step, &next))
        return leati_fail(LEAT_ERROR_RANGE, "%lld times a stride of %lld is more than 63 bits can count",
                          (long long)step, (long long)stride);
    layout->offset_bytes = offset;
    layout->stride_bytes[dim] = next;
    layout->size[dim] = count;
    return LEAT_OK;
}

static leat_status slice(leat_layout *layout, uint32_t dim, int64_t start, int64_t stop, int64_t step)
{
    uint64_t apart, each;

    LEATI_TRY(check_plain_dim(layout, dim));
    LEATI_TRY(check_slice(layout->size[dim], start, stop, step));
    apart = step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
    each = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    return step_through(layout, dim, start, step, apart ? (int64_t)((apart - 1) / each + 1) : 0);
}

leat_status leat_layout_slice(leat_layout *layout, uint32_t dim, int64_t start, int64_t stop, int64_t step)
{
    return of_call("leat_layout_slice", slice(layout, dim, start, stop, step));
}

static leat_status flip(leat_layout *layout, uint32_t dim)
{
    LEATI_TRY(check_plain_dim(layout, dim));
    return layout->size[dim] < 2 ? LEAT_OK
                                 : step_through(layout, dim, layout->size[dim] - 1, -1, layout->size[dim]);
}

leat_status leat_layout_flip(leat_layout *layout, uint32_t dim)
{
    return of_call("leat_layout_flip", flip(layout, dim));
}

static leat_status broadcast(leat_layout *layout, uint32_t dim, int64_t size)
{
    LEATI_TRY(check_plain_dim(layout, dim));
    if (layout->size[dim] != 1)
        return leati_fail(LEAT_ERROR_INVALID, "dimension %u has a size of %lld; only one of 1 can be repeated",
                          dim, (long long)layout->size[dim]);
    if (size < 0)
        return leati_fail(LEAT_ERROR_INVALID, "size is %lld; sizes are 0 or more", (long long)size);
    layout->size[dim] = size;
    layout->stride_bytes[dim] = 0;
    return LEAT_OK;
}

leat_status leat_layout_broadcast(leat_layout *layout, uint32_t dim, int64_t size)
{
    return of_call("leat_layout_broadcast", broadcast(layout, dim, size));
}

/* ---- reshaping ---- */

/* Some dimensions of a layout. The last one is the fastest. */
struct stride_span {
    uint32_t dims;
    int64_t size[LEAT_LAYOUT_MAX_DIMS];
    int64_t stride[LEAT_LAYOUT_MAX_DIMS];
};

/* Fills span with the dimensions first to end - 1 of a layout. Merges dimensions that continue each other, and
 * leaves out dimensions of size 1. */
static void join_dims(const leat_layout *layout, uint32_t first, uint32_t end, struct stride_span *span)
{
    span->dims = 0;
    for (uint32_t i = first; i < end; i++) {
        int64_t size = layout->size[i], stride = layout->stride_bytes[i], whole;
        uint32_t last = span->dims - 1;

        if (size == 1)
            continue;
        if (span->dims && !__builtin_mul_overflow(size, stride, &whole) && span->stride[last] == whole &&
            !__builtin_mul_overflow(span->size[last], size, &whole)) {
            span->size[last] = whole;
            span->stride[last] = stride;
        } else {
            span->size[span->dims] = size;
            span->stride[span->dims++] = stride;
        }
    }
}

/* Computes the strides with which the elements of old have the new sizes. The old and the new sizes have the same
 * product, which is not 0. Returns UNSUPPORTED if no such strides exist. */
static leat_status restride(const struct stride_span *old, uint32_t dims, const int64_t *size,
                            uint32_t element_bytes, int64_t *stride)
{
    uint32_t block = old->dims;
    int64_t left = 1, step = element_bytes;

    for (uint32_t i = dims; i-- > 0;) {
        if (size[i] != 1 && left == 1) {
            LEATI_ASSUME(block > 0 && block <= old->dims);
            left = old->size[--block];
            step = old->stride[block];
        }
        /* The new dimension would extend beyond the end of an old dimension, so no single stride steps through
         * it. */
        if (left % size[i])
            return leati_fail(LEAT_ERROR_UNSUPPORTED,
                              "no stride gives size[%u] = %lld; copy into a dense layout first and reshape that",
                              i, (long long)size[i]);
        stride[i] = step;
        /* An overflow does no harm, because it can only happen to a stride that no dimension uses. */
        step = (int64_t)((uint64_t)step * (uint64_t)size[i]);
        left /= size[i];
    }
    return LEAT_OK;
}

/* Returns the product of size[first] to size[end - 1]. It cannot overflow, because the caller has checked the
 * product of all sizes. */
static uint64_t product(const int64_t *size, uint32_t first, uint32_t end)
{
    uint64_t all = 1;

    for (uint32_t i = first; i < end; i++)
        all *= (uint64_t)size[i];
    return all;
}

/* Returns the dimension of the reshaped layout that can keep the index list, or dims if there is none. */
static uint32_t find_indexed(const leat_layout *layout, uint32_t dims, const int64_t *size)
{
    uint64_t before = product(layout->size, 0, layout->index_dim);
    uint32_t i = 0;

    while (i < dims && (size[i] != layout->size[layout->index_dim] || product(size, 0, i) != before))
        i++;
    return i;
}

static leat_status reshape_around_list(leat_layout *made, const leat_layout *layout)
{
    uint32_t kept = find_indexed(layout, made->dims, made->size), old = layout->index_dim;
    struct stride_span span;

    if (kept == made->dims)
        return leati_fail(LEAT_ERROR_UNSUPPORTED,
                          "dimension %u has a list of indices, and none of the new sizes leaves it as it is", old);
    made->index_dim = kept;
    made->stride_bytes[kept] = layout->stride_bytes[old];
    join_dims(layout, 0, old, &span);
    LEATI_TRY(restride(&span, kept, made->size, layout->element_bytes, made->stride_bytes));
    join_dims(layout, old + 1, layout->dims, &span);
    return restride(&span, made->dims - kept - 1, made->size + kept + 1, layout->element_bytes,
                    made->stride_bytes + kept + 1);
}

static leat_status reshape(leat_layout *layout, uint32_t dims, const int64_t *size)
{
    leat_layout made;
    uint64_t old_elements, elements;
    struct stride_span span;

    LEATI_TRY(leati_layout_check("layout", layout));
    LEATI_TRY(check_sizes(dims, size));
    LEATI_TRY(count_elements(layout->dims, layout->size, &old_elements));
    LEATI_TRY(count_elements(dims, size, &elements));
    if (elements != old_elements)
        return leati_fail(LEAT_ERROR_INVALID, "the sizes multiply to %llu elements, and the layout has %llu",
                          (unsigned long long)elements, (unsigned long long)old_elements);
    made = *layout;
    made.dims = dims;
    memset(made.size, 0, sizeof made.size);
    memset(made.stride_bytes, 0, sizeof made.stride_bytes);
    if (dims)
        memcpy(made.size, size, dims * sizeof *size);
    if (!elements) {
        /* The layout has no elements, so strides and an index list have no effect. Drop the list. */
        made.index = NULL;
        made.index_dim = made.index_bytes = 0;
        made.index_bound = 0;
        made.index_wrong = NULL;
    } else if (layout->index) {
        LEATI_TRY(reshape_around_list(&made, layout));
    } else {
        join_dims(layout, 0, layout->dims, &span);
        LEATI_TRY(restride(&span, dims, size, layout->element_bytes, made.stride_bytes));
    }
    *layout = made;
    return LEAT_OK;
}

leat_status leat_layout_reshape(leat_layout *layout, uint32_t dims, const int64_t *size)
{
    return of_call("leat_layout_reshape", reshape(layout, dims, size));
}

/* ---- lists of indices, counting, names ---- */

static leat_status put_index(leat_layout *layout, uint32_t dim, const void *index, int64_t count,
                             uint32_t index_bytes, uint64_t *wrong)
{
    leat_layout made;

    LEATI_TRY(check_dim(layout, "dim", dim));
    if (layout->index)
        return leati_fail(LEAT_ERROR_INVALID,
                          "dimension %u has a list of indices already; a layout has one at most",
                          layout->index_dim);
    if (count < 0)
        return leati_fail(LEAT_ERROR_INVALID, "count is %lld; it is 0 or more", (long long)count);
    if (!index && count)
        return leati_fail(LEAT_ERROR_INVALID, "index is NULL and count is %lld", (long long)count);
    made = *layout;
    made.index = index;
    made.index_dim = dim;
    made.index_bytes = index_bytes;
    made.index_bound = layout->size[dim];
    made.index_wrong = wrong;
    made.size[dim] = count;
    LEATI_TRY(leati_layout_check_list("layout", &made));
    *layout = made;
    return LEAT_OK;
}

leat_status leat_layout_index(leat_layout *layout, uint32_t dim, const void *index, int64_t count,
                              uint32_t index_bytes, uint64_t *wrong)
{
    return of_call("leat_layout_index", put_index(layout, dim, index, count, index_bytes, wrong));
}

static leat_status count(const leat_layout *layout, uint64_t *elements, uint64_t *bytes)
{
    uint64_t all, all_bytes;

    LEATI_TRY(leati_layout_check("layout", layout));
    if (!elements || !bytes)
        return leati_fail(LEAT_ERROR_INVALID, "%s is NULL", elements ? "bytes" : "elements");
    LEATI_TRY(count_elements(layout->dims, layout->size, &all));
    if (__builtin_mul_overflow(all, layout->element_bytes, &all_bytes))
        return leati_fail(LEAT_ERROR_RANGE, "%llu elements of %u bytes are more bytes than 64 bits can count",
                          (unsigned long long)all, layout->element_bytes);
    *elements = all;
    *bytes = all_bytes;
    return LEAT_OK;
}

leat_status leat_layout_count(const leat_layout *layout, uint64_t *elements, uint64_t *bytes)
{
    return of_call("leat_layout_count", count(layout, elements, bytes));
}

const char *leat_layout_class_name(leat_layout_class class_of_plan)
{
    static const char *const names[] = {"nothing", "copy",   "rows", "transpose",
                                        "nd-tile", "gather", "fill", "elements"};

    return (unsigned)class_of_plan < sizeof names / sizeof names[0] ? names[class_of_plan] : "unknown";
}

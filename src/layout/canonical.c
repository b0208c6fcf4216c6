/* canonical.c - checks two layouts and reduces them to their canonical layout (canonical.h). */
#include "layout/canonical.h"

#include "base/assert.h"
#include "base/error.h"
#include "layout/overlap.h"

#include <string.h>

/* The minimum size of a dense dimension that can be a side of tiles. */
#define TILE_BYTES 64

/* ---- checks of the user's layouts ---- */

leat_status leati_layout_check_list(const char *name, const leat_layout *layout)
{
    if (layout->index_dim >= layout->dims)
        return leati_fail(LEAT_ERROR_INVALID,
                          "index_dim of %s is %u, and the layout has %u dimensions, counted from 0", name,
                          layout->index_dim, layout->dims);
    if (layout->index_bytes != 4 && layout->index_bytes != 8)
        return leati_fail(LEAT_ERROR_INVALID, "index_bytes of %s is %u; an index has 4 or 8 bytes", name,
                          layout->index_bytes);
    if (layout->size[layout->index_dim] > LEATI_CANONICAL_MAX_REACH / layout->index_bytes)
        return leati_fail(LEAT_ERROR_RANGE,
                          "the list of indices of %s, %lld of %u bytes, is longer than 2^61 bytes", name,
                          (long long)layout->size[layout->index_dim], layout->index_bytes);
    if (layout->index_bound < 0)
        return leati_fail(LEAT_ERROR_INVALID, "index_bound of %s is %lld; it is 0 or more", name,
                          (long long)layout->index_bound);
    if ((uintptr_t)layout->index % layout->index_bytes)
        return leati_fail(LEAT_ERROR_INVALID,
                          "the list of indices of %s, %p, is not aligned to its %u bytes an index", name,
                          layout->index, layout->index_bytes);
    if ((uintptr_t)layout->index_wrong % sizeof *layout->index_wrong)
        return leati_fail(LEAT_ERROR_INVALID, "the counter of wrong indices of %s, %p, is not aligned to 8 bytes",
                          name, (void *)layout->index_wrong);
    return LEAT_OK;
}

leat_status leati_layout_check(const char *name, const leat_layout *layout)
{
    if (!layout)
        return leati_fail(LEAT_ERROR_INVALID, "%s is NULL", name);
    if (layout->dims > LEAT_LAYOUT_MAX_DIMS)
        return leati_fail(LEAT_ERROR_INVALID, "dims of %s is %u; a layout has %d dimensions at most", name,
                          layout->dims, LEAT_LAYOUT_MAX_DIMS);
    if (layout->element_bytes < 1 || layout->element_bytes > LEAT_LAYOUT_MAX_ELEMENT_BYTES)
        return leati_fail(LEAT_ERROR_INVALID, "element_bytes of %s is %u; elements have 1 to %d bytes", name,
                          layout->element_bytes, LEAT_LAYOUT_MAX_ELEMENT_BYTES);
    for (uint32_t i = 0; i < layout->dims; i++)
        if (layout->size[i] < 0)
            return leati_fail(LEAT_ERROR_INVALID, "size[%u] of %s is %lld; sizes are 0 or more", i, name,
                              (long long)layout->size[i]);
    return layout->index ? leati_layout_check_list(name, layout) : LEAT_OK;
}

leat_status leati_canonical_check_same(const leat_layout *dst, const leat_layout *src, bool converts)
{
    if (dst->dims != src->dims)
        return leati_fail(LEAT_ERROR_INVALID, "dst has %u dimensions and src has %u; they must be the same",
                          dst->dims, src->dims);
    if (!converts && dst->element_bytes != src->element_bytes)
        return leati_fail(LEAT_ERROR_INVALID,
                          "elements of dst have %u bytes and those of src %u; they must be the same",
                          dst->element_bytes, src->element_bytes);
    for (uint32_t i = 0; i < dst->dims; i++)
        if (dst->size[i] != src->size[i])
            return leati_fail(
                LEAT_ERROR_INVALID,
                "size[%u] is %lld on dst and %lld on src; they must be the same (to repeat a dimension of 1 there is leat_layout_broadcast)",
                i, (long long)dst->size[i], (long long)src->size[i]);
    if (dst->index && src->index)
        return leati_fail(LEAT_ERROR_INVALID,
                          "both dst and src have a list of indices; gather into a place of its own first");
    return LEAT_OK;
}

leat_status leati_canonical_check_align(const char *name, size_t align)
{
    if (!align || (align & (align - 1)))
        return leati_fail(LEAT_ERROR_INVALID, "%s_align is %zu; alignments are powers of two", name, align);
    return LEAT_OK;
}

static bool has_nothing(const leat_layout *layout)
{
    for (uint32_t i = 0; i < layout->dims; i++)
        if (layout->size[i] == 0)
            return true;
    return false;
}

/* ---- one side: its range of addresses ---- */

static leat_status too_far(const char *name)
{
    return leati_fail(
        LEAT_ERROR_RANGE,
        "the sizes, strides and offset of %s reach further than 2^61 bytes; check them for what is not in bytes or was never set",
        name);
}

leat_status leati_canonical_check_start(const char *name, int64_t start, int64_t low, int64_t high)
{
    const int64_t most = LEATI_CANONICAL_MAX_REACH;

    leati_assert(low <= high);
    if (start > most || start < -most || start + low < -most || start + high > most)
        return too_far(name);
    return LEAT_OK;
}

/* Returns the number of positions of a dimension on this side: the number of valid indices if the dimension has a
 * list here, else its size. */
static uint64_t positions(const leat_layout *layout, uint32_t dim)
{
    return (uint64_t)(layout->index && dim == layout->index_dim ? layout->index_bound : layout->size[dim]);
}

/* Computes the range of bytes that contains all elements of a side. The layout must not be empty. */
static leat_status find_reach(const char *name, const leat_layout *layout, int64_t *low, int64_t *high)
{
    const int64_t most = LEATI_CANONICAL_MAX_REACH;
    int64_t below = layout->offset_bytes, above = layout->offset_bytes;

    if (above > most - layout->element_bytes || below < -most)
        return too_far(name);
    above += layout->element_bytes;
    for (uint32_t i = 0; i < layout->dims; i++) {
        uint64_t count = positions(layout, i);
        int64_t distance;

        if (count < 2)
            continue;
        if (__builtin_mul_overflow(count - 1, layout->stride_bytes[i], &distance) || distance > most ||
            distance < -most)
            return too_far(name);
        if (distance > 0)
            above += distance;
        else
            below += distance;
        if (above > most || below < -most || above - below > most)
            return too_far(name);
    }
    leati_assert(below < above);
    *low = below;
    *high = above;
    return LEAT_OK;
}

static leat_status find_reaches(const leat_layout *dst, const leat_layout *src, struct leati_canonical *canonical)
{
    LEATI_TRY(find_reach("dst", dst, &canonical->dst_low, &canonical->dst_high));
    LEATI_TRY(find_reach("src", src, &canonical->src_low, &canonical->src_high));
    if (dst->index && dst->index_bound == 0)
        canonical->dst_low = canonical->dst_high = 0;
    if (src->index && src->index_bound == 0)
        canonical->src_low = canonical->src_high = 0;
    return LEAT_OK;
}

/* ---- dimensions: adding, flipping, sorting ---- */

static void add_dim(struct leati_canonical *canonical, uint64_t size, int64_t dst_stride, int64_t src_stride)
{
    leati_assert(canonical->dims < LEATI_CANONICAL_MAX_DIMS && size);
    canonical->size[canonical->dims] = size;
    canonical->dst_stride[canonical->dims] = dst_stride;
    canonical->src_stride[canonical->dims] = src_stride;
    canonical->dims++;
}

static void add_indexed(const leat_layout *dst, const leat_layout *src, uint32_t dim,
                        struct leati_canonical *canonical)
{
    const leat_layout *with_list = dst->index ? dst : src;
    int64_t dst_stride = dst->stride_bytes[dim], src_stride = src->stride_bytes[dim];

    leati_assert(canonical->index_dim < 0 && (dst->index || src->index));
    /* With fewer than 2 positions the stride is never used. Set it to 0, so that it does not limit the size of the
     * unit. */
    if (positions(dst, dim) < 2)
        dst_stride = 0;
    if (positions(src, dim) < 2)
        src_stride = 0;
    canonical->index_dim = (int)canonical->dims;
    canonical->index_on_dst = dst->index != NULL;
    canonical->index_bytes = with_list->index_bytes;
    canonical->index_bound = with_list->index_bound;
    add_dim(canonical, (uint64_t)dst->size[dim], dst_stride, src_stride);
}

static uint64_t length_of(int64_t stride)
{
    return stride < 0 ? 0 - (uint64_t)stride : (uint64_t)stride;
}

bool leati_canonical_turns(const leat_layout *dst, const leat_layout *src, uint32_t dim)
{
    const leat_layout *with_list = dst->index ? dst : src->index ? src : NULL;
    uint64_t dst_element = dst->element_bytes, src_element = src->element_bytes;
    int64_t dst_stride = dst->stride_bytes[dim], src_stride = src->stride_bytes[dim];

    leati_assert(dim < dst->dims && dst->dims == src->dims);
    if (dst->size[dim] < 2 || (with_list && dim == with_list->index_dim))
        return false;
    if (length_of(src_stride) == src_element && length_of(dst_stride) != dst_element &&
        (uint64_t)dst->size[dim] * dst_element >= TILE_BYTES)
        return src_stride < 0;
    return dst_stride < 0;
}

/* Adds every dimension of size 2 or more, the dimension with the list, and one more dimension for the bytes of an
 * element. */
static void take_dims(const leat_layout *dst, const leat_layout *src, const struct leati_convert *convert,
                      struct leati_canonical *canonical)
{
    const leat_layout *with_list = dst->index ? dst : src->index ? src : NULL;

    leati_assert(!canonical->dims && canonical->index_dim < 0);
    canonical->dst_offset = dst->offset_bytes;
    canonical->src_offset = src->offset_bytes;
    if (dst->element_bytes > 1)
        add_dim(canonical, dst->element_bytes, 1, 1);
    for (uint32_t i = 0; i < dst->dims; i++) {
        int64_t dst_stride = dst->stride_bytes[i], src_stride = src->stride_bytes[i];

        if (with_list && i == with_list->index_dim) {
            add_indexed(dst, src, i, canonical);
            continue;
        }
        if (dst->size[i] == 1)
            continue;
        if (convert && convert->channels && i == convert->channel_dim) {
            canonical->channels = (unsigned)dst->size[i];
            canonical->channel_dim = canonical->dims;
            canonical->channels_turned = leati_canonical_turns(dst, src, i);
        }
        if (leati_canonical_turns(dst, src, i)) {
            canonical->dst_offset += dst_stride * (dst->size[i] - 1);
            canonical->src_offset += src_stride * (dst->size[i] - 1);
            dst_stride = -dst_stride;
            src_stride = -src_stride;
        }
        add_dim(canonical, (uint64_t)dst->size[i], dst_stride, src_stride);
    }
}

/* Returns the sort key of a dimension: its absolute stride. Dimensions with stride 0 are sorted last. */
static uint64_t step_of(int64_t stride)
{
    return stride ? (uint64_t)(stride < 0 ? -stride : stride) : UINT64_MAX;
}

/* Dimension `from` moves to the place `to`, before it, and the dimensions between move up. Returns the new place
 * of dimension number `dim`. */
static unsigned place_after_move(unsigned dim, unsigned from, unsigned to)
{
    return dim == from ? to : dim >= to && dim < from ? dim + 1 : dim;
}

static void sort_dims(struct leati_canonical *canonical)
{
    for (unsigned i = 1; i < canonical->dims; i++) {
        uint64_t size = canonical->size[i];
        int64_t dst_stride = canonical->dst_stride[i], src_stride = canonical->src_stride[i];
        unsigned at = i;

        for (; at && step_of(canonical->dst_stride[at - 1]) > step_of(dst_stride); at--) {
            canonical->size[at] = canonical->size[at - 1];
            canonical->dst_stride[at] = canonical->dst_stride[at - 1];
            canonical->src_stride[at] = canonical->src_stride[at - 1];
        }
        canonical->size[at] = size;
        canonical->dst_stride[at] = dst_stride;
        canonical->src_stride[at] = src_stride;
        if (canonical->index_dim >= 0)
            canonical->index_dim = (int)place_after_move((unsigned)canonical->index_dim, i, at);
        canonical->channel_dim = place_after_move(canonical->channel_dim, i, at);
    }
}

/* ---- checking that no byte is written twice ---- */

/*
 * Returns INVALID if two elements of the destination overlap. They do if the differences of their indices, times
 * the strides, add up to 0. The loop assumes for each dimension in turn that it is the highest dimension in which
 * the indices differ. Nearly always the stride of this dimension is larger than the span of all lower dimensions
 * together, so the search ends at once.
 */
static leat_status check_written_once(const struct leati_canonical *canonical)
{
    struct leati_term terms[LEATI_CANONICAL_MAX_DIMS];
    unsigned count = 0, steps = LEATI_OVERLAP_STEPS;

    for (unsigned i = 0; i < canonical->dims; i++) {
        bool listed = (int)i == canonical->index_dim && canonical->index_on_dst;
        int64_t most = (listed ? canonical->index_bound : (int64_t)canonical->size[i]) - 1;
        enum leati_overlap overlap;

        if (most < 1)
            continue;
        if (!canonical->dst_stride[i])
            return leati_fail(
                LEAT_ERROR_INVALID,
                "a dimension of size %llu has stride 0 on dst; only a source may have stride 0 (broadcast)",
                (unsigned long long)canonical->size[i]);
        terms[count].stride = (int64_t)step_of(canonical->dst_stride[i]);
        terms[count].low = 1;
        terms[count].high = most;
        overlap = leati_overlap(terms, count + 1, 0, &steps);
        if (overlap == LEATI_OVERLAP_YES)
            return leati_fail(
                LEAT_ERROR_INVALID,
                "the strides of dst write a byte twice: size %lld with stride %lld overlaps smaller strides",
                (long long)most + 1, (long long)canonical->dst_stride[i]);
        if (overlap == LEATI_OVERLAP_UNKNOWN)
            return leati_fail(LEAT_ERROR_INVALID,
                              "leat cannot tell whether the strides of dst write a byte twice: a dimension of size %lld and stride %lld interleaves with smaller strides; copy in several parts",
                              (long long)most + 1, (long long)canonical->dst_stride[i]);
        terms[count].low = -most;
        count++;
    }
    return LEAT_OK;
}

/* ---- merging dimensions, widening units ---- */

static bool continues(const struct leati_canonical *canonical, unsigned lower, unsigned upper)
{
    int64_t dst_extent, src_extent;

    if (canonical->index_dim == (int)lower || canonical->index_dim == (int)upper)
        return false;
    if (canonical->channels && (canonical->channel_dim == lower || canonical->channel_dim == upper))
        return false;
    return !__builtin_mul_overflow(canonical->size[lower], canonical->dst_stride[lower], &dst_extent) &&
           !__builtin_mul_overflow(canonical->size[lower], canonical->src_stride[lower], &src_extent) &&
           canonical->dst_stride[upper] == dst_extent && canonical->src_stride[upper] == src_extent;
}

static void join_dims(struct leati_canonical *canonical)
{
    unsigned kept = 0;

    leati_assert(canonical->dims <= LEATI_CANONICAL_MAX_DIMS && canonical->index_dim < (int)canonical->dims);
    for (unsigned i = 1; i < canonical->dims; i++) {
        if (continues(canonical, kept, i)) {
            canonical->size[kept] *= canonical->size[i];
            continue;
        }
        kept++;
        canonical->size[kept] = canonical->size[i];
        canonical->dst_stride[kept] = canonical->dst_stride[i];
        canonical->src_stride[kept] = canonical->src_stride[i];
        if (canonical->index_dim == (int)i)
            canonical->index_dim = (int)kept;
        if (canonical->channels && canonical->channel_dim == i)
            canonical->channel_dim = kept;
    }
    if (canonical->dims)
        canonical->dims = kept + 1;
}

static void remove_first_dim(struct leati_canonical *canonical)
{
    leati_assert(canonical->dims && canonical->index_dim != 0 && (!canonical->channels || canonical->channel_dim));
    canonical->dims--;
    memmove(canonical->size, canonical->size + 1, canonical->dims * sizeof canonical->size[0]);
    memmove(canonical->dst_stride, canonical->dst_stride + 1, canonical->dims * sizeof canonical->dst_stride[0]);
    memmove(canonical->src_stride, canonical->src_stride + 1, canonical->dims * sizeof canonical->src_stride[0]);
    if (canonical->index_dim >= 0)
        canonical->index_dim--;
    if (canonical->channels)
        canonical->channel_dim--;
}

/* Returns the known alignment of the first unit's address, at most LEATI_CANONICAL_MAX_UNIT_BYTES. */
static unsigned first_align(size_t align, int64_t offset)
{
    uint64_t all = LEATI_CANONICAL_MAX_UNIT_BYTES | align | (uint64_t)offset;

    leati_assert(LEATI_IS_POWER_OF_TWO(align));
    return (unsigned)(all & (0 - all));
}

/* Makes the unit as wide as possible. Before the call the unit is a byte, and if bytes are contiguous on both
 * sides, they are dimension 0, with stride 1. The widest unit is the largest power of two that divides the size of
 * dimension 0, all other strides, the offsets and the alignments. */
static void widen_units(struct leati_canonical *canonical, size_t dst_align, size_t src_align)
{
    uint64_t all = LEATI_CANONICAL_MAX_UNIT_BYTES | dst_align | src_align;

    canonical->unit_bytes = 1;
    if (!canonical->dims || canonical->index_dim == 0 || canonical->dst_stride[0] != 1 ||
        canonical->src_stride[0] != 1)
        return;
    all |= (uint64_t)canonical->dst_offset | (uint64_t)canonical->src_offset | canonical->size[0];
    for (unsigned i = 1; i < canonical->dims; i++)
        all |= (uint64_t)canonical->dst_stride[i] | (uint64_t)canonical->src_stride[i];
    canonical->unit_bytes = (unsigned)(all & (0 - all));
    leati_assert(canonical->unit_bytes <= LEATI_CANONICAL_MAX_UNIT_BYTES &&
                 canonical->size[0] % canonical->unit_bytes == 0);
    canonical->size[0] /= canonical->unit_bytes;
    canonical->dst_stride[0] = canonical->src_stride[0] = (int64_t)canonical->unit_bytes;
    if (canonical->size[0] == 1)
        remove_first_dim(canonical);
}

/* ---- the canonical layout ---- */

/* Returns INVALID if the address of the first element or a stride of a side is not a multiple of the element. */
static leat_status check_multiples(const char *name, const struct leati_canonical *canonical, bool dst,
                                   size_t align, uint64_t element)
{
    const int64_t *stride = dst ? canonical->dst_stride : canonical->src_stride;

    if (first_align(align, dst ? canonical->dst_offset : canonical->src_offset) % element)
        return leati_fail(
            LEAT_ERROR_INVALID,
            "the first element of %s is not at a multiple of its %llu bytes, as a conversion needs it; leat_copy_layout() can bring the elements to other places first",
            name, (unsigned long long)element);
    for (unsigned k = 0; k < canonical->dims; k++)
        if (stride[k] % (int64_t)element)
            return leati_fail(
                LEAT_ERROR_INVALID,
                "a stride of %s, %lld bytes, is not a multiple of its elements of %llu bytes, as a conversion needs it; leat_copy_layout() can bring the elements to other places first",
                name, (long long)stride[k], (unsigned long long)element);
    return LEAT_OK;
}

/* Makes the element the unit. Before the call its bytes are dimension 0: since no byte is written twice, no other
 * dimension has a stride of 1 byte on the destination. */
static leat_status take_elements(struct leati_canonical *canonical, size_t dst_align, size_t src_align,
                                 const struct leati_convert *convert)
{
    remove_first_dim(canonical);
    canonical->unit_bytes = convert->dst_bytes;
    canonical->src_unit_bytes = convert->src_bytes;
    LEATI_TRY(check_multiples("dst", canonical, true, dst_align, convert->dst_bytes));
    return check_multiples("src", canonical, false, src_align, convert->src_bytes);
}

static leat_status make(const leat_layout *dst, size_t dst_align, const leat_layout *src, size_t src_align,
                        const struct leati_convert *convert, struct leati_canonical *canonical)
{
    LEATI_TRY(leati_layout_check("dst_layout", dst));
    LEATI_TRY(leati_layout_check("src_layout", src));
    LEATI_TRY(leati_canonical_check_align("dst", dst_align));
    LEATI_TRY(leati_canonical_check_align("src", src_align));
    LEATI_TRY(leati_canonical_check_same(dst, src, convert != NULL));
    memset(canonical, 0, sizeof *canonical);
    canonical->index_dim = -1;
    canonical->unit_bytes = 1;
    canonical->empty = has_nothing(dst);
    if (canonical->empty)
        return LEAT_OK;
    canonical->element_bytes = dst->element_bytes;
    canonical->payload_bytes = dst->element_bytes;
    for (uint32_t i = 0; i < dst->dims; i++)
        if (__builtin_mul_overflow(canonical->payload_bytes, (uint64_t)dst->size[i], &canonical->payload_bytes) ||
            canonical->payload_bytes > (uint64_t)LEATI_CANONICAL_MAX_REACH)
            return leati_fail(LEAT_ERROR_RANGE, "the sizes multiply to more than 2^61 bytes");
    LEATI_TRY(find_reaches(dst, src, canonical));
    take_dims(dst, src, convert, canonical);
    sort_dims(canonical);
    LEATI_TRY(check_written_once(canonical));
    if (convert)
        LEATI_TRY(take_elements(canonical, dst_align, src_align, convert));
    join_dims(canonical);
    if (!convert)
        widen_units(canonical, dst_align, src_align);
    canonical->dst_align = first_align(dst_align, canonical->dst_offset);
    canonical->src_align = first_align(src_align, canonical->src_offset);
    leati_assert(LEATI_IS_POWER_OF_TWO(canonical->unit_bytes) && canonical->dst_align >= canonical->unit_bytes &&
                 canonical->src_align >= leati_src_unit_bytes(canonical));
    return LEAT_OK;
}

leat_status leati_canonical_make(const leat_layout *dst, size_t dst_align, const leat_layout *src,
                                 size_t src_align, struct leati_canonical *canonical)
{
    return make(dst, dst_align, src, src_align, NULL, canonical);
}

leat_status leati_canonical_make_convert(const leat_layout *dst, size_t dst_align, const leat_layout *src,
                                         size_t src_align, const struct leati_convert *convert,
                                         struct leati_canonical *canonical)
{
    return make(dst, dst_align, src, src_align, convert, canonical);
}

void leati_canonical_make_part(const struct leati_canonical *converting, const uint64_t *size, size_t align,
                               struct leati_canonical *part)
{
    int64_t step = converting->src_unit_bytes;

    *part = (struct leati_canonical){
        .index_dim = -1, .unit_bytes = 1, .element_bytes = converting->src_unit_bytes, .src_high = step};
    part->dst_align = part->src_align = (unsigned)align;
    if (step > 1)
        add_dim(part, (uint64_t)step, 1, 1);
    for (unsigned k = 0; k < converting->dims; k++) {
        int64_t distance = (int64_t)(size[k] - 1) * converting->src_stride[k];

        if (size[k] > 1)
            add_dim(part, size[k], step, converting->src_stride[k]);
        step *= (int64_t)size[k];
        if (distance > 0)
            part->src_high += distance;
        else
            part->src_low += distance;
    }
    part->dst_high = step;
    part->payload_bytes = (uint64_t)step;
    join_dims(part);
    widen_units(part, align, align);
}

void leati_factors_turn(const struct leati_canonical *canonical, const struct leati_factors *factors,
                        struct leati_factors *turned)
{
    uint32_t count = factors->count;

    leati_assert(count && count <= LEATI_FACTORS && (!canonical->channels || canonical->channels == count));
    turned->count = count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t from = canonical->channels && canonical->channels_turned ? count - 1 - i : i;

        turned->scale[i] = factors->scale[from];
        turned->bias[i] = factors->bias[from];
    }
}

int leati_canonical_dense_src(const struct leati_canonical *canonical)
{
    int found = -1;

    for (int i = 0; i < (int)canonical->dims; i++)
        if (i != canonical->index_dim && canonical->src_stride[i] == (int64_t)leati_src_unit_bytes(canonical) &&
            (found < 0 || canonical->size[i] > canonical->size[found]))
            found = i;
    leati_assert(found < (int)canonical->dims);
    return found;
}

/* ---- overlap of destination and source ---- */

/* Adds a term for one dimension of a side. If a term with this stride exists already, extends its range
 * instead. */
static void add_term(struct leati_term *terms, unsigned *count, int64_t stride, uint64_t positions)
{
    int64_t step = (int64_t)step_of(stride), most = (int64_t)positions - 1;
    unsigned at = *count;

    if (!stride || most < 1)
        return;
    while (at && terms[at - 1].stride >= step)
        at--;
    leati_assert(*count < LEATI_OVERLAP_MAX_TERMS);
    if (at == *count || terms[at].stride != step) {
        memmove(terms + at + 1, terms + at, (*count - at) * sizeof *terms);
        terms[at] = (struct leati_term){.stride = step};
        ++*count;
    }
    if (stride > 0)
        terms[at].high += most;
    else
        terms[at].low -= most;
}

static uint64_t canonical_positions(const struct leati_canonical *canonical, unsigned dim, bool of_dst)
{
    bool listed = (int)dim == canonical->index_dim && canonical->index_on_dst == of_dst;

    return listed ? (uint64_t)canonical->index_bound : canonical->size[dim];
}

bool leati_canonical_may_overlap(const struct leati_canonical *canonical, const void *dst, const void *src)
{
    uintptr_t written = (uintptr_t)dst + (uintptr_t)canonical->dst_low,
              read = (uintptr_t)src + (uintptr_t)canonical->src_low;
    struct leati_term terms[LEATI_OVERLAP_MAX_TERMS];
    unsigned count = 0, steps = LEATI_OVERLAP_STEPS;
    int64_t distance;

    if (read - written >= (uint64_t)(canonical->dst_high - canonical->dst_low) &&
        written - read >= (uint64_t)(canonical->src_high - canonical->src_low))
        return false;
    /* The difference between an address on dst and an address on src is a sum of terms: one for each index, and
     * one on each side for the byte within a unit. The sides overlap if the terms can add up to the distance
     * between their first units. */
    add_term(terms, &count, 1, canonical->unit_bytes);
    add_term(terms, &count, -1, leati_src_unit_bytes(canonical));
    for (unsigned i = 0; i < canonical->dims; i++) {
        add_term(terms, &count, canonical->dst_stride[i], canonical_positions(canonical, i, true));
        add_term(terms, &count, -canonical->src_stride[i], canonical_positions(canonical, i, false));
    }
    distance = (int64_t)((uintptr_t)src + (uintptr_t)canonical->src_offset - (uintptr_t)dst -
                         (uintptr_t)canonical->dst_offset);
    leati_assert(count <= LEATI_OVERLAP_MAX_TERMS);
    if (leati_never_overlap(terms, count, distance))
        return false;
    return leati_overlap(terms, count, distance, &steps) != LEATI_OVERLAP_NO;
}

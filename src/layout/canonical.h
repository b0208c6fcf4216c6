/*
 * canonical.h - the canonical layout of a copy: its two layouts, reduced to what matters for the copy.
 *
 * Two copies that access the same bytes in the same way have the same canonical layout. It is made like this:
 * dimensions of size 1 are removed; the others are sorted by their destination stride; adjacent dimensions that
 * continue each other on both sides are merged; negative strides are flipped; and the unit is as wide as sizes,
 * strides and addresses allow. For example, four floats that are contiguous on both sides become one unit of 16
 * bytes, and an element of 6 bytes becomes a dimension of 3 units of 2 bytes.
 */
#ifndef LEATI_LAYOUT_CANONICAL_H
#define LEATI_LAYOUT_CANONICAL_H

#include <leat/layout.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One more than a layout has, because an element whose size is not a power of two becomes a dimension. */
#define LEATI_CANONICAL_MAX_DIMS (LEAT_LAYOUT_MAX_DIMS + 1)

/* The widest unit that is moved at once. */
#define LEATI_CANONICAL_MAX_UNIT_BYTES 16

/* No element is further than this from its side's pointer, or from another element of its side. So sums of two
 * such distances do not overflow. */
#define LEATI_CANONICAL_MAX_REACH ((int64_t)1 << 61)

struct leati_canonical {
    unsigned dims; /* 0: a single unit */
    /* The unit: 1, 2, 4, 8 or 16 bytes that are moved at once. Strides, offsets and alignments are multiples of
     * it. */
    unsigned unit_bytes;

    unsigned element_bytes; /* of the layouts; a unit may be several elements, or a part of one */

    /* The known alignment of the first unit's addresses, up to 16. */
    unsigned dst_align, src_align;

    /*
     * Sorted: dimension 0 has the smallest absolute destination stride. Sizes are 2 or more, and destination
     * strides are above 0, with two exceptions: dimensions for which leati_canonical_turns() decides otherwise,
     * and the dimension with a list. That one may have size 1 and any destination stride, because flipping the
     * dimension would reverse its list. If it has size 1 and the list is on the source, its destination stride is
     * 0, and it is sorted last.
     */
    uint64_t size[LEATI_CANONICAL_MAX_DIMS];
    int64_t dst_stride[LEATI_CANONICAL_MAX_DIMS]; /* bytes */
    int64_t src_stride[LEATI_CANONICAL_MAX_DIMS]; /* bytes; any */
    int64_t dst_offset, src_offset;               /* bytes from the pointers to the first unit */

    /* The dimension with a list of indices, or -1. It is never merged with another one. */
    int index_dim;
    bool index_on_dst;
    unsigned index_bytes;
    int64_t index_bound;

    bool empty; /* a size is 0: nothing moves */
    uint64_t payload_bytes;

    /* The bytes that the copy may access: from pointer + low to below pointer + high. Both are 0 if there are
     * none: in an empty layout, and on a side with a list if no index can be valid. */
    int64_t dst_low, dst_high;
    int64_t src_low, src_high;
};

/* Checks one layout: dims, element_bytes, sizes, and its list. INVALID, with a message that uses name. */
leat_status leati_layout_check(const char *name, const leat_layout *layout);

/* Checks only the members for a list of indices. INVALID; RANGE: the list is too long. */
leat_status leati_layout_check_list(const char *name, const leat_layout *layout);

/*
 * Returns true if the canonical layout flips this dimension of two checked layouts, that is, goes through it from
 * the last element to the first. It flips to make the destination stride positive; but if the dimension is dense
 * on the source only and long enough for tiles, to make the source stride positive, so that a transpose that also
 * flips can use tiles.
 */
bool leati_canonical_turns(const leat_layout *dst, const leat_layout *src, uint32_t dim);

/* Checks that an alignment is a power of two. INVALID if not. */
leat_status leati_canonical_check_align(const char *name, size_t align);

/* Checks that a side that spans low to high around its first unit stays within LEATI_CANONICAL_MAX_REACH if the
 * first unit is start bytes from the pointer. RANGE if not. */
leat_status leati_canonical_check_start(const char *name, int64_t start, int64_t low, int64_t high);

/* Checks that two checked layouts have the same sizes and element size, and together at most one list. INVALID if
 * not. */
leat_status leati_canonical_check_same(const leat_layout *dst, const leat_layout *src);

/*
 * Checks two layouts and makes the canonical layout, for pointers that are aligned to at least dst_align and
 * src_align bytes. Errors, all with a message: INVALID, RANGE; see leat_copy_layout().
 */
leat_status leati_canonical_make(const leat_layout *dst, size_t dst_align, const leat_layout *src,
                                 size_t src_align, struct leati_canonical *canonical);

/* The dimension that is dense on the source: the largest one whose src_stride is one unit; -1: none. */
int leati_canonical_dense_src(const struct leati_canonical *canonical);

/*
 * Conservative: returns false only if it is certain that, with these pointers, no byte is both written and read.
 * Returns true if it cannot decide within its limit of steps.
 */
bool leati_canonical_may_overlap(const struct leati_canonical *canonical, const void *dst, const void *src);

#endif

/*
 * canonical.h - what is left of two layouts when everything that does not matter is taken away: their canonical
 * form.
 *
 * Two copies that touch the same bytes in the same way have the same canonical form: dimensions of size 1 are
 * gone, the rest are sorted by their step through the destination, neighbours that continue one another on both
 * sides are one, negative strides are turned round, and elements are as wide as run, strides and addresses allow:
 * four floats that stay together are one element of 16 bytes, and an element of 6 bytes is a dimension of 3
 * elements of 2.
 */
#ifndef LEATI_LAYOUT_CANONICAL_H
#define LEATI_LAYOUT_CANONICAL_H

#include <leat/layout.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One more than a layout has: an odd element size becomes a dimension. */
#define LEATI_CANONICAL_MAX_DIMS (LEAT_LAYOUT_MAX_DIMS + 1)

/* The widest unit that is moved at once. */
#define LEATI_CANONICAL_MAX_UNIT_BYTES 16

/* Neither side reaches further than this, be it from its pointer or from any element, to either side: sums of two
 * such numbers fit. */
#define LEATI_CANONICAL_MAX_REACH ((int64_t)1 << 61)

struct leati_canonical {
    unsigned dims; /* 0: a single unit */
    unsigned
        unit_bytes; /* 1, 2, 4, 8 or 16: what is moved at once; strides, offsets and alignments divide by it */

    unsigned element_bytes; /* of the layouts; a unit may be several elements, or a part of one */

    /* What the addresses of the first unit divide by for certain, up to 16. */
    unsigned dst_align, src_align;

    /*
     * Sorted: dimension 0 has the smallest step on the destination. All sizes are 2 or more, and destination
     * strides above 0, but for what leati_canonical_turns() says, and for a dimension with a list: that may have a
     * size of 1, and any destination stride, since turning it round would turn its list round. Where the size of
     * that dimension is 1 and the list on the source, its destination stride is 0, and it is sorted last.
     */
    uint64_t size[LEATI_CANONICAL_MAX_DIMS];
    int64_t dst_stride[LEATI_CANONICAL_MAX_DIMS]; /* bytes */
    int64_t src_stride[LEATI_CANONICAL_MAX_DIMS]; /* bytes; any */
    int64_t dst_offset, src_offset;               /* of the first unit from the pointers */

    /* The dimension with a list of indices, or -1; never joined with another. */
    int index_dim;
    bool index_on_dst;
    unsigned index_bytes;
    int64_t index_bound;

    bool empty; /* a size is 0: nothing moves */
    uint64_t payload_bytes;

    /* Bytes from the pointers that may be touched: from low to below high; 0 and 0 when there are none: of both
     * sides of an empty layout, and where there is no index that is right. */
    int64_t dst_low, dst_high;
    int64_t src_low, src_high;
};

/* Whether this is a layout: dims, element_bytes, sizes, and its list. INVALID, with a message that calls it name.
 */
leat_status leati_layout_check(const char *name, const leat_layout *layout);

/* The same of what a list needs beside it; RANGE for one that is too long. */
leat_status leati_layout_check_list(const char *name, const leat_layout *layout);

/*
 * Whether a canonical layout goes through a dimension of two layouts, which were checked, from its last element to
 * its first: so that it goes up on the destination, or, where it is dense on the source alone and long enough for
 * tiles, up there: a transpose that also flips is one of tiles then.
 */
bool leati_canonical_turns(const leat_layout *dst, const leat_layout *src, uint32_t dim);

/* Whether what a pointer divides by is a power of two. INVALID. */
leat_status leati_canonical_check_align(const char *name, size_t align);

/* Whether a side that reaches from low to high around its first unit does so too with that start bytes from the
 * pointer. RANGE. */
leat_status leati_canonical_check_start(const char *name, int64_t start, int64_t low, int64_t high);

/* Whether layouts that were checked have the same sizes and elements, and one list at most. INVALID. */
leat_status leati_canonical_check_same(const leat_layout *dst, const leat_layout *src);

/*
 * Checks two layouts and makes their canonical form, for pointers that are aligned to dst_align and src_align
 * bytes at least. Errors, all with a message: INVALID, RANGE; see leat_copy_layout().
 */
leat_status leati_canonical_make(const leat_layout *dst, size_t dst_align, const leat_layout *src,
                                 size_t src_align, struct leati_canonical *canonical);

/* The dimension in which neighbours touch on the source: the largest with a src_stride of one unit; -1 for none.
 */
int leati_canonical_dense_src(const struct leati_canonical *canonical);

/*
 * Whether a byte that is written may also be read, for these pointers: false is certain, true is not. What it
 * cannot decide with some thousand steps counts as true.
 */
bool leati_canonical_may_overlap(const struct leati_canonical *canonical, const void *dst, const void *src);

#endif

/*
 * form.h - what is left of two layouts when everything that does not matter is taken away.
 *
 * Two copies that touch the same bytes in the same way have the same form: dimensions of size 1 are gone, the rest
 * are sorted by their step through the destination, neighbours that continue one another on both sides are one,
 * negative destination strides are turned round, and elements are as wide as run, strides and addresses allow: four
 * floats that stay together are one element of 16 bytes, and an element of 6 bytes is a dimension of 3 elements of 2.
 */
#ifndef LEATI_LAYOUT_FORM_H
#define LEATI_LAYOUT_FORM_H

#include <leat/layout.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One more than a layout has: an odd element size becomes a dimension. */
#define LEATI_FORM_MAX_DIMS (LEAT_LAYOUT_MAX_DIMS + 1)

struct leati_form {
    unsigned dims;       /* 0: a single unit */
    unsigned unit_bytes; /* 1, 2, 4, 8 or 16: what is moved at once; all strides, offsets and alignments divide by it */

    /* Dimension 0 has the smallest step on the destination. All sizes are 2 or more, but for an indexed dimension. */
    uint64_t size[LEATI_FORM_MAX_DIMS];
    int64_t dst_stride[LEATI_FORM_MAX_DIMS]; /* bytes; above 0 where no list is on it */
    int64_t src_stride[LEATI_FORM_MAX_DIMS]; /* bytes */
    int64_t dst_offset, src_offset;          /* of the first unit from the pointers */

    /* The dimension with a list of indices, or -1; never fused with another. */
    int index_dim;
    bool index_on_dst;
    unsigned index_bytes;
    int64_t index_bound;

    bool empty;            /* a size is 0: nothing moves */
    uint64_t payload_bytes;

    /* Bytes from the pointers that may be touched: from low to below high; both 0 when empty. */
    int64_t dst_low, dst_high;
    int64_t src_low, src_high;
};

/*
 * Checks two layouts and makes their form, for pointers that are aligned to dst_align and src_align bytes at least.
 * Errors, all with a sentence: INVALID, RANGE; see leat_copy_layout().
 */
leat_status leati_form_make(const leat_layout *dst, size_t dst_align, const leat_layout *src, size_t src_align,
                            struct leati_form *form);

/* Whether a byte that is written may also be read, for these pointers: false is certain, true is not. */
bool leati_form_may_overlap(const struct leati_form *form, const void *dst, const void *src);

#endif

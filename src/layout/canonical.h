/*
 * canonical.h - reduces the two layouts of a copy to its canonical layout.
 *
 * Two copies that access the same bytes in the same way have the same canonical layout. It is made in these steps.
 * Dimensions of size 1 are removed. Negative strides are flipped. The dimensions are sorted by their destination
 * stride. Adjacent dimensions that continue each other on both sides are merged. The unit becomes as wide as
 * sizes, strides and addresses allow. For example, four floats that are contiguous on both sides become one unit
 * of 16 bytes, and an element of 6 bytes becomes a dimension of 3 units of 2 bytes.
 */
#ifndef LEATI_LAYOUT_CANONICAL_H
#define LEATI_LAYOUT_CANONICAL_H

#include "layout/convert.h"

#include <leat/layout.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One more dimension than a layout has, because an element whose size is not a power of two becomes a
 * dimension. */
#define LEATI_CANONICAL_MAX_DIMS (LEAT_LAYOUT_MAX_DIMS + 1)

/* The size of the widest unit. */
#define LEATI_CANONICAL_MAX_UNIT_BYTES 16

/* The maximum distance in bytes of an element from the pointer of its side, and between two elements of one side.
 * The sum of two such distances does not overflow. */
#define LEATI_CANONICAL_MAX_REACH ((int64_t)1 << 61)

struct leati_canonical {
    unsigned dims; /* number of dimensions; 0: the copy is a single unit */
    /* Size of the unit, which is moved at once: 1, 2, 4, 8 or 16 bytes. Strides, offsets and alignments are
     * multiples of it. */
    unsigned unit_bytes;

    unsigned element_bytes; /* size of the layouts' elements; a unit may be several elements, or a part of one */

    /* For a copy that converts, a unit is one element, and this is the size of an element of src. Source strides
     * are multiples of it. 0 for other copies, of which both sides have units of unit_bytes. */
    unsigned src_unit_bytes;

    /* The size of the dimension that counts channels, and its number; it is never merged with another one. 0: no
     * dimension does. channels_turned: the dimension was flipped, so its first element is of the last channel. */
    unsigned channels, channel_dim;
    bool channels_turned;

    /* The known alignment of the first unit's address on each side, at most 16. */
    unsigned dst_align, src_align;

    /*
     * The dimensions are sorted: dimension 0 has the smallest absolute destination stride. Sizes are 2 or more,
     * and destination strides are above 0, with two exceptions. First, leati_canonical_turns() may make the source
     * stride positive instead. Second, the dimension with a list may have size 1 and any destination stride,
     * because flipping it would reverse its list. If it has size 1 and the list is on the source, its destination
     * stride is 0, and it is sorted last.
     */
    uint64_t size[LEATI_CANONICAL_MAX_DIMS];
    int64_t dst_stride[LEATI_CANONICAL_MAX_DIMS]; /* bytes, see above */
    int64_t src_stride[LEATI_CANONICAL_MAX_DIMS]; /* bytes; may be negative or 0 */
    int64_t dst_offset, src_offset;               /* bytes from each side's pointer to its first unit */

    /* The dimension with a list of indices, or -1. This dimension is never merged with another one. */
    int index_dim;
    bool index_on_dst;
    unsigned index_bytes;
    int64_t index_bound;

    /* The number of further copies with this layout, of other memory, that a launch on a GPU makes too. It only
     * affects the choice of the kernel and of its blocks. */
    unsigned other_copies;

    bool empty; /* a size is 0, so there is nothing to copy */
    uint64_t payload_bytes; /* of all elements on dst */

    /* The copy accesses only bytes in [pointer + low, pointer + high). Both are 0 if it accesses no byte: for an
     * empty layout, and on a side with a list if no index can be valid. */
    int64_t dst_low, dst_high;
    int64_t src_low, src_high;
};

/* Checks one layout: dims, element_bytes, sizes, and the list. Returns an error with a message that calls the
 * layout name. */
leat_status leati_layout_check(const char *name, const leat_layout *layout);

/* Checks only the fields for a list of indices. Returns RANGE if the list is too long, and INVALID for other
 * errors. */
leat_status leati_layout_check_list(const char *name, const leat_layout *layout);

/*
 * Returns true if the canonical layout flips this dimension of two checked layouts, that is, goes through it from
 * the last element to the first. Usually it flips a dimension with a negative destination stride. If a dimension
 * is dense only on the source and long enough for tiles, it flips the dimension if the source stride is negative
 * instead, so that a transpose that also flips can use tiles.
 */
bool leati_canonical_turns(const leat_layout *dst, const leat_layout *src, uint32_t dim);

/* Returns INVALID if the alignment is not a power of two. */
leat_status leati_canonical_check_align(const char *name, size_t align);

/* Checks a side whose first unit is start bytes from the pointer, and whose bytes are in [low, high) relative to
 * the first unit. Returns RANGE if a byte is further than LEATI_CANONICAL_MAX_REACH from the pointer. */
leat_status leati_canonical_check_start(const char *name, int64_t start, int64_t low, int64_t high);

/* Returns INVALID unless two checked layouts have the same sizes, and together at most one list. Unless the copy
 * converts, their elements must have the same size too. */
leat_status leati_canonical_check_same(const leat_layout *dst, const leat_layout *src, bool converts);

/*
 * Checks two layouts and makes their canonical layout, for pointers that are aligned to at least dst_align and
 * src_align bytes. Errors, all with a message: INVALID and RANGE, as leat_copy_layout() describes them.
 */
leat_status leati_canonical_make(const leat_layout *dst, size_t dst_align, const leat_layout *src,
                                 size_t src_align, struct leati_canonical *canonical);

/* The same for a copy that converts. Also returns INVALID if an element does not lie at a multiple of its size. */
leat_status leati_canonical_make_convert(const leat_layout *dst, size_t dst_align, const leat_layout *src,
                                         size_t src_align, const struct leati_convert *convert,
                                         struct leati_canonical *canonical);

/*
 * Makes the canonical layout of a copy that moves a part of a converting layout's source, without a conversion,
 * into memory without gaps, in the order of the destination. The part has size[k] elements in dimension k, and
 * begins at the pointers of the copy. align: the known alignment of both pointers.
 */
void leati_canonical_make_part(const struct leati_canonical *converting, const uint64_t *size, size_t align,
                               struct leati_canonical *part);

/* Returns the number of copies that a launch makes. */
static inline uint64_t leati_canonical_copies(const struct leati_canonical *canonical)
{
    return UINT64_C(1) + canonical->other_copies;
}

/* Returns the size of the source's unit. */
static inline unsigned leati_src_unit_bytes(const struct leati_canonical *canonical)
{
    return canonical->src_unit_bytes ? canonical->src_unit_bytes : canonical->unit_bytes;
}

/* Copies the factors of a conversion in the order of the canonical layout, in which channels may be turned. */
void leati_factors_turn(const struct leati_canonical *canonical, const struct leati_factors *factors,
                        struct leati_factors *turned);

/* Returns the bytes of all elements on the source. */
static inline uint64_t leati_src_payload_bytes(const struct leati_canonical *canonical)
{
    return canonical->payload_bytes / canonical->unit_bytes * leati_src_unit_bytes(canonical);
}

/* Returns the dimension that is dense on the source, or -1 if there is none. If several have a src_stride of one
 * unit, returns the one with the largest size. */
int leati_canonical_dense_src(const struct leati_canonical *canonical);

/*
 * Returns false only if it is certain that a copy with these pointers reads no byte that it also writes. Returns
 * true if it cannot decide this within a limited number of steps.
 */
bool leati_canonical_may_overlap(const struct leati_canonical *canonical, const void *dst, const void *src);

#endif

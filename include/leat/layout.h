/*
 * leat/layout.h - describes and makes strided copies: transpose, permute, slice, broadcast, gather.
 *
 * Model. A layout says where the elements of an array lie: its sizes, and for each dimension the distance between
 * neighbours in bytes. Two layouts of the same sizes, one for dst and one for src, describe a copy: element (i, j,
 * ...) of src goes to element (i, j, ...) of dst. Permuting, transposing, slicing and flipping only change a
 * layout; they take no time and move nothing. leat_copy_layout() moves the elements:
 *
 *     leat_layout_dense(&a, 2, (int64_t[]){rows, columns}, 4);      // as a C array lies
 *     b = a;
 *     leat_layout_transpose(&b, 0, 1);                              // a view: columns x rows, of the same bytes
 *     leat_layout_dense(&c, 2, b.size, 4);
 *     leat_copy_layout(stream, dst, &c, src, &b);                   // dst becomes the transpose of src
 *
 * Dimensions are counted from the slowest, as in C: dimension 0 of a dense matrix is the rows. Strides are in
 * bytes. A stride may be negative (flip); on the source it may be 0 (broadcast: each element is read many times).
 *
 * A plan says how a copy is made: its class (a plain copy, rows, a tiled transpose, a tile of several short
 * dimensions, a gather), and the bound on its memory traffic. leat makes a plan at the first copy of a shape and
 * caches it, so a program need not hold plans. leat_layout_plan_create() is for programs that print a plan or want
 * to save the lookup. docs/layouts.md explains plans.
 *
 * Call order. As in leat/copy.h: copies run in stream order and the calls return at once.
 *
 * Threads. Any thread may make any call here. A layout is plain data of the caller. Plans never change, and
 * several threads may use one at the same time.
 */
#ifndef LEAT_LAYOUT_H
#define LEAT_LAYOUT_H

#include <leat/copy.h>
#include <leat/device.h>
#include <leat/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LEAT_LAYOUT_MAX_DIMS 32
#define LEAT_LAYOUT_MAX_ELEMENT_BYTES 16

/* Says where the elements of an array lie. The struct does not grow, because programs copy it and fill it in. Make
 * a layout with leat_layout_dense(), or fill it in, with 0 in all unused fields. */
typedef struct leat_layout {
    uint32_t dims;          /* 0 to 32; 0: a single element */
    uint32_t element_bytes; /* any number from 1 to 16, also 3 and 12 */
    int64_t offset_bytes;   /* from the pointer passed with the layout to element (0, 0, ...) */
    int64_t size[LEAT_LAYOUT_MAX_DIMS];
    int64_t stride_bytes[LEAT_LAYOUT_MAX_DIMS];

    /* A list of indices for one dimension, or NULL. With a list, element i of dimension index_dim lies index[i]
     * strides from the start of that dimension. See leat_layout_index(). */
    const void *index;
    uint32_t index_dim;
    uint32_t index_bytes;  /* size of one signed index: 4 or 8 */
    int64_t index_bound;   /* valid indices are 0 to index_bound - 1 */
    uint64_t *index_wrong; /* NULL, or a counter in memory that the device can access; see leat_layout_index() */
} leat_layout;

/* ---- making layouts: arithmetic only, no device needed ---------------------------------------------------- */

/*
 * Makes the layout of a dense array of dims dimensions with the last one fastest, like a C array. size may be NULL
 * when dims is 0. A size of 0 is allowed: the array then has no elements.
 * Errors: INVALID (layout or size NULL, more than 32 dimensions, a negative size, element_bytes not 1 to 16);
 * RANGE (more bytes than an int64_t holds). For this and the following calls: a failed call leaves the layout
 * unchanged, and INVALID includes a layout that is NULL or not valid (dims, element_bytes, sizes, or the fields of
 * its list).
 */
LEAT_NODISCARD LEAT_API leat_status leat_layout_dense(leat_layout *layout, uint32_t dims, const int64_t *size,
                                                      uint32_t element_bytes);

/*
 * Reorders dimensions: dimension i becomes the former dimension order[i]. {1, 0} transposes a matrix, {0, 2, 3, 1}
 * makes NHWC from NCHW (as numpy's transpose and PyTorch's permute). order has layout->dims entries, each number
 * once; it may be NULL if there are no dimensions. A list of indices stays with its dimension.
 * Errors: INVALID.
 */
LEAT_NODISCARD LEAT_API leat_status leat_layout_permute(leat_layout *layout, const uint32_t *order);

/* Swaps two dimensions. a == b does nothing. Errors: INVALID (a dimension that the layout does not have). */
LEAT_NODISCARD LEAT_API leat_status leat_layout_transpose(leat_layout *layout, uint32_t a, uint32_t b);

/*
 * Selects the elements start, start + step, ... of one dimension, up to but not including stop. If step is
 * negative, the elements run downwards, and stop may be -1 for "down to the first". start == stop selects none.
 * start and stop are between 0 and the size; with a negative step, between -1 and the size - 1. Negative values do
 * not count from the end.
 * Errors: INVALID (dim, step 0, start or stop outside the dimension, a step that leads from start away from stop,
 * a dimension with an index list); RANGE (an offset or a stride that overflows).
 */
LEAT_NODISCARD LEAT_API leat_status leat_layout_slice(leat_layout *layout, uint32_t dim, int64_t start,
                                                      int64_t stop, int64_t step);

/* Reverses one dimension. Errors: INVALID (dim, a dimension with an index list); RANGE (overflow). */
LEAT_NODISCARD LEAT_API leat_status leat_layout_flip(leat_layout *layout, uint32_t dim);

/* Gives a dimension of size 1 any size, with stride 0: all its elements are the same one. For sources only.
 * Errors: INVALID (dim, its size is not 1, size negative, a dimension with an index list). */
LEAT_NODISCARD LEAT_API leat_status leat_layout_broadcast(leat_layout *layout, uint32_t dim, int64_t size);

/*
 * Gives the same elements, in the same order, other sizes, without moving them. The product of the sizes must stay
 * the same. If several new dimensions could keep the index list, the first one keeps it.
 * Errors: INVALID (the products differ, a negative size, more than 32 dimensions, size NULL); UNSUPPORTED (no
 * strides describe the new sizes, so the elements would have to move: copy into a dense layout first; or no new
 * dimension has the size of the dimension with the list); RANGE (more elements than 64 bits can count).
 */
LEAT_NODISCARD LEAT_API leat_status leat_layout_reshape(leat_layout *layout, uint32_t dims, const int64_t *size);

/*
 * Puts a list of indices on one dimension: its size becomes count, and its element i is the former element
 * index[i], which must be below the former size. On a source this gathers, on a destination it scatters. If two
 * indices of a scatter are equal, one of the two elements is the result. On a GPU this holds for elements of 1, 2,
 * 4, 8 and 16 bytes at multiples of their size; for others the result may mix parts of both. A layout has at most
 * one list, and only one of the two layouts of a copy may have one.
 *
 * The caller owns the list. leat_copy_layout() checks and copies a list in host memory before it returns; the
 * stream reads a list in device or managed memory in stream order. A wrong index in a list in device or managed
 * memory cannot fail the call. Instead its elements are not copied (on the way from a GPU to pageable memory or to
 * another GPU they become zeros), and the copy increments *wrong for each such index, in stream order, if wrong is
 * not NULL. wrong points to 8 bytes, aligned to 8, of memory that the device can access: device, pinned or managed
 * memory. The destination must contain neither such a list nor *wrong; leat does not check this.
 * Errors: INVALID (dim, index NULL with a count, count negative, index_bytes not 4 or 8, a layout that already has
 * a list, a list that is not aligned to index_bytes, wrong not aligned to 8).
 */
LEAT_NODISCARD LEAT_API leat_status leat_layout_index(leat_layout *layout, uint32_t dim, const void *index,
                                                      int64_t count, uint32_t index_bytes, uint64_t *wrong);

/* Returns the number of elements of a layout and their total bytes, independent of the strides. Errors: INVALID
 * (NULL); RANGE (more than 64 bits can count). */
LEAT_NODISCARD LEAT_API leat_status leat_layout_count(const leat_layout *layout, uint64_t *elements,
                                                      uint64_t *bytes);

/* ---- copying ---------------------------------------------------------------------------------------------- */

/*
 * Copies between any two places that leat_copy() supports, in stream order, and returns at once. leat reads the
 * layouts before the call returns. If a size is 0, nothing moves, whatever the pointers are. leat/copy.h says when
 * the host may use its memory again.
 *
 * On one device kernels make the copy. Between a host and a device, or two devices, leat packs the elements on the
 * side where that is faster and moves them as one piece, through device memory from the stream's pool if
 * necessary. The first call on a device that needs a kernel loads it and some related ones, which may wait for the
 * device's work; leat_module_layout() loads all of them ahead of time. A kernel may read up to 15 bytes next to an
 * element of src, but never before the first or after the last element; so all memory between these two must be
 * mapped.
 * Errors: HANDLE; INVALID (a layout is NULL or not valid: dims, element_bytes, a negative size; the two layouts
 * differ in sizes or element_bytes; destination strides that write a byte twice, such as 0 or a pitch below the
 * bytes of a row, or strides so interleaved that leat cannot tell; index lists in both layouts, a wrong list, or a
 * list in memory of another device than the stream's; index_wrong where the device cannot access it); RANGE (an
 * index of a host list is out of bounds: the message says which; sizes, strides and offsets that reach further
 * than 2^61 bytes; elements outside of a pointer's allocation); OVERLAP (a byte that is written is also read, or
 * may be if an exact check would take too long; a copy in place is not supported, but a copy between different
 * columns of one array is); UNSUPPORTED (a kernel must copy, but src and dst are both memory of another device
 * than the stream's, or dst is and has gaps or a list; a list in device or managed memory for a copy between
 * pageable memory, or for a scatter into pageable memory); and the errors of leat_copy().
 */
LEAT_NODISCARD LEAT_API leat_status leat_copy_layout(leat_stream *stream, void *dst, const leat_layout *dst_layout,
                                                     const void *src, const leat_layout *src_layout);

/* ---- plans ------------------------------------------------------------------------------------------------ */

/* A plan says how leat copies one shape on one device. */
typedef struct leat_layout_plan leat_layout_plan;

/* The class of a plan's copy. */
typedef enum leat_layout_class {
    LEAT_LAYOUT_CLASS_NOTHING = 0,   /* a size is 0 */
    LEAT_LAYOUT_CLASS_COPY = 1,      /* one contiguous range on both sides */
    LEAT_LAYOUT_CLASS_ROWS = 2,      /* contiguous rows, of the same length on both sides */
    LEAT_LAYOUT_CLASS_TRANSPOSE = 3, /* the two sides are dense in different dimensions; copied in tiles */
    LEAT_LAYOUT_CLASS_ND_TILE = 4,   /* the dense dimensions are short: a tile covers several of them */
    LEAT_LAYOUT_CLASS_GATHER = 5,    /* rows selected by an index list */
    LEAT_LAYOUT_CLASS_FILL = 6,      /* a short source that is read repeatedly */
    LEAT_LAYOUT_CLASS_ELEMENTS = 7   /* no dense dimension: one element at a time */
} leat_layout_class;

/* Returns the name of a class: "nothing", "copy", "rows", "transpose", "nd-tile", "gather", "fill" or "elements";
 * "unknown" for another number. */
LEAT_API const char *leat_layout_class_name(leat_layout_class class_of_plan);

/* The class of a plan, and the bound on its memory traffic. */
typedef struct leat_layout_plan_info {
    size_t size; /* sizeof(leat_layout_plan_info): leat/base.h */
    leat_layout_class class_of_plan;
    uint64_t payload_bytes; /* bytes of all elements */
    /* The bound: the 32-byte sectors that the copy must read and write at least, if both pointers are aligned to a
     * sector. A sector that is read again counts once. The rows of an index list count as if all were different
     * and far apart, but never as more than all rows of the array. The list itself is not counted. */
    uint64_t read_sectors, written_sectors;
} leat_layout_plan_info;
#define LEAT_LAYOUT_PLAN_INFO_INIT LEAT_SIZED_INIT_(leat_layout_plan_info)

/*
 * Returns the plan for copies between these layouts on device, for pointers that are aligned to at least dst_align
 * and src_align bytes (powers of two; a value above 16 counts as 16): a new plan, or a cached one. The plan
 * includes the offsets of the layouts and the index list, and its copies use them. Destroy it with
 * leat_layout_plan_destroy().
 * Errors: HANDLE; INVALID, RANGE (as leat_copy_layout(), and plan NULL, alignments); HOST_MEMORY.
 */
LEAT_NODISCARD LEAT_API leat_status leat_layout_plan_create(leat_device *device, const leat_layout *dst_layout,
                                                            size_t dst_align, const leat_layout *src_layout,
                                                            size_t src_align, leat_layout_plan **plan);

/* leat_copy_layout() with a plan. Errors: as leat_copy_layout(); INVALID also if a pointer has less alignment than
 * the plan requires. */
LEAT_NODISCARD LEAT_API leat_status leat_layout_plan_copy(leat_stream *stream, const leat_layout_plan *plan,
                                                          void *dst, const void *src);

/* Returns the class and the bound of a plan. Errors: HANDLE, INVALID (info NULL, or its size). */
LEAT_NODISCARD LEAT_API leat_status leat_layout_plan_get_info(const leat_layout_plan *plan,
                                                              leat_layout_plan_info *info);

/* Writes a plan as text: its class, tile, kernel, and the bound. text_bytes: the size of text, including the
 * terminating 0; longer output is truncated. Errors: HANDLE, INVALID (text NULL or text_bytes 0). */
LEAT_NODISCARD LEAT_API leat_status leat_layout_plan_explain(const leat_layout_plan *plan, char *text,
                                                             size_t text_bytes);

/* Destroys a plan. NULL does nothing. Errors: HANDLE. */
LEAT_API leat_status leat_layout_plan_destroy(leat_layout_plan *plan);

#ifndef LEAT_NO_EXPERIMENTAL /* may still change: see leat/version.h */

/* ---- conversions ------------------------------------------------------------------------------------------ */

/* The type of an element that is converted. */
typedef enum leat_number {
    LEAT_NUMBER_BITS = 0, /* 2, 4 or 8 bytes that stay the same, apart from their order */
    LEAT_NUMBER_U8 = 1,   /* an unsigned byte; only for sources */
    LEAT_NUMBER_F16 = 2,  /* IEEE half: 1 sign bit, 5 bits of exponent, 10 of fraction */
    LEAT_NUMBER_BF16 = 3, /* bfloat16: the upper half of an F32 */
    LEAT_NUMBER_F32 = 4   /* IEEE single */
} leat_number;

/* Returns the name of a type: "bits", "u8", "f16", "bf16" or "f32"; "unknown" for another number. */
LEAT_API const char *leat_number_name(leat_number number);

#define LEAT_CONVERT_SWAP_SRC 1u      /* the bytes of each element of src are in reverse order */
#define LEAT_CONVERT_SWAP_DST 2u      /* the bytes of each element of dst are to be in reverse order */
#define LEAT_CONVERT_MAX_CHANNELS 256 /* maximum number of scales and biases of a call */

/* Says what leat_copy_convert() does to each element on its way. */
typedef struct leat_conversion {
    size_t size;     /* sizeof(leat_conversion): leat/base.h */
    leat_number dst; /* type of the elements of dst */
    leat_number src; /* type of the elements of src; BITS if and only if dst is BITS */
    uint32_t flags;  /* LEAT_CONVERT_SWAP_SRC, LEAT_CONVERT_SWAP_DST */

    /* Number of entries of scale and bias, 0 to LEAT_CONVERT_MAX_CHANNELS. If it is above 0, it is the size of
     * dimension channel_dim, and element i of that dimension uses scale[i] and bias[i]. If it is 0, all elements
     * use scale[0] and bias[0]. */
    uint32_t channels;
    uint32_t channel_dim;
    const float *scale; /* in host memory, finite; NULL: 1 */
    const float *bias;  /* in host memory, finite; NULL: nothing is added */
} leat_conversion;
#define LEAT_CONVERSION_INIT LEAT_SIZED_INIT_(leat_conversion)

/*
 * leat_copy_layout() that converts each element on the way, in the same pass over memory. element_bytes of each
 * layout is the size of that side's type. One call makes normalized planes of halves from decoded images, pixels
 * of bytes, where subtracting a mean and dividing by a deviation is scale[c] = 1 / (255 * deviation[c]) and
 * bias[c] = -mean[c] / deviation[c]:
 *
 *     leat_layout_dense(&pixels, 4, (int64_t[]){images, height, width, 3}, 1);
 *     leat_layout_permute(&pixels, (uint32_t[]){0, 3, 1, 2});       // a view: images, channels, height, width
 *     leat_layout_dense(&planes, 4, pixels.size, 2);
 *     c.dst = LEAT_NUMBER_F16, c.src = LEAT_NUMBER_U8, c.channels = 3, c.channel_dim = 1;
 *     c.scale = scale, c.bias = bias;
 *     leat_copy_convert(stream, dst, &planes, src, &pixels, &c);
 *
 * Result. All devices and processors give the same bits:
 *  1. The bytes are reversed with LEAT_CONVERT_SWAP_SRC. The number becomes an F32, without a loss.
 *  2. It is multiplied by the scale, and the product is rounded to F32; the bias is added, and the sum is rounded
 *     to F32. These are two operations, not a fused multiply-add. Subnormal numbers are kept.
 *  3. The sum is rounded to the type of dst. A number that is too large becomes infinity.
 *  4. The bytes are reversed with LEAT_CONVERT_SWAP_DST.
 * Each rounding is to nearest, ties to even. A NaN of src stays a NaN, with its sign and the upper bits of its
 * fraction, and becomes quiet. If the arithmetic makes a NaN, as infinity * 0 does, it is the positive quiet NaN
 * without other bits. BITS are only moved and reversed; they take no scale or bias.
 *
 * leat reads conversion, scale and bias before the call returns. Elements must lie at multiples of their size on
 * both sides. Between a host and a device the unconverted elements cross the link if src is in pageable memory,
 * and the converted ones if dst is. Errors: as leat_copy_layout(), but element_bytes must match the types instead
 * of each other; INVALID also for a conversion that is NULL or not valid (size, types, flags, channels,
 * channel_dim, a scale or bias that is not finite, BITS with a scale or bias, or of 1 byte) and for elements that
 * do not lie at multiples of their size; UNSUPPORTED also for a layout with an index list, and on a GPU for more
 * than 2^31 rows (leat_copy_layout() can bring the elements into another order first).
 */
LEAT_NODISCARD LEAT_API leat_status leat_copy_convert(leat_stream *stream, void *dst,
                                                      const leat_layout *dst_layout, const void *src,
                                                      const leat_layout *src_layout,
                                                      const leat_conversion *conversion);

/* ---- many copies in one launch ---------------------------------------------------------------------------- */

/* One copy of leat_copy_layouts(). Does not grow: it is an element of an array. */
typedef struct leat_layout_copy {
    void *dst;
    const void *src;
    const leat_layout *dst_layout, *src_layout; /* may be those of other elements too */
    const leat_conversion *conversion;          /* as for leat_copy_convert(); NULL: nothing is converted */
} leat_layout_copy;

/*
 * Makes count copies in stream order as if they were one: none runs before earlier work of the stream, later work
 * waits for all of them, and they have no order among themselves. A data loader copies its images with one call
 * from their buffers to the places of one array:
 *
 *     for (i = 0; i < images; i++)
 *         copies[i] = (leat_layout_copy){.dst = batch + i * image_bytes, .dst_layout = &planes,
 *                                        .src = decoded[i], .src_layout = &pixels};
 *     leat_copy_layouts(stream, copies, images);
 *
 * On one device, copies whose layouts, conversions and alignments are the same, with whatever pointers, are made
 * in common launches of up to about 60 copies. This is so for pixels, rows, conversions and most short lines;
 * larger transposes, which need other kernels, and all copies that have an index list or that involve pageable
 * memory or another device, are made one by one as leat_copy_layout() and leat_copy_convert() make them.
 *
 * leat reads copies, layouts and conversions before the call returns. A copy of which a size is 0 does nothing,
 * whatever its pointers are; count 0 does nothing. A destination must not overlap another copy's source or
 * destination; leat does not check this.
 *
 * Errors: as leat_copy_layout(), or leat_copy_convert() for copies that convert, with the number of the copy in
 * the message; INVALID (copies NULL); HOST_MEMORY. After an error nothing was copied, except after DEVICE_LOST,
 * DRIVER, HOST_MEMORY, and POINTER for partly unmapped pageable memory: then all destinations are undefined.
 */
LEAT_NODISCARD LEAT_API leat_status leat_copy_layouts(leat_stream *stream, const leat_layout_copy *copies,
                                                      size_t count);

/* ---- copies in words --------------------------------------------------------------------------------------- */

/* Describes how leat_copy_layout() would make this copy now, and copies nothing: the route of the bytes, and the
 * plan. text_bytes: as leat_layout_plan_explain().
 * Errors: as leat_copy_layout(); INVALID (text NULL or text_bytes 0). */
LEAT_NODISCARD LEAT_API leat_status leat_copy_layout_explain(leat_stream *stream, void *dst,
                                                             const leat_layout *dst_layout, const void *src,
                                                             const leat_layout *src_layout, char *text,
                                                             size_t text_bytes);

/* leat_copy_layout_explain() for leat_copy_convert(). Errors: as leat_copy_convert(); INVALID (text NULL or
 * text_bytes 0). */
LEAT_NODISCARD LEAT_API leat_status leat_copy_convert_explain(leat_stream *stream, void *dst,
                                                              const leat_layout *dst_layout, const void *src,
                                                              const leat_layout *src_layout,
                                                              const leat_conversion *conversion, char *text,
                                                              size_t text_bytes);

#endif /* LEAT_NO_EXPERIMENTAL */

#ifdef __cplusplus
}
#endif

#endif

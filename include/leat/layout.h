/*
 * leat/layout.h - any strides to any strides: transposing, permuting, slicing, broadcasting, gathering.
 *
 * Model. A layout says where the elements of an array lie: its sizes, and for each dimension how many bytes lie
 * between neighbours. Two layouts of the same sizes, one for each side, describe a copy: element (i, j, ...) of
 * src goes to element (i, j, ...) of dst. Permuting, transposing, slicing and flipping only change a layout, take
 * no time and move nothing; leat_copy_layout() is what moves:
 *
 *     leat_layout_dense(&a, 2, (int64_t[]){rows, columns}, 4);      // as a C array lies
 *     b = a;
 *     leat_layout_transpose(&b, 0, 1);                              // a view: columns x rows, of the same bytes
 *     leat_layout_dense(&c, 2, b.size, 4);
 *     leat_copy_layout(stream, dst, &c, src, &b);                   // dst becomes the transpose of src
 *
 * Dimensions are counted from the slowest, as in C: of a dense matrix dimension 0 are the rows. Strides are in
 * bytes. On the source a stride may be 0 (broadcast: each element is read many times) and on both sides negative
 * (flip).
 *
 * How a copy is made is a plan: which class it belongs to (a plain copy, rows, a tiled transpose, a packed box, a
 * gather), and what bounds it. Plans are made at the first copy of a shape and kept, so that programs need not
 * hold any; leat_layout_plan_get() is for who wants to look at one, or to save the lookup. docs/layouts.md
 * explains them.
 *
 * Call order. As leat/copy.h: everything runs in stream order and returns at once.
 *
 * Threads. Any thread may call anything here. A layout is the caller's own plain data. Plans never change, and may
 * be used by several threads at once.
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

/* Where the elements of an array lie. Make one with leat_layout_dense(), or fill it in; what is not used is 0. */
typedef struct leat_layout {
    uint32_t dims;          /* 0 to 32; 0 is one element */
    uint32_t element_bytes; /* 1 to 16: any number, 3 and 12 too */
    int64_t offset_bytes;   /* of element (0, 0, ...) from the pointer that goes with the layout */
    int64_t size[LEAT_LAYOUT_MAX_DIMS];
    int64_t stride_bytes[LEAT_LAYOUT_MAX_DIMS];

    /* A list of indices for one dimension, or NULL: element i of index_dim is then element index[i] of what the
     * stride steps through. See leat_layout_index(). */
    const void *index;
    uint32_t index_dim;
    uint32_t index_bytes;  /* of one index, which is a signed number: 4 or 8 */
    int64_t index_bound;   /* indices are 0 to index_bound - 1 */
    uint64_t *index_wrong; /* NULL, or a counter in memory that the device can reach; see leat_layout_index() */
} leat_layout;

/* ---- making layouts: arithmetic only, no device needed ---------------------------------------------------- */

/*
 * A dense array of dims dimensions, the last of them the fastest, as C arrays lie. size may be NULL when dims is
 * 0. A size of 0 is fine: there is nothing in the array then.
 * Errors: INVALID (layout or size NULL, more than 32 dimensions, a negative size, element_bytes not 1 to 16);
 * RANGE (more bytes than an int64_t holds). Here and below, a layout is as it was when a call fails, and INVALID
 * includes a layout that is NULL or none: dims, element_bytes, sizes, or what belongs to its list.
 */
LEAT_API leat_status leat_layout_dense(leat_layout *layout, uint32_t dims, const int64_t *size,
                                       uint32_t element_bytes);

/*
 * Dimension i becomes what dimension order[i] was: {1, 0} transposes a matrix, {0, 2, 3, 1} makes NHWC of NCHW (as
 * numpy's transpose and PyTorch's permute). order has layout->dims entries, each number once; without dimensions
 * it may be NULL. A list of indices goes with its dimension.
 * Errors: INVALID.
 */
LEAT_API leat_status leat_layout_permute(leat_layout *layout, const uint32_t *order);

/* Swaps two dimensions. a == b does nothing. Errors: INVALID (a dimension that the layout does not have). */
LEAT_API leat_status leat_layout_transpose(leat_layout *layout, uint32_t a, uint32_t b);

/*
 * Keeps the elements start, start + step, ... before stop of one dimension. step may be negative: elements are
 * then start, start + step, ... above stop, and stop may be -1 for "down to the first". start == stop leaves none.
 * start and stop are from 0 to the size, with a negative step from -1 to the size less one; nothing counts from
 * the end.
 * Errors: INVALID (dim, step 0, start or stop outside the dimension, a step that leads from start away from stop,
 * a dimension with an index list); RANGE (an offset or a stride that overflows).
 */
LEAT_API leat_status leat_layout_slice(leat_layout *layout, uint32_t dim, int64_t start, int64_t stop,
                                       int64_t step);

/* Turns the order of one dimension round. Errors: INVALID (dim, a dimension with an index list); RANGE
 * (overflow). */
LEAT_API leat_status leat_layout_flip(leat_layout *layout, uint32_t dim);

/*
 * Gives a dimension of size 1 any size, by stride 0: the same element each time. For sources only.
 * Errors: INVALID (dim, its size is not 1, size negative, a dimension with an index list).
 */
LEAT_API leat_status leat_layout_broadcast(leat_layout *layout, uint32_t dim, int64_t size);

/*
 * The same elements in the same order under other sizes, without moving anything. The product of the sizes stays.
 * Of several new dimensions that a dimension with an index list could become, it becomes the first.
 * Errors: INVALID (the products differ, a negative size, more than 32 dimensions, size NULL); UNSUPPORTED (no
 * strides can say it: the elements would have to move. Copy into a dense layout first; or no new dimension has the
 * size of that with the list); RANGE (more elements than 64 bits can count).
 */
LEAT_API leat_status leat_layout_reshape(leat_layout *layout, uint32_t dims, const int64_t *size);

/*
 * Puts a list of indices on one dimension: its size becomes count, and its element i is the former element
 * index[i], which must be below the former size. On a source this gathers, on a destination it scatters; when two
 * indices of a scatter are the same, either element ends up there. A GPU keeps that for elements of 1, 2, 4, 8 and
 * 16 bytes that lie at multiples of their size; of others, parts of both may. One list a layout, and one of the two
 * layouts of a copy.
 *
 * The list stays the caller's. A list in host memory is checked and copied by each leat_copy_layout() before it
 * returns; a list in device or managed memory is read in stream order. An index that is wrong there cannot be an
 * error of the call any more: its elements are not copied (on their way from a GPU to pageable memory or to another
 * GPU they become zeros), and *wrong is increased by one for each such index, in stream order, if wrong is not NULL.
 * wrong points to 8 bytes, aligned to 8, of memory that the device reaches: device, pinned or managed memory.
 * Errors: INVALID (dim, index NULL with a count, count negative, index_bytes not 4 or 8, a list there already, a
 * list that is not aligned to index_bytes, wrong not aligned to 8).
 */
LEAT_API leat_status leat_layout_index(leat_layout *layout, uint32_t dim, const void *index, int64_t count,
                                       uint32_t index_bytes, uint64_t *wrong);

/* The elements and the bytes of them; the strides do not matter. Errors: INVALID (NULL); RANGE (more than 64 bits
 * can count). */
LEAT_API leat_status leat_layout_count(const leat_layout *layout, uint64_t *elements, uint64_t *bytes);

/* ---- copying ---------------------------------------------------------------------------------------------- */

/*
 * Copies between any two places that leat_copy() copies between, in stream order, and returns at once. The layouts
 * are read before the call returns. With a size of 0 nothing moves, whatever the pointers are. When host memory
 * may be touched again is said in leat/copy.h.
 *
 * On one device kernels do it. Between a host and a device, or two devices, elements are packed on the side where
 * that is faster and moved as one piece, through device memory from the stream's pool where it takes some.
 * The first call on a device that needs some kernel loads it, with a few of its like, which may wait for the
 * device's work; leat_module_layout() loads all of them ahead of time. A kernel may read up to 15 bytes beside an
 * element of src, never past its first or last one: what lies between those must be mapped.
 * Errors: HANDLE; INVALID (a layout is NULL or no layout: dims, element_bytes, a negative size; sizes or
 * element_bytes of the two differ; destination strides that write a byte twice, 0 included, as with a pitch below
 * the bytes of a row, or strides so interleaved that leat cannot tell; an index list on both sides, or a wrong
 * one; index_wrong where the device cannot reach it); RANGE (an index of a host list is out of bounds: the
 * message says which; sizes, strides and offsets that reach further than 2^61 bytes; elements outside of a
 * pointer's allocation); OVERLAP (a byte that is written is also read, or might be, where telling that takes too
 * long; there is no copying in place. Parts of one array that have no element in common, columns for instance, are
 * fine); UNSUPPORTED (where kernels copy: memory of another device than the stream's on both sides, or on dst with
 * gaps or a list; a list in device or managed memory between pageable memory, or that scatters into it); and those
 * of leat_copy().
 */
LEAT_API leat_status leat_copy_layout(leat_stream *stream, void *dst, const leat_layout *dst_layout,
                                      const void *src, const leat_layout *src_layout);

/* ---- plans ------------------------------------------------------------------------------------------------ */

/* How one shape is copied on one device. */
typedef struct leat_layout_plan leat_layout_plan;

/* What kind of copy a plan is. */
typedef enum leat_layout_class {
    LEAT_LAYOUT_NOTHING = 0,   /* a size is 0 */
    LEAT_LAYOUT_COPY = 1,      /* one run of bytes on both sides */
    LEAT_LAYOUT_ROWS = 2,      /* runs of bytes, the same on both sides */
    LEAT_LAYOUT_TRANSPOSE = 3, /* the dense dimensions differ: tiles */
    LEAT_LAYOUT_BOX = 4,       /* the dense dimensions are short: several of them together are a tile */
    LEAT_LAYOUT_GATHER = 5,    /* rows by an index list */
    LEAT_LAYOUT_FILL = 6,      /* short sources that are read again and again */
    LEAT_LAYOUT_ELEMENTS = 7   /* no dense dimension: one element at a time */
} leat_layout_class;

/* "nothing", "copy", "rows", "transpose", "box", "gather", "fill", "elements"; "unknown" for another number. */
LEAT_API const char *leat_layout_class_name(leat_layout_class class_of_plan);

typedef struct leat_layout_plan_info {
    leat_layout_class class_of_plan;
    uint64_t payload_bytes; /* elements times their bytes */
    /* The bound: pieces of 32 bytes, in which memory is read and written, that the copy cannot do without, for
     * pointers at the start of one. What is read again counts once. For an index list as if its rows were all
     * different and apart, or all rows if those are fewer; the list itself is not counted. */
    uint64_t read_sectors, written_sectors;
} leat_layout_plan_info;

/*
 * The plan for copies between these layouts on device, for pointers that are aligned to dst_align and src_align
 * bytes at least (powers of two; more than 16 is as good as 16): a new one, or the one that was kept. The offsets
 * of the layouts and the list of an index are part of it: those of the copies are the plan's. Ended by
 * leat_layout_plan_free().
 * Errors: HANDLE; INVALID, RANGE (as leat_copy_layout(), and plan NULL, alignments); HOST_MEMORY.
 */
LEAT_API leat_status leat_layout_plan_get(leat_device *device, const leat_layout *dst_layout, size_t dst_align,
                                          const leat_layout *src_layout, size_t src_align,
                                          leat_layout_plan **plan);

/* leat_copy_layout() by a plan. Errors: the same; INVALID (a pointer is aligned to less than the plan is for). */
LEAT_API leat_status leat_layout_plan_copy(leat_stream *stream, const leat_layout_plan *plan, void *dst,
                                           const void *src);

/* Errors: HANDLE, INVALID (info NULL). */
LEAT_API leat_status leat_layout_plan_describe(const leat_layout_plan *plan, leat_layout_plan_info *info);

/* Writes the plan as text: its class, tile, kernel, and the bound. text_bytes: the room, with the closing 0; what
 * is longer is cut. Errors: HANDLE, INVALID (text NULL or text_bytes 0). */
LEAT_API leat_status leat_layout_plan_text(const leat_layout_plan *plan, char *text, size_t text_bytes);

/* Gives a plan back. NULL does nothing. Errors: HANDLE. */
LEAT_API leat_status leat_layout_plan_free(leat_layout_plan *plan);

/* Writes how leat_copy_layout() would make this copy now, and copies nothing: which way the bytes go, and the
 * plan.
 * Errors: as leat_copy_layout(); INVALID (text NULL or text_bytes 0). */
LEAT_API leat_status leat_copy_layout_explain(leat_stream *stream, void *dst, const leat_layout *dst_layout,
                                              const void *src, const leat_layout *src_layout, char *text,
                                              size_t text_bytes);

#ifdef __cplusplus
}
#endif

#endif

/* copy.h - declares how the files of libleat-hip describe the source and the destination of a 2-D or 3-D copy. */
#ifndef LEATC_HIP_COPY_H
#define LEATC_HIP_COPY_H

#include "hip/layer.h"

struct copy_side {
    char *ptr; /* address of byte 0 in row 0 of slice 0 */
    size_t pitch, slice;
    size_t x, y, z;                 /* the first element of the region; x is in bytes */
    size_t row_bytes, rows, slices; /* the size of the array; SIZE_MAX for memory whose size the caller did not
                                     * give */
    size_t element_bytes;           /* the size of an array's elements; 1 for memory */
};

/* Describes an array in which the region begins at a position. INVALID_HANDLE: not a live array. */
int leatc_hip_array_side(hipArray_const_t array, size_t x_bytes, size_t y, size_t z, struct copy_side *side);

/* Copies a region. INVALID_VALUE: it lies outside of the source or the destination. If one of its sizes is 0, the
 * call copies nothing. */
int leatc_hip_copy_region(const struct copy_side *dst, const struct copy_side *src, hipExtent bytes,
                          struct leatc_stream *stream, enum leatc_mode mode);

/* Convert the vendor's structs for 3-D copies to the engine's task, for nodes of graphs. */
int leatc_hip_region_3d(const hipMemcpy3DParms *copy, struct leatc_copy_task *task);
int leatc_hip_region_driver(const HIP_MEMCPY3D *copy, struct leatc_copy_task *task);

/* Returns the address of the bytes of a symbol at an offset. to: the symbol is the destination of the copy. */
int leatc_hip_symbol(const void *symbol, size_t offset, size_t bytes, bool to, hipMemcpyKind kind, void **ptr);

#endif

/* copy.h - one side of a copy of a 2-D or 3-D region: memory or an array. */
#ifndef LEATC_HIP_COPY_H
#define LEATC_HIP_COPY_H

#include "hip/layer.h"

struct copy_side {
    char *ptr; /* address of byte 0 in row 0 of slice 0 */
    size_t pitch, slice;
    size_t x, y, z;                 /* the first element of the region; x in bytes */
    size_t row_bytes, rows, slices; /* the size of the side; SIZE_MAX if the caller did not give it */
    size_t element_bytes;           /* 1 for memory */
};

/* Describes an array, with the region at a position in it. INVALID_HANDLE: not a live array. */
int leatc_hip_array_side(hipArray_const_t array, size_t x_bytes, size_t y, size_t z, struct copy_side *side);

/* Copies a region. INVALID_VALUE: it lies outside of a side. A region with a size of 0 copies nothing. */
int leatc_hip_copy_region(const struct copy_side *dst, const struct copy_side *src, hipExtent bytes,
                          struct leatc_stream *stream, enum leatc_mode mode);

/* Makes such a copy for a node of a graph. */
int leatc_hip_region_3d(const hipMemcpy3DParms *copy, struct leatc_copy_task *task);
int leatc_hip_region_driver(const HIP_MEMCPY3D *copy, struct leatc_copy_task *task);

/* Returns the address for a copy to or from a symbol. */
int leatc_hip_symbol(const void *symbol, size_t offset, size_t bytes, bool to, hipMemcpyKind kind, void **ptr);

#endif

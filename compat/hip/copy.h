/* copy.h - one side of a copy of a region: plain memory or an array. */
#ifndef LEATC_HIP_COPY_H
#define LEATC_HIP_COPY_H

#include "hip/layer.h"

struct copy_side {
    char *ptr; /* of byte 0, row 0, slice 0 */
    size_t pitch, slice;
    size_t x, y, z;                 /* where the region begins; x in bytes */
    size_t row_bytes, rows, slices; /* what there is; SIZE_MAX where nobody said */
    size_t element_bytes;           /* 1 in plain memory */
};

/* INVALID_HANDLE: no array that is alive. */
int leatc_hip_array_side(hipArray_const_t array, size_t x_bytes, size_t y, size_t z, struct copy_side *side);

/* INVALID_VALUE where the region lies outside of a side. Width 0, height 0 or depth 0 copies nothing. */
int leatc_hip_copy_region(const struct copy_side *dst, const struct copy_side *src, hipExtent bytes,
                          struct leatc_stream *stream, enum leatc_mode mode);

/* The same copies for nodes of graphs: all that the engine needs, and any direction. */
int leatc_hip_region_3d(const hipMemcpy3DParms *copy, struct leatc_copy_task *task);
int leatc_hip_region_driver(const HIP_MEMCPY3D *copy, struct leatc_copy_task *task);

/* Where a copy to or from a symbol begins. */
int leatc_hip_symbol(const void *symbol, size_t offset, size_t bytes, bool to, hipMemcpyKind kind, void **ptr);

#endif

/* copy.c - copies ranges and 2-D and 3-D regions, between memory and arrays, on one device or between two
 * devices. */
#include "cuda/names.h"

/* ---- ranges ---- */

static CUresult copy(void *dst, const void *src, size_t bytes, int direction, struct leatc_stream *stream,
                     enum leatc_mode mode)
{
    CU_TRY(leatcu_enter(NULL));
    return leatcu_result(leatcu_or_lost(leatc_copy(dst, src, bytes, direction, stream, mode)));
}

static CUresult copy_peer(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context,
                          size_t bytes, struct leatc_stream *stream, enum leatc_mode mode)
{
    CU_TRY(leatcu_enter(NULL));
    CU_TRY(leatcu_check_context(dst_context));
    CU_TRY(leatcu_check_context(src_context));
    return copy(leatcu_pointer(dst), leatcu_pointer(src), bytes, LEATC_DEVICE_TO_DEVICE, stream, mode);
}

/* Returns the address of the bytes of an array that begin at offset. The array must have one row. */
static CUresult array_bytes(CUarray array, size_t offset, size_t bytes, void **ptr)
{
    struct leatc_array_shape shape;
    char *start;
    void *base;
    size_t all_bytes;

    CU_TRY(leatcu_result(leatc_array_describe((struct leatc_array *)array, &shape, &base, NULL, NULL)));
    all_bytes = shape.width * shape.element_bytes;
    CU_CHECK(shape.height <= 1 && shape.depth <= 1 && offset <= all_bytes && bytes <= all_bytes - offset);
    start = base;
    *ptr = start + offset;
    return CUDA_SUCCESS;
}

static CUresult copy_to_array(CUarray array, size_t offset, const void *src, size_t bytes, int direction,
                              struct leatc_stream *stream, bool async)
{
    void *dst;

    CU_TRY(leatcu_enter(NULL));
    CU_TRY(array_bytes(array, offset, bytes, &dst));
    return copy(dst, src, bytes, direction, stream, async);
}

static CUresult copy_from_array(void *dst, CUarray array, size_t offset, size_t bytes, int direction,
                                struct leatc_stream *stream, bool async)
{
    void *src;

    CU_TRY(leatcu_enter(NULL));
    CU_TRY(array_bytes(array, offset, bytes, &src));
    return copy(dst, src, bytes, direction, stream, async);
}

static CUresult copy_arrays(CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes,
                            struct leatc_stream *stream)
{
    void *dst;

    CU_TRY(leatcu_enter(NULL));
    CU_TRY(array_bytes(to, to_offset, bytes, &dst));
    return copy_from_array(dst, from, from_offset, bytes, LEATC_DEVICE_TO_DEVICE, stream, false);
}

/* ---- 2-D and 3-D regions ---- */

/* The source or the destination of a 2-D or 3-D copy, from any of the vendor's structs. */
struct side {
    CUmemorytype type;
    const void *host;
    CUdeviceptr device;
    CUarray array;
    size_t x_bytes, y, z, lod, pitch_bytes, height;
};

struct region {
    struct side dst, src;
    size_t width_bytes, height, depth;
};

/* The address, pitch and slice size of a source or destination. */
struct steps {
    char *ptr;
    size_t pitch_bytes, slice_bytes;
};

static CUresult array_steps(const struct side *side, const struct region *region, struct steps *steps)
{
    struct leatc_array_shape shape;
    size_t row_bytes, rows, slices;
    void *base;

    CU_TRY(leatcu_result(leatc_array_describe((struct leatc_array *)side->array, &shape, &base,
                                              &steps->pitch_bytes, &steps->slice_bytes)));
    row_bytes = shape.width * shape.element_bytes;
    rows = shape.height ? shape.height : 1;
    slices = shape.depth ? shape.depth : 1;
    CU_CHECK(side->x_bytes <= row_bytes && region->width_bytes <= row_bytes - side->x_bytes);
    CU_CHECK(side->y <= rows && region->height <= rows - side->y);
    CU_CHECK(side->z <= slices && region->depth <= slices - side->z);
    steps->ptr = base;
    return CUDA_SUCCESS;
}

/* Computes the steps of a source or destination in memory. If there are several rows, the pitch must be as long as
 * a row. If there are several slices, each must have room for its rows. */
static CUresult memory_steps(const struct side *side, const struct region *region, struct steps *steps)
{
    size_t row_end, column_end;

    CU_CHECK(!__builtin_add_overflow(side->x_bytes, region->width_bytes, &row_end));
    CU_CHECK(!__builtin_add_overflow(side->y, region->height, &column_end));
    steps->ptr = side->type == CU_MEMORYTYPE_HOST ? (char *)(uintptr_t)side->host : leatcu_pointer(side->device);
    steps->pitch_bytes = side->pitch_bytes;
    CU_CHECK(steps->ptr);
    if (!side->pitch_bytes && column_end == 1 && region->depth == 1 && !side->z)
        steps->pitch_bytes = row_end;
    CU_CHECK(steps->pitch_bytes >= row_end && steps->pitch_bytes <= INT32_MAX);
    CU_CHECK((region->depth == 1 && !side->z) || side->height >= column_end);
    CU_CHECK(!__builtin_mul_overflow(steps->pitch_bytes, side->height > column_end ? side->height : column_end,
                                     &steps->slice_bytes));
    return CUDA_SUCCESS;
}

static CUresult find_steps(const struct side *side, const struct region *region, struct steps *steps)
{
    CU_CHECK(!side->lod);
    switch (side->type) {
    case CU_MEMORYTYPE_ARRAY:
        CU_TRY(array_steps(side, region, steps));
        break;
    case CU_MEMORYTYPE_HOST:
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED:
        CU_TRY(memory_steps(side, region, steps));
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    steps->ptr += side->z * steps->slice_bytes + side->y * steps->pitch_bytes + side->x_bytes;
    return CUDA_SUCCESS;
}

static int direction_of(const struct region *region)
{
    bool to_host = region->dst.type == CU_MEMORYTYPE_HOST, from_host = region->src.type == CU_MEMORYTYPE_HOST;

    if (region->dst.type == CU_MEMORYTYPE_UNIFIED || region->src.type == CU_MEMORYTYPE_UNIFIED)
        return LEATC_DEFAULT;
    if (from_host)
        return to_host ? LEATC_HOST_TO_HOST : LEATC_HOST_TO_DEVICE;
    return to_host ? LEATC_DEVICE_TO_HOST : LEATC_DEVICE_TO_DEVICE;
}

/* Converts a region to the engine's struct. The region must not be empty. */
static CUresult engine_region(const struct region *region, void **dst, void **src, leat_copy_region *made)
{
    struct steps to, from;

    CU_TRY(find_steps(&region->dst, region, &to));
    CU_TRY(find_steps(&region->src, region, &from));
    *made = (leat_copy_region){.width_bytes = region->width_bytes,
                               .height = region->height,
                               .depth = region->depth,
                               .dst_pitch_bytes = to.pitch_bytes,
                               .src_pitch_bytes = from.pitch_bytes,
                               .dst_slice_bytes = to.slice_bytes,
                               .src_slice_bytes = from.slice_bytes};
    *dst = to.ptr;
    *src = from.ptr;
    return CUDA_SUCCESS;
}

static CUresult copy_region(const struct region *region, struct leatc_stream *stream, enum leatc_mode mode)
{
    leat_copy_region wanted;
    void *dst, *src;

    CU_TRY(leatcu_enter(NULL));
    CU_TRY(leatcu_result(leatc_stream_check(stream)));
    if (!region->width_bytes || !region->height || !region->depth)
        return CUDA_SUCCESS;
    CU_TRY(engine_region(region, &dst, &src, &wanted));
    return leatcu_result(leatcu_or_lost(leatc_copy_region(dst, src, &wanted, direction_of(region), stream, mode)));
}

static CUresult copy_2d(const CUDA_MEMCPY2D *given, struct leatc_stream *stream, bool async)
{
    struct region region;

    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(given);
    region = (struct region){
        .dst = {.type = given->dstMemoryType,
                .host = given->dstHost,
                .device = given->dstDevice,
                .array = given->dstArray,
                .x_bytes = given->dstXInBytes,
                .y = given->dstY,
                .pitch_bytes = given->dstPitch},
        .src = {.type = given->srcMemoryType,
                .host = given->srcHost,
                .device = given->srcDevice,
                .array = given->srcArray,
                .x_bytes = given->srcXInBytes,
                .y = given->srcY,
                .pitch_bytes = given->srcPitch},
        .width_bytes = given->WidthInBytes,
        .height = given->Height,
        .depth = 1,
    };
    return copy_region(&region, stream, async);
}

/* Converts either of the vendor's structs for 3-D copies, which differ only in the contexts. */
#define REGION_OF(given)                                                                                          \
    {                                                                                                             \
        .dst = {.type = (given)->dstMemoryType,                                                                   \
                .host = (given)->dstHost,                                                                         \
                .device = (given)->dstDevice,                                                                     \
                .array = (given)->dstArray,                                                                       \
                .x_bytes = (given)->dstXInBytes,                                                                  \
                .y = (given)->dstY,                                                                               \
                .z = (given)->dstZ,                                                                               \
                .lod = (given)->dstLOD,                                                                           \
                .pitch_bytes = (given)->dstPitch,                                                                 \
                .height = (given)->dstHeight},                                                                    \
        .src = {.type = (given)->srcMemoryType,                                                                   \
                .host = (given)->srcHost,                                                                         \
                .device = (given)->srcDevice,                                                                     \
                .array = (given)->srcArray,                                                                       \
                .x_bytes = (given)->srcXInBytes,                                                                  \
                .y = (given)->srcY,                                                                               \
                .z = (given)->srcZ,                                                                               \
                .lod = (given)->srcLOD,                                                                           \
                .pitch_bytes = (given)->srcPitch,                                                                 \
                .height = (given)->srcHeight},                                                                    \
        .width_bytes = (given)->WidthInBytes, .height = (given)->Height, .depth = (given)->Depth                  \
    }

CUresult leatcu_region_3d(const CUDA_MEMCPY3D *given, void **dst, void **src, leat_copy_region *region,
                          int *direction)
{
    struct region wanted = REGION_OF(given);

    CU_CHECK(wanted.width_bytes && wanted.height && wanted.depth);
    *direction = direction_of(&wanted);
    return engine_region(&wanted, dst, src, region);
}

/* ---- copies of a batch ---- */

/* Sets *unit to the size of the elements that a copy counts: those of the array if the operand is an array. */
static CUresult find_unit(const CUmemcpy3DOperand *operand, size_t *unit)
{
    struct leatc_array_shape shape;
    void *base;

    if (operand->type == CU_MEMCPY_OPERAND_TYPE_POINTER)
        return CUDA_SUCCESS;
    CU_CHECK(operand->type == CU_MEMCPY_OPERAND_TYPE_ARRAY);
    CU_TRY(leatcu_result(
        leatc_array_describe((struct leatc_array *)operand->op.array.array, &shape, &base, NULL, NULL)));
    CU_CHECK(*unit == 1 || *unit == shape.element_bytes);
    *unit = shape.element_bytes;
    return CUDA_SUCCESS;
}

/* Converts an operand, whose row length and layer height of 0 mean those of the copy. */
static CUresult side_of(const CUmemcpy3DOperand *operand, const CUextent3D *extent, size_t unit, struct side *side)
{
    size_t row = operand->op.ptr.rowLength, rows = operand->op.ptr.layerHeight;

    if (operand->type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
        *side = (struct side){.type = CU_MEMORYTYPE_ARRAY,
                              .array = operand->op.array.array,
                              .y = operand->op.array.offset.y,
                              .z = operand->op.array.offset.z};
        CU_CHECK(!__builtin_mul_overflow(operand->op.array.offset.x, unit, &side->x_bytes));
        return CUDA_SUCCESS;
    }
    CU_CHECK(operand->op.ptr.ptr && (!row || row >= extent->width) && (!rows || rows >= extent->height));
    *side = (struct side){
        .type = CU_MEMORYTYPE_UNIFIED, .device = operand->op.ptr.ptr, .height = rows ? rows : extent->height};
    CU_CHECK(!__builtin_mul_overflow(row ? row : extent->width, unit, &side->pitch_bytes));
    return CUDA_SUCCESS;
}

/* Makes one copy of a batch. The caller has checked the stream and the order of the source's accesses. */
CUresult leatcu_copy_operation(const CUDA_MEMCPY3D_BATCH_OP *operation, struct leatc_stream *stream)
{
    const CUextent3D *extent = &operation->extent;
    struct region region = {.height = extent->height, .depth = extent->depth};
    size_t unit = 1;

    CU_CHECK(extent->width && extent->height && extent->depth);
    CU_TRY(find_unit(&operation->src, &unit));
    CU_TRY(find_unit(&operation->dst, &unit));
    CU_CHECK(!__builtin_mul_overflow(extent->width, unit, &region.width_bytes));
    CU_TRY(side_of(&operation->src, extent, unit, &region.src));
    CU_TRY(side_of(&operation->dst, extent, unit, &region.dst));
    return copy_region(&region, stream, true);
}

static CUresult copy_3d(const CUDA_MEMCPY3D *given, struct leatc_stream *stream, bool async)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(given);
    return copy_region(&(struct region)REGION_OF(given), stream, async);
}

static CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER *given, struct leatc_stream *stream, enum leatc_mode mode)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(given);
    CU_TRY(leatcu_check_context(given->dstContext));
    CU_TRY(leatcu_check_context(given->srcContext));
    return copy_region(&(struct region)REGION_OF(given), stream, mode);
}

/* ---- exported functions ---- */

#define HTOD LEATC_HOST_TO_DEVICE
#define DTOH LEATC_DEVICE_TO_HOST
#define DTOD LEATC_DEVICE_TO_DEVICE
#define PTR leatcu_pointer

BOTH_SYNC(cuMemcpy, cuMemcpy_ptds, (CUdeviceptr dst, CUdeviceptr src, size_t bytes),
          copy(PTR(dst), PTR(src), bytes, LEATC_DEFAULT, on, false))
BOTH_SYNC(cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds, (CUdeviceptr dst, const void *src, size_t bytes),
          copy(PTR(dst), src, bytes, HTOD, on, false))
BOTH_SYNC(cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds, (void *dst, CUdeviceptr src, size_t bytes),
          copy(dst, PTR(src), bytes, DTOH, on, false))
BOTH_SYNC(cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds, (CUdeviceptr dst, CUdeviceptr src, size_t bytes),
          copy(PTR(dst), PTR(src), bytes, DTOD, on, false))
BOTH_SYNC(cuMemcpyPeer, cuMemcpyPeer_ptds,
          (CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context, size_t bytes),
          copy_peer(dst, dst_context, src, src_context, bytes, on, LEATC_PEER))
BOTH_SYNC(cuMemcpyDtoA_v2, cuMemcpyDtoA_v2_ptds, (CUarray dst, size_t offset, CUdeviceptr src, size_t bytes),
          copy_to_array(dst, offset, PTR(src), bytes, DTOD, on, false))
BOTH_SYNC(cuMemcpyAtoD_v2, cuMemcpyAtoD_v2_ptds, (CUdeviceptr dst, CUarray src, size_t offset, size_t bytes),
          copy_from_array(PTR(dst), src, offset, bytes, DTOD, on, false))
BOTH_SYNC(cuMemcpyHtoA_v2, cuMemcpyHtoA_v2_ptds, (CUarray dst, size_t offset, const void *src, size_t bytes),
          copy_to_array(dst, offset, src, bytes, HTOD, on, false))
BOTH_SYNC(cuMemcpyAtoH_v2, cuMemcpyAtoH_v2_ptds, (void *dst, CUarray src, size_t offset, size_t bytes),
          copy_from_array(dst, src, offset, bytes, DTOH, on, false))
BOTH_SYNC(cuMemcpyAtoA_v2, cuMemcpyAtoA_v2_ptds,
          (CUarray dst, size_t dst_offset, CUarray src, size_t src_offset, size_t bytes),
          copy_arrays(dst, dst_offset, src, src_offset, bytes, on))
BOTH_SYNC(cuMemcpy2D_v2, cuMemcpy2D_v2_ptds, (const CUDA_MEMCPY2D *region), copy_2d(region, on, false))
BOTH_SYNC(cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds, (const CUDA_MEMCPY2D *region),
          copy_2d(region, on, false))
BOTH_SYNC(cuMemcpy3D_v2, cuMemcpy3D_v2_ptds, (const CUDA_MEMCPY3D *region), copy_3d(region, on, false))
BOTH_SYNC(cuMemcpy3DPeer, cuMemcpy3DPeer_ptds, (const CUDA_MEMCPY3D_PEER *region),
          copy_3d_peer(region, on, LEATC_PEER))

BOTH(cuMemcpyAsync, cuMemcpyAsync_ptsz, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream),
     copy(PTR(dst), PTR(src), bytes, LEATC_DEFAULT, on, true))
BOTH(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz,
     (CUdeviceptr dst, const void *src, size_t bytes, CUstream stream), copy(PTR(dst), src, bytes, HTOD, on, true))
BOTH(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz, (void *dst, CUdeviceptr src, size_t bytes, CUstream stream),
     copy(dst, PTR(src), bytes, DTOH, on, true))
BOTH(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz,
     (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream),
     copy(PTR(dst), PTR(src), bytes, DTOD, on, true))
BOTH(cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz,
     (CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context, size_t bytes,
      CUstream stream),
     copy_peer(dst, dst_context, src, src_context, bytes, on, LEATC_ASYNC))
BOTH(cuMemcpyHtoAAsync_v2, cuMemcpyHtoAAsync_v2_ptsz,
     (CUarray dst, size_t offset, const void *src, size_t bytes, CUstream stream),
     copy_to_array(dst, offset, src, bytes, HTOD, on, true))
BOTH(cuMemcpyAtoHAsync_v2, cuMemcpyAtoHAsync_v2_ptsz,
     (void *dst, CUarray src, size_t offset, size_t bytes, CUstream stream),
     copy_from_array(dst, src, offset, bytes, DTOH, on, true))
BOTH(cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz, (const CUDA_MEMCPY2D *region, CUstream stream),
     copy_2d(region, on, true))
BOTH(cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz, (const CUDA_MEMCPY3D *region, CUstream stream),
     copy_3d(region, on, true))
BOTH(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz, (const CUDA_MEMCPY3D_PEER *region, CUstream stream),
     copy_3d_peer(region, on, LEATC_ASYNC))

/* ---- fills ---- */

static CUresult fill(CUdeviceptr dst, uint32_t value, unsigned unit_bytes, size_t count,
                     struct leatc_stream *stream, bool async)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(dst % unit_bytes == 0 && (dst || !count));
    return leatcu_result(leatcu_or_lost(leatc_fill(PTR(dst), value, unit_bytes, count, stream, async)));
}

static CUresult fill_2d(CUdeviceptr dst, size_t pitch_bytes, uint32_t value, unsigned unit_bytes, size_t width,
                        size_t height, struct leatc_stream *stream, bool async)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(dst % unit_bytes == 0 && pitch_bytes % unit_bytes == 0 && (dst || !width || !height));
    return leatcu_result(leatcu_or_lost(
        leatc_fill_region(PTR(dst), pitch_bytes, 0, value, unit_bytes, width, height, 1, stream, async)));
}

#define FILLS(bits, type)                                                                                         \
    BOTH_SYNC(cuMemsetD##bits##_v2, cuMemsetD##bits##_v2_ptds, (CUdeviceptr dst, type value, size_t count),       \
              fill(dst, value, bits / 8, count, on, false))                                                       \
    BOTH(cuMemsetD##bits##Async, cuMemsetD##bits##Async_ptsz,                                                     \
         (CUdeviceptr dst, type value, size_t count, CUstream stream),                                            \
         fill(dst, value, bits / 8, count, on, true))                                                             \
    BOTH_SYNC(cuMemsetD2D##bits##_v2, cuMemsetD2D##bits##_v2_ptds,                                                \
              (CUdeviceptr dst, size_t pitch, type value, size_t width, size_t height),                           \
              fill_2d(dst, pitch, value, bits / 8, width, height, on, false))                                     \
    BOTH(cuMemsetD2D##bits##Async, cuMemsetD2D##bits##Async_ptsz,                                                 \
         (CUdeviceptr dst, size_t pitch, type value, size_t width, size_t height, CUstream stream),               \
         fill_2d(dst, pitch, value, bits / 8, width, height, on, true))
FILLS(8, unsigned char)
FILLS(16, unsigned short)
FILLS(32, unsigned int)

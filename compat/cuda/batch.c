/* batch.c - implements calls that make several copies at once. */
#include "cuda/names.h"

/* Checks the attributes of copies. They are hints about when the source may be read, and have no effect. Attribute
 * i applies to the copies from indexes[i] up to the next index. */
static CUresult check_attributes(const CUmemcpyAttributes *attributes, const size_t *indexes,
                                 size_t attribute_count, size_t count)
{
    CU_CHECK(attributes && indexes && attribute_count && attribute_count <= count && !indexes[0]);
    for (size_t i = 0; i < attribute_count; i++) {
        CU_CHECK(i == 0 || (indexes[i] > indexes[i - 1] && indexes[i] < count));
        CU_CHECK(attributes[i].srcAccessOrder >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM &&
                 attributes[i].srcAccessOrder <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY);
        CU_CHECK(!(attributes[i].flags & ~(unsigned)CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE));
    }
    return CUDA_SUCCESS;
}

static CUresult copy_ranges(const CUdeviceptr *dsts, const CUdeviceptr *srcs, const size_t *sizes, size_t count,
                            struct leatc_stream *on, size_t *failed)
{
    for (size_t i = 0; i < count; i++) {
        CUresult result = dsts[i] && srcs[i] && sizes[i]
                              ? leatcu_result(leatc_copy(leatcu_pointer(dsts[i]), leatcu_pointer(srcs[i]),
                                                         sizes[i], LEATC_DEFAULT, on, true))
                              : CUDA_ERROR_INVALID_VALUE;

        if (result != CUDA_SUCCESS) {
            *failed = i;
            return result;
        }
    }
    return CUDA_SUCCESS;
}

/* Makes a batch of copies. CUDA does not allow the legacy default stream for batches. */
static CUresult copy_batch(const CUdeviceptr *dsts, const CUdeviceptr *srcs, const size_t *sizes, size_t count,
                           const CUmemcpyAttributes *attributes, const size_t *indexes, size_t attribute_count,
                           size_t *failed_index, struct leatc_stream *on)
{
    size_t failed = SIZE_MAX;
    CUresult result;

    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(dsts && srcs && sizes && count && on && on != LEATC_STREAM_LEGACY);
    CU_TRY(check_attributes(attributes, indexes, attribute_count, count));
    CU_TRY(leatcu_result(leatc_stream_check(on)));
    result = copy_ranges(dsts, srcs, sizes, count, on, &failed);
    if (result != CUDA_SUCCESS && failed_index)
        *failed_index = failed;
    return result;
}

static CUresult check_order(CUmemcpySrcAccessOrder order, unsigned flags)
{
    CU_CHECK(order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY);
    CU_CHECK(!(flags & ~(unsigned)CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE));
    return CUDA_SUCCESS;
}

/* Makes a batch of 3-D copies. *failed_index: the copy that failed, or SIZE_MAX if the batch as a whole is
 * invalid. */
static CUresult copy_3d_batch(size_t count, const CUDA_MEMCPY3D_BATCH_OP *operations, size_t *failed_index,
                              unsigned long long flags, struct leatc_stream *on)
{
    CUresult result = CUDA_SUCCESS;
    size_t failed = SIZE_MAX;

    CU_TRY(leatcu_enter(NULL));
    if (!count || !operations || flags || !on || on == LEATC_STREAM_LEGACY)
        result = CUDA_ERROR_INVALID_VALUE;
    else
        result = leatcu_result(leatc_stream_check(on));
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
        failed = i;
        result = check_order(operations[i].srcAccessOrder, operations[i].flags);
        if (result == CUDA_SUCCESS)
            result = leatcu_copy_operation(&operations[i], on);
    }
    if (result != CUDA_SUCCESS && failed_index)
        *failed_index = failed;
    return result;
}

/* A single copy with attributes may use any stream. */
static CUresult copy_with(CUdeviceptr dst, CUdeviceptr src, size_t bytes, const CUmemcpyAttributes *attributes,
                          struct leatc_stream *on)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(attributes);
    CU_TRY(check_order(attributes->srcAccessOrder, attributes->flags));
    return leatcu_result(leatc_copy(leatcu_pointer(dst), leatcu_pointer(src), bytes, LEATC_DEFAULT, on, true));
}

static CUresult copy_3d_with(const CUDA_MEMCPY3D_BATCH_OP *operation, unsigned long long flags,
                             struct leatc_stream *on)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(operation && !flags);
    CU_TRY(check_order(operation->srcAccessOrder, operation->flags));
    return leatcu_copy_operation(operation, on);
}

// clang-format off
BOTH(cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync_ptsz,
     (size_t count, CUDA_MEMCPY3D_BATCH_OP *operations, size_t *failed_index, unsigned long long flags,
      CUstream stream),
     copy_3d_batch(count, operations, failed_index, flags, on))
BOTH(cuMemcpy3DBatchAsync_v2, cuMemcpy3DBatchAsync_v2_ptsz,
     (size_t count, CUDA_MEMCPY3D_BATCH_OP *operations, unsigned long long flags, CUstream stream),
     copy_3d_batch(count, operations, NULL, flags, on))
BOTH(cuMemcpyWithAttributesAsync, cuMemcpyWithAttributesAsync_ptsz,
     (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUmemcpyAttributes *attributes, CUstream stream),
     copy_with(dst, src, bytes, attributes, on))
BOTH(cuMemcpy3DWithAttributesAsync, cuMemcpy3DWithAttributesAsync_ptsz,
     (CUDA_MEMCPY3D_BATCH_OP *operation, unsigned long long flags, CUstream stream),
     copy_3d_with(operation, flags, on))
BOTH(cuMemcpyBatchAsync, cuMemcpyBatchAsync_ptsz,
     (CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attributes,
      size_t *indexes, size_t attribute_count, size_t *failed_index, CUstream stream),
     copy_batch(dsts, srcs, sizes, count, attributes, indexes, attribute_count, failed_index, on))
BOTH(cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync_v2_ptsz,
     (CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attributes,
      size_t *indexes, size_t attribute_count, CUstream stream),
     copy_batch(dsts, srcs, sizes, count, attributes, indexes, attribute_count, NULL, on))
// clang-format on

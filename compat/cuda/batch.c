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

// clang-format off
BOTH(cuMemcpyBatchAsync, cuMemcpyBatchAsync_ptsz,
     (CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attributes,
      size_t *indexes, size_t attribute_count, size_t *failed_index, CUstream stream),
     copy_batch(dsts, srcs, sizes, count, attributes, indexes, attribute_count, failed_index, on))
BOTH(cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync_v2_ptsz,
     (CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attributes,
      size_t *indexes, size_t attribute_count, CUstream stream),
     copy_batch(dsts, srcs, sizes, count, attributes, indexes, attribute_count, NULL, on))
// clang-format on

/* batch.c - implements calls that make several copies or prefetches at once. */
#include "cudart/cudart.h"

_Thread_local size_t cudart_failed_copy;

/* Checks a list of indexes. Entry i of the attributes or locations applies to the elements from indexes[i] up to
 * the next index. So the first index must be 0, and the indexes must increase. */
static bool indexes_rise(const size_t *indexes, size_t index_count, size_t count)
{
    if (!indexes || !index_count || index_count > count || indexes[0])
        return false;
    for (size_t i = 1; i < index_count; i++)
        if (indexes[i] <= indexes[i - 1] || indexes[i] >= count)
            return false;
    return true;
}

/* ---- copies ---- */

static bool order_is_valid(enum cudaMemcpySrcAccessOrder order)
{
    return order >= cudaMemcpySrcAccessOrderStream && order <= cudaMemcpySrcAccessOrderAny;
}

/* Checks the attributes of copies. They are hints about when the source may be read. They have no effect, because
 * a pageable source has always been read when the call returns. */
static int check_attributes(const struct cudaMemcpyAttributes *attributes, const size_t *indexes,
                            size_t attribute_count, size_t count)
{
    if (!attributes || !indexes_rise(indexes, attribute_count, count))
        return LEATC_INVALID_VALUE;
    for (size_t i = 0; i < attribute_count; i++)
        if (!order_is_valid(attributes[i].srcAccessOrder) ||
            attributes[i].flags & ~(unsigned)cudaMemcpyFlagPreferOverlapWithCompute)
            return LEATC_INVALID_VALUE;
    return LEATC_OK;
}

/* Refuses the legacy default stream, which CUDA does not allow for batches. */
static int check_stream(struct leatc_stream *stream)
{
    return !stream || stream == LEATC_STREAM_LEGACY ? LEATC_INVALID_VALUE : leatc_stream_check(stream);
}

static int copy_ranges(void *const *dsts, const void *const *srcs, const size_t *sizes, size_t count,
                       const struct cudaMemcpyAttributes *attributes, const size_t *indexes,
                       size_t attribute_count, struct leatc_stream *stream)
{
    cudart_failed_copy = SIZE_MAX;
    if (!dsts || !srcs || !sizes || !count)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(check_attributes(attributes, indexes, attribute_count, count));
    LEATC_TRY(check_stream(stream));
    for (size_t i = 0; i < count; i++)
        if (!dsts[i] || !srcs[i] || !sizes[i]) {
            cudart_failed_copy = i;
            return LEATC_INVALID_VALUE;
        }
    for (size_t i = 0; i < count; i++) {
        cudart_failed_copy = i;
        LEATC_TRY(leatc_copy(dsts[i], srcs[i], sizes[i], LEATC_DEFAULT, stream, true));
    }
    return LEATC_OK;
}

FORWARD_STREAM(cudaMemcpyBatchAsync, cudaMemcpyBatchAsync_ptsz,
               (void *const *dsts, const void *const *srcs, const size_t *sizes, size_t count,
                struct cudaMemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, cudaStream_t stream),
               copy_ranges(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, on))

/* Returns the size of the elements that a copy counts: those of the array if the operand is an array. */
static int unit_of(const struct cudaMemcpy3DOperand *operand, size_t *unit)
{
    struct end end;

    if (operand->type == cudaMemcpyOperandTypePointer)
        return LEATC_OK;
    if (operand->type != cudaMemcpyOperandTypeArray || !operand->op.array.array)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(cudart_array_end(operand->op.array.array, 0, 0, 0, &end));
    if (*unit != 1 && *unit != end.element_bytes)
        return LEATC_INVALID_VALUE;
    *unit = end.element_bytes;
    return LEATC_OK;
}

static int end_of(const struct cudaMemcpy3DOperand *operand, struct cudaExtent extent, size_t unit,
                  struct end *end)
{
    size_t row = operand->op.ptr.rowLength, rows = operand->op.ptr.layerHeight, x_bytes;

    if (operand->type == cudaMemcpyOperandTypeArray)
        return __builtin_mul_overflow(operand->op.array.offset.x, unit, &x_bytes)
                   ? LEATC_INVALID_VALUE
                   : cudart_array_end(operand->op.array.array, x_bytes, operand->op.array.offset.y,
                                      operand->op.array.offset.z, end);
    if (!operand->op.ptr.ptr || (row && row < extent.width) || (rows && rows < extent.height))
        return LEATC_INVALID_VALUE;
    *end = (struct end){.ptr = operand->op.ptr.ptr};
    return __builtin_mul_overflow(row ? row : extent.width, unit, &end->pitch) ||
                   __builtin_mul_overflow(end->pitch, rows ? rows : extent.height, &end->slice)
               ? LEATC_INVALID_VALUE
               : LEATC_OK;
}

static int copy_region(const struct cudaMemcpy3DBatchOp *copy, struct leatc_stream *stream)
{
    struct end dst, src;
    size_t unit = 1, width;

    if (!order_is_valid(copy->srcAccessOrder) || !copy->extent.width || !copy->extent.height ||
        !copy->extent.depth)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(unit_of(&copy->src, &unit));
    LEATC_TRY(unit_of(&copy->dst, &unit));
    LEATC_TRY(end_of(&copy->src, copy->extent, unit, &src));
    LEATC_TRY(end_of(&copy->dst, copy->extent, unit, &dst));
    if (__builtin_mul_overflow(copy->extent.width, unit, &width))
        return LEATC_INVALID_VALUE;
    return cudart_copy_ends(&dst, &src, width, copy->extent.height, copy->extent.depth, cudaMemcpyDefault, stream,
                            true);
}

static int copy_regions(size_t count, const struct cudaMemcpy3DBatchOp *copies, unsigned long long flags,
                        struct leatc_stream *stream)
{
    cudart_failed_copy = SIZE_MAX;
    LEATC_TRY(count && copies && !flags ? check_stream(stream) : LEATC_INVALID_VALUE);
    for (size_t i = 0; i < count; i++) {
        cudart_failed_copy = i;
        LEATC_TRY(copy_region(&copies[i], stream));
    }
    return LEATC_OK;
}

FORWARD_STREAM(cudaMemcpy3DBatchAsync, cudaMemcpy3DBatchAsync_ptsz,
               (size_t numOps, struct cudaMemcpy3DBatchOp *opList, unsigned long long flags, cudaStream_t stream),
               copy_regions(numOps, opList, flags, on))

/* ---- prefetches ---- */

static int prefetch(void **ptrs, const size_t *sizes, size_t count, const struct cudaMemLocation *places,
                    const size_t *indexes, size_t place_count, unsigned long long flags,
                    struct leatc_stream *stream)
{
    int ordinal = 0;

    if (!ptrs || !sizes || !count || flags || !places || !indexes_rise(indexes, place_count, count))
        return LEATC_INVALID_VALUE;
    LEATC_TRY(check_stream(stream));
    for (size_t i = 0, place = 0; i < count; i++) {
        if (place + 1 < place_count && indexes[place + 1] == i)
            place++;
        LEATC_TRY(cudart_place(places[place], &ordinal));
        LEATC_TRY(leatc_prefetch(ptrs[i], sizes[i], ordinal, stream));
    }
    return LEATC_OK;
}

FORWARD_STREAM(cudaMemPrefetchBatchAsync, cudaMemPrefetchBatchAsync_ptsz,
               (void **dptrs, size_t *sizes, size_t count, struct cudaMemLocation *prefetchLocs,
                size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags, cudaStream_t stream),
               prefetch(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, on))

/* Checks the arguments and does nothing else. CUDA allows a driver to drop the contents of discarded memory, but
 * does not require it. */
static int discard(void **ptrs, const size_t *sizes, size_t count, unsigned long long flags,
                   struct leatc_stream *stream)
{
    leat_managed_info info = LEAT_MANAGED_INFO_INIT;

    if (!ptrs || !sizes || !count || flags)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(check_stream(stream));
    for (size_t i = 0; i < count; i++)
        LEATC_TRY(leatc_managed_query(ptrs[i], sizes[i], &info));
    return LEATC_OK;
}

FORWARD_STREAM(cudaMemDiscardBatchAsync, cudaMemDiscardBatchAsync_ptsz,
               (void **dptrs, size_t *sizes, size_t count, unsigned long long flags, cudaStream_t stream),
               discard(dptrs, sizes, count, flags, on))
FORWARD_STREAM(cudaMemDiscardAndPrefetchBatchAsync, cudaMemDiscardAndPrefetchBatchAsync_ptsz,
               (void **dptrs, size_t *sizes, size_t count, struct cudaMemLocation *prefetchLocs,
                size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags, cudaStream_t stream),
               prefetch(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, on))

/* batch.c - implements calls that make several copies at once. */
#include "hip/copy.h"

/* Checks the attributes of copies, which are hints and have no effect. Attribute i applies to the copies from
 * indexes[i] up to the next index. Like AMD's runtime, accepts a call without attributes. */
static int check_attributes(const hipMemcpyAttributes *attributes, const size_t *indexes, size_t attribute_count,
                            size_t count)
{
    if (!attribute_count)
        return LEATC_OK;
    if (!attributes || !indexes || attribute_count > count || indexes[0])
        return LEATC_INVALID_VALUE;
    for (size_t i = 0; i < attribute_count; i++)
        if ((i > 0 && indexes[i] <= indexes[i - 1]) || indexes[i] >= count ||
            attributes[i].srcAccessOrder < hipMemcpySrcAccessOrderStream ||
            attributes[i].srcAccessOrder > hipMemcpySrcAccessOrderAny)
            return LEATC_INVALID_VALUE;
    return LEATC_OK;
}

static int copy_ranges(void **dsts, void **srcs, const size_t *bytes, size_t count, struct leatc_stream *stream,
                       size_t *failed)
{
    for (size_t i = 0; i < count; i++) {
        int result =
            bytes[i] ? leatc_copy(dsts[i], srcs[i], bytes[i], LEATC_DEFAULT, stream, true) : LEATC_INVALID_VALUE;

        if (result != LEATC_OK) {
            *failed = i;
            return result;
        }
    }
    return LEATC_OK;
}

hipError_t hipMemcpyBatchAsync(void **dsts, void **srcs, size_t *bytes, size_t count,
                               hipMemcpyAttributes *attributes, size_t *attributeIndexes, size_t attributeCount,
                               size_t *failedIndex, hipStream_t stream)
{
    size_t failed = SIZE_MAX;
    int result = LEATC_INVALID_VALUE;

    if (dsts && srcs && bytes && count)
        result = check_attributes(attributes, attributeIndexes, attributeCount, count);
    if (result == LEATC_OK)
        result = check_stream(stream_of(stream));
    if (result == LEATC_OK)
        result = of_stream(copy_ranges(dsts, srcs, bytes, count, stream_of(stream), &failed));
    if (failedIndex)
        *failedIndex = failed;
    return note(result);
}

/* ---- 3-D copies ---- */

/* Describes the source or the destination of a copy. unit: the size of an element in bytes. */
static int side_of(const hipMemcpy3DOperand *operand, hipExtent extent, size_t unit, struct copy_side *side)
{
    size_t row = operand->op.ptr.rowLength, rows = operand->op.ptr.layerHeight, x_bytes;

    if (operand->type == hipMemcpyOperandTypeArray)
        return __builtin_mul_overflow(operand->op.array.offset.x, unit, &x_bytes)
                   ? LEATC_INVALID_VALUE
                   : leatc_hip_array_side(operand->op.array.array, x_bytes, operand->op.array.offset.y,
                                          operand->op.array.offset.z, side);
    if (!operand->op.ptr.ptr || (row && row < extent.width) || (rows && rows < extent.height))
        return LEATC_INVALID_VALUE;
    *side = (struct copy_side){.ptr = operand->op.ptr.ptr,
                               .row_bytes = SIZE_MAX,
                               .rows = SIZE_MAX,
                               .slices = SIZE_MAX,
                               .element_bytes = 1};
    return __builtin_mul_overflow(row ? row : extent.width, unit, &side->pitch) ||
                   __builtin_mul_overflow(side->pitch, rows ? rows : extent.height, &side->slice)
               ? LEATC_INVALID_VALUE
               : LEATC_OK;
}

/* Sets *unit to the size of an array's elements, if the operand is an array. */
static int unit_of(const hipMemcpy3DOperand *operand, size_t *unit)
{
    struct copy_side side;

    if (operand->type == hipMemcpyOperandTypePointer)
        return LEATC_OK;
    if (operand->type != hipMemcpyOperandTypeArray || !operand->op.array.array)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_hip_array_side(operand->op.array.array, 0, 0, 0, &side));
    if (*unit != 1 && *unit != side.element_bytes)
        return LEATC_INVALID_VALUE;
    *unit = side.element_bytes;
    return LEATC_OK;
}

static int copy_one(const hipMemcpy3DBatchOp *copy, struct leatc_stream *stream)
{
    struct copy_side dst, src;
    hipExtent bytes = copy->extent;
    size_t unit = 1;

    if (copy->srcAccessOrder < hipMemcpySrcAccessOrderStream ||
        copy->srcAccessOrder > hipMemcpySrcAccessOrderAny || !bytes.width || !bytes.height || !bytes.depth)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(unit_of(&copy->src, &unit));
    LEATC_TRY(unit_of(&copy->dst, &unit));
    LEATC_TRY(side_of(&copy->src, copy->extent, unit, &src));
    LEATC_TRY(side_of(&copy->dst, copy->extent, unit, &dst));
    if (__builtin_mul_overflow(bytes.width, unit, &bytes.width))
        return LEATC_INVALID_VALUE;
    return leatc_hip_copy_region(&dst, &src, bytes, stream, true);
}

static int copy_regions(size_t count, const hipMemcpy3DBatchOp *copies, struct leatc_stream *stream,
                        size_t *failed)
{
    LEATC_TRY(check_stream(stream));
    for (size_t i = 0; i < count; i++) {
        int result = copy_one(&copies[i], stream);

        if (result != LEATC_OK) {
            *failed = i;
            return result;
        }
    }
    return LEATC_OK;
}

hipError_t hipMemcpy3DBatchAsync(size_t count, hipMemcpy3DBatchOp *copies, size_t *failedIndex,
                                 unsigned long long flags, hipStream_t stream)
{
    size_t failed = SIZE_MAX;
    int result =
        count && copies && !flags ? copy_regions(count, copies, stream_of(stream), &failed) : LEATC_INVALID_VALUE;

    if (failedIndex)
        *failedIndex = failed;
    return note(result);
}

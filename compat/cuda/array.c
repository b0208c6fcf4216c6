/* array.c - creates and describes arrays. Queries about mipmapped, sparse or planar arrays always give the same
 * answer, because no array is of these types. */
#include "cuda/names.h"

/* Returns the size of one channel, or 0 for an unknown format. */
static unsigned channel_bytes(CUarray_format format)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4;
    default:
        return 0;
    }
}

static enum leatc_channel_kind kind_of(CUarray_format format)
{
    if (format == CU_AD_FORMAT_HALF || format == CU_AD_FORMAT_FLOAT)
        return LEATC_CHANNEL_FLOAT;
    return format >= CU_AD_FORMAT_SIGNED_INT8 ? LEATC_CHANNEL_SIGNED : LEATC_CHANNEL_UNSIGNED;
}

/* Returns the format of an array that this API or the runtime API created. */
static CUarray_format format_of(const struct leatc_array_shape *shape)
{
    int bits = shape->channel_bits[0];
    int first =
        shape->channel_kind == LEATC_CHANNEL_SIGNED ? CU_AD_FORMAT_SIGNED_INT8 : CU_AD_FORMAT_UNSIGNED_INT8;

    if (shape->channel_kind == LEATC_CHANNEL_FLOAT)
        return bits == 16 ? CU_AD_FORMAT_HALF : CU_AD_FORMAT_FLOAT;
    return (CUarray_format)(first + (bits == 8 ? 0 : bits == 16 ? 1 : 2));
}

CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *wanted)
{
    struct leatc_array_shape shape;
    unsigned bytes;

    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(array && wanted);
    bytes = channel_bytes(wanted->Format);
    CU_CHECK(bytes && (wanted->NumChannels == 1 || wanted->NumChannels == 2 || wanted->NumChannels == 4));
    shape = (struct leatc_array_shape){.width = wanted->Width,
                                       .height = wanted->Height,
                                       .depth = wanted->Depth,
                                       .element_bytes = bytes * wanted->NumChannels,
                                       .channel_kind = (int)kind_of(wanted->Format),
                                       .flags = wanted->Flags};
    for (unsigned i = 0; i < wanted->NumChannels; i++)
        shape.channel_bits[i] = (int)bytes * 8;
    return leatcu_result(leatc_array_create(&shape, (struct leatc_array **)array));
}

CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *wanted)
{
    CUDA_ARRAY3D_DESCRIPTOR full;

    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(array && wanted);
    full = (CUDA_ARRAY3D_DESCRIPTOR){.Width = wanted->Width,
                                     .Height = wanted->Height,
                                     .Format = wanted->Format,
                                     .NumChannels = wanted->NumChannels};
    return cuArray3DCreate_v2(array, &full);
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *descriptor, CUarray array)
{
    struct leatc_array_shape shape;

    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(descriptor);
    CU_TRY(leatcu_result(leatc_array_describe((struct leatc_array *)array, &shape, NULL, NULL, NULL)));
    *descriptor = (CUDA_ARRAY3D_DESCRIPTOR){.Width = shape.width,
                                            .Height = shape.height,
                                            .Depth = shape.depth,
                                            .Format = format_of(&shape),
                                            .Flags = shape.flags};
    for (int i = 0; i < 4; i++)
        descriptor->NumChannels += shape.channel_bits[i] != 0;
    return CUDA_SUCCESS;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *descriptor, CUarray array)
{
    CUDA_ARRAY3D_DESCRIPTOR full;

    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(descriptor);
    CU_TRY(cuArray3DGetDescriptor_v2(&full, array));
    *descriptor = (CUDA_ARRAY_DESCRIPTOR){
        .Width = full.Width, .Height = full.Height, .Format = full.Format, .NumChannels = full.NumChannels};
    return CUDA_SUCCESS;
}

CUresult cuArrayDestroy(CUarray array)
{
    CU_TRY(leatcu_started());
    return array ? leatcu_result(leatc_array_destroy((struct leatc_array *)array)) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *wanted, unsigned levels)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(array && wanted && levels);
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray array)
{
    (void)array;
    CU_TRY(leatcu_started());
    return CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuMipmappedArrayGetLevel(CUarray *level_array, CUmipmappedArray array, unsigned level)
{
    (void)array, (void)level;
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(level_array);
    return CUDA_ERROR_INVALID_HANDLE;
}

/* Checks the arguments of a query that fails for every array. Returns INVALID_HANDLE if the array is not live,
 * else INVALID_VALUE. */
static CUresult ask_in_vain(const void *answer, CUarray array)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(answer);
    CU_TRY(leatcu_result(leatc_array_describe((struct leatc_array *)array, NULL, NULL, NULL, NULL)));
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuArrayGetPlane(CUarray *plane, CUarray array, unsigned index)
{
    (void)index;
    return ask_in_vain(plane, array);
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *requirements, CUarray array, CUdevice device)
{
    CU_TRY(leatcu_check_device(device));
    return ask_in_vain(requirements, array);
}

CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *properties, CUarray array)
{
    return ask_in_vain(properties, array);
}

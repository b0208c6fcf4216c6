/* array.c - creates and describes arrays. Queries about mipmapped, sparse or planar arrays always give the same
 * answer, because no array is of these types. */
#include "cudart/cudart.h"

/* Converts a result: for an array that is not live, CUDA returns the result for invalid values. */
static int of_array(int result)
{
    return result == LEATC_INVALID_HANDLE ? LEATC_INVALID_VALUE : result;
}

/* Returns the size of an element in bytes. Returns 0 unless the element has 1, 2 or 4 channels of the same size:
 * 8, 16 or 32 bits. */
static unsigned element_bytes(const struct cudaChannelFormatDesc *desc)
{
    int channels = (desc->x > 0) + (desc->y > 0) + (desc->z > 0) + (desc->w > 0);

    if ((desc->x != 8 && desc->x != 16 && desc->x != 32) || (desc->y && desc->y != desc->x) ||
        (desc->z && desc->z != desc->x) || (desc->w && desc->w != desc->x) || channels == 3 ||
        (channels == 2 && !desc->y) || desc->f < cudaChannelFormatKindSigned ||
        desc->f > cudaChannelFormatKindFloat)
        return 0;
    return (unsigned)(desc->x * channels / 8);
}

cudaError_t cudaMalloc3DArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
                              struct cudaExtent extent, unsigned int flags)
{
    struct leatc_array_shape shape = {
        .width = extent.width, .height = extent.height, .depth = extent.depth, .flags = flags};

    if (!array || !desc)
        return note(LEATC_INVALID_VALUE);
    if (flags &
        ~(unsigned)(cudaArrayLayered | cudaArraySurfaceLoadStore | cudaArrayCubemap | cudaArrayTextureGather))
        return note(flags & (cudaArrayColorAttachment | cudaArrayDeferredMapping) ? LEATC_NOT_SUPPORTED
                                                                                  : LEATC_INVALID_VALUE);
    shape.element_bytes = element_bytes(desc);
    if (!shape.element_bytes)
        return note(LEATC_INVALID_CHANNEL);
    if ((extent.depth && !extent.height && !(flags & cudaArrayLayered)) ||
        (flags & cudaArrayCubemap && (extent.width != extent.height || extent.depth % 6 || !extent.depth ||
                                      (extent.depth != 6 && !(flags & cudaArrayLayered)))))
        return note(LEATC_INVALID_VALUE);
    shape.channel_bits[0] = desc->x, shape.channel_bits[1] = desc->y;
    shape.channel_bits[2] = desc->z, shape.channel_bits[3] = desc->w;
    shape.channel_kind = (int)desc->f;
    return note(leatc_array_create(&shape, (struct leatc_array **)(void *)array));
}

cudaError_t cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc, size_t width,
                            size_t height, unsigned int flags)
{
    if (flags & (cudaArrayLayered | cudaArrayCubemap))
        return note(LEATC_INVALID_VALUE);
    return cudaMalloc3DArray(array, desc, make_cudaExtent(width, height, 0), flags);
}

FORWARD(cudaError_t cudaFreeArray(cudaArray_t array), of_array(leatc_array_destroy(array_of(array))))

cudaError_t cudaArrayGetInfo(struct cudaChannelFormatDesc *desc, struct cudaExtent *extent, unsigned int *flags,
                             cudaArray_t array)
{
    struct leatc_array_shape shape;
    int result = of_array(leatc_array_describe(array_of(array), &shape, NULL, NULL, NULL));

    if (result != LEATC_OK)
        return note(result);
    if (desc)
        *desc = cudaCreateChannelDesc(shape.channel_bits[0], shape.channel_bits[1], shape.channel_bits[2],
                                      shape.channel_bits[3], (enum cudaChannelFormatKind)shape.channel_kind);
    if (extent)
        *extent = make_cudaExtent(shape.width, shape.height, shape.depth);
    if (flags)
        *flags = shape.flags;
    return cudaSuccess;
}

cudaError_t cudaGetChannelDesc(struct cudaChannelFormatDesc *desc, cudaArray_const_t array)
{
    if (!desc)
        return note(LEATC_INVALID_VALUE);
    return cudaArrayGetInfo(desc, NULL, NULL, (cudaArray_t)(uintptr_t)array);
}

struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, enum cudaChannelFormatKind f)
{
    return (struct cudaChannelFormatDesc){x, y, z, w, f};
}

REFUSE(cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t *mipmappedArray,
                                            const struct cudaChannelFormatDesc *desc, struct cudaExtent extent,
                                            unsigned int numLevels, unsigned int flags),
       LEATC_NOT_SUPPORTED)

cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t mipmappedArray)
{
    return mipmappedArray ? note(LEATC_INVALID_HANDLE) : cudaSuccess;
}

REFUSE(cudaError_t cudaGetMipmappedArrayLevel(cudaArray_t *levelArray, cudaMipmappedArray_const_t mipmappedArray,
                                              unsigned int level),
       LEATC_INVALID_VALUE)

/* CUDA returns the same result for invalid arguments and for an array that is not planar, mipmapped or sparse. */
REFUSE(cudaError_t cudaArrayGetPlane(cudaArray_t *pPlaneArray, cudaArray_t hArray, unsigned int planeIdx),
       LEATC_INVALID_VALUE)
REFUSE(cudaError_t cudaArrayGetMemoryRequirements(struct cudaArrayMemoryRequirements *memoryRequirements,
                                                  cudaArray_t array, int device),
       LEATC_INVALID_VALUE)
REFUSE(cudaError_t cudaMipmappedArrayGetMemoryRequirements(struct cudaArrayMemoryRequirements *memoryRequirements,
                                                           cudaMipmappedArray_t mipmap, int device),
       LEATC_INVALID_VALUE)
REFUSE(cudaError_t cudaArrayGetSparseProperties(struct cudaArraySparseProperties *sparseProperties,
                                                cudaArray_t array),
       LEATC_INVALID_VALUE)
REFUSE(cudaError_t cudaMipmappedArrayGetSparseProperties(struct cudaArraySparseProperties *sparseProperties,
                                                         cudaMipmappedArray_t mipmap),
       LEATC_INVALID_VALUE)

/* array.c - creates and describes arrays, and copies to and from them. */
#include "hip/copy.h"

#include <string.h>

/* ---- shapes ---- */

hipChannelFormatDesc hipCreateChannelDesc(int x, int y, int z, int w, hipChannelFormatKind kind)
{
    hipChannelFormatDesc desc = {.x = x, .y = y, .z = z, .w = w, .f = kind};

    return desc;
}

/* Checks the channels of an element: one, two or four channels of the same 8, 16 or 32 bits, without an unused
 * channel before a used one. Sets *element_bytes to the size of the element. */
static int check_channels(const hipChannelFormatDesc *desc, unsigned *element_bytes)
{
    const int bits[4] = {desc->x, desc->y, desc->z, desc->w};
    unsigned count = 0;

    if ((unsigned)desc->f > hipChannelFormatKindFloat || (bits[0] != 8 && bits[0] != 16 && bits[0] != 32) ||
        (bits[0] == 8 && desc->f == hipChannelFormatKindFloat))
        return LEATC_INVALID_VALUE;
    while (count < 4 && bits[count])
        count++;
    for (unsigned i = 0; i < 4; i++)
        if (bits[i] != (i < count ? bits[0] : 0))
            return LEATC_INVALID_VALUE;
    if (count == 3)
        return LEATC_INVALID_VALUE;
    *element_bytes = count * (unsigned)bits[0] / 8;
    return LEATC_OK;
}

/* Checks the size of an array against the limits of textures. */
static int check_size(hipExtent size, unsigned flags)
{
    static const int numbers[3][3] = {{21, 0, 0}, {22, 23, 0}, {24, 25, 26}};
    const size_t sides[3] = {size.width, size.height, size.depth};
    int dimensions = size.depth && !(flags & hipArrayLayered) ? 3 : size.height ? 2 : 1;

    for (int i = 0; i < dimensions; i++)
        if (sides[i] > (size_t)leatc_array_limit(numbers[dimensions - 1][i]))
            return LEATC_INVALID_VALUE;
    return LEATC_OK;
}

static int create(hipArray_t *array, const hipChannelFormatDesc *desc, hipExtent size, unsigned flags)
{
    struct leatc_array_shape shape = {
        .width = size.width, .height = size.height, .depth = size.depth, .flags = flags};
    struct leatc_array *made = NULL;

    if (!array || !desc || !size.width || (size.depth && !size.height && !(flags & hipArrayLayered)))
        return LEATC_INVALID_VALUE;
    LEATC_TRY(check_channels(desc, &shape.element_bytes));
    LEATC_TRY(check_size(size, flags));
    shape.channel_bits[0] = desc->x;
    shape.channel_bits[1] = desc->y;
    shape.channel_bits[2] = desc->z;
    shape.channel_bits[3] = desc->w;
    shape.channel_kind = (int)desc->f;
    LEATC_TRY(leatc_array_create(&shape, &made));
    *array = (hipArray_t)(void *)made;
    return LEATC_OK;
}

hipError_t hipMallocArray(hipArray_t *array, const hipChannelFormatDesc *desc, size_t width, size_t height,
                          unsigned int flags)
{
    if ((flags & ~(unsigned)(hipArraySurfaceLoadStore | hipArrayTextureGather)) ||
        ((flags & hipArrayTextureGather) && !height))
        return note(LEATC_INVALID_VALUE);
    return note(create(array, desc, make_hipExtent(width, height, 0), flags));
}

hipError_t hipMalloc3DArray(hipArray_t *array, const struct hipChannelFormatDesc *desc, struct hipExtent extent,
                            unsigned int flags)
{
    if ((flags & ~(unsigned)(hipArraySurfaceLoadStore | hipArrayTextureGather | hipArrayLayered)) ||
        ((flags & hipArrayLayered) && !extent.depth) ||
        ((flags & hipArrayTextureGather) && (!extent.height || extent.depth)))
        return note(LEATC_INVALID_VALUE);
    return note(create(array, desc, extent, flags));
}

/* Converts the driver API's format and number of channels to *desc. Returns false if the format is unknown. */
static bool channels_of(hipArray_Format format, unsigned count, hipChannelFormatDesc *desc)
{
    int bits = 0;

    switch (format) {
    case HIP_AD_FORMAT_UNSIGNED_INT8:
    case HIP_AD_FORMAT_SIGNED_INT8:
        bits = 8;
        break;
    case HIP_AD_FORMAT_UNSIGNED_INT16:
    case HIP_AD_FORMAT_SIGNED_INT16:
    case HIP_AD_FORMAT_HALF:
        bits = 16;
        break;
    case HIP_AD_FORMAT_UNSIGNED_INT32:
    case HIP_AD_FORMAT_SIGNED_INT32:
    case HIP_AD_FORMAT_FLOAT:
        bits = 32;
        break;
    }
    if (!bits || (count != 1 && count != 2 && count != 4))
        return false;
    *desc = (hipChannelFormatDesc){bits, count > 1 ? bits : 0, count > 2 ? bits : 0, count > 3 ? bits : 0,
                                   hipChannelFormatKindUnsigned};
    if (format == HIP_AD_FORMAT_HALF || format == HIP_AD_FORMAT_FLOAT)
        desc->f = hipChannelFormatKindFloat;
    else if (format >= HIP_AD_FORMAT_SIGNED_INT8)
        desc->f = hipChannelFormatKindSigned;
    return true;
}

static hipArray_Format format_of(const struct leatc_array_shape *shape)
{
    unsigned step = shape->channel_bits[0] == 8 ? 0 : shape->channel_bits[0] == 16 ? 1 : 2;

    if (shape->channel_kind == hipChannelFormatKindFloat)
        return step == 1 ? HIP_AD_FORMAT_HALF : HIP_AD_FORMAT_FLOAT;
    return (hipArray_Format)((shape->channel_kind == hipChannelFormatKindSigned ? HIP_AD_FORMAT_SIGNED_INT8
                                                                                : HIP_AD_FORMAT_UNSIGNED_INT8) +
                             step);
}

static unsigned channel_count(const struct leatc_array_shape *shape)
{
    unsigned count = 0;

    while (count < 4 && shape->channel_bits[count])
        count++;
    return count;
}

hipError_t hipArrayCreate(hipArray_t *array, const HIP_ARRAY_DESCRIPTOR *shape)
{
    hipChannelFormatDesc desc;

    if (!array || !shape || !channels_of(shape->Format, shape->NumChannels, &desc))
        return note(LEATC_INVALID_VALUE);
    return note(create(array, &desc, make_hipExtent(shape->Width, shape->Height, 0), 0));
}

hipError_t hipArray3DCreate(hipArray_t *array, const HIP_ARRAY3D_DESCRIPTOR *shape)
{
    hipChannelFormatDesc desc;

    if (!array || !shape || !channels_of(shape->Format, shape->NumChannels, &desc))
        return note(LEATC_INVALID_VALUE);
    return hipMalloc3DArray(array, &desc, make_hipExtent(shape->Width, shape->Height, shape->Depth), shape->Flags);
}

/* Destroys an array. Like AMD's runtime, refuses NULL, and returns hipErrorContextIsDestroyed if the array was
 * freed before. */
static hipError_t destroy(hipArray_t array)
{
    return note(array ? of_stream(leatc_array_destroy(array_of(array))) : LEATC_INVALID_VALUE);
}

hipError_t hipFreeArray(hipArray_t array)
{
    return destroy(array);
}

hipError_t hipArrayDestroy(hipArray_t array)
{
    return destroy(array);
}

static int describe(hipArray_const_t array, struct leatc_array_shape *shape)
{
    return leatc_array_describe(array_of(array), shape, NULL, NULL, NULL);
}

static hipChannelFormatDesc desc_of(const struct leatc_array_shape *shape)
{
    hipChannelFormatDesc desc = {shape->channel_bits[0], shape->channel_bits[1], shape->channel_bits[2],
                                 shape->channel_bits[3], (hipChannelFormatKind)shape->channel_kind};

    return desc;
}

hipError_t hipArrayGetInfo(hipChannelFormatDesc *desc, hipExtent *extent, unsigned int *flags, hipArray_t array)
{
    struct leatc_array_shape shape;
    int result = describe(array, &shape);

    if (result != LEATC_OK)
        return note(result);
    if (desc)
        *desc = desc_of(&shape);
    if (extent)
        *extent = make_hipExtent(shape.width, shape.height, shape.depth);
    if (flags)
        *flags = shape.flags;
    return hipSuccess;
}

hipError_t hipGetChannelDesc(hipChannelFormatDesc *desc, hipArray_const_t array)
{
    struct leatc_array_shape shape;
    int result = desc && array ? describe(array, &shape) : LEATC_INVALID_VALUE;

    if (result == LEATC_OK)
        *desc = desc_of(&shape);
    return note(result);
}

hipError_t hipArrayGetDescriptor(HIP_ARRAY_DESCRIPTOR *descriptor, hipArray_t array)
{
    struct leatc_array_shape shape;
    int result = descriptor ? describe(array, &shape) : LEATC_INVALID_VALUE;

    if (result == LEATC_OK)
        *descriptor = (HIP_ARRAY_DESCRIPTOR){shape.width, shape.height, format_of(&shape), channel_count(&shape)};
    return note(result);
}

hipError_t hipArray3DGetDescriptor(HIP_ARRAY3D_DESCRIPTOR *descriptor, hipArray_t array)
{
    struct leatc_array_shape shape;
    int result = descriptor ? describe(array, &shape) : LEATC_INVALID_VALUE;

    if (result == LEATC_OK)
        *descriptor = (HIP_ARRAY3D_DESCRIPTOR){shape.width,       shape.height,          shape.depth,
                                               format_of(&shape), channel_count(&shape), shape.flags};
    return note(result);
}

/* ---- 2-D copies ---- */

static struct copy_side rows_at(const void *ptr, size_t pitch)
{
    struct copy_side side = {.ptr = (char *)(uintptr_t)ptr,
                             .pitch = pitch,
                             .row_bytes = SIZE_MAX,
                             .rows = SIZE_MAX,
                             .slices = SIZE_MAX,
                             .element_bytes = 1};

    return side;
}

/* Copies rows between an array and other memory. */
static int copy_rows(hipArray_const_t array, size_t x, size_t y, const void *ptr, size_t pitch, size_t width,
                     size_t height, hipMemcpyKind kind, bool to_array, struct leatc_stream *stream, bool async)
{
    struct copy_side inside, outside = rows_at(ptr, pitch);
    hipExtent bytes = make_hipExtent(width, height, 1);

    LEATC_TRY(check_kind(kind));
    if (!array)
        return LEATC_INVALID_HANDLE;
    LEATC_TRY(leatc_hip_array_side(array, x, y, 0, &inside));
    if (!ptr)
        return LEATC_INVALID_VALUE;
    if (width && height && pitch < width)
        return LEATC_INVALID_PITCH;
    return to_array ? leatc_hip_copy_region(&inside, &outside, bytes, stream, async)
                    : leatc_hip_copy_region(&outside, &inside, bytes, stream, async);
}

FORWARD_SYNC(hipMemcpy2DToArray, hipMemcpy2DToArray_spt,
             (hipArray_t dst, size_t x, size_t y, const void *src, size_t srcPitch, size_t width, size_t height,
              hipMemcpyKind kind),
             copy_rows(dst, x, y, src, srcPitch, width, height, kind, true, on, false))
FORWARD_STREAM(hipMemcpy2DToArrayAsync, hipMemcpy2DToArrayAsync_spt,
               (hipArray_t dst, size_t x, size_t y, const void *src, size_t srcPitch, size_t width, size_t height,
                hipMemcpyKind kind, hipStream_t stream),
               copy_rows(dst, x, y, src, srcPitch, width, height, kind, true, on, true))
FORWARD_SYNC(hipMemcpy2DFromArray, hipMemcpy2DFromArray_spt,
             (void *dst, size_t dstPitch, hipArray_const_t src, size_t x, size_t y, size_t width, size_t height,
              hipMemcpyKind kind),
             copy_rows(src, x, y, dst, dstPitch, width, height, kind, false, on, false))
FORWARD_STREAM(hipMemcpy2DFromArrayAsync, hipMemcpy2DFromArrayAsync_spt,
               (void *dst, size_t dstPitch, hipArray_const_t src, size_t x, size_t y, size_t width, size_t height,
                hipMemcpyKind kind, hipStream_t stream),
               copy_rows(src, x, y, dst, dstPitch, width, height, kind, false, on, true))

static int between_arrays(hipArray_const_t dst, size_t dst_x, size_t dst_y, hipArray_const_t src, size_t src_x,
                          size_t src_y, hipExtent bytes)
{
    struct copy_side to, from;

    if (!dst || !src)
        return LEATC_INVALID_HANDLE;
    LEATC_TRY(leatc_hip_array_side(dst, dst_x, dst_y, 0, &to));
    LEATC_TRY(leatc_hip_array_side(src, src_x, src_y, 0, &from));
    return leatc_hip_copy_region(&to, &from, bytes, NULL, false);
}

hipError_t hipMemcpy2DArrayToArray(hipArray_t dst, size_t dstX, size_t dstY, hipArray_const_t src, size_t srcX,
                                   size_t srcY, size_t width, size_t height, hipMemcpyKind kind)
{
    int result = check_kind(kind);

    return note(result == LEATC_OK
                    ? between_arrays(dst, dstX, dstY, src, srcX, srcY, make_hipExtent(width, height, 1))
                    : result);
}

/* ---- ranges of arrays that continue in the next row ---- */

/* Copies a range that begins at (x, y) of an array: the rest of the first row, then whole rows, then the start of
 * the last row. */
static int copy_line(hipArray_const_t array, size_t x, size_t y, const void *ptr, size_t bytes, bool to_array,
                     struct leatc_stream *stream, bool async)
{
    struct copy_side side;
    const char *at = ptr;

    if (!array)
        return LEATC_INVALID_HANDLE;
    LEATC_TRY(leatc_hip_array_side(array, 0, 0, 0, &side));
    if (!ptr || x >= side.row_bytes || y >= side.rows || bytes > side.row_bytes * (side.rows - y) - x)
        return LEATC_INVALID_VALUE;
    while (bytes > 0) {
        size_t width = side.row_bytes - x, height = 1;

        if (!x && bytes > width)
            height = bytes / width;
        if (width > bytes)
            width = bytes;
        LEATC_TRY(copy_rows(array, x, y, at, width, width, height, hipMemcpyDefault, to_array, stream, async));
        at += width * height;
        bytes -= width * height;
        x = 0;
        y += height;
    }
    return LEATC_OK;
}

hipError_t hipMemcpyToArray(hipArray_t dst, size_t x, size_t y, const void *src, size_t bytes, hipMemcpyKind kind)
{
    int result = check_kind(kind);

    return note(result == LEATC_OK ? copy_line(dst, x, y, src, bytes, true, NULL, false) : result);
}

hipError_t hipMemcpyFromArray(void *dst, hipArray_const_t src, size_t x, size_t y, size_t bytes,
                              hipMemcpyKind kind)
{
    int result = check_kind(kind);

    return note(result == LEATC_OK ? copy_line(src, x, y, dst, bytes, false, NULL, false) : result);
}

hipError_t hipMemcpyFromArray_spt(void *dst, hipArray_const_t src, size_t x, size_t y, size_t bytes,
                                  hipMemcpyKind kind)
{
    int result = check_kind(kind);

    return note(result == LEATC_OK ? copy_line(src, x, y, dst, bytes, false, LEATC_STREAM_PER_THREAD, false)
                                   : result);
}

/* Copies a range of the first row of an array. HIP's header requires an array with a single row, but AMD's runtime
 * also accepts a two-dimensional array, and programs rely on it. */
static int copy_row(hipArray_const_t array, size_t offset, const void *ptr, size_t bytes, bool to_array,
                    struct leatc_stream *stream, bool async)
{
    struct copy_side side;

    if (leatc_hip_array_side(array, 0, 0, 0, &side) != LEATC_OK || side.slices > 1 || offset > side.row_bytes ||
        bytes > side.row_bytes - offset)
        return LEATC_INVALID_VALUE;
    return copy_line(array, offset, 0, ptr, bytes, to_array, stream, async);
}

FORWARD(hipError_t hipMemcpyAtoH(void *dst, hipArray_t src, size_t offset, size_t bytes),
        copy_row(src, offset, dst, bytes, false, NULL, false))
FORWARD(hipError_t hipMemcpyHtoA(hipArray_t dst, size_t offset, const void *src, size_t bytes),
        copy_row(dst, offset, src, bytes, true, NULL, false))
FORWARD(hipError_t hipMemcpyAtoHAsync(void *dst, hipArray_t src, size_t offset, size_t bytes, hipStream_t stream),
        copy_row(src, offset, dst, bytes, false, stream_of(stream), true))
FORWARD(hipError_t hipMemcpyHtoAAsync(hipArray_t dst, size_t offset, const void *src, size_t bytes,
                                      hipStream_t stream),
        copy_row(dst, offset, src, bytes, true, stream_of(stream), true))

static int copy_device_row(hipArray_const_t array, size_t offset, const void *ptr, size_t bytes, bool to_array)
{
    struct leatc_memory memory;

    LEATC_TRY(leatc_memory_find(ptr, &memory));
    if (memory.kind == LEATC_MEMORY_PAGEABLE)
        return LEATC_INVALID_VALUE;
    return copy_row(array, offset, ptr, bytes, to_array, NULL, false);
}

FORWARD(hipError_t hipMemcpyAtoD(hipDeviceptr_t dst, hipArray_t src, size_t offset, size_t bytes),
        copy_device_row(src, offset, dst, bytes, false))
FORWARD(hipError_t hipMemcpyDtoA(hipArray_t dst, size_t offset, hipDeviceptr_t src, size_t bytes),
        copy_device_row(dst, offset, src, bytes, true))
FORWARD(hipError_t hipMemcpyAtoA(hipArray_t dst, size_t dstOffset, hipArray_t src, size_t srcOffset, size_t bytes),
        between_arrays(dst, dstOffset, 0, src, srcOffset, 0, make_hipExtent(bytes, bytes ? 1 : 0, 1)))

/* ---- mipmapped arrays (not supported) ---- */

REFUSE(hipError_t hipMallocMipmappedArray(hipMipmappedArray_t *array, const hipChannelFormatDesc *desc,
                                          hipExtent extent, unsigned int levels, unsigned int flags),
       !array || !desc ? LEATC_INVALID_VALUE : LEATC_NOT_SUPPORTED)
REFUSE(hipError_t hipFreeMipmappedArray(hipMipmappedArray_t array), LEATC_INVALID_VALUE)
REFUSE(hipError_t hipGetMipmappedArrayLevel(hipArray_t *level, hipMipmappedArray_const_t array,
                                            unsigned int number),
       LEATC_INVALID_VALUE)
REFUSE(hipError_t hipMipmappedArrayCreate(hipMipmappedArray_t *array, HIP_ARRAY3D_DESCRIPTOR *shape,
                                          unsigned int levels),
       !array || !shape ? LEATC_INVALID_VALUE : LEATC_NOT_SUPPORTED)
REFUSE(hipError_t hipMipmappedArrayDestroy(hipMipmappedArray_t array), LEATC_INVALID_VALUE)
REFUSE(hipError_t hipMipmappedArrayGetLevel(hipArray_t *level, hipMipmappedArray_t array, unsigned int number),
       LEATC_INVALID_VALUE)

/* ---- textures and surfaces (not supported) ---- */

REFUSE(hipError_t hipCreateTextureObject(hipTextureObject_t *texture, const hipResourceDesc *resource,
                                         const hipTextureDesc *desc, const struct hipResourceViewDesc *view),
       !texture || !resource || !desc ? LEATC_INVALID_VALUE : LEATC_NOT_SUPPORTED)

FORWARD(hipError_t hipDestroyTextureObject(hipTextureObject_t texture), texture ? LEATC_INVALID_VALUE : LEATC_OK)
REFUSE(hipError_t hipTexObjectCreate(hipTextureObject_t *texture, const HIP_RESOURCE_DESC *resource,
                                     const HIP_TEXTURE_DESC *desc, const HIP_RESOURCE_VIEW_DESC *view),
       !texture || !resource || !desc ? LEATC_INVALID_VALUE : LEATC_NOT_SUPPORTED)

hipError_t hipTexObjectDestroy(hipTextureObject_t texture)
{
    return hipDestroyTextureObject(texture);
}

FORWARD(hipError_t hipCreateSurfaceObject(hipSurfaceObject_t *surface, const hipResourceDesc *resource),
        !surface || !resource ? LEATC_INVALID_VALUE : LEATC_NOT_SUPPORTED)
FORWARD(hipError_t hipDestroySurfaceObject(hipSurfaceObject_t surface), surface ? LEATC_INVALID_VALUE : LEATC_OK)

/* fill.c - implements fills in one, two and three dimensions. */
#include "hip/layer.h"

static int fill(void *dst, uint32_t value, unsigned unit_bytes, size_t count, struct leatc_stream *stream,
                bool async)
{
    return of_stream(leatc_fill(dst, value, unit_bytes, count, stream, async));
}

FORWARD_SYNC(hipMemset, hipMemset_spt, (void *dst, int value, size_t bytes),
             fill(dst, (uint32_t)value, 1, bytes, on, false))
FORWARD_STREAM(hipMemsetAsync, hipMemsetAsync_spt, (void *dst, int value, size_t bytes, hipStream_t stream),
               fill(dst, (uint32_t)value, 1, bytes, on, true))
FORWARD(hipError_t hipMemsetD8(hipDeviceptr_t dst, unsigned char value, size_t count),
        fill(dst, value, 1, count, NULL, false))
FORWARD(hipError_t hipMemsetD8Async(hipDeviceptr_t dst, unsigned char value, size_t count, hipStream_t stream),
        fill(dst, value, 1, count, stream_of(stream), true))
FORWARD(hipError_t hipMemsetD16(hipDeviceptr_t dst, unsigned short value, size_t count),
        fill(dst, value, 2, count, NULL, false))
FORWARD(hipError_t hipMemsetD16Async(hipDeviceptr_t dst, unsigned short value, size_t count, hipStream_t stream),
        fill(dst, value, 2, count, stream_of(stream), true))
FORWARD(hipError_t hipMemsetD32(hipDeviceptr_t dst, int value, size_t count),
        fill(dst, (uint32_t)value, 4, count, NULL, false))
FORWARD(hipError_t hipMemsetD32Async(hipDeviceptr_t dst, int value, size_t count, hipStream_t stream),
        fill(dst, (uint32_t)value, 4, count, stream_of(stream), true))

/* Fills rows of memory. width is a number of units. */
static int fill_rows(void *dst, size_t pitch, uint32_t value, unsigned unit_bytes, size_t width, size_t height,
                     struct leatc_stream *stream, bool async)
{
    if (width && height && pitch / unit_bytes < width)
        return LEATC_INVALID_VALUE;
    return of_stream(leatc_fill_region(dst, pitch, 0, value, unit_bytes, width, height, 1, stream, async));
}

static int fill_2d(void *dst, size_t pitch, int value, size_t width, size_t height, struct leatc_stream *stream,
                   bool async)
{
    return fill_rows(dst, pitch, (uint32_t)value, 1, width, height, stream, async);
}

FORWARD_SYNC(hipMemset2D, hipMemset2D_spt, (void *dst, size_t pitch, int value, size_t width, size_t height),
             fill_2d(dst, pitch, value, width, height, on, false))
FORWARD_STREAM(hipMemset2DAsync, hipMemset2DAsync_spt,
               (void *dst, size_t pitch, int value, size_t width, size_t height, hipStream_t stream),
               fill_2d(dst, pitch, value, width, height, on, true))
FORWARD(hipError_t hipMemsetD2D8(hipDeviceptr_t dst, size_t pitch, unsigned char value, size_t width,
                                 size_t height),
        fill_rows(dst, pitch, value, 1, width, height, NULL, false))
FORWARD(hipError_t hipMemsetD2D8Async(hipDeviceptr_t dst, size_t pitch, unsigned char value, size_t width,
                                      size_t height, hipStream_t stream),
        fill_rows(dst, pitch, value, 1, width, height, stream_of(stream), true))
FORWARD(hipError_t hipMemsetD2D16(hipDeviceptr_t dst, size_t pitch, unsigned short value, size_t width,
                                  size_t height),
        fill_rows(dst, pitch, value, 2, width, height, NULL, false))
FORWARD(hipError_t hipMemsetD2D16Async(hipDeviceptr_t dst, size_t pitch, unsigned short value, size_t width,
                                       size_t height, hipStream_t stream),
        fill_rows(dst, pitch, value, 2, width, height, stream_of(stream), true))
FORWARD(hipError_t hipMemsetD2D32(hipDeviceptr_t dst, size_t pitch, unsigned int value, size_t width,
                                  size_t height),
        fill_rows(dst, pitch, value, 4, width, height, NULL, false))
FORWARD(hipError_t hipMemsetD2D32Async(hipDeviceptr_t dst, size_t pitch, unsigned int value, size_t width,
                                       size_t height, hipStream_t stream),
        fill_rows(dst, pitch, value, 4, width, height, stream_of(stream), true))

static int fill_3d(hipPitchedPtr dst, int value, hipExtent extent, struct leatc_stream *stream, bool async)
{
    size_t slice = 0;

    if (extent.width && extent.height && extent.depth &&
        (dst.pitch < extent.width || __builtin_mul_overflow(dst.pitch, dst.ysize, &slice) ||
         (extent.depth > 1 && dst.ysize < extent.height)))
        return LEATC_INVALID_VALUE;
    return of_stream(leatc_fill_region(dst.ptr, dst.pitch, slice, (uint32_t)value, 1, extent.width, extent.height,
                                       extent.depth, stream, async));
}

FORWARD_SYNC(hipMemset3D, hipMemset3D_spt, (hipPitchedPtr dst, int value, hipExtent extent),
             fill_3d(dst, value, extent, on, false))
FORWARD_STREAM(hipMemset3DAsync, hipMemset3DAsync_spt,
               (hipPitchedPtr dst, int value, hipExtent extent, hipStream_t stream),
               fill_3d(dst, value, extent, on, true))

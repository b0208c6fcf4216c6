/* copy.c - implements copies and fills of all shapes: converts the vendor's structs to regions of bytes. */
#include "cudart/cudart.h"

#include <limits.h>

/* ---- one and two dimensions ---- */

FORWARD_SYNC(cudaMemcpy, cudaMemcpy_ptds, (void *dst, const void *src, size_t count, enum cudaMemcpyKind kind),
             leatc_copy(dst, src, count, (int)kind, on, false))
FORWARD_STREAM(cudaMemcpyAsync, cudaMemcpyAsync_ptsz,
               (void *dst, const void *src, size_t count, enum cudaMemcpyKind kind, cudaStream_t stream),
               leatc_copy(dst, src, count, (int)kind, on, true))

static int check_device(int device)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;

    return leatc_device_describe(device, &info);
}

static int copy_peer(void *dst, int dst_device, const void *src, int src_device, size_t count,
                     struct leatc_stream *stream, enum leatc_mode mode)
{
    LEATC_TRY(check_device(dst_device));
    LEATC_TRY(check_device(src_device));
    return leatc_copy(dst, src, count, LEATC_DEFAULT, stream, mode);
}

FORWARD(cudaError_t cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice, size_t count),
        copy_peer(dst, dstDevice, src, srcDevice, count, NULL, LEATC_PEER))
FORWARD(cudaError_t cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice, size_t count,
                                        cudaStream_t stream),
        copy_peer(dst, dstDevice, src, srcDevice, count, stream_of(stream), LEATC_ASYNC))

static int copy_2d(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width, size_t height,
                   enum cudaMemcpyKind kind, struct leatc_stream *stream, bool async)
{
    leat_copy_region region = {.width_bytes = width,
                               .height = height,
                               .depth = 1,
                               .dst_pitch_bytes = dst_pitch,
                               .src_pitch_bytes = src_pitch};

    if (width > dst_pitch || width > src_pitch)
        return LEATC_INVALID_PITCH;
    if (dst_pitch > INT_MAX || src_pitch > INT_MAX) /* the maximum that devices report as cudaDevAttrMaxPitch */
        return LEATC_INVALID_VALUE;
    return leatc_copy_region(dst, src, &region, (int)kind, stream, async);
}

FORWARD_SYNC(cudaMemcpy2D, cudaMemcpy2D_ptds,
             (void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
              enum cudaMemcpyKind kind),
             copy_2d(dst, dpitch, src, spitch, width, height, kind, on, false))
FORWARD_STREAM(cudaMemcpy2DAsync, cudaMemcpy2DAsync_ptsz,
               (void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                enum cudaMemcpyKind kind, cudaStream_t stream),
               copy_2d(dst, dpitch, src, spitch, width, height, kind, on, true))

/* ---- arrays ---- */

static size_t at_least_one(size_t n)
{
    return n ? n : 1;
}

/* Sets *end to the part of an array that begins at a position, whose x is in bytes. */
int cudart_array_end(cudaArray_const_t array, size_t x_bytes, size_t y, size_t z, struct end *end)
{
    struct leatc_array_shape shape;
    void *ptr;
    size_t row;

    if (leatc_array_describe(array_of(array), &shape, &ptr, &end->pitch, &end->slice) != LEATC_OK)
        return LEATC_INVALID_VALUE;
    row = shape.width * shape.element_bytes;
    if (x_bytes > row || y > at_least_one(shape.height) || z > at_least_one(shape.depth))
        return LEATC_INVALID_VALUE;
    end->ptr = (char *)ptr + z * end->slice + y * end->pitch + x_bytes;
    end->element_bytes = shape.element_bytes;
    end->width = row - x_bytes;
    end->height = at_least_one(shape.height) - y;
    end->depth = at_least_one(shape.depth) - z;
    return LEATC_OK;
}

static bool has_room(const struct end *end, const leat_copy_region *region)
{
    return !end->element_bytes ||
           (region->width_bytes <= end->width && region->height <= end->height && region->depth <= end->depth);
}

/* Makes the region of a copy, and checks that the region fits into the source and the destination. */
static int region_of(const struct end *dst, const struct end *src, size_t width_bytes, size_t height, size_t depth,
                     leat_copy_region *region)
{
    *region = (leat_copy_region){.width_bytes = width_bytes,
                                 .height = height,
                                 .depth = depth,
                                 .dst_pitch_bytes = dst->pitch,
                                 .src_pitch_bytes = src->pitch,
                                 .dst_slice_bytes = dst->slice,
                                 .src_slice_bytes = src->slice};
    if (!has_room(dst, region) || !has_room(src, region))
        return LEATC_INVALID_VALUE;
    return width_bytes && height && depth && (width_bytes > dst->pitch || width_bytes > src->pitch)
               ? LEATC_INVALID_PITCH
               : LEATC_OK;
}

int cudart_copy_ends(const struct end *dst, const struct end *src, size_t width_bytes, size_t height, size_t depth,
                     enum cudaMemcpyKind kind, struct leatc_stream *stream, enum leatc_mode mode)
{
    leat_copy_region region;

    LEATC_TRY(region_of(dst, src, width_bytes, height, depth, &region));
    return leatc_copy_region(dst->ptr, src->ptr, &region, (int)kind, stream, mode);
}

static int copy_to_array(cudaArray_t dst, size_t x, size_t y, const void *src, size_t pitch, size_t width,
                         size_t height, enum cudaMemcpyKind kind, struct leatc_stream *stream, bool async)
{
    struct end from = {.ptr = (char *)(uintptr_t)src, .pitch = pitch, .slice = 0}, to;

    if (!src)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(cudart_array_end(dst, x, y, 0, &to));
    return cudart_copy_ends(&to, &from, width, height, 1, kind, stream, async);
}

static int copy_from_array(void *dst, size_t pitch, cudaArray_const_t src, size_t x, size_t y, size_t width,
                           size_t height, enum cudaMemcpyKind kind, struct leatc_stream *stream, bool async)
{
    struct end from, to = {.ptr = dst, .pitch = pitch, .slice = 0};

    if (!dst)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(cudart_array_end(src, x, y, 0, &from));
    return cudart_copy_ends(&to, &from, width, height, 1, kind, stream, async);
}

static int copy_arrays(cudaArray_t dst, size_t dst_x, size_t dst_y, cudaArray_const_t src, size_t src_x,
                       size_t src_y, size_t width, size_t height, struct leatc_stream *stream)
{
    struct end from, to;

    LEATC_TRY(cudart_array_end(dst, dst_x, dst_y, 0, &to));
    LEATC_TRY(cudart_array_end(src, src_x, src_y, 0, &from));
    return cudart_copy_ends(&to, &from, width, height, 1, cudaMemcpyDeviceToDevice, stream, false);
}

FORWARD_SYNC(cudaMemcpy2DToArray, cudaMemcpy2DToArray_ptds,
             (cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t spitch, size_t width,
              size_t height, enum cudaMemcpyKind kind),
             copy_to_array(dst, wOffset, hOffset, src, spitch, width, height, kind, on, false))
FORWARD_STREAM(cudaMemcpy2DToArrayAsync, cudaMemcpy2DToArrayAsync_ptsz,
               (cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t spitch, size_t width,
                size_t height, enum cudaMemcpyKind kind, cudaStream_t stream),
               copy_to_array(dst, wOffset, hOffset, src, spitch, width, height, kind, on, true))
FORWARD_SYNC(cudaMemcpy2DFromArray, cudaMemcpy2DFromArray_ptds,
             (void *dst, size_t dpitch, cudaArray_const_t src, size_t wOffset, size_t hOffset, size_t width,
              size_t height, enum cudaMemcpyKind kind),
             copy_from_array(dst, dpitch, src, wOffset, hOffset, width, height, kind, on, false))
FORWARD_STREAM(cudaMemcpy2DFromArrayAsync, cudaMemcpy2DFromArrayAsync_ptsz,
               (void *dst, size_t dpitch, cudaArray_const_t src, size_t wOffset, size_t hOffset, size_t width,
                size_t height, enum cudaMemcpyKind kind, cudaStream_t stream),
               copy_from_array(dst, dpitch, src, wOffset, hOffset, width, height, kind, on, true))
FORWARD_SYNC(cudaMemcpy2DArrayToArray, cudaMemcpy2DArrayToArray_ptds,
             (cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst, cudaArray_const_t src, size_t wOffsetSrc,
              size_t hOffsetSrc, size_t width, size_t height, enum cudaMemcpyKind kind),
             kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault
                 ? LEATC_INVALID_DIRECTION
                 : copy_arrays(dst, wOffsetDst, hOffsetDst, src, wOffsetSrc, hOffsetSrc, width, height, on))

/* ---- ranges of arrays that continue in the next row ---- */

/* A piece of row y, which begins at byte x. */
struct piece {
    size_t x, y, bytes;
};

/* Takes the next piece of a range: the rest of the current row, or *rows whole rows, which one 2-D copy can
 * move. */
static struct piece next_piece(size_t row_bytes, size_t *x, size_t *y, size_t count, size_t *rows)
{
    struct piece piece = {*x, *y, row_bytes - *x};

    *rows = 1;
    if (*x == 0 && count >= row_bytes)
        *rows = count / row_bytes;
    if (piece.bytes > count)
        piece.bytes = count;
    *y += *rows;
    *x = 0;
    return piece;
}

static int row_bytes_of(cudaArray_const_t array, size_t *row_bytes, size_t *rows)
{
    struct leatc_array_shape shape;

    if (leatc_array_describe(array_of(array), &shape, NULL, NULL, NULL) != LEATC_OK)
        return LEATC_INVALID_VALUE;
    *row_bytes = shape.width * shape.element_bytes;
    *rows = at_least_one(shape.height);
    return LEATC_OK;
}

/* Returns true if a range of count bytes that begins at (x, y) lies within the array. */
static bool range_fits(size_t row_bytes, size_t rows, size_t x, size_t y, size_t count)
{
    return x < row_bytes && y < rows && count <= (rows - y) * row_bytes - x;
}

static int copy_range_to_array(cudaArray_t dst, size_t x, size_t y, const void *src, size_t count,
                               enum cudaMemcpyKind kind, struct leatc_stream *stream, bool async)
{
    size_t row_bytes, rows, height;
    const char *from = src;

    LEATC_TRY(row_bytes_of(dst, &row_bytes, &rows));
    if (!count)
        return LEATC_OK;
    if (!range_fits(row_bytes, rows, x, y, count))
        return LEATC_INVALID_VALUE;
    while (count) {
        struct piece piece = next_piece(row_bytes, &x, &y, count, &height);

        LEATC_TRY(
            copy_to_array(dst, piece.x, piece.y, from, piece.bytes, piece.bytes, height, kind, stream, async));
        from += piece.bytes * height;
        count -= piece.bytes * height;
    }
    return LEATC_OK;
}

static int copy_range_from_array(void *dst, cudaArray_const_t src, size_t x, size_t y, size_t count,
                                 enum cudaMemcpyKind kind, struct leatc_stream *stream, bool async)
{
    size_t row_bytes, rows, height;
    char *to = dst;

    LEATC_TRY(row_bytes_of(src, &row_bytes, &rows));
    if (!count)
        return LEATC_OK;
    if (!range_fits(row_bytes, rows, x, y, count))
        return LEATC_INVALID_VALUE;
    while (count) {
        struct piece piece = next_piece(row_bytes, &x, &y, count, &height);

        LEATC_TRY(
            copy_from_array(to, piece.bytes, src, piece.x, piece.y, piece.bytes, height, kind, stream, async));
        to += piece.bytes * height;
        count -= piece.bytes * height;
    }
    return LEATC_OK;
}

static int copy_range_of_arrays(cudaArray_t dst, size_t dst_x, size_t dst_y, cudaArray_const_t src, size_t src_x,
                                size_t src_y, size_t count, struct leatc_stream *stream)
{
    size_t dst_row, dst_rows, src_row, src_rows;

    LEATC_TRY(row_bytes_of(dst, &dst_row, &dst_rows));
    LEATC_TRY(row_bytes_of(src, &src_row, &src_rows));
    if (!count)
        return LEATC_OK;
    if (!range_fits(dst_row, dst_rows, dst_x, dst_y, count) || !range_fits(src_row, src_rows, src_x, src_y, count))
        return LEATC_INVALID_VALUE;
    while (count) {
        size_t bytes = dst_row - dst_x < src_row - src_x ? dst_row - dst_x : src_row - src_x;

        bytes = bytes < count ? bytes : count;
        LEATC_TRY(copy_arrays(dst, dst_x, dst_y, src, src_x, src_y, bytes, 1, stream));
        count -= bytes;
        dst_x += bytes, src_x += bytes;
        if (dst_x == dst_row)
            dst_x = 0, dst_y++;
        if (src_x == src_row)
            src_x = 0, src_y++;
    }
    return LEATC_OK;
}

FORWARD_SYNC(cudaMemcpyToArray, cudaMemcpyToArray_ptds,
             (cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t count,
              enum cudaMemcpyKind kind),
             copy_range_to_array(dst, wOffset, hOffset, src, count, kind, on, false))
FORWARD_STREAM(cudaMemcpyToArrayAsync, cudaMemcpyToArrayAsync_ptsz,
               (cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t count,
                enum cudaMemcpyKind kind, cudaStream_t stream),
               copy_range_to_array(dst, wOffset, hOffset, src, count, kind, on, true))
FORWARD_SYNC(cudaMemcpyFromArray, cudaMemcpyFromArray_ptds,
             (void *dst, cudaArray_const_t src, size_t wOffset, size_t hOffset, size_t count,
              enum cudaMemcpyKind kind),
             copy_range_from_array(dst, src, wOffset, hOffset, count, kind, on, false))
FORWARD_STREAM(cudaMemcpyFromArrayAsync, cudaMemcpyFromArrayAsync_ptsz,
               (void *dst, cudaArray_const_t src, size_t wOffset, size_t hOffset, size_t count,
                enum cudaMemcpyKind kind, cudaStream_t stream),
               copy_range_from_array(dst, src, wOffset, hOffset, count, kind, on, true))
FORWARD_SYNC(cudaMemcpyArrayToArray, cudaMemcpyArrayToArray_ptds,
             (cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst, cudaArray_const_t src, size_t wOffsetSrc,
              size_t hOffsetSrc, size_t count, enum cudaMemcpyKind kind),
             kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault
                 ? LEATC_INVALID_DIRECTION
                 : copy_range_of_arrays(dst, wOffsetDst, hOffsetDst, src, wOffsetSrc, hOffsetSrc, count, on))

/* ---- three dimensions ---- */

/* Describes the source or the destination of a copy: either an array or a pointer. Positions count elements of an
 * array, but bytes of other memory. */
static int side(cudaArray_const_t array, struct cudaPitchedPtr ptr, struct cudaPos position, size_t unit_bytes,
                const struct cudaExtent *extent, struct end *end)
{
    size_t row;

    *end = (struct end){.pitch = ptr.pitch, .slice = ptr.pitch * at_least_one(ptr.ysize)};
    if (!array == !ptr.ptr)
        return LEATC_INVALID_VALUE;
    if (array)
        return __builtin_mul_overflow(position.x, unit_bytes, &position.x)
                   ? LEATC_INVALID_VALUE
                   : cudart_array_end(array, position.x, position.y, position.z, end);
    if (ptr.pitch > INT_MAX || __builtin_mul_overflow(extent->width, unit_bytes, &row))
        return LEATC_INVALID_VALUE;
    /* A single row needs no pitch, and a single slice needs no height. */
    if (extent->height <= 1 && extent->depth <= 1 && !ptr.pitch)
        end->pitch = position.x + row;
    else if (row && row <= ptr.pitch && position.x > ptr.pitch - row)
        return LEATC_INVALID_VALUE;
    if (extent->depth > 1 && (position.y > ptr.ysize || extent->height > ptr.ysize - position.y))
        return LEATC_INVALID_VALUE;
    end->ptr = (char *)ptr.ptr + position.z * end->slice + position.y * end->pitch + position.x;
    return LEATC_OK;
}

/* Returns the size of the elements that the extent counts: those of the arrays, or 1 byte if there is no array. */
static int extent_unit(cudaArray_const_t dst, cudaArray_const_t src, size_t *unit)
{
    struct leatc_array_shape shape[2];

    *unit = 1;
    if ((src && leatc_array_describe(array_of(src), &shape[0], NULL, NULL, NULL) != LEATC_OK) ||
        (dst && leatc_array_describe(array_of(dst), &shape[1], NULL, NULL, NULL) != LEATC_OK))
        return LEATC_INVALID_VALUE;
    if (src && dst && shape[0].element_bytes != shape[1].element_bytes)
        return LEATC_INVALID_VALUE;
    if (src || dst)
        *unit = shape[src ? 0 : 1].element_bytes;
    return LEATC_OK;
}

int cudart_region_3d(const struct cudaMemcpy3DParms *p, struct end *dst, struct end *src, leat_copy_region *region)
{
    size_t unit, width;

    if (!p)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(extent_unit(p->dstArray, p->srcArray, &unit));
    LEATC_TRY(side(p->dstArray, p->dstPtr, p->dstPos, unit, &p->extent, dst));
    LEATC_TRY(side(p->srcArray, p->srcPtr, p->srcPos, unit, &p->extent, src));
    if (__builtin_mul_overflow(p->extent.width, unit, &width))
        return LEATC_INVALID_VALUE;
    return region_of(dst, src, width, p->extent.height, p->extent.depth, region);
}

static int copy_3d(const struct cudaMemcpy3DParms *p, struct leatc_stream *stream, enum leatc_mode mode)
{
    struct end dst, src;
    leat_copy_region region;

    LEATC_TRY(cudart_region_3d(p, &dst, &src, &region));
    return leatc_copy_region(dst.ptr, src.ptr, &region, (int)p->kind, stream, mode);
}

FORWARD_SYNC(cudaMemcpy3D, cudaMemcpy3D_ptds, (const struct cudaMemcpy3DParms *p), copy_3d(p, on, false))
FORWARD_STREAM(cudaMemcpy3DAsync, cudaMemcpy3DAsync_ptsz, (const struct cudaMemcpy3DParms *p, cudaStream_t stream),
               copy_3d(p, on, true))

static int copy_3d_peer(const struct cudaMemcpy3DPeerParms *p, struct leatc_stream *stream, enum leatc_mode mode)
{
    struct cudaMemcpy3DParms plain;

    if (!p)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(check_device(p->srcDevice));
    LEATC_TRY(check_device(p->dstDevice));
    plain = (struct cudaMemcpy3DParms){p->srcArray, p->srcPos, p->srcPtr, p->dstArray,
                                       p->dstPos,   p->dstPtr, p->extent, cudaMemcpyDefault};
    return copy_3d(&plain, stream, mode);
}

FORWARD_SYNC(cudaMemcpy3DPeer, cudaMemcpy3DPeer_ptds, (const struct cudaMemcpy3DPeerParms *p),
             copy_3d_peer(p, on, LEATC_PEER))
FORWARD_STREAM(cudaMemcpy3DPeerAsync, cudaMemcpy3DPeerAsync_ptsz,
               (const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream), copy_3d_peer(p, on, LEATC_ASYNC))

/* ---- fills ---- */

static int fill(void *ptr, int value, size_t count, struct leatc_stream *stream, bool async)
{
    return leatc_fill(ptr, (unsigned char)value, 1, count, stream, async);
}

static int fill_2d(void *ptr, size_t pitch, int value, size_t width, size_t height, struct leatc_stream *stream,
                   bool async)
{
    return leatc_fill_region(ptr, pitch, 0, (unsigned char)value, 1, width, height, 1, stream, async);
}

static int fill_3d(struct cudaPitchedPtr to, int value, struct cudaExtent extent, struct leatc_stream *stream,
                   bool async)
{
    if (extent.depth > 1 && extent.height > to.ysize)
        return LEATC_INVALID_VALUE;
    return leatc_fill_region(to.ptr, to.pitch, to.pitch * to.ysize, (unsigned char)value, 1, extent.width,
                             extent.height, extent.depth, stream, async);
}

FORWARD_SYNC(cudaMemset, cudaMemset_ptds, (void *devPtr, int value, size_t count),
             fill(devPtr, value, count, on, false))
FORWARD_STREAM(cudaMemsetAsync, cudaMemsetAsync_ptsz, (void *devPtr, int value, size_t count, cudaStream_t stream),
               fill(devPtr, value, count, on, true))
FORWARD_SYNC(cudaMemset2D, cudaMemset2D_ptds, (void *devPtr, size_t pitch, int value, size_t width, size_t height),
             fill_2d(devPtr, pitch, value, width, height, on, false))
FORWARD_STREAM(cudaMemset2DAsync, cudaMemset2DAsync_ptsz,
               (void *devPtr, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream),
               fill_2d(devPtr, pitch, value, width, height, on, true))
FORWARD_SYNC(cudaMemset3D, cudaMemset3D_ptds,
             (struct cudaPitchedPtr pitchedDevPtr, int value, struct cudaExtent extent),
             fill_3d(pitchedDevPtr, value, extent, on, false))
FORWARD_STREAM(cudaMemset3DAsync, cudaMemset3DAsync_ptsz,
               (struct cudaPitchedPtr pitchedDevPtr, int value, struct cudaExtent extent, cudaStream_t stream),
               fill_3d(pitchedDevPtr, value, extent, on, true))

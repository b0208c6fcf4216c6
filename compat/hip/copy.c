/* copy.c - copies ranges and 2-D and 3-D regions, between memory and arrays. */
#include "hip/copy.h"

/* ---- ranges ---- */

static int copy_range(void *dst, const void *src, size_t bytes, hipMemcpyKind kind, struct leatc_stream *stream,
                      enum leatc_mode mode)
{
    LEATC_TRY(check_kind(kind));
    return of_stream(leatc_copy(dst, src, bytes, LEATC_DEFAULT, stream, mode));
}

FORWARD_SYNC(hipMemcpy, hipMemcpy_spt, (void *dst, const void *src, size_t bytes, hipMemcpyKind kind),
             copy_range(dst, src, bytes, kind, on, false))

hipError_t hipMemcpyWithStream(void *dst, const void *src, size_t bytes, hipMemcpyKind kind, hipStream_t stream)
{
    int result = copy_range(dst, src, bytes, kind, stream_of(stream), false);

    return note(result == LEATC_OK ? of_stream(leatc_stream_synchronize(stream_of(stream))) : result);
}

FORWARD_STREAM(hipMemcpyAsync, hipMemcpyAsync_spt,
               (void *dst, const void *src, size_t bytes, hipMemcpyKind kind, hipStream_t stream),
               copy_range(dst, src, bytes, kind, on, true))
FORWARD(hipError_t hipMemcpyHtoD(hipDeviceptr_t dst, void *src, size_t bytes),
        copy_range(dst, src, bytes, hipMemcpyHostToDevice, NULL, false))
FORWARD(hipError_t hipMemcpyDtoH(void *dst, hipDeviceptr_t src, size_t bytes),
        copy_range(dst, src, bytes, hipMemcpyDeviceToHost, NULL, false))
FORWARD(hipError_t hipMemcpyDtoD(hipDeviceptr_t dst, hipDeviceptr_t src, size_t bytes),
        copy_range(dst, src, bytes, hipMemcpyDeviceToDevice, NULL, false))
FORWARD(hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t dst, void *src, size_t bytes, hipStream_t stream),
        copy_range(dst, src, bytes, hipMemcpyHostToDevice, stream_of(stream), true))
FORWARD(hipError_t hipMemcpyDtoHAsync(void *dst, hipDeviceptr_t src, size_t bytes, hipStream_t stream),
        copy_range(dst, src, bytes, hipMemcpyDeviceToHost, stream_of(stream), true))
FORWARD(hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t dst, hipDeviceptr_t src, size_t bytes, hipStream_t stream),
        copy_range(dst, src, bytes, hipMemcpyDeviceToDevice, stream_of(stream), true))

static int copy_peer(void *dst, int dst_device, const void *src, int src_device, size_t bytes,
                     struct leatc_stream *stream, enum leatc_mode mode)
{
    LEATC_TRY(check_device(dst_device));
    LEATC_TRY(check_device(src_device));
    return copy_range(dst, src, bytes, hipMemcpyDeviceToDevice, stream, mode);
}

FORWARD(hipError_t hipMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice, size_t bytes),
        copy_peer(dst, dstDevice, src, srcDevice, bytes, NULL, LEATC_PEER))
FORWARD(hipError_t hipMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice, size_t bytes,
                                      hipStream_t stream),
        copy_peer(dst, dstDevice, src, srcDevice, bytes, stream_of(stream), LEATC_ASYNC))

/* ---- symbols ---- */

FORWARD(hipError_t hipGetSymbolAddress(void **ptr, const void *symbol),
        ptr ? leatc_symbol_range(symbol, 0, 0, ptr) : LEATC_INVALID_VALUE)
FORWARD(hipError_t hipGetSymbolSize(size_t *bytes, const void *symbol),
        bytes ? leatc_symbol_bytes(symbol, bytes) : LEATC_INVALID_VALUE)

int leatc_hip_symbol(const void *symbol, size_t offset, size_t bytes, bool to, hipMemcpyKind kind, void **ptr)
{
    LEATC_TRY(leatc_symbol_range(symbol, offset, bytes, ptr));
    LEATC_TRY(check_kind(kind));
    return kind == (to ? hipMemcpyDeviceToHost : hipMemcpyHostToDevice) || kind == hipMemcpyHostToHost
               ? LEATC_INVALID_DIRECTION
               : LEATC_OK;
}

static int to_symbol(const void *symbol, const void *src, size_t bytes, size_t offset, hipMemcpyKind kind,
                     struct leatc_stream *stream, bool async)
{
    void *dst = NULL;

    LEATC_TRY(leatc_hip_symbol(symbol, offset, bytes, true, kind, &dst));
    return copy_range(dst, src, bytes, kind, stream, async);
}

static int from_symbol(void *dst, const void *symbol, size_t bytes, size_t offset, hipMemcpyKind kind,
                       struct leatc_stream *stream, bool async)
{
    void *src = NULL;

    LEATC_TRY(leatc_hip_symbol(symbol, offset, bytes, false, kind, &src));
    return copy_range(dst, src, bytes, kind, stream, async);
}

FORWARD_SYNC(hipMemcpyToSymbol, hipMemcpyToSymbol_spt,
             (const void *symbol, const void *src, size_t bytes, size_t offset, hipMemcpyKind kind),
             to_symbol(symbol, src, bytes, offset, kind, on, false))
FORWARD_STREAM(hipMemcpyToSymbolAsync, hipMemcpyToSymbolAsync_spt,
               (const void *symbol, const void *src, size_t bytes, size_t offset, hipMemcpyKind kind,
                hipStream_t stream),
               to_symbol(symbol, src, bytes, offset, kind, on, true))
FORWARD_SYNC(hipMemcpyFromSymbol, hipMemcpyFromSymbol_spt,
             (void *dst, const void *symbol, size_t bytes, size_t offset, hipMemcpyKind kind),
             from_symbol(dst, symbol, bytes, offset, kind, on, false))
FORWARD_STREAM(hipMemcpyFromSymbolAsync, hipMemcpyFromSymbolAsync_spt,
               (void *dst, const void *symbol, size_t bytes, size_t offset, hipMemcpyKind kind,
                hipStream_t stream),
               from_symbol(dst, symbol, bytes, offset, kind, on, true))

/* ---- regions ---- */

static size_t at_least_one(size_t n)
{
    return n ? n : 1;
}

int leatc_hip_array_side(hipArray_const_t array, size_t x_bytes, size_t y, size_t z, struct copy_side *side)
{
    struct leatc_array_shape shape;
    void *ptr = NULL;

    LEATC_TRY(leatc_array_describe(array_of(array), &shape, &ptr, &side->pitch, &side->slice));
    side->ptr = ptr;
    side->x = x_bytes;
    side->y = y;
    side->z = z;
    side->row_bytes = shape.width * shape.element_bytes;
    side->rows = at_least_one(shape.height);
    side->slices = at_least_one(shape.depth);
    side->element_bytes = shape.element_bytes;
    return LEATC_OK;
}

/* Returns true if the range of length units that begins at start ends within limit. */
static bool fits(size_t start, size_t length, size_t limit)
{
    return start <= limit && length <= limit - start;
}

/* Checks that the region lies within a source or destination, and returns the address of the region's first
 * byte. */
static int start_of(const struct copy_side *side, const leat_copy_region *region, char **start)
{
    size_t rows, slices, offset;

    if (!side->ptr || !fits(side->x, region->width_bytes, side->row_bytes) ||
        !fits(side->y, region->height, side->rows) || !fits(side->z, region->depth, side->slices) ||
        __builtin_mul_overflow(side->y, side->pitch, &rows) ||
        __builtin_mul_overflow(side->z, side->slice, &slices) || __builtin_add_overflow(rows, slices, &offset) ||
        __builtin_add_overflow(offset, side->x, &offset) || offset > (size_t)INT64_MAX)
        return LEATC_INVALID_VALUE;
    *start = side->ptr + offset;
    return LEATC_OK;
}

/* Converts a copy between two sides to the engine's task. INVALID_VALUE: the region lies outside of a side. */
static int region_between(const struct copy_side *dst, const struct copy_side *src, hipExtent bytes,
                          struct leatc_copy_task *copy)
{
    leat_copy_region region = {.width_bytes = bytes.width,
                               .height = bytes.height,
                               .depth = bytes.depth,
                               .dst_pitch_bytes = dst->pitch,
                               .src_pitch_bytes = src->pitch,
                               .dst_slice_bytes = dst->slice,
                               .src_slice_bytes = src->slice};
    char *to, *from;

    if (dst->pitch > PITCH_MOST || src->pitch > PITCH_MOST)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(start_of(dst, &region, &to));
    LEATC_TRY(start_of(src, &region, &from));
    /* The engine requires a pitch of at least a row, even if there is a single row. */
    if (region.height == 1 && region.dst_pitch_bytes < region.width_bytes)
        region.dst_pitch_bytes = region.width_bytes;
    if (region.height == 1 && region.src_pitch_bytes < region.width_bytes)
        region.src_pitch_bytes = region.width_bytes;
    *copy = (struct leatc_copy_task){.dst = to, .src = from, .region = region, .direction = LEATC_DEFAULT};
    return LEATC_OK;
}

int leatc_hip_copy_region(const struct copy_side *dst, const struct copy_side *src, hipExtent bytes,
                          struct leatc_stream *stream, enum leatc_mode mode)
{
    struct leatc_copy_task copy;

    LEATC_TRY(check_stream(stream));
    if (!bytes.width || !bytes.height || !bytes.depth)
        return LEATC_OK;
    LEATC_TRY(region_between(dst, src, bytes, &copy));
    return of_stream(leatc_copy_region(copy.dst, copy.src, &copy.region, LEATC_DEFAULT, stream, mode));
}

/* Describes memory whose pitches the caller has given, but not its size. */
static struct copy_side plain_side(const void *ptr, size_t pitch, size_t slice)
{
    struct copy_side side = {.ptr = (char *)(uintptr_t)ptr,
                             .pitch = pitch,
                             .slice = slice,
                             .row_bytes = SIZE_MAX,
                             .rows = SIZE_MAX,
                             .slices = SIZE_MAX,
                             .element_bytes = 1};

    return side;
}

/* ---- 2-D copies ---- */

static int copy_2d(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width, size_t height,
                   hipMemcpyKind kind, struct leatc_stream *stream, bool async)
{
    struct copy_side to = plain_side(dst, dst_pitch, 0), from = plain_side(src, src_pitch, 0);

    LEATC_TRY(check_kind(kind));
    if (!width || !height)
        return check_stream(stream);
    if (!dst || !src)
        return LEATC_INVALID_VALUE;
    if (dst_pitch < width || src_pitch < width)
        return LEATC_INVALID_PITCH;
    return leatc_hip_copy_region(&to, &from, make_hipExtent(width, height, 1), stream, async);
}

FORWARD_SYNC(hipMemcpy2D, hipMemcpy2D_spt,
             (void *dst, size_t dstPitch, const void *src, size_t srcPitch, size_t width, size_t height,
              hipMemcpyKind kind),
             copy_2d(dst, dstPitch, src, srcPitch, width, height, kind, on, false))
FORWARD_STREAM(hipMemcpy2DAsync, hipMemcpy2DAsync_spt,
               (void *dst, size_t dstPitch, const void *src, size_t srcPitch, size_t width, size_t height,
                hipMemcpyKind kind, hipStream_t stream),
               copy_2d(dst, dstPitch, src, srcPitch, width, height, kind, on, true))

/* ---- hipMemcpy3D: positions and widths count elements if an array is involved ---- */

/* Describes the source or the destination of hipMemcpy3D(): either an array, or memory whose rows a hipPitchedPtr
 * describes. It is invalid to pass both. */
static int side_of(hipArray_const_t array, hipPos at, hipPitchedPtr plain, size_t depth, struct copy_side *side)
{
    struct copy_side made;

    if (array) {
        if (plain.ptr)
            return LEATC_INVALID_VALUE;
        LEATC_TRY(leatc_hip_array_side(array, 0, at.y, at.z, side));
        return __builtin_mul_overflow(at.x, side->element_bytes, &side->x) ? LEATC_INVALID_VALUE : LEATC_OK;
    }
    if (!plain.ptr)
        return LEATC_INVALID_VALUE;
    made = plain_side(plain.ptr, plain.pitch, 0);
    if (__builtin_mul_overflow(plain.pitch, plain.ysize, &made.slice))
        return LEATC_INVALID_VALUE;
    made.row_bytes = plain.pitch;
    if (depth > 1 || at.z)
        made.rows = plain.ysize;
    made.x = at.x;
    made.y = at.y;
    made.z = at.z;
    *side = made;
    return LEATC_OK;
}

/* Describes the source and the destination of a copy that is not empty, and sets *bytes to the size of its region
 * in bytes. */
static int sides_3d(const hipMemcpy3DParms *copy, struct copy_side *dst, struct copy_side *src, hipExtent *bytes)
{
    size_t unit;

    *bytes = copy->extent;
    LEATC_TRY(side_of(copy->srcArray, copy->srcPos, copy->srcPtr, bytes->depth, src));
    LEATC_TRY(side_of(copy->dstArray, copy->dstPos, copy->dstPtr, bytes->depth, dst));
    if (copy->srcArray && copy->dstArray && src->element_bytes != dst->element_bytes)
        return LEATC_INVALID_VALUE;
    unit = copy->srcArray ? src->element_bytes : dst->element_bytes;
    if (__builtin_mul_overflow(bytes->width, unit, &bytes->width))
        return LEATC_INVALID_VALUE;
    return (!copy->srcArray && src->pitch < bytes->width) || (!copy->dstArray && dst->pitch < bytes->width)
               ? LEATC_INVALID_PITCH
               : LEATC_OK;
}

int leatc_hip_region_3d(const hipMemcpy3DParms *copy, struct leatc_copy_task *task)
{
    struct copy_side dst, src;
    hipExtent bytes;

    if (!copy)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(check_kind(copy->kind));
    LEATC_TRY(sides_3d(copy, &dst, &src, &bytes));
    return region_between(&dst, &src, bytes, task);
}

static int copy_3d(const hipMemcpy3DParms *copy, struct leatc_stream *stream, enum leatc_mode mode)
{
    struct copy_side dst, src;
    hipExtent bytes;

    if (!copy)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(check_kind(copy->kind));
    if (!copy->extent.width || !copy->extent.height || !copy->extent.depth)
        return check_stream(stream);
    LEATC_TRY(sides_3d(copy, &dst, &src, &bytes));
    return leatc_hip_copy_region(&dst, &src, bytes, stream, mode);
}

FORWARD_SYNC(hipMemcpy3D, hipMemcpy3D_spt, (const struct hipMemcpy3DParms *copy), copy_3d(copy, on, false))
FORWARD_STREAM(hipMemcpy3DAsync, hipMemcpy3DAsync_spt, (const struct hipMemcpy3DParms *copy, hipStream_t stream),
               copy_3d(copy, on, true))

/* Copies between devices. The pointers determine the devices; the device numbers are only checked. */
static int copy_peers(const hipMemcpy3DPeerParms *peers, struct leatc_stream *stream, enum leatc_mode mode)
{
    hipMemcpy3DParms copy = {.kind = hipMemcpyDefault};

    if (!peers)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(check_device(peers->srcDevice));
    LEATC_TRY(check_device(peers->dstDevice));
    copy.srcArray = peers->srcArray;
    copy.srcPos = peers->srcPos;
    copy.srcPtr = peers->srcPtr;
    copy.dstArray = peers->dstArray;
    copy.dstPos = peers->dstPos;
    copy.dstPtr = peers->dstPtr;
    copy.extent = peers->extent;
    return copy_3d(&copy, stream, mode);
}

FORWARD(hipError_t hipMemcpy3DPeer(hipMemcpy3DPeerParms *copy), copy_peers(copy, NULL, LEATC_PEER))
FORWARD(hipError_t hipMemcpy3DPeerAsync(hipMemcpy3DPeerParms *copy, hipStream_t stream),
        copy_peers(copy, stream_of(stream), LEATC_ASYNC))

/* ---- the driver API's structs: all sizes are in bytes, and each side has a memory type ---- */

/* Describes memory in the driver API's structs. There, pitch 0 means rows without gaps, and height 0 means slices
 * without gaps. */
static int plain_of(const void *ptr, size_t pitch, size_t height, const HIP_MEMCPY3D *copy, struct copy_side *side)
{
    size_t slice;

    if (!ptr)
        return LEATC_INVALID_VALUE;
    pitch = pitch ? pitch : copy->WidthInBytes;
    height = height ? height : copy->Height;
    if (pitch < copy->WidthInBytes || (copy->Depth > 1 && height < copy->Height) ||
        __builtin_mul_overflow(pitch, height, &slice))
        return LEATC_INVALID_VALUE;
    *side = plain_side(ptr, pitch, slice);
    side->row_bytes = copy->Height > 1 ? pitch : SIZE_MAX;
    return LEATC_OK;
}

static int source_of(const HIP_MEMCPY3D *copy, struct copy_side *side)
{
    switch (copy->srcMemoryType) {
    case hipMemoryTypeArray:
        return leatc_hip_array_side(copy->srcArray, copy->srcXInBytes, copy->srcY, copy->srcZ, side);
    case hipMemoryTypeHost:
        LEATC_TRY(plain_of(copy->srcHost, copy->srcPitch, copy->srcHeight, copy, side));
        break;
    case hipMemoryTypeDevice:
    case hipMemoryTypeManaged:
    case hipMemoryTypeUnified:
        LEATC_TRY(plain_of(copy->srcDevice, copy->srcPitch, copy->srcHeight, copy, side));
        break;
    default:
        return LEATC_INVALID_VALUE;
    }
    side->x = copy->srcXInBytes;
    side->y = copy->srcY;
    side->z = copy->srcZ;
    return LEATC_OK;
}

static int destination_of(const HIP_MEMCPY3D *copy, struct copy_side *side)
{
    switch (copy->dstMemoryType) {
    case hipMemoryTypeArray:
        return leatc_hip_array_side(copy->dstArray, copy->dstXInBytes, copy->dstY, copy->dstZ, side);
    case hipMemoryTypeHost:
        LEATC_TRY(plain_of(copy->dstHost, copy->dstPitch, copy->dstHeight, copy, side));
        break;
    case hipMemoryTypeDevice:
    case hipMemoryTypeManaged:
    case hipMemoryTypeUnified:
        LEATC_TRY(plain_of(copy->dstDevice, copy->dstPitch, copy->dstHeight, copy, side));
        break;
    default:
        return LEATC_INVALID_VALUE;
    }
    side->x = copy->dstXInBytes;
    side->y = copy->dstY;
    side->z = copy->dstZ;
    return LEATC_OK;
}

int leatc_hip_region_driver(const HIP_MEMCPY3D *copy, struct leatc_copy_task *task)
{
    struct copy_side dst, src;

    if (!copy || copy->srcLOD || copy->dstLOD)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(source_of(copy, &src));
    LEATC_TRY(destination_of(copy, &dst));
    return region_between(&dst, &src, make_hipExtent(copy->WidthInBytes, copy->Height, copy->Depth), task);
}

static int copy_driver(const HIP_MEMCPY3D *copy, struct leatc_stream *stream, bool async)
{
    struct copy_side dst, src;
    hipExtent bytes;

    if (!copy || copy->srcLOD || copy->dstLOD || (copy->srcMemoryType == hipMemoryTypeArray && !copy->srcArray) ||
        (copy->dstMemoryType == hipMemoryTypeArray && !copy->dstArray))
        return LEATC_INVALID_VALUE;
    bytes = make_hipExtent(copy->WidthInBytes, copy->Height, copy->Depth);
    if (!bytes.width || !bytes.height || !bytes.depth)
        return check_stream(stream);
    LEATC_TRY(source_of(copy, &src));
    LEATC_TRY(destination_of(copy, &dst));
    return leatc_hip_copy_region(&dst, &src, bytes, stream, async);
}

FORWARD(hipError_t hipDrvMemcpy3D(const HIP_MEMCPY3D *copy), copy_driver(copy, NULL, false))
FORWARD(hipError_t hipDrvMemcpy3DAsync(const HIP_MEMCPY3D *copy, hipStream_t stream),
        copy_driver(copy, stream_of(stream), true))

static int copy_param(const hip_Memcpy2D *flat, struct leatc_stream *stream, bool async)
{
    HIP_MEMCPY3D copy;

    if (!flat)
        return LEATC_INVALID_VALUE;
    copy = (HIP_MEMCPY3D){.srcXInBytes = flat->srcXInBytes,
                          .srcY = flat->srcY,
                          .srcMemoryType = flat->srcMemoryType,
                          .srcHost = flat->srcHost,
                          .srcDevice = flat->srcDevice,
                          .srcArray = flat->srcArray,
                          .srcPitch = flat->srcPitch,
                          .dstXInBytes = flat->dstXInBytes,
                          .dstY = flat->dstY,
                          .dstMemoryType = flat->dstMemoryType,
                          .dstHost = flat->dstHost,
                          .dstDevice = flat->dstDevice,
                          .dstArray = flat->dstArray,
                          .dstPitch = flat->dstPitch,
                          .WidthInBytes = flat->WidthInBytes,
                          .Height = flat->Height,
                          .Depth = 1};
    return copy_driver(&copy, stream, async);
}

FORWARD(hipError_t hipMemcpyParam2D(const hip_Memcpy2D *copy), copy_param(copy, NULL, false))
FORWARD(hipError_t hipMemcpyParam2DAsync(const hip_Memcpy2D *copy, hipStream_t stream),
        copy_param(copy, stream_of(stream), true))
FORWARD(hipError_t hipDrvMemcpy2DUnaligned(const hip_Memcpy2D *copy), copy_param(copy, NULL, false))

/* test_hip_ordering.c - runs the model of ordering.c with HIP's calls: every form of copy and set. */
#include "ordering.h"

#include <hip/hip_runtime_api.h>

/* ---- arguments ---- */

/* Returns any kind, because HIP takes the direction from the pointers and ignores the kind. */
static hipMemcpyKind kind(const struct cell *dst, const struct cell *src)
{
    return (hipMemcpyKind)kind_of_copy(dst, src);
}

static hipArray_t array(const struct cell *cell)
{
    return (hipArray_t)cell->ptr;
}

static hipPitchedPtr rows_of(const struct cell *cell)
{
    return make_hipPitchedPtr(cell->ptr, row_bytes(), row_bytes(), cell_rows());
}

/* Returns the extent of a whole cell. The width counts elements of 4 bytes if one side is an array, otherwise
 * bytes. */
static hipExtent extent_of(const struct cell *dst, const struct cell *src)
{
    bool elements = dst->sort == ARRAY || src->sort == ARRAY;

    return make_hipExtent(elements ? row_bytes() / 4 : row_bytes(), cell_rows(), 1);
}

static const hipMemcpy3DParms *box(const struct cell *dst, const struct cell *src)
{
    static hipMemcpy3DParms box;

    box = (hipMemcpy3DParms){.extent = extent_of(dst, src), .kind = kind(dst, src)};
    if (dst->sort == ARRAY)
        box.dstArray = array(dst);
    else
        box.dstPtr = rows_of(dst);
    if (src->sort == ARRAY)
        box.srcArray = array(src);
    else
        box.srcPtr = rows_of(src);
    return &box;
}

static hipMemcpy3DPeerParms *peer_region(const struct cell *dst, const struct cell *src)
{
    static hipMemcpy3DPeerParms peers;
    const hipMemcpy3DParms *plain = box(dst, src);

    peers = (hipMemcpy3DPeerParms){.srcArray = plain->srcArray,
                                   .srcPtr = plain->srcPtr,
                                   .srcDevice = src->device,
                                   .dstArray = plain->dstArray,
                                   .dstPtr = plain->dstPtr,
                                   .dstDevice = dst->device,
                                   .extent = plain->extent};
    return &peers;
}

static hipMemoryType type_of(const struct cell *cell)
{
    if (cell->sort == ARRAY)
        return hipMemoryTypeArray;
    return cell->sort == DEVICE ? hipMemoryTypeDevice : hipMemoryTypeHost;
}

static const HIP_MEMCPY3D *driver_region(const struct cell *dst, const struct cell *src)
{
    static HIP_MEMCPY3D box;

    box = (HIP_MEMCPY3D){.dstMemoryType = type_of(dst),
                         .dstHost = dst->ptr,
                         .dstDevice = dst->ptr,
                         .dstArray = array(dst),
                         .dstPitch = row_bytes(),
                         .srcMemoryType = type_of(src),
                         .srcHost = src->ptr,
                         .srcDevice = src->ptr,
                         .srcArray = array(src),
                         .srcPitch = row_bytes(),
                         .WidthInBytes = row_bytes(),
                         .Height = cell_rows(),
                         .Depth = 1};
    return &box;
}

static const hip_Memcpy2D *driver_rows(const struct cell *dst, const struct cell *src)
{
    static hip_Memcpy2D rows;

    rows = (hip_Memcpy2D){.dstMemoryType = type_of(dst),
                          .dstHost = dst->ptr,
                          .dstDevice = dst->ptr,
                          .dstArray = array(dst),
                          .dstPitch = row_bytes(),
                          .srcMemoryType = type_of(src),
                          .srcHost = src->ptr,
                          .srcDevice = src->ptr,
                          .srcArray = array(src),
                          .srcPitch = row_bytes(),
                          .WidthInBytes = row_bytes(),
                          .Height = cell_rows()};
    return &rows;
}

#define S ((hipStream_t)stream)
#define BYTES cell_bytes()
#define ROW row_bytes()
#define ROWS cell_rows()
#define KIND kind(dst, src)
#define BYTE ((int)(value & 0xff))
#define TO_DEVICE hipMemcpyHostToDevice

/* ---- forms: name, order, sorts of dst and of src, arguments ---- */

/* Calls that also exist for the per-thread default stream, with the suffix _spt. */
#define COPIES_BOTH(X)                                                                                            \
    X(hipMemcpy, SYNC, LINEAR, LINEAR, (dst->ptr, src->ptr, BYTES, KIND))                                         \
    X(hipMemcpy2D, SYNC, LINEAR, LINEAR, (dst->ptr, ROW, src->ptr, ROW, ROW, ROWS, KIND))                         \
    X(hipMemcpy3D, SYNC, ANY, ANY, (box(dst, src)))                                                               \
    X(hipMemcpyToSymbol, SYNC, IN(SYMBOL), LINEAR, (dst->ptr, src->ptr, BYTES, 0, TO_DEVICE))                     \
    X(hipMemcpyFromSymbol, SYNC, LINEAR, IN(SYMBOL), (dst->ptr, src->ptr, BYTES, 0, hipMemcpyDefault))            \
    X(hipMemcpy2DToArray, SYNC, IN(ARRAY), LINEAR, (array(dst), 0, 0, src->ptr, ROW, ROW, ROWS, KIND))            \
    X(hipMemcpy2DFromArray, SYNC, LINEAR, IN(ARRAY), (dst->ptr, ROW, array(src), 0, 0, ROW, ROWS, KIND))          \
    X(hipMemcpyFromArray, SYNC, LINEAR, IN(ARRAY), (dst->ptr, array(src), 0, 0, BYTES, KIND))

#define COPIES(X)                                                                                                 \
    X(hipMemcpyHtoD, SYNC, IN(DEVICE), ON_HOST, (dst->ptr, src->ptr, BYTES))                                      \
    X(hipMemcpyDtoH, SYNC, ON_HOST, IN(DEVICE), (dst->ptr, src->ptr, BYTES))                                      \
    X(hipMemcpyDtoD, SYNC, IN(DEVICE), IN(DEVICE), (dst->ptr, src->ptr, BYTES))                                   \
    X(hipMemcpyPeer, PEER, IN(DEVICE), IN(DEVICE), (dst->ptr, dst->device, src->ptr, src->device, BYTES))         \
    X(hipMemcpy3DPeer, PEER, ON_DEVICE, ON_DEVICE, (peer_region(dst, src)))                                       \
    X(hipMemcpyParam2D, SYNC, ANY, ANY, (driver_rows(dst, src)))                                                  \
    X(hipDrvMemcpy2DUnaligned, SYNC, ANY, ANY, (driver_rows(dst, src)))                                           \
    X(hipDrvMemcpy3D, SYNC, ANY, ANY, (driver_region(dst, src)))                                                  \
    X(hipMemcpyToArray, SYNC, IN(ARRAY), LINEAR, (array(dst), 0, 0, src->ptr, BYTES, KIND))                       \
    X(hipMemcpy2DArrayToArray, SYNC, IN(ARRAY), IN(ARRAY), (array(dst), 0, 0, array(src), 0, 0, ROW, ROWS, KIND)) \
    X(hipMemcpyAtoH, SYNC, ON_HOST, ROW_ARRAY, (dst->ptr, array(src), 0, BYTES))                                  \
    X(hipMemcpyHtoA, SYNC, ROW_ARRAY, ON_HOST, (array(dst), 0, src->ptr, BYTES))                                  \
    X(hipMemcpyAtoD, SYNC, IN(DEVICE), ROW_ARRAY, (dst->ptr, array(src), 0, BYTES))                               \
    X(hipMemcpyDtoA, SYNC, ROW_ARRAY, IN(DEVICE), (array(dst), 0, src->ptr, BYTES))                               \
    X(hipMemcpyAtoA, SYNC, ROW_ARRAY, ROW_ARRAY, (array(dst), 0, array(src), 0, BYTES))                           \
    X(hipMemcpyWithStream, WAITING, LINEAR, LINEAR, (dst->ptr, src->ptr, BYTES, KIND, S))                         \
    X(hipMemcpyAsync, STREAM, LINEAR, LINEAR, (dst->ptr, src->ptr, BYTES, KIND, S))                               \
    X(hipMemcpyHtoDAsync, STREAM, IN(DEVICE), ON_HOST, (dst->ptr, src->ptr, BYTES, S))                            \
    X(hipMemcpyDtoHAsync, STREAM, ON_HOST, IN(DEVICE), (dst->ptr, src->ptr, BYTES, S))                            \
    X(hipMemcpyDtoDAsync, STREAM, IN(DEVICE), IN(DEVICE), (dst->ptr, src->ptr, BYTES, S))                         \
    X(hipMemcpyPeerAsync, STREAM, IN(DEVICE), IN(DEVICE),                                                         \
      (dst->ptr, dst->device, src->ptr, src->device, BYTES, S))                                                   \
    X(hipMemcpy3DPeerAsync, STREAM, ON_DEVICE, ON_DEVICE, (peer_region(dst, src), S))                             \
    X(hipMemcpy2DAsync, STREAM, LINEAR, LINEAR, (dst->ptr, ROW, src->ptr, ROW, ROW, ROWS, KIND, S))               \
    X(hipMemcpy3DAsync, STREAM, ANY, ANY, (box(dst, src), S))                                                     \
    X(hipMemcpyParam2DAsync, STREAM, ANY, ANY, (driver_rows(dst, src), S))                                        \
    X(hipDrvMemcpy3DAsync, STREAM, ANY, ANY, (driver_region(dst, src), S))                                        \
    X(hipMemcpy2DToArrayAsync, STREAM, IN(ARRAY), LINEAR, (array(dst), 0, 0, src->ptr, ROW, ROW, ROWS, KIND, S))  \
    X(hipMemcpy2DFromArrayAsync, STREAM, LINEAR, IN(ARRAY),                                                       \
      (dst->ptr, ROW, array(src), 0, 0, ROW, ROWS, KIND, S))                                                      \
    X(hipMemcpyAtoHAsync, STREAM, ON_HOST, ROW_ARRAY, (dst->ptr, array(src), 0, BYTES, S))                        \
    X(hipMemcpyHtoAAsync, STREAM, ROW_ARRAY, ON_HOST, (array(dst), 0, src->ptr, BYTES, S))                        \
    X(hipMemcpyToSymbolAsync, STREAM, IN(SYMBOL), LINEAR, (dst->ptr, src->ptr, BYTES, 0, TO_DEVICE, S))           \
    X(hipMemcpyFromSymbolAsync, STREAM, LINEAR, IN(SYMBOL), (dst->ptr, src->ptr, BYTES, 0, hipMemcpyDefault, S))

/* X(name, order, bytes of the value, arguments) */
#define SETS_BOTH(X)                                                                                              \
    X(hipMemset, SYNC, 1, (dst->ptr, BYTE, BYTES))                                                                \
    X(hipMemset2D, SYNC, 1, (dst->ptr, ROW, BYTE, ROW, ROWS))                                                     \
    X(hipMemset3D, SYNC, 1, (rows_of(dst), BYTE, make_hipExtent(ROW, ROWS, 1)))

#define SETS(X)                                                                                                   \
    X(hipMemsetD8, SYNC, 1, (dst->ptr, (unsigned char)value, BYTES))                                              \
    X(hipMemsetD16, SYNC, 2, (dst->ptr, (unsigned short)value, BYTES / 2))                                        \
    X(hipMemsetD32, SYNC, 4, (dst->ptr, (int)value, BYTES / 4))                                                   \
    X(hipMemsetD2D8, SYNC, 1, (dst->ptr, ROW, (unsigned char)value, ROW, ROWS))                                   \
    X(hipMemsetD2D16, SYNC, 2, (dst->ptr, ROW, (unsigned short)value, ROW / 2, ROWS))                             \
    X(hipMemsetD2D32, SYNC, 4, (dst->ptr, ROW, value, ROW / 4, ROWS))                                             \
    X(hipMemsetAsync, STREAM, 1, (dst->ptr, BYTE, BYTES, S))                                                      \
    X(hipMemsetD8Async, STREAM, 1, (dst->ptr, (unsigned char)value, BYTES, S))                                    \
    X(hipMemsetD16Async, STREAM, 2, (dst->ptr, (unsigned short)value, BYTES / 2, S))                              \
    X(hipMemsetD32Async, STREAM, 4, (dst->ptr, (int)value, BYTES / 4, S))                                         \
    X(hipMemset2DAsync, STREAM, 1, (dst->ptr, ROW, BYTE, ROW, ROWS, S))                                           \
    X(hipMemset3DAsync, STREAM, 1, (rows_of(dst), BYTE, make_hipExtent(ROW, ROWS, 1), S))                         \
    X(hipMemsetD2D8Async, STREAM, 1, (dst->ptr, ROW, (unsigned char)value, ROW, ROWS, S))                         \
    X(hipMemsetD2D16Async, STREAM, 2, (dst->ptr, ROW, (unsigned short)value, ROW / 2, ROWS, S))                   \
    X(hipMemsetD2D32Async, STREAM, 4, (dst->ptr, ROW, value, ROW / 4, ROWS, S))

#define SECOND(name) name##_spt
#include "ordering_forms.h"

/* ---- the rest ---- */

static int set_device(int device)
{
    return (int)hipSetDevice(device);
}

static int device_synchronize(void)
{
    return (int)hipDeviceSynchronize();
}

static int device_reset(void)
{
    return (int)hipDeviceReset();
}

static int stream_create(void **stream, bool blocking)
{
    return (int)hipStreamCreateWithFlags((hipStream_t *)stream,
                                         blocking ? hipStreamDefault : hipStreamNonBlocking);
}

static int event_create(void **event)
{
    return (int)hipEventCreateWithFlags((hipEvent_t *)event, hipEventDisableTiming);
}

static int allocate(enum sort sort, size_t bytes, void **ptr)
{
    if (sort == PINNED)
        return (int)hipHostMalloc(ptr, bytes, hipHostMallocDefault);
    return (int)(sort == MANAGED ? hipMallocManaged(ptr, bytes, hipMemAttachGlobal) : hipMalloc(ptr, bytes));
}

static int release(enum sort sort, void *ptr)
{
    return (int)(sort == PINNED ? hipHostFree(ptr) : hipFree(ptr));
}

static int array_create(size_t bytes, size_t rows, void **made)
{
    hipChannelFormatDesc format = hipCreateChannelDesc(32, 0, 0, 0, hipChannelFormatKindUnsigned);

    return (int)hipMallocArray((hipArray_t *)made, &format, bytes / 4, rows > 1 ? rows : 0, 0);
}

static int array_destroy(void *ended)
{
    return (int)hipFreeArray((hipArray_t)ended);
}

#define CALL(name) hip##name
#define STREAM_HANDLE hipStream_t
#define EVENT_HANDLE hipEvent_t
#include "ordering_calls.h"

int main(int argc, char **argv)
{
    return run("test_hip_ordering", hipErrorNotReady, argc, argv);
}

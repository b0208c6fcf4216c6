/* test_cuda_ordering.c - runs the model of ordering.c with the CUDA driver's calls: every form of copy and set. */
#include "ordering.h"

#include <cuda.h>

static CUcontext contexts[2]; /* the primary contexts */

/* ---- arguments ---- */

static CUdeviceptr address(const struct cell *cell)
{
    return (CUdeviceptr)(uintptr_t)cell->ptr;
}

static CUarray array(const struct cell *cell)
{
    return (CUarray)cell->ptr;
}

static CUmemorytype type_of(const struct cell *cell)
{
    if (cell->sort == ARRAY)
        return CU_MEMORYTYPE_ARRAY;
    if (cell->sort == MANAGED)
        return CU_MEMORYTYPE_UNIFIED;
    return cell->sort == DEVICE ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
}

static const CUDA_MEMCPY2D *rows(const struct cell *dst, const struct cell *src)
{
    static CUDA_MEMCPY2D rows;

    rows = (CUDA_MEMCPY2D){.dstMemoryType = type_of(dst),
                           .dstHost = dst->ptr,
                           .dstDevice = address(dst),
                           .dstArray = array(dst),
                           .dstPitch = row_bytes(),
                           .srcMemoryType = type_of(src),
                           .srcHost = src->ptr,
                           .srcDevice = address(src),
                           .srcArray = array(src),
                           .srcPitch = row_bytes(),
                           .WidthInBytes = row_bytes(),
                           .Height = cell_rows()};
    return &rows;
}

static const CUDA_MEMCPY3D_PEER *peer_region(const struct cell *dst, const struct cell *src)
{
    static CUDA_MEMCPY3D_PEER box;

    box = (CUDA_MEMCPY3D_PEER){.dstMemoryType = type_of(dst),
                               .dstHost = dst->ptr,
                               .dstDevice = address(dst),
                               .dstArray = array(dst),
                               .dstContext = contexts[dst->device],
                               .dstPitch = row_bytes(),
                               .dstHeight = cell_rows(),
                               .srcMemoryType = type_of(src),
                               .srcHost = src->ptr,
                               .srcDevice = address(src),
                               .srcArray = array(src),
                               .srcContext = contexts[src->device],
                               .srcPitch = row_bytes(),
                               .srcHeight = cell_rows(),
                               .WidthInBytes = row_bytes(),
                               .Height = cell_rows(),
                               .Depth = 1};
    return &box;
}

static const CUDA_MEMCPY3D *box(const struct cell *dst, const struct cell *src)
{
    static CUDA_MEMCPY3D box;

    box = (CUDA_MEMCPY3D){.dstMemoryType = type_of(dst),
                          .dstHost = dst->ptr,
                          .dstDevice = address(dst),
                          .dstArray = array(dst),
                          .dstPitch = row_bytes(),
                          .dstHeight = cell_rows(),
                          .srcMemoryType = type_of(src),
                          .srcHost = src->ptr,
                          .srcDevice = address(src),
                          .srcArray = array(src),
                          .srcPitch = row_bytes(),
                          .srcHeight = cell_rows(),
                          .WidthInBytes = row_bytes(),
                          .Height = cell_rows(),
                          .Depth = 1};
    return &box;
}

#define S ((CUstream)stream)
#define BYTES cell_bytes()
#define ROW row_bytes()
#define ROWS cell_rows()
#define TO address(dst)
#define FROM address(src)
#define HOSTS (ON_HOST | IN(SYMBOL))

/* ---- forms: name, order, sorts of dst and of src, arguments ---- */

/* Calls that also exist for the per-thread default stream, with the suffix _ptds. */
#define COPIES_BOTH(X)                                                                                            \
    X(cuMemcpy, SYNC, LINEAR, LINEAR, (TO, FROM, BYTES))                                                          \
    X(cuMemcpyHtoD_v2, SYNC, IN(DEVICE), HOSTS, (TO, src->ptr, BYTES))                                            \
    X(cuMemcpyDtoH_v2, SYNC, HOSTS, IN(DEVICE), (dst->ptr, FROM, BYTES))                                          \
    X(cuMemcpyDtoD_v2, SYNC, IN(DEVICE), IN(DEVICE), (TO, FROM, BYTES))                                           \
    X(cuMemcpyPeer, PEER, IN(DEVICE), IN(DEVICE),                                                                 \
      (TO, contexts[dst->device], FROM, contexts[src->device], BYTES))                                            \
    X(cuMemcpyDtoA_v2, SYNC, ROW_ARRAY, IN(DEVICE), (array(dst), 0, FROM, BYTES))                                 \
    X(cuMemcpyAtoD_v2, SYNC, IN(DEVICE), ROW_ARRAY, (TO, array(src), 0, BYTES))                                   \
    X(cuMemcpyHtoA_v2, SYNC, ROW_ARRAY, HOSTS, (array(dst), 0, src->ptr, BYTES))                                  \
    X(cuMemcpyAtoH_v2, SYNC, HOSTS, ROW_ARRAY, (dst->ptr, array(src), 0, BYTES))                                  \
    X(cuMemcpyAtoA_v2, SYNC, ROW_ARRAY, ROW_ARRAY, (array(dst), 0, array(src), 0, BYTES))                         \
    X(cuMemcpy2D_v2, SYNC, ANY, ANY, (rows(dst, src)))                                                            \
    X(cuMemcpy2DUnaligned_v2, SYNC, ANY, ANY, (rows(dst, src)))                                                   \
    X(cuMemcpy3D_v2, SYNC, ANY, ANY, (box(dst, src)))                                                             \
    X(cuMemcpy3DPeer, PEER, ON_DEVICE, ON_DEVICE, (peer_region(dst, src)))

#define COPIES(X)                                                                                                 \
    X(cuMemcpyAsync, STREAM, LINEAR, LINEAR, (TO, FROM, BYTES, S))                                                \
    X(cuMemcpyHtoDAsync_v2, STREAM, IN(DEVICE), HOSTS, (TO, src->ptr, BYTES, S))                                  \
    X(cuMemcpyDtoHAsync_v2, STREAM, HOSTS, IN(DEVICE), (dst->ptr, FROM, BYTES, S))                                \
    X(cuMemcpyDtoDAsync_v2, STREAM, IN(DEVICE), IN(DEVICE), (TO, FROM, BYTES, S))                                 \
    X(cuMemcpyPeerAsync, STREAM, IN(DEVICE), IN(DEVICE),                                                          \
      (TO, contexts[dst->device], FROM, contexts[src->device], BYTES, S))                                         \
    X(cuMemcpyHtoAAsync_v2, STREAM, ROW_ARRAY, HOSTS, (array(dst), 0, src->ptr, BYTES, S))                        \
    X(cuMemcpyAtoHAsync_v2, STREAM, HOSTS, ROW_ARRAY, (dst->ptr, array(src), 0, BYTES, S))                        \
    X(cuMemcpy2DAsync_v2, STREAM, ANY, ANY, (rows(dst, src), S))                                                  \
    X(cuMemcpy3DAsync_v2, STREAM, ANY, ANY, (box(dst, src), S))                                                   \
    X(cuMemcpy3DPeerAsync, STREAM, ON_DEVICE, ON_DEVICE, (peer_region(dst, src), S))

/* X(name, order, bytes of the value, arguments) */
#define SETS_BOTH(X)                                                                                              \
    X(cuMemsetD8_v2, SYNC, 1, (TO, (unsigned char)value, BYTES))                                                  \
    X(cuMemsetD16_v2, SYNC, 2, (TO, (unsigned short)value, BYTES / 2))                                            \
    X(cuMemsetD32_v2, SYNC, 4, (TO, value, BYTES / 4))                                                            \
    X(cuMemsetD2D8_v2, SYNC, 1, (TO, ROW, (unsigned char)value, ROW, ROWS))                                       \
    X(cuMemsetD2D16_v2, SYNC, 2, (TO, ROW, (unsigned short)value, ROW / 2, ROWS))                                 \
    X(cuMemsetD2D32_v2, SYNC, 4, (TO, ROW, value, ROW / 4, ROWS))

#define SETS(X)                                                                                                   \
    X(cuMemsetD8Async, STREAM, 1, (TO, (unsigned char)value, BYTES, S))                                           \
    X(cuMemsetD16Async, STREAM, 2, (TO, (unsigned short)value, BYTES / 2, S))                                     \
    X(cuMemsetD32Async, STREAM, 4, (TO, value, BYTES / 4, S))                                                     \
    X(cuMemsetD2D8Async, STREAM, 1, (TO, ROW, (unsigned char)value, ROW, ROWS, S))                                \
    X(cuMemsetD2D16Async, STREAM, 2, (TO, ROW, (unsigned short)value, ROW / 2, ROWS, S))                          \
    X(cuMemsetD2D32Async, STREAM, 4, (TO, ROW, value, ROW / 4, ROWS, S))

#define SECOND(name) name##_ptds
#include "ordering_forms.h"

/* ---- the rest ---- */

static int set_device(int device)
{
    return (int)cuCtxSetCurrent(contexts[device]);
}

static int device_synchronize(void)
{
    return (int)cuCtxSynchronize();
}

static int device_reset(void)
{
    CUdevice device;
    CUresult result = cuCtxGetDevice(&device);

    return (int)(result == CUDA_SUCCESS ? cuDevicePrimaryCtxRelease(device) : result);
}

static int stream_create(void **stream, bool blocking)
{
    return (int)cuStreamCreate((CUstream *)stream, blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
}

static int event_create(void **event)
{
    return (int)cuEventCreate((CUevent *)event, CU_EVENT_DISABLE_TIMING);
}

static int allocate(enum sort sort, size_t bytes, void **ptr)
{
    CUdeviceptr made = 0;
    CUresult result;

    if (sort == PINNED)
        return (int)cuMemAllocHost(ptr, bytes);
    result = sort == MANAGED ? cuMemAllocManaged(&made, bytes, CU_MEM_ATTACH_GLOBAL) : cuMemAlloc(&made, bytes);
    *ptr = (void *)(uintptr_t)made;
    return (int)result;
}

static int release(enum sort sort, void *ptr)
{
    return (int)(sort == PINNED ? cuMemFreeHost(ptr) : cuMemFree((CUdeviceptr)(uintptr_t)ptr));
}

static int array_create(size_t bytes, size_t count, void **made)
{
    CUDA_ARRAY_DESCRIPTOR shape = {bytes / 4, count > 1 ? count : 0, CU_AD_FORMAT_UNSIGNED_INT32, 1};

    return (int)cuArrayCreate((CUarray *)made, &shape);
}

static int array_destroy(void *ended)
{
    return (int)cuArrayDestroy((CUarray)ended);
}

#define CALL(name) cu##name
#define STREAM_HANDLE CUstream
#define EVENT_HANDLE CUevent
#include "ordering_calls.h"

int main(int argc, char **argv)
{
    if (cuInit(0))
        return 1;
    for (int i = 0; i < 2; i++)
        if (cuDevicePrimaryCtxRetain(&contexts[i], i))
            return 1;
    return run("test_cuda_ordering", CUDA_ERROR_NOT_READY, argc, argv);
}

/* test_cudart_ordering.c - runs the model of ordering.c with the CUDA runtime's calls: every form of copy and
 * set. */
#include "ordering.h"

#include <cuda_runtime.h>

/* ---- arguments ---- */

static enum cudaMemcpyKind kind(const struct cell *dst, const struct cell *src)
{
    return (enum cudaMemcpyKind)kind_of_copy(dst, src);
}

static cudaArray_t array(const struct cell *cell)
{
    return (cudaArray_t)cell->ptr;
}

static struct cudaPitchedPtr rows_of(const struct cell *cell)
{
    return make_cudaPitchedPtr(cell->ptr, row_bytes(), row_bytes(), cell_rows());
}

/* Returns the extent of a whole cell. The width counts elements of 4 bytes if one side is an array, otherwise
 * bytes. */
static struct cudaExtent extent_of(const struct cell *dst, const struct cell *src)
{
    bool elements = dst->sort == ARRAY || src->sort == ARRAY;

    return make_cudaExtent(elements ? row_bytes() / 4 : row_bytes(), cell_rows(), 1);
}

static const struct cudaMemcpy3DParms *box(const struct cell *dst, const struct cell *src)
{
    static struct cudaMemcpy3DParms box;

    box = (struct cudaMemcpy3DParms){.extent = extent_of(dst, src), .kind = kind(dst, src)};
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

static const struct cudaMemcpy3DPeerParms *peer_region(const struct cell *dst, const struct cell *src)
{
    static struct cudaMemcpy3DPeerParms peers;
    const struct cudaMemcpy3DParms *plain = box(dst, src);

    peers = (struct cudaMemcpy3DPeerParms){.srcArray = plain->srcArray,
                                           .srcPtr = plain->srcPtr,
                                           .srcDevice = src->device,
                                           .dstArray = plain->dstArray,
                                           .dstPtr = plain->dstPtr,
                                           .dstDevice = dst->device,
                                           .extent = plain->extent};
    return &peers;
}

#define S ((cudaStream_t)stream)
#define BYTES cell_bytes()
#define ROW row_bytes()
#define ROWS cell_rows()
#define KIND kind(dst, src)
#define BYTE ((int)(value & 0xff))

/* ---- forms: name, order, sorts of dst and of src, arguments ---- */

/* Calls that also exist for the per-thread default stream, with the suffix _ptds. */
#define COPIES_BOTH(X)                                                                                            \
    X(cudaMemcpy, SYNC, LINEAR, LINEAR, (dst->ptr, src->ptr, BYTES, KIND))                                        \
    X(cudaMemcpy2D, SYNC, LINEAR, LINEAR, (dst->ptr, ROW, src->ptr, ROW, ROW, ROWS, KIND))                        \
    X(cudaMemcpy2DToArray, SYNC, IN(ARRAY), LINEAR, (array(dst), 0, 0, src->ptr, ROW, ROW, ROWS, KIND))           \
    X(cudaMemcpy2DFromArray, SYNC, LINEAR, IN(ARRAY), (dst->ptr, ROW, array(src), 0, 0, ROW, ROWS, KIND))         \
    X(cudaMemcpy2DArrayToArray, SYNC, IN(ARRAY), IN(ARRAY),                                                       \
      (array(dst), 0, 0, array(src), 0, 0, ROW, ROWS, KIND))                                                      \
    X(cudaMemcpyToArray, SYNC, IN(ARRAY), LINEAR, (array(dst), 0, 0, src->ptr, BYTES, KIND))                      \
    X(cudaMemcpyFromArray, SYNC, LINEAR, IN(ARRAY), (dst->ptr, array(src), 0, 0, BYTES, KIND))                    \
    X(cudaMemcpyArrayToArray, SYNC, IN(ARRAY), IN(ARRAY), (array(dst), 0, 0, array(src), 0, 0, BYTES, KIND))      \
    X(cudaMemcpyToSymbol, SYNC, IN(SYMBOL), LINEAR, (dst->ptr, src->ptr, BYTES, 0, cudaMemcpyDefault))            \
    X(cudaMemcpyFromSymbol, SYNC, LINEAR, IN(SYMBOL), (dst->ptr, src->ptr, BYTES, 0, cudaMemcpyDefault))          \
    X(cudaMemcpy3D, SYNC, ANY, ANY, (box(dst, src)))                                                              \
    X(cudaMemcpy3DPeer, PEER, ON_DEVICE, ON_DEVICE, (peer_region(dst, src)))

#define COPIES(X)                                                                                                 \
    X(cudaMemcpyPeer, PEER, IN(DEVICE), IN(DEVICE), (dst->ptr, dst->device, src->ptr, src->device, BYTES))        \
    X(cudaMemcpyAsync, STREAM, LINEAR, LINEAR, (dst->ptr, src->ptr, BYTES, KIND, S))                              \
    X(cudaMemcpy2DAsync, STREAM, LINEAR, LINEAR, (dst->ptr, ROW, src->ptr, ROW, ROW, ROWS, KIND, S))              \
    X(cudaMemcpy2DToArrayAsync, STREAM, IN(ARRAY), LINEAR, (array(dst), 0, 0, src->ptr, ROW, ROW, ROWS, KIND, S)) \
    X(cudaMemcpy2DFromArrayAsync, STREAM, LINEAR, IN(ARRAY),                                                      \
      (dst->ptr, ROW, array(src), 0, 0, ROW, ROWS, KIND, S))                                                      \
    X(cudaMemcpyToArrayAsync, STREAM, IN(ARRAY), LINEAR, (array(dst), 0, 0, src->ptr, BYTES, KIND, S))            \
    X(cudaMemcpyFromArrayAsync, STREAM, LINEAR, IN(ARRAY), (dst->ptr, array(src), 0, 0, BYTES, KIND, S))          \
    X(cudaMemcpyToSymbolAsync, STREAM, IN(SYMBOL), LINEAR, (dst->ptr, src->ptr, BYTES, 0, cudaMemcpyDefault, S))  \
    X(cudaMemcpyFromSymbolAsync, STREAM, LINEAR, IN(SYMBOL),                                                      \
      (dst->ptr, src->ptr, BYTES, 0, cudaMemcpyDefault, S))                                                       \
    X(cudaMemcpy3DAsync, STREAM, ANY, ANY, (box(dst, src), S))                                                    \
    X(cudaMemcpyPeerAsync, STREAM, IN(DEVICE), IN(DEVICE),                                                        \
      (dst->ptr, dst->device, src->ptr, src->device, BYTES, S))                                                   \
    X(cudaMemcpy3DPeerAsync, STREAM, ON_DEVICE, ON_DEVICE, (peer_region(dst, src), S))

/* X(name, order, bytes of the value, arguments) */
#define SETS_BOTH(X)                                                                                              \
    X(cudaMemset, SYNC, 1, (dst->ptr, BYTE, BYTES))                                                               \
    X(cudaMemset2D, SYNC, 1, (dst->ptr, ROW, BYTE, ROW, ROWS))                                                    \
    X(cudaMemset3D, SYNC, 1, (rows_of(dst), BYTE, make_cudaExtent(ROW, ROWS, 1)))

#define SETS(X)                                                                                                   \
    X(cudaMemsetAsync, STREAM, 1, (dst->ptr, BYTE, BYTES, S))                                                     \
    X(cudaMemset2DAsync, STREAM, 1, (dst->ptr, ROW, BYTE, ROW, ROWS, S))                                          \
    X(cudaMemset3DAsync, STREAM, 1, (rows_of(dst), BYTE, make_cudaExtent(ROW, ROWS, 1), S))

#define SECOND(name) name##_ptds
#include "ordering_forms.h"

/* ---- the rest ---- */

static int set_device(int device)
{
    return (int)cudaSetDevice(device);
}

static int device_synchronize(void)
{
    return (int)cudaDeviceSynchronize();
}

static int device_reset(void)
{
    return (int)cudaDeviceReset();
}

static int stream_create(void **stream, bool blocking)
{
    return (int)cudaStreamCreateWithFlags((cudaStream_t *)stream,
                                          blocking ? cudaStreamDefault : cudaStreamNonBlocking);
}

static int event_create(void **event)
{
    return (int)cudaEventCreateWithFlags((cudaEvent_t *)event, cudaEventDisableTiming);
}

static int allocate(enum sort sort, size_t bytes, void **ptr)
{
    if (sort == PINNED)
        return (int)cudaMallocHost(ptr, bytes);
    return (int)(sort == MANAGED ? cudaMallocManaged(ptr, bytes, cudaMemAttachGlobal) : cudaMalloc(ptr, bytes));
}

static int release(enum sort sort, void *ptr)
{
    return (int)(sort == PINNED ? cudaFreeHost(ptr) : cudaFree(ptr));
}

static int array_create(size_t bytes, size_t rows, void **made)
{
    struct cudaChannelFormatDesc format = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindUnsigned);

    return (int)cudaMallocArray((cudaArray_t *)made, &format, bytes / 4, rows > 1 ? rows : 0, 0);
}

static int array_destroy(void *ended)
{
    return (int)cudaFreeArray((cudaArray_t)ended);
}

#define CALL(name) cuda##name
#define STREAM_HANDLE cudaStream_t
#define EVENT_HANDLE cudaEvent_t
#include "ordering_calls.h"

int main(int argc, char **argv)
{
    return run("test_cudart_ordering", cudaErrorNotReady, argc, argv);
}

/* test_cudart_refusals.c - tests the error code of each call with arguments that the CUDA runtime's manual
 * forbids. */
#include <cuda_runtime.h>

#include "compat.h"

#include <limits.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define INVALID(call) GIVES(cudaErrorInvalidValue, call)
#define W 64
#define H 16
#define D 4
#define MAX_PITCH ((size_t)INT_MAX)

static unsigned char *device, *pinned, *managed, host[W * H * D];
static cudaStream_t stream;

static void allocations(void **state)
{
    struct cudaPitchedPtr pitched;
    size_t pitch;
    void *ptr;

    (void)state;
    INVALID(cudaMalloc(NULL, 1));
    GIVES(cudaErrorMemoryAllocation, cudaMalloc(&ptr, SIZE_MAX));
    INVALID(cudaMallocHost(NULL, 1));
    GIVES(cudaErrorMemoryAllocation, cudaMallocHost(&ptr, SIZE_MAX));
    INVALID(cudaHostAlloc(NULL, 1, 0));
    INVALID(cudaHostAlloc(&ptr, 1, 0xff));
    GIVES(cudaErrorMemoryAllocation, cudaHostAlloc(&ptr, SIZE_MAX, cudaHostAllocMapped));
    INVALID(cudaMallocManaged(NULL, 1, cudaMemAttachGlobal));
    INVALID(cudaMallocManaged(&ptr, 0, cudaMemAttachGlobal));
    INVALID(cudaMallocManaged(&ptr, 1, 0));
    INVALID(cudaMallocManaged(&ptr, 1, cudaMemAttachSingle));
    INVALID(cudaMallocManaged(&ptr, 1, cudaMemAttachGlobal | cudaMemAttachHost));
    GIVES(cudaErrorMemoryAllocation, cudaMallocManaged(&ptr, SIZE_MAX, cudaMemAttachGlobal));
    INVALID(cudaMallocPitch(NULL, &pitch, W, H));
    INVALID(cudaMallocPitch(&ptr, NULL, W, H));
    GIVES(cudaErrorMemoryAllocation, cudaMallocPitch(&ptr, &pitch, SIZE_MAX, H));
    GIVES(cudaErrorMemoryAllocation, cudaMallocPitch(&ptr, &pitch, W, SIZE_MAX));
    INVALID(cudaMalloc3D(NULL, make_cudaExtent(W, H, D)));
    GIVES(cudaErrorMemoryAllocation, cudaMalloc3D(&pitched, make_cudaExtent(SIZE_MAX, H, D)));
    GIVES(cudaErrorMemoryAllocation, cudaMalloc3D(&pitched, make_cudaExtent(W, SIZE_MAX, D)));
    GIVES(cudaErrorMemoryAllocation, cudaMalloc3D(&pitched, make_cudaExtent(W, H, SIZE_MAX)));
    INVALID(cudaFree(host));
    INVALID(cudaFree(device + 1));
    INVALID(cudaFree(pinned));
    INVALID(cudaFreeHost(device));
    INVALID(cudaFreeHost(host));
    INVALID(cudaFreeHost(pinned + 1));
    INVALID(cudaMemGetInfo(NULL, &pitch));
    INVALID(cudaMemGetInfo(&pitch, NULL));
}

static void registering(void **state)
{
    static unsigned char own[3 * 4096] __attribute__((aligned(4096)));
    unsigned flags;
    void *ptr;

    (void)state;
    INVALID(cudaHostRegister(NULL, 1, 0));
    INVALID(cudaHostRegister(own, 0, 0));
    INVALID(cudaHostRegister(own, 4096, 0xf0));
    INVALID(cudaHostRegister(own, 4096, UINT_MAX));
    INVALID(cudaHostRegister(device, 16, 0));
    INVALID(cudaHostRegister((void *)(uintptr_t)4096, 4096, 0)); /* there is no memory at this address */
    INVALID(cudaHostRegister(own, (size_t)1 << 46, 0));
    GIVES(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(pinned, 16, 0));
    OK(cudaHostRegister(own + 4096, 4096, cudaHostRegisterMapped));
    GIVES(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(own + 4096, 4096, 0));
    GIVES(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(own, sizeof own, 0));
    GIVES(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(own));
    GIVES(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(pinned));
    GIVES(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(device));
    INVALID(cudaHostUnregister(NULL));
    INVALID(cudaFreeHost(own + 4096));
    OK(cudaHostUnregister(own + 4096));
    INVALID(cudaHostGetDevicePointer(NULL, pinned, 0));
    INVALID(cudaHostGetDevicePointer(&ptr, NULL, 0));
    INVALID(cudaHostGetDevicePointer(&ptr, host, 0));
    INVALID(cudaHostGetDevicePointer(&ptr, pinned, 1));
    INVALID(cudaHostGetFlags(NULL, pinned));
    INVALID(cudaHostGetFlags(&flags, NULL));
    INVALID(cudaHostGetFlags(&flags, host));
    INVALID(cudaHostGetFlags(&flags, device));
}

/* Checks a copy of rows by the synchronous and by the asynchronous call. */
#define ROWS(result, dst, dst_pitch, src, src_pitch, width, height, kind)                                         \
    do {                                                                                                          \
        GIVES(result, cudaMemcpy2D(dst, dst_pitch, src, src_pitch, width, height, kind));                         \
        GIVES(result, cudaMemcpy2DAsync(dst, dst_pitch, src, src_pitch, width, height, kind, stream));            \
    } while (0)

static void copies(void **state)
{
    const enum cudaMemcpyKind to = cudaMemcpyHostToDevice, none = (enum cudaMemcpyKind) - 1;

    (void)state;
    INVALID(cudaMemcpy(NULL, host, 1, to));
    INVALID(cudaMemcpy(device, NULL, 1, to));
    GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpy(device, host, 1, none));
    INVALID(cudaMemcpyAsync(NULL, host, 1, to, stream));
    INVALID(cudaMemcpyAsync(device, NULL, 1, to, stream));
    GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpyAsync(device, host, 1, none, stream));
    GIVES(cudaErrorInvalidDevice, cudaMemcpyPeer(device, -1, device, 0, 1));
    GIVES(cudaErrorInvalidDevice, cudaMemcpyPeer(device, 0, device, 99, 1));
    INVALID(cudaMemcpyPeer(NULL, 0, device, 0, 1));
    INVALID(cudaMemcpyPeerAsync(device, 0, NULL, 0, 1, stream));
    ROWS(cudaErrorInvalidValue, NULL, W, host, W, W, H, to);
    ROWS(cudaErrorInvalidValue, device, W, NULL, W, W, H, to);
    ROWS(cudaErrorInvalidPitchValue, device, W - 1, host, W, W, H, to);
    ROWS(cudaErrorInvalidPitchValue, device, W, host, W - 1, W, H, to);
    ROWS(cudaErrorInvalidValue, device, MAX_PITCH + 1, host, W, W, H, to);
    ROWS(cudaErrorInvalidValue, device, W, host, MAX_PITCH + 1, W, H, to);
    ROWS(cudaErrorInvalidMemcpyDirection, device, W, host, W, W, H, none);
    ROWS(0, device, W, host, W, 0, H, to);
    ROWS(0, device, W, host, W, W, 0, to);
}

static void boxes_of(struct cudaMemcpy3DParms parms, cudaError_t wanted)
{
    GIVES(wanted, cudaMemcpy3D(&parms));
    GIVES(wanted, cudaMemcpy3DAsync(&parms, stream));
}

static void boxes(void **state)
{
    struct cudaMemcpy3DParms good = {.dstPtr = make_cudaPitchedPtr(device, W, W, H),
                                     .srcPtr = make_cudaPitchedPtr(host, W, W, H),
                                     .extent = make_cudaExtent(W, H, D),
                                     .kind = cudaMemcpyHostToDevice},
                             bad;

    (void)state;
    INVALID(cudaMemcpy3D(NULL));
    INVALID(cudaMemcpy3DAsync(NULL, stream));
    boxes_of(good, cudaSuccess);
    bad = good, bad.dstPtr.ptr = NULL, boxes_of(bad, cudaErrorInvalidValue);
    bad = good, bad.srcPtr.ptr = NULL, boxes_of(bad, cudaErrorInvalidValue);
    bad = good, bad.dstPtr.pitch = W - 1, boxes_of(bad, cudaErrorInvalidPitchValue);
    bad = good, bad.srcPtr.pitch = W - 1, boxes_of(bad, cudaErrorInvalidPitchValue);
    bad = good, bad.dstPtr.pitch = MAX_PITCH + 1, boxes_of(bad, cudaErrorInvalidValue);
    bad = good, bad.srcPtr.pitch = MAX_PITCH + 1, boxes_of(bad, cudaErrorInvalidValue);
    bad = good, bad.dstPos.x = 1, boxes_of(bad, cudaErrorInvalidValue);
    bad = good, bad.srcPos.x = 1, boxes_of(bad, cudaErrorInvalidValue);
    bad = good, bad.dstPos.y = 1, boxes_of(bad, cudaErrorInvalidValue);
    bad = good, bad.srcPos.y = 1, boxes_of(bad, cudaErrorInvalidValue);
    bad = good, bad.srcPos.y = SIZE_MAX, boxes_of(bad, cudaErrorInvalidValue);
    bad = good, bad.kind = (enum cudaMemcpyKind) - 1, boxes_of(bad, cudaErrorInvalidMemcpyDirection);
    bad = good, bad.extent.width = 0, bad.dstPtr.pitch = 0, boxes_of(bad, cudaSuccess);
}

static void fills(void **state)
{
    struct cudaPitchedPtr box = make_cudaPitchedPtr(device, W, W, H), out = box;

    (void)state;
    INVALID(cudaMemset(NULL, 0, 1));
    INVALID(cudaMemset(host, 0, 1));
    INVALID(cudaMemset(device, 0, W * H * D + 1));
    INVALID(cudaMemset(device + W * H * D, 0, 1));
    INVALID(cudaMemsetAsync(NULL, 0, 1, stream));
    INVALID(cudaMemsetAsync(device, 0, SIZE_MAX, stream));
    INVALID(cudaMemset2D(NULL, W, 0, W, H));
    INVALID(cudaMemset2D(device, W - 1, 0, W, H));
    INVALID(cudaMemset2D(device, W, 0, W, H * D + 1));
    INVALID(cudaMemset2D(device, SIZE_MAX, 0, W, H));
    INVALID(cudaMemset2DAsync(device, W, 0, SIZE_MAX, H, stream));
    INVALID(cudaMemset2DAsync(device, W, 0, W, SIZE_MAX, stream));
    INVALID(cudaMemset3D(box, 0, make_cudaExtent(W + 1, H, D)));
    INVALID(cudaMemset3D(box, 0, make_cudaExtent(W, H + 1, D)));
    INVALID(cudaMemset3D(box, 0, make_cudaExtent(W, H, D + 1)));
    INVALID(cudaMemset3D(box, 0, make_cudaExtent(SIZE_MAX, H, D)));
    INVALID(cudaMemset3DAsync(box, 0, make_cudaExtent(W, SIZE_MAX, D), stream));
    out.ptr = device + W * H * D + 1;
    INVALID(cudaMemset3D(out, 0, make_cudaExtent(W, H, D)));
    OK(cudaMemset3D(out, 0, make_cudaExtent(0, 0, 0)));
    out.ptr = NULL;
    INVALID(cudaMemset3DAsync(out, 0, make_cudaExtent(W, H, D), stream));
}

static void arrays(void **state)
{
    struct cudaChannelFormatDesc desc = {32, 0, 0, 0, cudaChannelFormatKindFloat}, bad = {32, 8, 0, 0, desc.f};
    struct cudaMemcpy3DParms box = {.srcPtr = make_cudaPitchedPtr(host, 64, 16, 4),
                                    .extent = make_cudaExtent(16, 4, 1),
                                    .kind = cudaMemcpyHostToDevice};
    cudaArray_t array, none;
    const size_t row = 16 * sizeof(float);

    (void)state;
    INVALID(cudaMallocArray(NULL, &desc, 16, 4, 0));
    INVALID(cudaMallocArray(&none, NULL, 16, 4, 0));
    INVALID(cudaMallocArray(&none, &desc, 0, 4, 0));
    INVALID(cudaMallocArray(&none, &desc, 16, 4, 0xff00));
    GIVES(cudaErrorInvalidChannelDescriptor, cudaMallocArray(&none, &bad, 16, 4, 0));
    INVALID(cudaMalloc3DArray(NULL, &desc, make_cudaExtent(4, 4, 4), 0));
    INVALID(cudaMalloc3DArray(&none, &desc, make_cudaExtent(4, 0, 4), 0));
    INVALID(cudaMalloc3DArray(&none, &desc, make_cudaExtent(4, 8, 6), cudaArrayCubemap));
    INVALID(cudaMalloc3DArray(&none, &desc, make_cudaExtent(4, 4, 5), cudaArrayCubemap));
    OK(cudaMallocArray(&array, &desc, 16, 4, 0));
    INVALID(cudaMemcpy2DToArray(NULL, 0, 0, host, row, row, 4, cudaMemcpyHostToDevice));
    INVALID(cudaMemcpy2DToArray(array, 0, 0, NULL, row, row, 4, cudaMemcpyHostToDevice));
    GIVES(cudaErrorInvalidPitchValue,
          cudaMemcpy2DToArray(array, 0, 0, host, row - 1, row, 4, cudaMemcpyHostToDevice));
    INVALID(cudaMemcpy2DToArray(array, 1, 0, host, row, row, 4, cudaMemcpyHostToDevice));
    INVALID(cudaMemcpy2DToArray(array, 0, 1, host, row, row, 4, cudaMemcpyHostToDevice));
    INVALID(cudaMemcpy2DToArray(array, 0, 0, host, row, row, 5, cudaMemcpyHostToDevice));
    GIVES(cudaErrorInvalidMemcpyDirection,
          cudaMemcpy2DToArray(array, 0, 0, host, row, row, 4, (enum cudaMemcpyKind) - 1));
    INVALID(cudaMemcpy2DFromArray(NULL, row, array, 0, 0, row, 4, cudaMemcpyDeviceToHost));
    INVALID(cudaMemcpy2DFromArray(host, row, NULL, 0, 0, row, 4, cudaMemcpyDeviceToHost));
    GIVES(cudaErrorInvalidPitchValue,
          cudaMemcpy2DFromArray(host, row - 1, array, 0, 0, row, 4, cudaMemcpyDeviceToHost));
    INVALID(cudaMemcpy2DFromArray(host, row, array, 0, 1, row, 4, cudaMemcpyDeviceToHost));
    box.dstArray = array;
    boxes_of(box, cudaSuccess);
    box.dstPos.x = SIZE_MAX / 4 + 1; /* 0 if the number of bytes wraps around */
    boxes_of(box, cudaErrorInvalidValue);
    INVALID(cudaGetChannelDesc(NULL, array));
    OK(cudaFreeArray(array));
    INVALID(cudaFreeArray(array));
    INVALID(cudaMemcpy2DToArray(array, 0, 0, host, row, row, 4, cudaMemcpyHostToDevice));
}

static void streams_and_events(void **state)
{
    cudaEvent_t event, gone;
    cudaStream_t lost;
    unsigned flags;
    int number;
    float ms;

    (void)state;
    OK(cudaEventCreate(&event));
    OK(cudaEventCreate(&gone));
    OK(cudaEventDestroy(gone));
    OK(cudaStreamCreate(&lost));
    OK(cudaStreamDestroy(lost));
    INVALID(cudaStreamCreate(NULL));
    INVALID(cudaStreamCreateWithFlags(&lost, 0xff));
    INVALID(cudaStreamCreateWithPriority(&lost, 0xff, 0));
    INVALID(cudaStreamGetPriority(stream, NULL));
    INVALID(cudaStreamGetFlags(stream, NULL));
    INVALID(cudaStreamGetId(stream, NULL));
    INVALID(cudaStreamGetDevice(stream, NULL));
    INVALID(cudaStreamAddCallback(stream, NULL, NULL, 0));
    INVALID(cudaLaunchHostFunc(stream, NULL, NULL));
    INVALID(cudaStreamWaitEvent(stream, event, 0xff));
    INVALID(cudaEventCreate(NULL));
    INVALID(cudaEventCreateWithFlags(NULL, 0));
    INVALID(cudaEventCreateWithFlags(&gone, 0xff));
    INVALID(cudaEventRecordWithFlags(event, stream, 0xff));
    INVALID(cudaEventElapsedTime(NULL, event, event));
#define LOST(call) GIVES(cudaErrorInvalidResourceHandle, call)
    gone = NULL;
    for (int i = 0; i < 2; i++) {
        LOST(cudaEventRecord(gone, stream));
        LOST(cudaEventQuery(gone));
        LOST(cudaEventSynchronize(gone));
        LOST(cudaEventDestroy(gone));
        LOST(cudaEventElapsedTime(&ms, gone, event));
        LOST(cudaEventElapsedTime(&ms, event, gone));
        LOST(cudaStreamWaitEvent(stream, gone, 0));
        OK(cudaEventCreate(&gone));
        OK(cudaEventDestroy(gone));
    }
    LOST(cudaStreamDestroy(lost));
    LOST(cudaStreamQuery(lost));
    LOST(cudaStreamSynchronize(lost));
    LOST(cudaStreamGetPriority(lost, &number));
    LOST(cudaStreamGetFlags(lost, &flags));
    LOST(cudaStreamWaitEvent(lost, event, 0));
    LOST(cudaEventRecord(event, lost));
    LOST(cudaMemcpyAsync(device, pinned, 1, cudaMemcpyHostToDevice, lost));
    LOST(cudaMemsetAsync(device, 0, 1, lost));
    LOST(cudaMallocAsync((void **)&number, 16, lost));
    LOST(cudaFreeAsync(device, lost));
    LOST(cudaMemPrefetchAsync(managed, 1, (struct cudaMemLocation){cudaMemLocationTypeDevice, 0}, 0, lost));
    LOST(cudaStreamAttachMemAsync(lost, managed, 0, cudaMemAttachSingle));
    OK(cudaEventDestroy(event));
}

static void pools(void **state)
{
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .location = {cudaMemLocationTypeDevice, 0}},
                            bad;
    struct cudaMemAccessDesc access = {{cudaMemLocationTypeDevice, 1}, cudaMemAccessFlagsProtReadWrite};
    struct cudaMemLocation place = {cudaMemLocationTypeDevice, 99};
    enum cudaMemAccessFlags flags;
    cudaMemPool_t pool, none;
    uint64_t value = 1;
    void *ptr;

    (void)state;
    INVALID(cudaMemPoolCreate(NULL, &props));
    INVALID(cudaMemPoolCreate(&none, NULL));
    bad = props, bad.allocType = cudaMemAllocationTypeInvalid;
    INVALID(cudaMemPoolCreate(&none, &bad));
    bad = props, bad.location.type = cudaMemLocationTypeInvalid;
    INVALID(cudaMemPoolCreate(&none, &bad));
    bad = props, bad.location.id = 99;
    INVALID(cudaMemPoolCreate(&none, &bad));
    bad = props, bad.handleTypes = cudaMemHandleTypeWin32;
    INVALID(cudaMemPoolCreate(&none, &bad));
    OK(cudaMemPoolCreate(&pool, &props));
    INVALID(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, NULL));
    INVALID(cudaMemPoolSetAttribute(NULL, cudaMemPoolAttrReleaseThreshold, &value));
    INVALID(cudaMemPoolSetAttribute(pool, (enum cudaMemPoolAttr)0xff, &value));
    INVALID(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &value));
    INVALID(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &value));
    INVALID(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, NULL));
    INVALID(cudaMemPoolGetAttribute(NULL, cudaMemPoolAttrReleaseThreshold, &value));
    INVALID(cudaMemPoolGetAttribute(pool, (enum cudaMemPoolAttr)0xff, &value));
    INVALID(cudaMemPoolTrimTo(NULL, 0));
    INVALID(cudaMemPoolSetAccess(NULL, &access, 1));
    access.location.type = cudaMemLocationTypeInvalid;
    INVALID(cudaMemPoolSetAccess(pool, &access, 1));
    access.location = place;
    GIVES(cudaErrorInvalidDevice, cudaMemPoolSetAccess(pool, &access, 1));
    INVALID(cudaMemPoolGetAccess(NULL, pool, &access.location));
    INVALID(cudaMemPoolGetAccess(&flags, NULL, &access.location));
    INVALID(cudaMemPoolGetAccess(&flags, pool, NULL));
    INVALID(cudaMallocFromPoolAsync(&ptr, 16, NULL, stream));
    INVALID(cudaMallocFromPoolAsync(NULL, 16, pool, stream));
    INVALID(cudaMallocAsync(NULL, 16, stream));
    GIVES(cudaErrorMemoryAllocation, cudaMallocAsync(&ptr, SIZE_MAX, stream));
    GIVES(cudaErrorMemoryAllocation, cudaMallocFromPoolAsync(&ptr, (size_t)1 << 50, pool, stream));
    INVALID(cudaFreeAsync(host, stream));
    INVALID(cudaFreeAsync(pinned, stream));
    INVALID(cudaFreeAsync(device + 1, stream));
    INVALID(cudaDeviceGetDefaultMemPool(NULL, 0));
    GIVES(cudaErrorInvalidDevice, cudaDeviceGetDefaultMemPool(&none, -1));
    GIVES(cudaErrorInvalidDevice, cudaDeviceGetMemPool(&none, 99));
    INVALID(cudaDeviceSetMemPool(0, NULL));
    INVALID(cudaDeviceSetMemPool(1, pool)); /* the pool belongs to another device */
    OK(cudaMemPoolDestroy(pool));
    INVALID(cudaMemPoolDestroy(pool));
    INVALID(cudaMemPoolDestroy(NULL));
    INVALID(cudaMemPoolTrimTo(pool, 0));
    INVALID(cudaMallocFromPoolAsync(&ptr, 16, pool, stream));
}

static void devices(void **state)
{
    struct cudaDeviceProp properties;
    char address[16];
    int number;
    size_t size;

    (void)state;
    INVALID(cudaGetDeviceCount(NULL));
    INVALID(cudaGetDevice(NULL));
    GIVES(cudaErrorInvalidDevice, cudaSetDevice(-1));
    GIVES(cudaErrorInvalidDevice, cudaSetDevice(99));
    INVALID(cudaSetDeviceFlags(0xff00));
    INVALID(cudaGetDeviceProperties(NULL, 0));
    GIVES(cudaErrorInvalidDevice, cudaGetDeviceProperties(&properties, 99));
    INVALID(cudaDeviceGetAttribute(NULL, cudaDevAttrWarpSize, 0));
    GIVES(cudaErrorInvalidDevice, cudaDeviceGetAttribute(&number, cudaDevAttrWarpSize, 99));
    INVALID(cudaChooseDevice(NULL, &properties));
    INVALID(cudaChooseDevice(&number, NULL));
    INVALID(cudaDeviceGetLimit(NULL, cudaLimitStackSize));
    GIVES(cudaErrorUnsupportedLimit, cudaDeviceGetLimit(&size, (enum cudaLimit)99));
    GIVES(cudaErrorUnsupportedLimit, cudaDeviceSetLimit((enum cudaLimit)99, 1));
    INVALID(cudaDeviceGetPCIBusId(NULL, 16, 0));
    INVALID(cudaDeviceGetPCIBusId(address, 0, 0));
    GIVES(cudaErrorInvalidDevice, cudaDeviceGetPCIBusId(address, sizeof address, 99));
    INVALID(cudaDeviceGetByPCIBusId(NULL, "0000:00:00.0"));
    INVALID(cudaDeviceGetByPCIBusId(&number, NULL));
    INVALID(cudaDeviceGetByPCIBusId(&number, "nonsense"));
    GIVES(cudaErrorInvalidDevice, cudaDeviceGetByPCIBusId(&number, "fffe:aa:bb.0"));
    INVALID(cudaDeviceCanAccessPeer(NULL, 0, 1));
    GIVES(cudaErrorInvalidDevice, cudaDeviceCanAccessPeer(&number, 0, 99));
    GIVES(cudaErrorInvalidDevice, cudaDeviceEnablePeerAccess(99, 0));
    GIVES(cudaErrorInvalidDevice, cudaDeviceEnablePeerAccess(0, 0));
    INVALID(cudaDeviceEnablePeerAccess(1, 1));
    GIVES(cudaErrorInvalidDevice, cudaDeviceDisablePeerAccess(99));
    GIVES(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(1));
    INVALID(cudaDeviceGetP2PAttribute(NULL, cudaDevP2PAttrAccessSupported, 0, 1));
    INVALID(cudaDeviceGetP2PAttribute(&number, (enum cudaDeviceP2PAttr)0, 0, 1));
    GIVES(cudaErrorInvalidDevice, cudaDeviceGetP2PAttribute(&number, cudaDevP2PAttrAccessSupported, 0, 99));
    GIVES(cudaErrorInvalidDevice, cudaDeviceGetP2PAttribute(&number, cudaDevP2PAttrAccessSupported, 0, 0));
    INVALID(cudaDriverGetVersion(NULL));
    INVALID(cudaRuntimeGetVersion(NULL));
}

static void managed_memory(void **state)
{
    struct cudaMemLocation here = {cudaMemLocationTypeDevice, 0}, none = {cudaMemLocationTypeInvalid, 0},
                           far = {cudaMemLocationTypeDevice, 99};
    int value, *there = &value;
    void *data = there;
    size_t size = sizeof value;
    enum cudaMemRangeAttribute which = cudaMemRangeAttributeReadMostly;

    (void)state;
    INVALID(cudaMemPrefetchAsync(NULL, 1, here, 0, stream));
    INVALID(cudaMemPrefetchAsync(managed, 0, here, 0, stream));
    INVALID(cudaMemPrefetchAsync(managed, W * H * D + 4097, here, 0, stream));
    INVALID(cudaMemPrefetchAsync(host, 1, here, 0, stream));
    INVALID(cudaMemPrefetchAsync(managed, 1, here, 1, stream));
    INVALID(cudaMemPrefetchAsync(managed, 1, none, 0, stream));
    GIVES(cudaErrorInvalidDevice, cudaMemPrefetchAsync(managed, 1, far, 0, stream));
    INVALID(cudaMemAdvise(NULL, 1, cudaMemAdviseSetReadMostly, here));
    INVALID(cudaMemAdvise(managed, 0, cudaMemAdviseSetReadMostly, here));
    INVALID(cudaMemAdvise(managed, 1, (enum cudaMemoryAdvise)0, here));
    INVALID(cudaMemAdvise(managed, 1, (enum cudaMemoryAdvise)7, here));
    GIVES(cudaErrorInvalidDevice, cudaMemAdvise(managed, 1, cudaMemAdviseSetAccessedBy, far));
    INVALID(cudaMemRangeGetAttribute(NULL, size, which, managed, 1));
    INVALID(cudaMemRangeGetAttribute(&value, size - 1, which, managed, 1));
    INVALID(cudaMemRangeGetAttribute(&value, size, (enum cudaMemRangeAttribute)0, managed, 1));
    INVALID(cudaMemRangeGetAttribute(&value, size, which, NULL, 1));
    INVALID(cudaMemRangeGetAttribute(&value, size, which, managed, 0));
    INVALID(cudaMemRangeGetAttribute(&value, size, which, host, 1));
    INVALID(cudaMemRangeGetAttributes(NULL, &size, &which, 1, managed, 1));
    INVALID(cudaMemRangeGetAttributes(&data, NULL, &which, 1, managed, 1));
    INVALID(cudaMemRangeGetAttributes(&data, &size, NULL, 1, managed, 1));
    INVALID(cudaMemRangeGetAttributes(&data, &size, &which, 0, managed, 1));
    INVALID(cudaStreamAttachMemAsync(stream, NULL, 0, cudaMemAttachSingle));
    INVALID(cudaStreamAttachMemAsync(stream, managed, 1, cudaMemAttachSingle));
    INVALID(cudaStreamAttachMemAsync(stream, managed + 1, 0, cudaMemAttachSingle));
    INVALID(cudaStreamAttachMemAsync(stream, managed, 0, 7));
    INVALID(cudaStreamAttachMemAsync(stream, device, 0, cudaMemAttachSingle));
}

static void other_processes(void **state)
{
    cudaIpcEventHandle_t event_handle;
    cudaIpcMemHandle_t handle;
    cudaEvent_t event;
    void *ptr;

    (void)state;
    INVALID(cudaIpcGetMemHandle(NULL, device));
    INVALID(cudaIpcGetMemHandle(&handle, NULL));
    INVALID(cudaIpcGetMemHandle(&handle, host));
    OK(cudaIpcGetMemHandle(&handle, device));
    INVALID(cudaIpcOpenMemHandle(NULL, handle, cudaIpcMemLazyEnablePeerAccess));
    INVALID(cudaIpcOpenMemHandle(&ptr, handle, 2));
    GIVES(cudaErrorDeviceUninitialized, cudaIpcOpenMemHandle(&ptr, handle, cudaIpcMemLazyEnablePeerAccess));
    INVALID(cudaIpcCloseMemHandle(NULL));
    INVALID(cudaIpcCloseMemHandle(device));
    OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess));
    INVALID(cudaIpcGetEventHandle(NULL, event));
    OK(cudaIpcGetEventHandle(&event_handle, event));
    INVALID(cudaIpcOpenEventHandle(NULL, event_handle));
    memset(&event_handle, 0, sizeof event_handle);
    INVALID(cudaIpcOpenEventHandle(&event, event_handle));
    OK(cudaEventDestroy(event));
    GIVES(cudaErrorInvalidResourceHandle, cudaIpcGetEventHandle(&event_handle, event));
}

static void stop_for_a_moment(void *argument)
{
    (void)argument;
    usleep(100000);
}

/* fork() while work is pending: the child does not have the threads that would finish the work, so each call must
 * return an error. */
static void forked_children(void **state)
{
    struct cudaChannelFormatDesc channels = {8, 0, 0, 0, cudaChannelFormatKindUnsigned};
    cudaArray_t array;
    cudaEvent_t event;
    int count, status;
    void *ptr;
    pid_t child;

    (void)state;
    OK(cudaMallocArray(&array, &channels, 16, 16, 0));
    OK(cudaEventCreate(&event));
    OK(cudaLaunchHostFunc(stream, stop_for_a_moment, NULL));
    OK(cudaMemsetAsync(device, 1, W, stream));
    OK(cudaEventRecord(event, stream));
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60);
        GIVES(cudaErrorInitializationError, cudaGetDeviceCount(&count));
        GIVES(cudaErrorInitializationError, cudaMalloc(&ptr, 1));
        GIVES(cudaErrorInitializationError, cudaMemcpy(device, host, 1, cudaMemcpyHostToDevice));
        GIVES(cudaErrorInitializationError, cudaDeviceSynchronize());
        GIVES(cudaErrorInitializationError, cudaFree(device));
        GIVES(cudaErrorInitializationError, cudaEventQuery(event));
        GIVES(cudaErrorInitializationError, cudaEventSynchronize(event));
        GIVES(cudaErrorInitializationError, cudaEventRecord(event, stream));
        GIVES(cudaErrorInitializationError, cudaStreamQuery(stream));
        GIVES(cudaErrorInitializationError, cudaStreamSynchronize(stream));
        GIVES(cudaErrorInitializationError, cudaStreamWaitEvent(stream, event, 0));
        GIVES(cudaErrorInitializationError, cudaEventDestroy(event));
        GIVES(cudaErrorInitializationError, cudaStreamDestroy(stream));
        GIVES(cudaErrorInitializationError, cudaFreeArray(array));
        _exit(42);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 42);
    OK(cudaStreamSynchronize(stream));
    OK(cudaEventDestroy(event));
    OK(cudaFreeArray(array));
}

static int set_up(void **state)
{
    (void)state;
    return cudaStreamCreate(&stream) || cudaMalloc((void **)&device, W * H * D) ||
           cudaMallocHost((void **)&pinned, W * H * D) ||
           cudaMallocManaged((void **)&managed, W * H * D, cudaMemAttachGlobal);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(allocations),    cmocka_unit_test(registering),     cmocka_unit_test(copies),
    cmocka_unit_test(boxes),          cmocka_unit_test(fills),           cmocka_unit_test(arrays),
    cmocka_unit_test(pools),          cmocka_unit_test(devices),         cmocka_unit_test(streams_and_events),
    cmocka_unit_test(managed_memory), cmocka_unit_test(other_processes), cmocka_unit_test(forked_children),
};

int main(void)
{
    int wrong = cmocka_run_group_tests(tests, set_up, NULL);

    for (int i = 0; i < 2; i++)
        wrong += cudaSetDevice(i) || cudaDeviceReset();
    return wrong ? 1 : 0;
}

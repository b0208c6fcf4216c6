/* test_cuda_refusals.c - tests the error code of each call with arguments that the CUDA driver's manual
 * forbids. */
#include <cuda.h>

#include "compat.h"

#include <unistd.h>

#define INVALID(call) GIVES(CUDA_ERROR_INVALID_VALUE, call)
#define LOST(call) GIVES(CUDA_ERROR_INVALID_HANDLE, call)
#define BYTES ((size_t)1 << 20)

static unsigned char host[4096];
static CUdeviceptr memory;
static CUcontext context;
static CUstream stream;
static void *pinned;

static CUdeviceptr at(const void *ptr)
{
    return (CUdeviceptr)(uintptr_t)ptr;
}

static void allocations(void **state)
{
    size_t pitch, bytes;
    CUdeviceptr found;
    unsigned flags;
    void *ptr;

    (void)state;
    INVALID(cuMemAlloc(NULL, 1));
    INVALID(cuMemAlloc(&found, 0));
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&found, SIZE_MAX));
    INVALID(cuMemAllocPitch(NULL, &pitch, 64, 4, 4));
    INVALID(cuMemAllocPitch(&found, NULL, 64, 4, 4));
    INVALID(cuMemAllocPitch(&found, &pitch, 64, 4, 3));
    INVALID(cuMemAllocPitch(&found, &pitch, 0, 4, 4));
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocPitch(&found, &pitch, SIZE_MAX, 4, 4));
    INVALID(cuMemFree(memory + 1));
    INVALID(cuMemFree(at(host)));
    INVALID(cuMemAllocHost(NULL, 1));
    INVALID(cuMemAllocHost(&ptr, 0));
    INVALID(cuMemHostAlloc(&ptr, 1, 0xff));
    INVALID(cuMemFreeHost(NULL));
    INVALID(cuMemFreeHost(host));
    INVALID(cuMemHostGetDevicePointer(NULL, pinned, 0));
    INVALID(cuMemHostGetDevicePointer(&found, pinned, 1));
    INVALID(cuMemHostGetDevicePointer(&found, host, 0));
    INVALID(cuMemHostGetFlags(NULL, pinned));
    INVALID(cuMemHostGetFlags(&flags, host));
    INVALID(cuMemHostRegister(NULL, 1, 0));
    INVALID(cuMemHostRegister(host, 0, 0));
    INVALID(cuMemHostRegister(host, 1, 0xff));
    GIVES(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(pinned, 16, 0));
    GIVES(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(host));
    INVALID(cuMemAllocManaged(NULL, 1, CU_MEM_ATTACH_GLOBAL));
    INVALID(cuMemAllocManaged(&found, 1, CU_MEM_ATTACH_SINGLE));
    GIVES(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&found, &bytes, at(host)));
    OK(cuMemGetAddressRange(NULL, &bytes, memory + 5));
    assert_int_equal(bytes, BYTES);
    INVALID(cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_CONTEXT, memory));
    INVALID(cuPointerGetAttribute(&found, (CUpointer_attribute)99, memory));
    INVALID(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at(host)));
    INVALID(cuPointerGetAttribute(&ptr, CU_POINTER_ATTRIBUTE_HOST_POINTER, memory));
}

static void copies_and_fills(void **state)
{
    CUDA_MEMCPY2D good = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = host,
                          .srcPitch = 64,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstPitch = 64,
                          .WidthInBytes = 64,
                          .Height = 16},
                  bad;

    (void)state;
    good.dstDevice = memory;
    INVALID(cuMemcpyHtoD(0, host, 1));
    INVALID(cuMemcpyHtoD(memory, NULL, 1));
    INVALID(cuMemcpyDtoH(NULL, memory, 1));
    INVALID(cuMemcpyDtoD(memory, 0, 1));
    INVALID(cuMemcpyHtoD(memory + BYTES, host, 1));
    INVALID(cuMemcpyAsync(0, memory, 1, stream));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyPeer(memory, NULL, memory, context, 1));
    INVALID(cuMemcpy2D(NULL));
    OK(cuMemcpy2D(&good));
    bad = good, bad.srcHost = NULL;
    INVALID(cuMemcpy2D(&bad));
    bad = good, bad.dstDevice = 0;
    INVALID(cuMemcpy2DAsync(&bad, stream));
    bad = good, bad.srcPitch = 63;
    INVALID(cuMemcpy2D(&bad));
    bad = good, bad.dstPitch = (size_t)1 << 31;
    INVALID(cuMemcpy2D(&bad));
    bad = good, bad.dstXInBytes = 1;
    INVALID(cuMemcpy2DUnaligned(&bad));
    bad = good, bad.srcMemoryType = (CUmemorytype)77;
    INVALID(cuMemcpy2D(&bad));
    bad = good, bad.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    LOST(cuMemcpy2D(&bad));
    INVALID(cuMemsetD8(0, 1, 1));
    INVALID(cuMemsetD16(memory + 1, 1, 1));
    INVALID(cuMemsetD32(memory + 2, 1, 1));
    INVALID(cuMemsetD32(memory, 1, BYTES));
    INVALID(cuMemsetD8(at(host), 1, 1));
    INVALID(cuMemsetD2D8(memory, 7, 1, 8, 2));
    INVALID(cuMemsetD2D32(memory, 34, 1, 8, 2));
    INVALID(cuMemsetD2D8Async(memory, 1024, 1, 1024, 1025, stream));
    OK(cuMemsetD8(0, 1, 0));
}

/* Fills and copies within a device return at once unless CU_POINTER_ATTRIBUTE_SYNC_MEMOPS is set for the
 * memory. */
static void synchronous_memory(void **state)
{
    unsigned on = 1, off = 0, is = 7;
    gate open = 0;

    (void)state;
    INVALID(cuPointerSetAttribute(NULL, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory));
    INVALID(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_CONTEXT, memory));
    INVALID(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at(host)));
    OK(cuLaunchHostFunc(NULL, wait_at_gate, &open));
    OK(cuMemsetD8(memory, 1, 16));
    OK(cuMemcpyDtoD(memory + 64, memory, 16));
    GIVES(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
    OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory + 5));
    OK(cuPointerGetAttribute(&is, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory));
    assert_int_equal(is, 1);
    OK(cuMemsetD8Async(memory, 1, 16, NULL)); /* calls with Async in their name still return at once */
    GIVES(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
    atomic_store(&open, 1);
    OK(cuMemcpyDtoD(memory + 64, memory, 16));
    OK(cuStreamQuery(NULL));
    OK(cuMemsetD8(memory, 1, BYTES));
    OK(cuStreamQuery(NULL));
    OK(cuPointerSetAttribute(&off, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory));
    INVALID(cuMemGetHandleForAddressRange(NULL, memory, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    GIVES(CUDA_ERROR_NOT_SUPPORTED,
          cuMemGetHandleForAddressRange(&is, memory, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
}

static void streams_and_events(void **state)
{
    CUevent event, gone = NULL;
    CUstream lost;
    float ms;
    int number;

    (void)state;
    OK(cuEventCreate(&event, 0));
    OK(cuStreamCreate(&lost, 0));
    OK(cuStreamDestroy(lost));
    INVALID(cuStreamCreate(NULL, 0));
    INVALID(cuStreamCreate(&lost, 0xff));
    LOST(cuStreamDestroy(lost));
    LOST(cuStreamDestroy(NULL));
    LOST(cuStreamQuery(lost));
    LOST(cuStreamSynchronize(lost));
    LOST(cuStreamGetPriority(lost, &number));
    LOST(cuMemsetD8Async(memory, 0, 1, lost));
    LOST(cuStreamWaitEvent(lost, event, 0));
    LOST(cuEventRecord(event, lost));
    INVALID(cuStreamGetPriority(stream, NULL));
    INVALID(cuStreamGetFlags(stream, NULL));
    INVALID(cuStreamGetCtx(stream, NULL));
    INVALID(cuStreamAddCallback(stream, NULL, NULL, 0));
    INVALID(cuLaunchHostFunc(stream, NULL, NULL));
    INVALID(cuStreamWaitEvent(stream, event, 0xff));
    INVALID(cuEventCreate(NULL, 0));
    INVALID(cuEventCreate(&gone, 0xff));
    INVALID(cuEventCreate(&gone, CU_EVENT_INTERPROCESS));
    for (int i = 0; i < 2; i++) {
        LOST(cuEventRecord(gone, stream));
        LOST(cuEventQuery(gone));
        LOST(cuEventSynchronize(gone));
        LOST(cuEventDestroy(gone));
        LOST(cuEventElapsedTime(&ms, gone, event));
        LOST(cuStreamWaitEvent(stream, gone, 0));
        OK(cuEventCreate(&gone, 0));
        OK(cuEventDestroy(gone));
    }
    INVALID(cuEventElapsedTime(NULL, event, event));
    OK(cuEventDestroy(event));
}

static void pools(void **state)
{
    CUmemPoolProps good = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                           .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
                   bad;
    CUmemoryPool pool;
    CUdeviceptr ptr;
    uint64_t value = 1;

    (void)state;
    INVALID(cuMemPoolCreate(NULL, &good));
    INVALID(cuMemPoolCreate(&pool, NULL));
    bad = good, bad.allocType = CU_MEM_ALLOCATION_TYPE_INVALID;
    INVALID(cuMemPoolCreate(&pool, &bad));
    bad = good, bad.location.id = 99;
    INVALID(cuMemPoolCreate(&pool, &bad));
    OK(cuMemPoolCreate(&pool, &good));
    INVALID(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value));
    INVALID(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value));
    INVALID(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, NULL));
    INVALID(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)99, &value));
    INVALID(cuMemAllocAsync(NULL, 16, stream));
    INVALID(cuMemAllocFromPoolAsync(&ptr, 16, NULL, stream));
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync(&ptr, SIZE_MAX, stream));
    INVALID(cuMemFreeAsync(at(host), stream));
    INVALID(cuMemFreeAsync(memory + 1, stream));
    GIVES(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetDefaultMemPool(&pool, 99));
    INVALID(cuDeviceSetMemPool(0, NULL));
    OK(cuMemPoolDestroy(pool));
    INVALID(cuMemPoolDestroy(pool));
    INVALID(cuMemPoolTrimTo(pool, 0));
}

static void virtual_memory(void **state)
{
    CUmemAllocationProp good = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
                        bad;
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}, wrong;
    CUmemGenericAllocationHandle handle, none;
    unsigned long long flags;
    CUdeviceptr range;
    size_t unit, size;
    int fd;

    (void)state;
    INVALID(cuMemGetAllocationGranularity(NULL, &good, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    INVALID(cuMemGetAllocationGranularity(&size, NULL, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    INVALID(cuMemGetAllocationGranularity(&size, &good, (CUmemAllocationGranularity_flags)7));
    OK(cuMemGetAllocationGranularity(&unit, &good, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    INVALID(cuMemAddressReserve(NULL, unit, 0, 0, 0));
    INVALID(cuMemAddressReserve(&range, 0, 0, 0, 0));
    INVALID(cuMemAddressReserve(&range, unit + 1, 0, 0, 0));
    INVALID(cuMemAddressReserve(&range, unit, 3, 0, 0));
    INVALID(cuMemAddressReserve(&range, unit, 0, 0, 1));
    INVALID(cuMemCreate(NULL, unit, &good, 0));
    INVALID(cuMemCreate(&none, 0, &good, 0));
    INVALID(cuMemCreate(&none, unit - 1, &good, 0));
    INVALID(cuMemCreate(&none, unit, NULL, 0));
    INVALID(cuMemCreate(&none, unit, &good, 1));
    bad = good, bad.type = CU_MEM_ALLOCATION_TYPE_INVALID;
    INVALID(cuMemCreate(&none, unit, &bad, 0));
    bad = good, bad.location.type = CU_MEM_LOCATION_TYPE_INVALID;
    INVALID(cuMemCreate(&none, unit, &bad, 0));
    bad = good, bad.location.id = 99;
    GIVES(CUDA_ERROR_INVALID_DEVICE, cuMemCreate(&none, unit, &bad, 0));
    OK(cuMemAddressReserve(&range, 2 * unit, 0, 0, 0));
    OK(cuMemCreate(&handle, unit, &good, 0));
    INVALID(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                         0)); /* the program did not request this kind of handle */
    INVALID(cuMemMap(0, unit, 0, handle, 0));
    INVALID(cuMemMap(range, 0, 0, handle, 0));
    INVALID(cuMemMap(range + 1, unit, 0, handle, 0));
    INVALID(cuMemMap(range, unit, 0, 0, 0));
    INVALID(cuMemMap(range, unit, 0, handle, 1));
    INVALID(cuMemMap(range, 2 * unit, 0, handle, 0));
    INVALID(cuMemSetAccess(range, unit, &access, 1)); /* nothing is mapped at range */
    OK(cuMemMap(range, unit, 0, handle, 0));
    INVALID(cuMemMap(range, unit, 0, handle, 0));
    INVALID(cuMemSetAccess(0, unit, &access, 1));
    INVALID(cuMemSetAccess(range, unit, NULL, 1));
    INVALID(cuMemSetAccess(range, 2 * unit, &access, 1));
    INVALID(cuMemSetAccess(range, unit, &access, 0));
    wrong = access, wrong.location.type = CU_MEM_LOCATION_TYPE_INVALID;
    INVALID(cuMemSetAccess(range, unit, &wrong, 1));
    OK(cuMemSetAccess(range, unit, &access, 1));
    INVALID(cuMemGetAccess(NULL, &access.location, range));
    INVALID(cuMemGetAccess(&flags, NULL, range));
    INVALID(cuMemGetAccess(&flags, &access.location, 0));
    INVALID(cuMemGetAllocationPropertiesFromHandle(NULL, handle));
    INVALID(cuMemGetAllocationPropertiesFromHandle(&bad, 0));
    INVALID(cuMemRetainAllocationHandle(NULL, (void *)(uintptr_t)range));
    INVALID(cuMemRetainAllocationHandle(&none, host));
    INVALID(cuMemImportFromShareableHandle(&none, (void *)(intptr_t)-1, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    INVALID(cuMemAddressFree(range, unit));
    INVALID(cuMemUnmap(range, unit / 2));
    OK(cuMemRelease(handle)); /* the mapping keeps the memory alive */
    OK(cuMemsetD8(range, 3, unit));
    OK(cuMemUnmap(range, unit));
    INVALID(cuMemsetD8(range, 3, unit));
    INVALID(cuMemRelease(handle));
    INVALID(cuMemRelease(0));
    OK(cuMemAddressFree(range, 2 * unit));
    INVALID(cuMemAddressFree(range, 2 * unit));
}

static void contexts_and_devices(void **state)
{
    CUdevice device;
    CUcontext other;
    char name[16];
    size_t size;
    int number;

    (void)state;
    INVALID(cuDeviceGet(NULL, 0));
    GIVES(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, -1));
    INVALID(cuDeviceGetCount(NULL));
    INVALID(cuDeviceGetName(NULL, 16, 0));
    INVALID(cuDeviceGetName(name, 0, 0));
    GIVES(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetName(name, 16, 99));
    INVALID(cuDeviceTotalMem(NULL, 0));
    INVALID(cuDeviceGetAttribute(&number, (CUdevice_attribute)0, 0));
    INVALID(cuCtxCreate(NULL, 0, 0));
    INVALID(cuCtxCreate(&other, 0xff00, 0));
    GIVES(CUDA_ERROR_INVALID_DEVICE, cuCtxCreate(&other, 0, 99));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy(NULL));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent(NULL));
    INVALID(cuCtxGetCurrent(NULL));
    INVALID(cuCtxGetDevice(NULL));
    GIVES(CUDA_ERROR_UNSUPPORTED_LIMIT, cuCtxGetLimit(&size, (CUlimit)99));
    INVALID(cuCtxGetLimit(NULL, CU_LIMIT_STACK_SIZE));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuCtxEnablePeerAccess(context, 0));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuCtxDisablePeerAccess(NULL));
    OK(cuCtxCreate(&other, 0, 1));
    OK(cuCtxPopCurrent(&other)); /* cuCtxCreate() has made this context current */
    INVALID(cuCtxEnablePeerAccess(other, 1));
    GIVES(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(other));
    OK(cuCtxEnablePeerAccess(other, 0));
    GIVES(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(other, 0));
    OK(cuCtxDisablePeerAccess(other));
    OK(cuCtxDestroy(other));
    INVALID(cuDeviceCanAccessPeer(NULL, 0, 1));
    GIVES(CUDA_ERROR_INVALID_DEVICE, cuDeviceCanAccessPeer(&number, 0, 99));
    INVALID(cuInit(1));
    INVALID(cuDriverGetVersion(NULL));
    /* Most calls fail if no context is current. */
    OK(cuCtxPopCurrent(&other));
    assert_ptr_equal(other, context);
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&memory, 16));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuStreamCreate(&stream, 0));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuCtxSynchronize());
    OK(cuCtxPushCurrent(context));
}

static int set_up(void **state)
{
    (void)state;
    return cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxPushCurrent(context) ||
           cuStreamCreate(&stream, 0) || cuMemAlloc(&memory, BYTES) || cuMemAllocHost(&pinned, 4096);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations),
        cmocka_unit_test(copies_and_fills),
        cmocka_unit_test(synchronous_memory),
        cmocka_unit_test(streams_and_events),
        cmocka_unit_test(pools),
        cmocka_unit_test(virtual_memory),
        cmocka_unit_test(contexts_and_devices),
    };
    int wrong = cmocka_run_group_tests(tests, set_up, NULL);

    for (int i = 0; i < 2; i++)
        wrong += cuDevicePrimaryCtxReset(i) != CUDA_SUCCESS;
    return wrong ? 1 : 0;
}

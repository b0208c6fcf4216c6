/* test_cuda_driver.c - tests the CUDA driver's calls: contexts, memory, copies, 32-bit flags in memory, modules,
 * virtual memory, refusals. */
#include <cuda.h>

#include "compat.h"

#include <unistd.h>

#define BYTES ((size_t)1 << 20)

static CUcontext context;

/* Before cuInit(), only the calls for the version and for the names of errors work. */
static void nothing_before_the_start(void **state)
{
    int number = 0;
    const char *text = NULL;
    CUdeviceptr memory;

    (void)state;
    GIVES(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&number));
    GIVES(CUDA_ERROR_NOT_INITIALIZED, cuMemAlloc(&memory, 1));
    GIVES(CUDA_ERROR_NOT_INITIALIZED, cuCtxSynchronize());
    OK(cuDriverGetVersion(&number));
    assert_int_equal(number, 13000); /* the header has the forms of CUDA 12, and the library those of both */
    GIVES(CUDA_ERROR_INVALID_VALUE, cuDriverGetVersion(NULL));
    OK(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
    assert_string_equal(text, "CUDA_ERROR_OUT_OF_MEMORY");
    OK(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGetErrorName((CUresult)12345, &text));
    assert_null(text);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuInit(1));
    OK(cuInit(0));
    OK(cuInit(0));
}

static void contexts_are_a_stack(void **state)
{
    CUcontext mine, seen;
    CUdevice device;
    CUdeviceptr memory;
    unsigned flags;
    int active, count;

    (void)state;
    OK(cuDeviceGetCount(&count));
    assert_true(count >= 2);
    GIVES(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, count));
    GIVES(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, -1));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&memory, 1));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent(&seen));
    OK(cuCtxGetCurrent(&seen));
    assert_null(seen);
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    assert_int_equal(active, 1);
    OK(cuCtxSetCurrent(context));
    OK(cuCtxCreate(&mine, 0, 1));
    OK(cuCtxGetDevice(&device));
    assert_int_equal(device, 1);
    OK(cuCtxPushCurrent(context));
    OK(cuCtxGetDevice(&device));
    assert_int_equal(device, 0);
    OK(cuCtxPopCurrent(&seen));
    assert_ptr_equal(seen, context);
    OK(cuCtxDestroy(mine));
    OK(cuCtxGetCurrent(&seen));
    assert_ptr_equal(seen, context);
    GIVES(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxPushCurrent(mine));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent((CUcontext)&mine));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy(context));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuCtxCreate(&mine, 3, 0));
}

/* cuCtxCreate() accepts the parameters of CUDA 12 and of CUDA 13. */
static void contexts_take_parameters(void **state)
{
    CUexecAffinityParam affinity = {0};
    CUctxCigParam graphics = {0};
    CUctxCreateParams parameters = {0};
    CUdriverProcAddressQueryResult why;
    CUresult(CUDAAPI * create)(CUcontext *, CUctxCreateParams *, unsigned, CUdevice);
    CUcontext mine = NULL;
    CUdevice device;

    (void)state;
    OK(cuCtxCreate(&mine, NULL, 0, 1));
    OK(cuCtxGetDevice(&device));
    assert_int_equal(device, 1);
    OK(cuCtxDestroy(mine));
    OK(cuCtxCreate(&mine, &parameters, 0, 1));
    OK(cuCtxDestroy(mine));
    parameters.execAffinityParams = &affinity;
    parameters.numExecAffinityParams = 1;
    GIVES(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, cuCtxCreate(&mine, &parameters, 0, 1));
    parameters.cigParams = &graphics;
    GIVES(CUDA_ERROR_INVALID_VALUE, cuCtxCreate(&mine, &parameters, 0, 1));
    parameters.execAffinityParams = NULL;
    GIVES(CUDA_ERROR_NOT_SUPPORTED, cuCtxCreate(&mine, &parameters, 0, 1));
    GIVES(CUDA_ERROR_INVALID_DEVICE, cuCtxCreate(&mine, NULL, 0, 99));
    OK(cuGetProcAddress("cuCtxCreate", (void **)&create, 13000, 0, &why));
    OK(create(&mine, NULL, 0, 1));
    OK(cuCtxDestroy(mine));
}

/* Programs divide by some of these attributes, so these must not be 0. */
static void attributes_describe_the_cpu(void **state)
{
    static const CUdevice_attribute divisors[] = {
        CU_DEVICE_ATTRIBUTE_CLOCK_RATE,
        CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE,
        CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH,
        CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE,
        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK,
        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK,
        CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR,
        CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR,
        CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
        CU_DEVICE_ATTRIBUTE_WARP_SIZE,
        CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH,
    };
    static const CUdevice_attribute textures[] = {
        CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH,
        CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH,
        CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH,
        CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS,
        CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH,
    };
    int value, major, minor;

    (void)state;
    for (size_t i = 0; i < sizeof divisors / sizeof divisors[0]; i++) {
        OK(cuDeviceGetAttribute(&value, divisors[i], 0));
        assert_true(value > 0);
    }
    for (size_t i = 0; i < sizeof textures / sizeof textures[0]; i++) {
        OK(cuDeviceGetAttribute(&value, textures[i], 0));
        assert_int_equal(value, 0);
    }
    OK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    OK(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0));
    assert_int_equal(major * 10 + minor, 99); /* a compute capability that no GPU has */
}

static void memory_is_checked(void **state)
{
    CUdeviceptr memory, base, value;
    size_t bytes, pitch;
    void *host;
    unsigned flags, type;
    char plain[16];

    (void)state;
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(&memory, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(NULL, 1));
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&memory, (size_t)1 << 50));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemAllocPitch(&memory, &pitch, 100, 10, 3));
    OK(cuMemAllocPitch(&memory, &pitch, 100, 10, 4));
    assert_true(pitch >= 100);
    OK(cuMemGetAddressRange(&base, &bytes, memory + 5));
    assert_int_equal(base, memory);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    OK(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, memory + 9));
    assert_int_equal(value, memory);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemFree(memory + 1));
    OK(cuMemFree(memory));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemFree(memory));
    GIVES(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &bytes, memory));
    GIVES(CUDA_ERROR_INVALID_VALUE,
          cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)plain));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemHostAlloc(&host, 16, 8));
    OK(cuMemHostAlloc(&host, 16, CU_MEMHOSTALLOC_DEVICEMAP));
    OK(cuMemHostGetFlags(&flags, host));
    assert_int_equal(flags, CU_MEMHOSTALLOC_DEVICEMAP);
    OK(cuMemHostGetDevicePointer(&value, host, 0));
    OK(cuMemFreeHost(host));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(host));
    host = malloc(4096);
    OK(cuMemHostRegister(host, 4096, 0));
    GIVES(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(host, 4096, 0));
    OK(cuMemHostUnregister(host));
    GIVES(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(host));
    free(host);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&memory, 0, CU_MEM_ATTACH_GLOBAL));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&memory, 16, 0));
}

static void copies_and_fills_arrive(void **state)
{
    unsigned *out = malloc(BYTES);
    CUDA_MEMCPY2D box = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                         .srcPitch = 64,
                         .dstMemoryType = CU_MEMORYTYPE_HOST,
                         .dstPitch = 32,
                         .WidthInBytes = 32,
                         .Height = 4};
    CUdeviceptr memory;

    (void)state;
    OK(cuMemAlloc(&memory, BYTES));
    OK(cuMemsetD32(memory, 0x12345678, BYTES / 4));
    OK(cuMemsetD2D8(memory, 64, 0xab, 32, 4));
    OK(cuMemcpyDtoH(out, memory, BYTES));
    assert_int_equal(out[0], 0xabababab);
    assert_int_equal(out[8], 0x12345678);
    assert_int_equal(out[BYTES / 4 - 1], 0x12345678);
    box.srcDevice = memory;
    box.dstHost = out;
    memset(out, 0, 128);
    OK(cuMemcpy2D(&box));
    assert_int_equal(out[31], 0xabababab);
    box.srcPitch = 31;
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(&box));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(out, memory + 1, BYTES));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(memory + 2, 0, 1));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(memory, 0, BYTES + 1));
    OK(cuMemFree(memory));
    free(out);
}

static void streams_wait_for_values(void **state)
{
    CUstream stream, gone;
    CUcontext seen;
    CUevent event;
    uint32_t *words;
    float milliseconds;

    (void)state;
    GIVES(CUDA_ERROR_INVALID_VALUE, cuStreamCreate(&stream, 2));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamGetCtx(stream, &seen));
    assert_ptr_equal(seen, context);
    OK(cuEventCreate(&event, 0));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&milliseconds, event, event));
    OK(cuMemAllocHost((void **)&words, 64));
    words[0] = words[1] = 0;
    OK(cuStreamWaitValue32(stream, (CUdeviceptr)(uintptr_t)&words[0], 5, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuStreamWriteValue32(stream, (CUdeviceptr)(uintptr_t)&words[1], 7, 0));
    OK(cuEventRecord(event, stream));
    GIVES(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    GIVES(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    __atomic_store_n(&words[0], 6, __ATOMIC_RELEASE);
    OK(cuStreamSynchronize(stream));
    assert_int_equal(__atomic_load_n(&words[1], __ATOMIC_ACQUIRE), 7);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32(stream, (CUdeviceptr)(uintptr_t)words + 2, 0, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32(stream, 0, 0, 0));
    gone = stream;
    OK(cuStreamDestroy(stream));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(gone));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(gone));
    OK(cuEventDestroy(event));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(event));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuEventDestroy(NULL));
    OK(cuMemFreeHost(words));
}

static void streams_are_captured(void **state)
{
    CUstreamCaptureStatus status;
    CUgraphNodeType type;
    CUgraphExec executable;
    CUgraphNode node;
    CUdeviceptr memory;
    CUstream stream;
    CUgraph graph;
    cuuint64_t id;
    size_t count = 1;
    unsigned out = 0;

    (void)state;
    OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    OK(cuMemAlloc(&memory, BYTES));
    OK(cuMemsetD8(memory, 0, BYTES));
    OK(cuCtxSynchronize());
    GIVES(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemsetD32Async(memory, 42, 1, stream));
    OK(cuStreamGetCaptureInfo(stream, &status, &id, NULL, NULL, NULL));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuMemcpyDtoH(&out, memory, sizeof out));
    assert_int_equal(out, 0);
    OK(cuGraphGetNodes(graph, &node, &count));
    OK(cuGraphNodeGetType(node, &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_MEMSET);
    OK(cuGraphInstantiate(&executable, graph, 0));
    OK(cuGraphLaunch(executable, stream));
    OK(cuMemcpyDtoH(&out, memory, sizeof out));
    assert_int_equal(out, 42);
    OK(cuGraphExecDestroy(executable));
    OK(cuGraphDestroy(graph));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    GIVES(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuMemcpyDtoH(&out, memory, sizeof out));
    GIVES(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
    OK(cuMemFree(memory));
    OK(cuStreamDestroy(stream));
}

static void batches_and_attributes(void **state)
{
    CUmemcpyAttributes plain = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUstreamAttrValue value;
    CUdeviceptr memory, to[2], from[2];
    unsigned in[2] = {5, 6}, out[2] = {0, 0};
    size_t sizes[2] = {sizeof in[0], sizeof in[0]}, first = 0, failed = 9;
    CUstream stream;
    CUdriverProcAddressQueryResult why;
    void *function;

    (void)state;
    OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    OK(cuMemAlloc(&memory, BYTES));
    for (int i = 0; i < 2; i++)
        to[i] = memory + 64 * (unsigned)i, from[i] = (CUdeviceptr)(uintptr_t)&in[i];
    OK(cuMemcpyBatchAsync(to, from, sizes, 2, &plain, &first, 1, &failed, stream));
    OK(cuStreamSynchronize(stream));
    for (int i = 0; i < 2; i++)
        OK(cuMemcpyDtoH(&out[i], to[i], sizeof out[i]));
    assert_int_equal(out[0], 5);
    assert_int_equal(out[1], 6);
    in[0] = 7;
    OK(cuMemcpyBatchAsync_v2(to, from, sizes, 2, &plain, &first, 1, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH(&out[0], to[0], sizeof out[0]));
    assert_int_equal(out[0], 7);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpyBatchAsync_v2(to, from, sizes, 2, &plain, &first, 1, NULL));
    OK(cuGetProcAddress("cuMemcpyBatchAsync", &function, 13000, 0, &why));
    assert_ptr_equal(function, (void *)cuMemcpyBatchAsync_v2);
    OK(cuGetProcAddress("cuMemcpyBatchAsync", &function, 12080, 0, &why));
    assert_ptr_equal(function, (void *)cuMemcpyBatchAsync);
    to[1] = memory + BYTES;
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpyBatchAsync(to, from, sizes, 2, &plain, &first, 1, NULL, NULL));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpyBatchAsync(to, from, sizes, 2, &plain, &first, 0, NULL, stream));
    sizes[1] = 0;
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpyBatchAsync(to, from, sizes, 2, &plain, &first, 1, &failed, stream));
    assert_int_equal(failed, 1);
    value.syncPolicy = CU_SYNC_POLICY_SPIN;
    OK(cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
    OK(cuStreamCopyAttributes(NULL, stream));
    OK(cuStreamGetAttribute(NULL, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
    assert_int_equal(value.syncPolicy, CU_SYNC_POLICY_SPIN);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuStreamGetAttribute(stream, (CUstreamAttrID)55, &value));
    OK(cuMemFree(memory));
    OK(cuStreamDestroy(stream));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuStreamGetAttribute(stream, CU_STREAM_ATTRIBUTE_PRIORITY, &value));
}

static void what_arrays_are_not(void **state)
{
    CUDA_ARRAY_DESCRIPTOR shape = {8, 8, CU_AD_FORMAT_FLOAT, 1};
    CUDA_ARRAY_SPARSE_PROPERTIES sparse;
    CUarray array, plane;

    (void)state;
    OK(cuArrayCreate(&array, &shape));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuArrayGetPlane(&plane, array, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuArrayGetSparseProperties(NULL, array));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuArrayGetSparseProperties(&sparse, array));
    OK(cuArrayDestroy(array));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuArrayGetSparseProperties(&sparse, array));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(array));
}

static void virtual_memory_is_put_together(void **state)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle, other;
    unsigned long long flags;
    CUdeviceptr base;
    unsigned out = 0;
    size_t unit;
    int fd;

    (void)state;
    OK(cuMemGetAllocationGranularity(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, unit + 1, &properties, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&base, unit, 3, 0, 0));
    OK(cuMemAddressReserve(&base, 2 * unit, 0, 0, 0));
    OK(cuMemCreate(&handle, unit, &properties, 0));
    OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cuMemImportFromShareableHandle(&other, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemMap(base, unit, unit, handle, 0));
    OK(cuMemMap(base, unit, 0, handle, 0));
    OK(cuMemMap(base + unit, unit, 0, other, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(base, 1, 1));
    OK(cuMemSetAccess(base, 2 * unit, &access, 1));
    OK(cuMemGetAccess(&flags, &access.location, base));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cuMemsetD32(base, 77, 1));
    OK(cuMemcpyDtoH(&out, base + unit, sizeof out));
    assert_int_equal(out, 77);
    OK(cuMemsetD8(base + unit - 8, 9, 16));
    OK(cuCtxSynchronize());
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(base, 2 * unit));
    OK(cuMemUnmap(base, 2 * unit));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(base, unit));
    OK(cuMemRelease(handle));
    OK(cuMemRelease(other));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemRelease(handle));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(base, unit));
    OK(cuMemAddressFree(base, 2 * unit));
}

/* In one address range, stripes of memory of two devices alternate. */
static void a_range_may_be_of_two_devices(void **state)
{
    enum { STRIPES = 4 };
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc access[2] = {{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
                                 {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
    CUmemGenericAllocationHandle handle;
    unsigned char *in, *out;
    CUdeviceptr range, plain;
    size_t unit;

    (void)state;
    OK(cuMemGetAllocationGranularity(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    OK(cuMemAddressReserve(&range, STRIPES * unit, 0, 0, 0));
    for (int i = 0; i < STRIPES; i++) {
        properties.location.id = i % 2;
        OK(cuMemCreate(&handle, unit, &properties, 0));
        OK(cuMemMap(range + (unsigned)i * unit, unit, 0, handle, 0));
        OK(cuMemRelease(handle));
    }
    OK(cuMemSetAccess(range, STRIPES * unit, access, 2));
    in = malloc(STRIPES * unit);
    out = calloc(STRIPES, unit);
    write_pattern(in, STRIPES * unit, 6);
    OK(cuMemAlloc(&plain, STRIPES * unit));
    OK(cuMemcpyHtoD(range, in, STRIPES * unit));
    OK(cuMemcpyDtoD(plain, range, STRIPES * unit));
    OK(cuMemcpyDtoH(out, plain, STRIPES * unit));
    HAS_PATTERN(out, STRIPES * unit, 6);
    OK(cuMemsetD16(range + unit - 100, 0x0909, 100));
    OK(cuMemcpyDtoH(out, range + unit - 100, 200));
    HAS_BYTES(out, 200, 9);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(range + unit, in, STRIPES * unit)); /* beyond its end */
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(range + 1, 0, STRIPES * unit));
    OK(cuMemUnmap(range, STRIPES * unit));
    OK(cuMemAddressFree(range, STRIPES * unit));
    OK(cuMemFree(plain));
    free(out);
    free(in);
}

static void modules_of_ptx_are_lists_of_names(void **state)
{
    static const char ptx[] =
        ".version 8.0\n.target sm_90\n.visible .entry leat_add_u32(.param .u64 a)\n{ ret; }\n"
        ".visible .entry nowhere(.param .u64 a)\n{ ret; }\n";
    unsigned out[4] = {1, 2, 3, 4}, three = 3;
    uint64_t count = 4;
    CUdeviceptr memory;
    CUfunction add, none;
    int blocks, threads;
    size_t shared, all;
    CUmodule module;

    (void)state;
    GIVES(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad(&module, "/no/such/file.ptx"));
    OK(cuModuleLoadData(&module, ptx));
    OK(cuModuleGetFunction(&add, module, "leat_add_u32"));
    GIVES(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&none, module, "leat_add"));
    GIVES(CUDA_ERROR_NO_BINARY_FOR_GPU, cuModuleGetFunction(&none, module, "nowhere"));
    OK(cuMemAlloc(&memory, sizeof out));
    OK(cuMemcpyHtoD(memory, out, sizeof out));
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 32, 0));
    assert_true(blocks > 0);
    OK(cuOccupancyMaxPotentialBlockSize(&blocks, &threads, add, NULL, 0, 64));
    assert_int_equal(threads, 64);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 0, 0));
    OK(cuOccupancyAvailableDynamicSMemPerBlock(&all, add, 1, 32));
    OK(cuOccupancyAvailableDynamicSMemPerBlock(&shared, add, 4, 32));
    assert_true(shared > 0 && shared == all / 4);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuOccupancyAvailableDynamicSMemPerBlock(&shared, add, 1 << 20, 32));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuOccupancyAvailableDynamicSMemPerBlock(&shared, add, 0, 32));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuOccupancyAvailableDynamicSMemPerBlock(NULL, add, 1, 32));
    OK(cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&memory, &count, &three}, NULL));
    OK(cuMemcpyDtoH(out, memory, sizeof out));
    assert_int_equal(out[3], 7);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(add, 0, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    OK(cuMemFree(memory));
    OK(cuModuleUnload(module));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(module));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
}

static void functions_are_found_by_name(void **state)
{
    CUdriverProcAddressQueryResult why;
    void *function;

    (void)state;
    OK(cuGetProcAddress("cuMemAlloc", &function, 12000, 0, &why));
    assert_int_equal(why, CU_GET_PROC_ADDRESS_SUCCESS);
    assert_non_null(function);
    OK(cuGetProcAddress("cuNothing", &function, 12000, 0, &why)); /* no error: the status says it */
    assert_int_equal(why, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    assert_null(function);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress("cuMemAlloc", &function, 12000, 8, &why));
}

/* What was made in another context of the device stays when the primary context ends. */
static void contexts_outlive_the_primary_one(void **state)
{
    CUcontext primary, made;
    CUdeviceptr memory;
    CUstream stream;
    unsigned out = 0;

    (void)state;
    OK(cuDevicePrimaryCtxRetain(&primary, 1));
    OK(cuCtxCreate(&made, 0, 1));
    OK(cuMemAlloc(&memory, sizeof out));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuDevicePrimaryCtxRelease(1));
    GIVES(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxPushCurrent(primary));
    OK(cuMemsetD32Async(memory, 42, 1, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuDevicePrimaryCtxReset(1));
    OK(cuMemcpyDtoH(&out, memory, sizeof out));
    assert_int_equal(out, 42);
    OK(cuStreamDestroy(stream));
    OK(cuMemFree(memory));
    OK(cuMemAlloc(&memory, sizeof out));
    OK(cuCtxDestroy(made));
    OK(cuDevicePrimaryCtxReset(1)); /* no context is left, so the memory ends */
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemFree(memory));
}

/* The last release of a primary context frees all memory and objects of the device. */
static void the_last_release_ends_it(void **state)
{
    (void)state;
    OK(cuDevicePrimaryCtxRelease(0));
    GIVES(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxSynchronize());
    OK(cuDevicePrimaryCtxReset(1));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_before_the_start),
        cmocka_unit_test(contexts_are_a_stack),
        cmocka_unit_test(contexts_take_parameters),
        cmocka_unit_test(attributes_describe_the_cpu),
        cmocka_unit_test(memory_is_checked),
        cmocka_unit_test(copies_and_fills_arrive),
        cmocka_unit_test(streams_wait_for_values),
        cmocka_unit_test(streams_are_captured),
        cmocka_unit_test(batches_and_attributes),
        cmocka_unit_test(what_arrays_are_not),
        cmocka_unit_test(virtual_memory_is_put_together),
        cmocka_unit_test(a_range_may_be_of_two_devices),
        cmocka_unit_test(modules_of_ptx_are_lists_of_names),
        cmocka_unit_test(functions_are_found_by_name),
        cmocka_unit_test(contexts_outlive_the_primary_one),
        cmocka_unit_test(the_last_release_ends_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}

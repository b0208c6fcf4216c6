/*
 * test_cuda_library.c - tests libraries and kernels of the CUDA driver's API, launches with attributes, batches of
 * 3-D copies, prefetches of several ranges, and the forms of calls that came with CUDA 11.3 to 13.2.
 */
#include <cuda.h>

#include "compat.h"

#include <libgen.h>
#include <unistd.h>

/* The kernels of PTX on the CPU device are found by name: leat_add_u32 is one of leat's own. */
static const char ptx[] = ".version 7.0\n.target sm_70\n.visible .entry leat_add_u32(\n)\n{ ret; }\n"
                          ".visible .entry nowhere(\n)\n{ ret; }\n";

static CUcontext context, other_context;

static int begin(void **state)
{
    (void)state;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&other_context, 1));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    return 0;
}

/* The first form of the call, which no header declares any more. */
typedef CUresult (*first_capture_info)(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id);

static void *address_of(const char *name, int version, cuuint64_t flags)
{
    CUdriverProcAddressQueryResult why;
    void *function = NULL;

    OK(cuGetProcAddress(name, &function, version, flags, &why));
    return function;
}

/* ---- libraries ---- */

/* Adds `what` to each of 100 numbers in the memory of the current device, by any launch. */
struct addition {
    CUdeviceptr memory;
    uint64_t count;
    unsigned what;
    void *args[3];
};

static void begin_addition(struct addition *a, unsigned start)
{
    *a = (struct addition){.count = 100, .what = 7};
    OK(cuMemAlloc(&a->memory, 400));
    OK(cuMemsetD32(a->memory, start, 100));
    a->args[0] = &a->memory;
    a->args[1] = &a->count;
    a->args[2] = &a->what;
}

static void has_become(struct addition *a, unsigned value)
{
    unsigned numbers[100];

    OK(cuMemcpyDtoH(numbers, a->memory, sizeof numbers));
    for (int i = 0; i < 100; i++)
        assert_int_equal(numbers[i], value);
}

static void a_kernel_runs_on_each_device(void **state)
{
    CUlaunchAttribute attributes[] = {
        {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY, .value.priority = -1},
        {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {1, 1, 1}}};
    CUlaunchConfig config = {1, 1, 1, 128, 1, 1, .attrs = attributes, .numAttrs = 2};
    CUfunction function, same;
    CUkernel kernel, again;
    CUlibrary library;
    struct addition a;
    CUmodule module, of;
    const char *name;
    int value;

    (void)state;
    OK(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "leat_add_u32"));
    OK(cuLibraryGetKernel(&again, library, "leat_add_u32"));
    assert_ptr_equal(kernel, again);
    OK(cuKernelGetName(&name, kernel));
    assert_string_equal(name, "leat_add_u32");
    begin_addition(&a, 1);
    OK(cuLaunchKernel((CUfunction)(void *)kernel, 1, 1, 1, 128, 1, 1, 0, NULL, a.args, NULL));
    has_become(&a, 8);
    OK(cuLaunchKernelEx(&config, (CUfunction)(void *)kernel, a.args, NULL));
    has_become(&a, 15);
    OK(cuKernelGetFunction(&function, kernel));
    OK(cuLaunchKernelEx(&config, function, a.args, NULL));
    OK(cuLaunchKernelEx_ptsz(&config, function, a.args, NULL));
    OK(cuCtxSynchronize());
    has_become(&a, 29);
    OK(cuFuncGetName(&name, function));
    assert_string_equal(name, "leat_add_u32");
    OK(cuLibraryGetModule(&module, library));
    OK(cuFuncGetModule(&of, function));
    assert_ptr_equal(module, of);
    OK(cuModuleGetFunction(&same, module, "leat_add_u32"));
    assert_ptr_equal(function, same);
    OK(cuMemFree(a.memory));

    OK(cuCtxSetCurrent(other_context));
    OK(cuKernelGetFunction(&same, kernel));
    assert_ptr_not_equal(function, same);
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, a.args, NULL));
    begin_addition(&a, 3);
    OK(cuLaunchKernelEx(&config, (CUfunction)(void *)kernel, a.args, NULL));
    has_become(&a, 10);
    OK(cuMemFree(a.memory));
    OK(cuCtxSetCurrent(context));

    OK(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel, 1));
    assert_true(value >= 128);
    OK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024, kernel, 0));
    OK(cuKernelSetCacheConfig(kernel, CU_FUNC_CACHE_PREFER_L1, 0));
    GIVES(CUDA_ERROR_INVALID_DEVICE, cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, 99));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuKernelGetAttribute(NULL, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, 0));
    OK(cuLibraryUnload(library));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, a.args, NULL));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuKernelGetFunction(&function, kernel));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuKernelGetName(&name, kernel));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuLibraryUnload(library));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuLibraryGetKernel(&kernel, library, "leat_add_u32"));
}

static void kernels_are_listed(void **state)
{
    char self[3072] = "", path[4096];
    CUkernel kernels[64];
    CUlibrary library, back;
    unsigned count = 0;
    CUdeviceptr address;
    CUfunction function;
    const char *name;
    size_t bytes;
    void *pointer;

    (void)state;
    OK(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernelCount(&count, library));
    assert_int_equal(count, 2);
    OK(cuLibraryEnumerateKernels(kernels, 64, library));
    OK(cuKernelGetName(&name, kernels[1]));
    assert_string_equal(name, "nowhere");
    OK(cuKernelGetLibrary(&back, kernels[1]));
    assert_ptr_equal(back, library);
    GIVES(CUDA_ERROR_NO_BINARY_FOR_GPU, cuKernelGetFunction(&function, kernels[1]));
    GIVES(CUDA_ERROR_NOT_FOUND, cuLibraryGetKernel(&kernels[0], library, "leat_add"));
    GIVES(CUDA_ERROR_NOT_FOUND, cuLibraryGetGlobal(&address, &bytes, library, "variable"));
    GIVES(CUDA_ERROR_NOT_FOUND, cuLibraryGetManaged(&address, &bytes, library, "variable"));
    GIVES(CUDA_ERROR_NOT_FOUND, cuLibraryGetUnifiedFunction(&pointer, library, "function"));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuLibraryGetGlobal(NULL, NULL, library, "variable"));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuLibraryGetKernelCount(NULL, library));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuLibraryEnumerateKernels(NULL, 1, library));
    OK(cuLibraryUnload(library));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuLibraryGetKernelCount(&count, library));

    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    (void)snprintf(path, sizeof path, "%s/../kernels_user.so", dirname(self));
    OK(cuLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernelCount(&count, library));
    assert_true(count >= 2);
    OK(cuLibraryGetKernel(&kernels[0], library, "user_scale_f32"));
    OK(cuKernelGetFunction(&function, kernels[0]));
    OK(cuLibraryUnload(library));
    GIVES(CUDA_ERROR_FILE_NOT_FOUND,
          cuLibraryLoadFromFile(&library, "/no/such/file", NULL, NULL, 0, NULL, NULL, 0));
    GIVES(CUDA_ERROR_INVALID_IMAGE, cuLibraryLoadData(&library, "no image", NULL, NULL, 0, NULL, NULL, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuLibraryLoadData(NULL, ptx, NULL, NULL, 0, NULL, NULL, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuLibraryLoadData(&library, ptx, NULL, NULL, 1, NULL, NULL, 0));
}

/* A library outlives a reset of its device, whose modules are gone. */
static void a_library_outlives_a_reset(void **state)
{
    CUfunction before;
    CUlibrary library;
    struct addition a;
    CUkernel kernel;

    (void)state;
    OK(cuCtxSetCurrent(other_context));
    OK(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "leat_add_u32"));
    OK(cuKernelGetFunction(&before, kernel));
    OK(cuDevicePrimaryCtxReset(1));
    OK(cuDevicePrimaryCtxRetain(&other_context, 1));
    OK(cuCtxSetCurrent(other_context));
    begin_addition(&a, 5);
    OK(cuLaunchKernel((CUfunction)(void *)kernel, 1, 1, 1, 128, 1, 1, 0, NULL, a.args, NULL));
    has_become(&a, 12);
    OK(cuMemFree(a.memory));
    OK(cuDevicePrimaryCtxReset(1));
    OK(cuLibraryUnload(library)); /* its module is gone already */
    OK(cuDevicePrimaryCtxRetain(&other_context, 1));
    OK(cuCtxSetCurrent(context));
}

static void launches_refuse_what_there_is_not(void **state)
{
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {2, 1, 1}};
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, .attrs = &attribute, .numAttrs = 1};
    CUlibrary library;
    struct addition a;
    CUkernel kernel;

    (void)state;
    begin_addition(&a, 1);
    OK(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "leat_add_u32"));
    GIVES(CUDA_ERROR_NOT_SUPPORTED, cuLaunchKernelEx(&config, (CUfunction)(void *)kernel, a.args, NULL));
    attribute = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT};
    GIVES(CUDA_ERROR_NOT_SUPPORTED, cuLaunchKernelEx(&config, (CUfunction)(void *)kernel, a.args, NULL));
    attribute = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1};
    GIVES(CUDA_ERROR_NOT_SUPPORTED, cuLaunchKernelEx(&config, (CUfunction)(void *)kernel, a.args, NULL));
    config.attrs = NULL;
    GIVES(CUDA_ERROR_INVALID_VALUE, cuLaunchKernelEx(&config, (CUfunction)(void *)kernel, a.args, NULL));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuLaunchKernelEx(NULL, (CUfunction)(void *)kernel, a.args, NULL));
    config.numAttrs = 0;
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernelEx(&config, NULL, a.args, NULL));
    has_become(&a, 1);
    OK(cuLibraryUnload(library));
    OK(cuMemFree(a.memory));
}

/* A node of a graph may name a kernel in place of a function. */
static void kernels_are_nodes(void **state)
{
    CUDA_KERNEL_NODE_PARAMS params = {
        .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 128, .blockDimY = 1, .blockDimZ = 1};
    CUgraphExec executable;
    CUlibrary library;
    CUgraphNode node;
    struct addition a;
    CUgraph graph;

    (void)state;
    begin_addition(&a, 1);
    OK(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&params.kern, library, "leat_add_u32"));
    params.kernelParams = a.args;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddKernelNode(&node, graph, NULL, 0, &params));
    OK(cuGraphInstantiate(&executable, graph, 0));
    OK(cuGraphLaunch(executable, NULL));
    OK(cuGraphLaunch(executable, NULL));
    OK(cuCtxSynchronize());
    has_become(&a, 15);
    OK(cuGraphExecDestroy(executable));
    OK(cuGraphDestroy(graph));
    OK(cuLibraryUnload(library));
    OK(cuMemFree(a.memory));
}

/* ---- copies ---- */

static void copies_in_batches(void **state)
{
    CUDA_MEMCPY3D_BATCH_OP ops[2] = {{.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM}};
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUDA_ARRAY3D_DESCRIPTOR shape = {8, 4, 0, CU_AD_FORMAT_FLOAT, 1, 0};
    unsigned char in[256], out[256] = {0};
    size_t failed = 55;
    CUdeviceptr memory;
    CUstream stream;
    CUarray array;

    (void)state;
    write_pattern(in, sizeof in, 6);
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&memory, sizeof in));
    OK(cuMemcpyWithAttributesAsync(memory, (CUdeviceptr)(uintptr_t)in, sizeof in, &attributes, stream));
    OK(cuMemcpyWithAttributesAsync((CUdeviceptr)(uintptr_t)out, memory, sizeof in, &attributes, stream));
    OK(cuStreamSynchronize(stream));
    HAS_PATTERN(out, sizeof out, 6);
    OK(cuMemcpyWithAttributesAsync(memory, (CUdeviceptr)(uintptr_t)in, 16, &attributes, NULL));
    attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpyWithAttributesAsync(memory, memory, 16, &attributes, stream));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpyWithAttributesAsync(memory, memory, 16, NULL, stream));

    /* Rows of 10 bytes that are 16 apart become rows without gaps; then 4 rows of an array of 8 floats. */
    ops[0].src =
        (CUmemcpy3DOperand){.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr = {.ptr = memory, .rowLength = 16}};
    ops[0].dst = (CUmemcpy3DOperand){.type = CU_MEMCPY_OPERAND_TYPE_POINTER,
                                     .op.ptr = {.ptr = (CUdeviceptr)(uintptr_t)out}};
    ops[0].extent = (CUextent3D){10, 2, 1};
    OK(cuArray3DCreate(&array, &shape));
    ops[1] = ops[0];
    ops[1].src = (CUmemcpy3DOperand){.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr.ptr = memory};
    ops[1].dst = (CUmemcpy3DOperand){.type = CU_MEMCPY_OPERAND_TYPE_ARRAY, .op.array = {array, {4, 0, 0}}};
    ops[1].extent = (CUextent3D){4, 4, 1}; /* in floats */
    memset(out, 0, sizeof out);
    OK(cuMemcpy3DBatchAsync(2, ops, &failed, 0, stream));
    OK(cuStreamSynchronize(stream));
    HAS_PATTERN(out, 10, 6);
    assert_memory_equal(out + 10, in + 16, 10);
    HAS_BYTES(out + 20, sizeof out - 20, 0);
    assert_int_equal(failed, 55);

    ops[0].src = ops[1].dst;
    ops[0].extent = ops[1].extent;
    memset(out, 0, sizeof out);
    OK(cuMemcpy3DWithAttributesAsync(ops, 0, stream));
    OK(cuStreamSynchronize(stream));
    HAS_PATTERN(out, 64, 6);
    HAS_BYTES(out + 64, sizeof out - 64, 0);
    memset(out, 0, sizeof out);
    OK(cuMemcpy3DBatchAsync_v2(1, ops, 0, stream));
    OK(cuStreamSynchronize(stream));
    HAS_PATTERN(out, 64, 6);

    ops[1].dst.op.array.offset.x = 5; /* beyond the row */
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DBatchAsync(2, ops, &failed, 0, stream));
    assert_int_equal(failed, 1);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DBatchAsync(2, ops, &failed, 1, stream));
    assert_true(failed == SIZE_MAX);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DBatchAsync_v2(2, ops, 0, NULL));
    ops[0].src.type = 3;
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DBatchAsync_v2(1, ops, 0, stream));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DWithAttributesAsync(NULL, 0, stream));
    OK(cuArrayDestroy(array));
    OK(cuMemFree(memory));
    OK(cuStreamDestroy(stream));
}

static void ranges_in_batches(void **state)
{
    CUmemLocation places[2] = {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, {CU_MEM_LOCATION_TYPE_HOST, 0}}, nowhere = {0};
    size_t sizes[3] = {4096, 4096, 4096}, indexes[2] = {0, 2};
    CUdeviceptr memory, ranges[3];
    CUstream stream;
    int place;

    (void)state;
    OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    OK(cuMemAllocManaged(&memory, 3 * 4096, CU_MEM_ATTACH_GLOBAL));
    for (size_t i = 0; i < 3; i++)
        ranges[i] = memory + i * 4096;
    OK(cuMemPrefetchBatchAsync(ranges, sizes, 3, places, indexes, 2, 0, stream));
    OK(cuStreamSynchronize(stream));
    for (int i = 0; i < 3; i++) {
        OK(cuMemRangeGetAttribute(&place, sizeof place, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, ranges[i],
                                  4096));
        assert_int_equal(place, i < 2 ? 1 : CU_DEVICE_CPU);
    }
    OK(cuMemDiscardAndPrefetchBatchAsync(ranges, sizes, 3, places, indexes, 1, 0, stream));
    OK(cuMemDiscardBatchAsync(ranges, sizes, 3, 0, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemRangeGetAttribute(&place, sizeof place, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, ranges[2],
                              4096));
    assert_int_equal(place, 1);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchBatchAsync(ranges, sizes, 3, places, indexes, 2, 0, NULL));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchBatchAsync(ranges, sizes, 3, &nowhere, indexes, 1, 0, stream));
    places[0].id = -1; /* the number of the host where a call takes no location */
    GIVES(CUDA_ERROR_INVALID_DEVICE, cuMemAdvise_v2(memory, 4096, CU_MEM_ADVISE_SET_ACCESSED_BY, places[0]));
    GIVES(CUDA_ERROR_INVALID_DEVICE, cuMemPrefetchAsync_v2(memory, 4096, places[0], 0, stream));
    GIVES(CUDA_ERROR_INVALID_DEVICE, cuMemPrefetchBatchAsync(ranges, sizes, 3, places, indexes, 2, 0, stream));
    indexes[1] = 3;
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchBatchAsync(ranges, sizes, 3, places, indexes, 2, 0, stream));
    sizes[2] = 4097;
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemDiscardBatchAsync(ranges, sizes, 3, 0, stream));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemDiscardBatchAsync(ranges, sizes, 2, 1, stream));
    OK(cuMemFree(memory));
    OK(cuStreamDestroy(stream));
}

static void pools_of_a_place(void **state)
{
    CUmemLocation device = {CU_MEM_LOCATION_TYPE_DEVICE, 0}, host = {CU_MEM_LOCATION_TYPE_HOST, 0};
    CUmemoryPool pool, same;

    (void)state;
    OK(cuMemGetDefaultMemPool(&pool, &device, CU_MEM_ALLOCATION_TYPE_PINNED));
    OK(cuDeviceGetDefaultMemPool(&same, 0));
    assert_ptr_equal(pool, same);
    OK(cuMemSetMemPool(&device, CU_MEM_ALLOCATION_TYPE_PINNED, pool));
    OK(cuMemGetMemPool(&same, &device, CU_MEM_ALLOCATION_TYPE_PINNED));
    assert_ptr_equal(pool, same);
    GIVES(CUDA_ERROR_NOT_SUPPORTED, cuMemGetMemPool(&same, &host, CU_MEM_ALLOCATION_TYPE_PINNED));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemGetMemPool(&same, NULL, CU_MEM_ALLOCATION_TYPE_PINNED));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemSetMemPool(&device, CU_MEM_ALLOCATION_TYPE_INVALID, pool));
    device.id = 99;
    GIVES(CUDA_ERROR_INVALID_DEVICE, cuMemGetDefaultMemPool(&same, &device, CU_MEM_ALLOCATION_TYPE_PINNED));
}

/* ---- forms of calls ---- */

static void add_one(void *argument)
{
    ++*(int *)argument;
}

static void contexts_are_named(void **state)
{
    CUexecAffinityParam affinity = {0};
    CUgreenCtx green = (CUgreenCtx)(void *)&affinity;
    CUcontext made, there;
    CUstream stream;
    int device = 9, number = 0;

    (void)state;
    OK(cuCtxGetDevice_v2(&device, other_context));
    assert_int_equal(device, 1);
    OK(cuCtxGetDevice_v2(&device, NULL));
    assert_int_equal(device, 0);
    OK(cuCtxSynchronize_v2(other_context));
    OK(cuCtxSynchronize_v2(NULL));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuCtxSynchronize_v2((CUcontext)(void *)&device));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuCtxGetDevice_v2(NULL, NULL));
    OK(cuCtxCreate_v3(&made, NULL, 0, 0, 0));
    OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    OK(cuStreamGetCtx_v2(stream, &there, &green));
    assert_true(there == made && !green);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuStreamGetCtx_v2(stream, &there, NULL));
    OK(cuLaunchHostFunc_v2(stream, add_one, &number, 1));
    OK(cuStreamSynchronize(stream));
    assert_int_equal(number, 1);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuLaunchHostFunc_v2(stream, add_one, &number, 2));
    OK(cuStreamDestroy(stream));
    OK(cuCtxDestroy(made));
    GIVES(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, cuCtxCreate_v3(&made, &affinity, 1, 0, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuCtxCreate_v3(&made, NULL, 1, 0, 0));
    OK(cuCtxSetCurrent(context));
}

static void capture_info_in_its_first_form(void **state)
{
    CUstreamCaptureStatus status;
    first_capture_info info;
    cuuint64_t id = 0;
    CUstream stream;
    CUgraph graph;
    void *function = address_of("cuStreamGetCaptureInfo", 10010, 0);

    (void)state;
    memcpy(&info, &function, sizeof info);
    OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    OK(info(stream, &status, &id));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(info(stream, &status, &id));
    assert_true(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && id);
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphDestroy(graph));
    OK(cuStreamDestroy(stream));
}

/* The form of each name by version, as a driver of version 13.0 returned it on an H100. */
static void names_have_the_forms_of_their_version(void **state)
{
    static const struct {
        const char *name;
        int version;
        void *function;
    } names[] = {{"cuCtxCreate", 11040, cuCtxCreate_v3},
                 {"cuCtxCreate", 12000, cuCtxCreate_v3},
                 {"cuCtxCreate", 12050, cuCtxCreate_v4},
                 {"cuCtxGetDevice", 13000, cuCtxGetDevice_v2},
                 {"cuCtxGetDevice", 12080, cuCtxGetDevice},
                 {"cuCtxSynchronize", 13000, cuCtxSynchronize_v2},
                 {"cuMemAdvise", 12010, cuMemAdvise},
                 {"cuMemAdvise", 12020, cuMemAdvise_v2},
                 {"cuMemPrefetchAsync", 12020, cuMemPrefetchAsync_v2},
                 {"cuGraphInstantiate", 12000, cuGraphInstantiate_v2},
                 {"cuStreamGetCaptureInfo", 11030, cuStreamGetCaptureInfo_v2},
                 {"cuStreamGetCaptureInfo", 12000, cuStreamGetCaptureInfo_v2},
                 {"cuStreamGetCaptureInfo", 12030, cuStreamGetCaptureInfo_v3},
                 {"cuStreamGetCtx", 12040, cuStreamGetCtx},
                 {"cuStreamGetCtx", 12050, cuStreamGetCtx_v2},
                 {"cuMemcpy3DBatchAsync", 12080, cuMemcpy3DBatchAsync},
                 {"cuMemcpy3DBatchAsync", 13000, cuMemcpy3DBatchAsync_v2},
                 {"cuLaunchKernelEx", 11080, cuLaunchKernelEx},
                 {"cuLibraryLoadData", 12000, cuLibraryLoadData}};
    CUdriverProcAddressQueryResult why;
    void *function = &why;

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (address_of(names[i].name, names[i].version, 0) != names[i].function)
            fail_msg("%s of %d has another form", names[i].name, names[i].version);
    }
    assert_ptr_equal(address_of("cuLaunchKernelEx", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
                     cuLaunchKernelEx_ptsz);
    OK(cuGetProcAddress("cuLaunchKernelEx", &function, 11000, 0, &why));
    assert_null(function);
    assert_int_equal(why, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    /* The first form of the call has no status, and returns an error. */
#undef cuGetProcAddress
    function = &why;
    GIVES(CUDA_ERROR_NOT_FOUND, cuGetProcAddress("cuLaunchKernelEx", &function, 11000, 0));
    assert_ptr_equal(function, &why);
    GIVES(CUDA_ERROR_NOT_FOUND, cuGetProcAddress("cuNothing", &function, 13000, 0));
}

/* Ends what the devices have, for checkers of leaks. */
static int end(void **state)
{
    (void)state;
    OK(cuDevicePrimaryCtxReset(0));
    OK(cuDevicePrimaryCtxReset(1));
    return 0;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kernel_runs_on_each_device),
        cmocka_unit_test(kernels_are_listed),
        cmocka_unit_test(a_library_outlives_a_reset),
        cmocka_unit_test(launches_refuse_what_there_is_not),
        cmocka_unit_test(kernels_are_nodes),
        cmocka_unit_test(copies_in_batches),
        cmocka_unit_test(ranges_in_batches),
        cmocka_unit_test(pools_of_a_place),
        cmocka_unit_test(contexts_are_named),
        cmocka_unit_test(capture_info_in_its_first_form),
        cmocka_unit_test(names_have_the_forms_of_their_version),
    };

    return cmocka_run_group_tests(tests, begin, end) ? 1 : 0;
}

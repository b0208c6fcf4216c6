/* test_cuda_beside.c - tests the CUDA driver's and the CUDA runtime's compatibility libraries in one process: they
 * share initialization and memory. */
#include <cuda.h>
#include <driver_types.h>

#include "compat.h"

#include <dlfcn.h>

/* Functions of the runtime. load_runtime() loads them, so that a test can first run without the runtime. */
static int (*runtime_malloc)(void **ptr, size_t bytes);
static int (*runtime_free)(void *ptr);
static int (*runtime_set_device)(int device);
static int (*runtime_get_device)(int *device);
static int (*runtime_stream_create)(CUstream *stream);
static int (*runtime_stream_destroy)(CUstream stream);
static int (*runtime_reset)(void);
static int (*runtime_malloc_array)(cudaArray_t *array, const struct cudaChannelFormatDesc *channels, size_t width,
                                   size_t height, unsigned flags);
static int (*runtime_array_info)(struct cudaChannelFormatDesc *channels, struct cudaExtent *extent,
                                 unsigned *flags, cudaArray_t array);
static int (*runtime_entry)(const char *name, void **function, unsigned long long flags, int *status);

static void find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);

    assert_non_null(found);
    memcpy(function, &found, sizeof found);
}

/* Loads the runtime's library from the folder of the driver's library. It passes the whole path, because
 * sanitizers change the folder in which dlopen() searches. */
static void load_runtime(void)
{
    char path[4096];
    Dl_info driver;
    void *library;

    assert_int_not_equal(dladdr((void *)(uintptr_t)&cuInit, &driver), 0);
    snprintf(path, sizeof path, "%.*s/libleat-cudart.so", (int)(strrchr(driver.dli_fname, '/') - driver.dli_fname),
             driver.dli_fname);
    library = dlopen(path, RTLD_NOW);
    if (!library)
        print_error("%s\n", dlerror());
    assert_non_null(library);
    find(library, "cudaMalloc", &runtime_malloc);
    find(library, "cudaFree", &runtime_free);
    find(library, "cudaSetDevice", &runtime_set_device);
    find(library, "cudaGetDevice", &runtime_get_device);
    find(library, "cudaStreamCreate", &runtime_stream_create);
    find(library, "cudaStreamDestroy", &runtime_stream_destroy);
    find(library, "cudaDeviceReset", &runtime_reset);
    find(library, "cudaMallocArray", &runtime_malloc_array);
    find(library, "cudaArrayGetInfo", &runtime_array_info);
    find(library, "cudaGetDriverEntryPoint", &runtime_entry);
}

static void the_runtime_starts_the_driver(void **state)
{
    CUdeviceptr base, memory;
    CUcontext context;
    CUdevice device;
    size_t bytes;
    void *ptr, *function;
    int count, status;

    (void)state;
    GIVES(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&count));
    load_runtime();
    GIVES(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&count)); /* the program has loaded the runtime, but has not
                                                                  * called it yet */
    OK(runtime_malloc(&ptr, 100));
    OK(cuDeviceGetCount(&count));
    OK(cuMemGetAddressRange(&base, &bytes, (CUdeviceptr)(uintptr_t)ptr));
    assert_int_equal(bytes, 100);
    OK(cuCtxGetDevice(&device));
    assert_int_equal(device, 0);
    OK(runtime_set_device(1));
    OK(cuCtxGetDevice(&device));
    assert_int_equal(device, 1);
    OK(cuCtxGetCurrent(&context));
    assert_non_null(context);
    OK(cuMemAlloc(&memory, 64));
    OK(runtime_free((void *)(uintptr_t)memory));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemFree(memory));
    OK(runtime_set_device(0));
    OK(cuMemFree((CUdeviceptr)(uintptr_t)ptr));
    OK(runtime_entry("cuMemAlloc", &function, 0, &status));
    assert_ptr_equal(function, (void *)(uintptr_t)&cuMemAlloc);
    OK(runtime_entry("cuNothing", &function, 0, &status)); /* no error: the status says it */
    assert_int_equal(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    assert_null(function);
    OK(runtime_entry("cuNothing", &function, 0, NULL));
    assert_null(function);
    GIVES(CUDA_ERROR_INVALID_VALUE, runtime_entry("cuMemAlloc", NULL, 0, &status));
    for (int i = 0; i < 2; i++) {
        OK(runtime_set_device(i));
        OK(runtime_reset());
    }
}

/* Each API describes an array of the other one in its own words. */
static void both_describe_an_array(void **state)
{
    static const struct {
        CUarray_format format;
        struct cudaChannelFormatDesc channels;
    } pairs[] = {
        {CU_AD_FORMAT_UNSIGNED_INT8, {8, 8, 8, 8, cudaChannelFormatKindUnsigned}},
        {CU_AD_FORMAT_UNSIGNED_INT16, {16, 16, 0, 0, cudaChannelFormatKindUnsigned}},
        {CU_AD_FORMAT_UNSIGNED_INT32, {32, 0, 0, 0, cudaChannelFormatKindUnsigned}},
        {CU_AD_FORMAT_SIGNED_INT8, {8, 0, 0, 0, cudaChannelFormatKindSigned}},
        {CU_AD_FORMAT_SIGNED_INT16, {16, 16, 16, 16, cudaChannelFormatKindSigned}},
        {CU_AD_FORMAT_SIGNED_INT32, {32, 32, 0, 0, cudaChannelFormatKindSigned}},
        {CU_AD_FORMAT_HALF, {16, 0, 0, 0, cudaChannelFormatKindFloat}},
        {CU_AD_FORMAT_FLOAT, {32, 32, 32, 32, cudaChannelFormatKindFloat}},
    };

    (void)state;
    OK(runtime_set_device(0));
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const struct cudaChannelFormatDesc *wanted = &pairs[i].channels;
        unsigned count = 1U + !!wanted->y + !!wanted->z + !!wanted->w;
        CUDA_ARRAY_DESCRIPTOR shape = {.Width = 24, .Height = 10, .Format = pairs[i].format, .NumChannels = count};
        CUDA_ARRAY_DESCRIPTOR found;
        struct cudaChannelFormatDesc channels;
        struct cudaExtent extent;
        cudaArray_t of_runtime;
        CUarray of_driver;

        OK(cuArrayCreate(&of_driver, &shape));
        OK(runtime_array_info(&channels, &extent, NULL, (cudaArray_t)of_driver));
        assert_memory_equal(&channels, wanted, sizeof channels);
        assert_int_equal(extent.width, 24);
        OK(runtime_malloc_array(&of_runtime, wanted, 24, 10, 0));
        OK(cuArrayGetDescriptor(&found, (CUarray)of_runtime));
        assert_int_equal(found.Format, pairs[i].format);
        assert_int_equal(found.NumChannels, count);
        assert_int_equal(found.Height, 10);
        OK(cuArrayDestroy(of_driver));
        OK(cuArrayDestroy((CUarray)of_runtime));
    }
}

#define RUNTIME_IS_ON(wanted) runtime_is_on((wanted), __LINE__)
static void runtime_is_on(int wanted, int line)
{
    int device = -1;

    OK(runtime_get_device(&device));
    if (device != wanted) {
        print_error("the runtime is on device %d instead of %d\n", device, wanted);
        _fail(__FILE__, line);
    }
}

/* After the last context is popped or destroyed, the runtime is on the device that it was on before. */
static void the_runtime_keeps_its_device(void **state)
{
    CUcontext primary, made, seen;
    unsigned flags;
    int active;

    (void)state;
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    OK(cuCtxSetCurrent(NULL)); /* what earlier tests left on the stack */
    OK(runtime_set_device(1));
    OK(cuCtxPushCurrent(primary));
    RUNTIME_IS_ON(0);
    OK(cuCtxPopCurrent(NULL));
    RUNTIME_IS_ON(1);
    OK(cuCtxSetCurrent(primary));
    RUNTIME_IS_ON(0);
    OK(cuCtxSetCurrent(NULL));
    RUNTIME_IS_ON(1);
    OK(cuCtxSetCurrent(NULL)); /* the stack is empty */
    RUNTIME_IS_ON(1);
    OK(runtime_set_device(0));
    OK(cuCtxCreate(&made, 0, 1));
    RUNTIME_IS_ON(1);
    OK(cuCtxDestroy(made));
    RUNTIME_IS_ON(0);
    /* The driver takes the runtime's device into its stack, and notices when the runtime selects another one. */
    OK(cuCtxGetCurrent(&seen));
    assert_ptr_equal(seen, primary);
    OK(runtime_set_device(1));
    OK(cuCtxPushCurrent(primary));
    RUNTIME_IS_ON(0);
    OK(cuCtxPopCurrent(NULL));
    RUNTIME_IS_ON(1);
    OK(runtime_set_device(0));
    OK(cuCtxPopCurrent(&seen));
    assert_ptr_equal(seen, primary);
    RUNTIME_IS_ON(0);
    /* Returning to a device does not open it. */
    OK(cuDevicePrimaryCtxRelease(0));
    OK(runtime_reset());
    OK(cuCtxCreate(&made, 0, 1));
    OK(cuCtxDestroy(made));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    assert_int_equal(active, 0);
    OK(runtime_set_device(1));
    OK(runtime_reset());
}

/* What the runtime has made stays when the driver's last reference to the primary context is released. */
static void the_runtime_holds_its_device(void **state)
{
    CUcontext primary;
    CUdeviceptr memory;
    CUstream stream;
    unsigned flags;
    void *ptr;
    int active;

    (void)state;
    OK(cuDevicePrimaryCtxRetain(&primary, 0)); /* the driver is first */
    OK(runtime_set_device(0));
    OK(runtime_malloc(&ptr, 100));
    OK(runtime_stream_create(&stream));
    OK(cuDevicePrimaryCtxRelease(0));
    OK(cuDevicePrimaryCtxRetain(&primary, 0)); /* the runtime is first */
    OK(cuDevicePrimaryCtxRelease(0));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(0));
    OK(runtime_stream_destroy(stream));
    OK(runtime_free(ptr));
    /* After a reset the runtime has no reference until it uses the device again. */
    OK(runtime_reset());
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    OK(cuDevicePrimaryCtxRelease(0));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    assert_int_equal(active, 0);
    /* Nor has it one to a device that only the driver uses. */
    OK(runtime_malloc(&ptr, 100));
    OK(cuDevicePrimaryCtxRetain(&primary, 1));
    OK(cuCtxPushCurrent(primary));
    OK(cuMemAlloc(&memory, 100));
    OK(cuCtxPopCurrent(NULL));
    OK(runtime_free(ptr));
    OK(cuDevicePrimaryCtxRelease(1));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemFree(memory));
    OK(runtime_reset());
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_runtime_starts_the_driver), cmocka_unit_test(both_describe_an_array),
        cmocka_unit_test(the_runtime_keeps_its_device), cmocka_unit_test(the_runtime_holds_its_device)};

    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}

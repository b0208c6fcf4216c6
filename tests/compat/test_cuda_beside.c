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

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(the_runtime_starts_the_driver),
                                              cmocka_unit_test(both_describe_an_array)};

    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}

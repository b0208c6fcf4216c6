/*
 * test_hip_launch.c - tests HIP's newer ways to launch, occupancy, libraries, and refusals of cooperative
 * launches. Kernels of modules come from kernels_user.so, which is built into the parent folder.
 */
#include <hip/hip_runtime.h>

#include "compat.h"

#include <leat/device_code.h>

#include <limits.h>
#include <unistd.h>

LEAT_KERNEL(add, 3, unsigned *, data, uint64_t, count, unsigned, addend)
{
    LEAT_FOR (i, count)
        data[i] += addend;
}

static const void *const kernel = &leat_cpu_kernel_add;
static const dim3 grid = {4, 1, 1}, block = {32, 1, 1}, none = {0, 1, 1};

static const char *module_path(void)
{
    static char path[PATH_MAX + 32];

    assert_true(readlink("/proc/self/exe", path, PATH_MAX) > 0);
    strcpy(strrchr(path, '/'), "/../kernels_user.so");
    return path;
}

/* ---- attributes of kernels ---- */

static void attributes_of_a_function(void **state)
{
    struct hipFuncAttributes attributes;
    hipDeviceProp_t properties;

    (void)state;
    OK(hipGetDeviceProperties(&properties, 0));
    memset(&attributes, 0xee, sizeof attributes);
    OK(hipFuncGetAttributes(&attributes, kernel));
    assert_int_equal(attributes.maxThreadsPerBlock, properties.maxThreadsPerBlock);
    assert_int_equal(attributes.maxDynamicSharedSizeBytes, properties.sharedMemPerBlock);
    assert_int_equal(attributes.numRegs, 0);
    GIVES(hipErrorInvalidValue, hipFuncGetAttributes(NULL, kernel));
    GIVES(hipErrorInvalidDeviceFunction, hipFuncGetAttributes(&attributes, NULL));
    GIVES(hipErrorInvalidDeviceFunction, hipFuncGetAttributes(&attributes, &grid));
}

static void occupancy_by_pointer(void **state)
{
    int blocks = -1, threads = -1, active = -1, processors, of_unit, most;
    size_t shared = 0;

    (void)state;
    OK(hipDeviceGetAttribute(&processors, hipDeviceAttributeMultiprocessorCount, 0));
    OK(hipDeviceGetAttribute(&of_unit, hipDeviceAttributeMaxThreadsPerMultiProcessor, 0));
    OK(hipDeviceGetAttribute(&most, hipDeviceAttributeMaxThreadsPerBlock, 0));
    OK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&active, kernel, 256, 0));
    assert_int_equal(active, of_unit / 256);
    OK(hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&active, kernel, most, 0, hipOccupancyDefault));
    assert_int_equal(active, of_unit / most);
    OK(hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&active, kernel, 1, 0,
                                                             hipOccupancyDisableCachingOverride));
    assert_true(active > 0 && active <= 64);
    OK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&active, kernel, most + 1, 0));
    assert_int_equal(active, 0);
    OK(hipOccupancyMaxPotentialBlockSize(&blocks, &threads, kernel, 0, 0));
    assert_int_equal(threads, most);
    assert_int_equal(blocks, of_unit / most * processors);
    OK(hipOccupancyMaxPotentialBlockSize(&blocks, &threads, kernel, 0, 100));
    assert_int_equal(threads, 100);
    OK(hipOccupancyAvailableDynamicSMemPerBlock(&shared, kernel, 1, 64));
    GIVES(hipErrorInvalidValue, hipOccupancyAvailableDynamicSMemPerBlock(&shared, kernel, 1000, 64));
    GIVES(hipErrorInvalidValue, hipOccupancyAvailableDynamicSMemPerBlock(NULL, kernel, 1, 64));
    GIVES(hipErrorInvalidValue, hipOccupancyMaxActiveBlocksPerMultiprocessor(NULL, kernel, 64, 0));
    GIVES(hipErrorInvalidValue, hipOccupancyMaxActiveBlocksPerMultiprocessor(&active, kernel, 0, 0));
    GIVES(hipErrorInvalidValue, hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&active, kernel, 64, 0, 2));
    GIVES(hipErrorInvalidValue, hipOccupancyMaxPotentialBlockSize(NULL, &threads, kernel, 0, 0));
    GIVES(hipErrorInvalidDeviceFunction, hipOccupancyMaxActiveBlocksPerMultiprocessor(&active, NULL, 64, 0));
    GIVES(hipErrorInvalidDeviceFunction, hipOccupancyMaxPotentialBlockSize(&blocks, &threads, &grid, 0, 0));
}

static void occupancy_of_modules(void **state)
{
    int blocks = -1, threads = -1, active = -1, again = -1;
    hipFunction_t function;
    hipModule_t module;

    (void)state;
    OK(hipModuleLoad(&module, module_path()));
    OK(hipModuleGetFunction(&function, module, "user_scale_f32"));
    OK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&again, kernel, 128, 0));
    OK(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&active, function, 128, 0));
    assert_int_equal(active, again);
    OK(hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&active, function, 128, 0,
                                                                   hipOccupancyDefault));
    assert_int_equal(active, again);
    OK(hipModuleOccupancyMaxPotentialBlockSize(&blocks, &threads, function, 0, 64));
    assert_int_equal(threads, 64);
    OK(hipModuleOccupancyMaxPotentialBlockSizeWithFlags(&blocks, &threads, function, 0, 0, 0));
    assert_true(blocks > 0 && threads > 64);
    GIVES(hipErrorInvalidValue,
          hipModuleOccupancyMaxPotentialBlockSizeWithFlags(&blocks, &threads, function, 0, 0, 8));
    GIVES(hipErrorInvalidValue, hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(NULL, function, 128, 0));
    OK(hipModuleUnload(module));
    GIVES(hipErrorInvalidHandle, hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&active, function, 128, 0));
    GIVES(hipErrorInvalidHandle, hipModuleOccupancyMaxPotentialBlockSize(&blocks, &threads, NULL, 0, 64));
}

/* ---- launches ---- */

static void launches_with_attributes(void **state)
{
    unsigned *data, out[100], addend = 5;
    uint64_t count = 100;
    void *args[] = {&data, &count, &addend};
    hipLaunchAttribute attributes[] = {{.id = hipLaunchAttributePriority, .val.priority = 1},
                                       {.id = hipLaunchAttributeCooperative, .val.cooperative = 0}};
    hipLaunchConfig_t config = {.gridDim = grid, .blockDim = block, .attrs = attributes, .numAttrs = 2};
    HIP_LAUNCH_CONFIG driver = {.gridDimX = 4,
                                .gridDimY = 1,
                                .gridDimZ = 1,
                                .blockDimX = 32,
                                .blockDimY = 1,
                                .blockDimZ = 1,
                                .attrs = attributes,
                                .numAttrs = 2};
    hipFunction_t function, again;

    (void)state;
    OK(hipMalloc((void **)&data, sizeof out));
    OK(hipMemset(data, 0, sizeof out));
    OK(hipStreamCreate(&config.stream));
    OK(hipLaunchKernelExC(&config, kernel, args));
    OK(hipStreamSynchronize(config.stream));
    OK(hipGetFuncBySymbol(&function, kernel));
    OK(hipGetFuncBySymbol(&again, kernel));
    assert_ptr_equal(function, again);
    driver.hStream = config.stream;
    OK(hipDrvLaunchKernelEx(&driver, function, args, NULL));
    OK(hipModuleLaunchKernel(function, 4, 1, 1, 32, 1, 1, 0, config.stream, args, NULL));
    OK(hipStreamSynchronize(config.stream));
    OK(hipMemcpy(out, data, sizeof out, hipMemcpyDeviceToHost));
    assert_int_equal(out[0], 15);
    assert_int_equal(out[99], 15);
    GIVES(hipErrorInvalidValue, hipLaunchKernelExC(NULL, kernel, args));
    GIVES(hipErrorInvalidDeviceFunction, hipLaunchKernelExC(&config, NULL, args));
    GIVES(hipErrorInvalidValue, hipDrvLaunchKernelEx(NULL, function, args, NULL));
    GIVES(hipErrorInvalidHandle, hipDrvLaunchKernelEx(&driver, NULL, args, NULL));
    GIVES(hipErrorNotSupported, hipDrvLaunchKernelEx(&driver, function, NULL, args));
    GIVES(hipErrorInvalidValue, hipGetFuncBySymbol(NULL, kernel));
    GIVES(hipErrorInvalidDeviceFunction, hipGetFuncBySymbol(&again, NULL));
    config.attrs = NULL;
    GIVES(hipErrorInvalidValue, hipLaunchKernelExC(&config, kernel, args));
    config.attrs = attributes;
    attributes[0].id = (hipLaunchAttributeID)77;
    GIVES(hipErrorInvalidValue, hipLaunchKernelExC(&config, kernel, args));
    OK(hipStreamDestroy(config.stream));
    attributes[0].id = hipLaunchAttributePriority;
    GIVES(hipErrorContextIsDestroyed, hipLaunchKernelExC(&config, kernel, args));
    OK(hipFree(data));
}

/* A LEAT_KERNEL does not support cooperative launches, and leat's devices do not support launches on several
 * devices. */
static void grids_that_wait_are_refused(void **state)
{
    unsigned *data, addend = 5;
    uint64_t count = 100;
    void *args[] = {&data, &count, &addend};
    hipLaunchAttribute together = {.id = hipLaunchAttributeCooperative, .val.cooperative = 1};
    hipLaunchConfig_t config = {.gridDim = grid, .blockDim = block, .attrs = &together, .numAttrs = 1};
    hipLaunchParams several[1] = {
        {.func = (void *)(uintptr_t)kernel, .gridDim = grid, .blockDim = block, .args = args}};
    hipFunctionLaunchParams functions[1] = {{.kernelParams = args}};
    hipStream_t gone;
    int value = -1;

    (void)state;
    OK(hipMalloc((void **)&data, 400));
    OK(hipGetFuncBySymbol(&functions[0].function, kernel));
    GIVES(hipErrorNotSupported, hipLaunchCooperativeKernel(kernel, grid, block, args, 0, NULL));
    GIVES(hipErrorNotSupported, hipLaunchCooperativeKernel_spt(kernel, grid, block, args, 0, NULL));
    GIVES(hipErrorNotSupported, hipLaunchKernelExC(&config, kernel, args));
    GIVES(hipErrorNotSupported,
          hipModuleLaunchCooperativeKernel(functions[0].function, 4, 1, 1, 32, 1, 1, 0, NULL, args));
    GIVES(hipErrorInvalidDeviceFunction, hipLaunchCooperativeKernel(NULL, grid, block, args, 0, NULL));
    GIVES(hipErrorInvalidDeviceFunction, hipLaunchCooperativeKernel(&none, grid, block, args, 0, NULL));
    GIVES(hipErrorInvalidHandle, hipModuleLaunchCooperativeKernel(NULL, 4, 1, 1, 32, 1, 1, 0, NULL, args));
    OK(hipStreamCreate(&gone));
    OK(hipStreamDestroy(gone));
    GIVES(hipErrorContextIsDestroyed, hipLaunchCooperativeKernel(kernel, grid, block, args, 0, gone));
    OK(hipDeviceGetAttribute(&value, hipDeviceAttributeCooperativeMultiDeviceLaunch, 0));
    assert_int_equal(value, 0);
    GIVES(hipErrorNotSupported, hipLaunchCooperativeKernelMultiDevice(several, 1, 0));
    GIVES(hipErrorNotSupported, hipExtLaunchMultiKernelMultiDevice(several, 1, 0));
    GIVES(hipErrorNotSupported, hipModuleLaunchCooperativeKernelMultiDevice(functions, 1, 3));
    GIVES(hipErrorInvalidValue, hipLaunchCooperativeKernelMultiDevice(NULL, 1, 0));
    GIVES(hipErrorInvalidValue, hipLaunchCooperativeKernelMultiDevice(several, 0, 0));
    GIVES(hipErrorInvalidValue, hipLaunchCooperativeKernelMultiDevice(several, 99, 0));
    GIVES(hipErrorInvalidValue, hipExtLaunchMultiKernelMultiDevice(several, 1, 4));
    GIVES(hipErrorInvalidValue, hipModuleLaunchCooperativeKernelMultiDevice(functions, UINT_MAX, 0));
    OK(hipFree(data));
}

/* ---- libraries ---- */

static void libraries(void **state)
{
    float host[10], factor = 3, *data;
    uint64_t count = 10;
    void *args[] = {&data, &count, &factor};
    hipLibraryOption option = hipLibraryBinaryIsPreserved;
    hipLibrary_t library, of = NULL;
    hipKernel_t found = NULL;
    const char *name = NULL;
    char image[1 << 17];
    FILE *file = fopen(module_path(), "rb");

    (void)state;
    assert_non_null(file);
    assert_true(fread(image, 1, sizeof image, file) > 0);
    fclose(file);
    for (int i = 0; i < 10; i++)
        host[i] = (float)i;
    OK(hipMalloc((void **)&data, sizeof host));
    OK(hipMemcpy(data, host, sizeof host, hipMemcpyHostToDevice));
    for (int way = 0; way < 2; way++) {
        if (way)
            OK(hipLibraryLoadFromFile(&library, module_path(), NULL, NULL, 0, &option, NULL, 1));
        else
            OK(hipLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
        OK(hipLibraryGetKernel(&found, library, "user_scale_f32"));
        OK(hipKernelGetName(&name, found));
        assert_string_equal(name, "user_scale_f32");
        OK(hipKernelGetLibrary(&of, found));
        assert_ptr_equal(of, library);
        OK(hipLaunchKernel(found, grid, block, args, 0, NULL)); /* the kernel takes the place of a function
                                                                 * pointer */
        OK(hipModuleLaunchKernel((hipFunction_t)(void *)found, 4, 1, 1, 32, 1, 1, 0, NULL, args, NULL));
        GIVES(hipErrorNotFound, hipLibraryGetKernel(&found, library, "no_such_kernel"));
        OK(hipDeviceSynchronize());
        OK(hipLibraryUnload(library));
        GIVES(hipErrorInvalidHandle, hipLibraryUnload(library));
        GIVES(hipErrorInvalidHandle, hipKernelGetName(&name, found));
        GIVES(hipErrorInvalidDeviceFunction, hipLaunchKernel(found, grid, block, args, 0, NULL));
    }
    OK(hipMemcpy(host, data, sizeof host, hipMemcpyDeviceToHost));
    assert_true(host[9] == 9 * 81);
    GIVES(hipErrorInvalidValue, hipLibraryLoadData(NULL, image, NULL, NULL, 0, NULL, NULL, 0));
    GIVES(hipErrorInvalidValue, hipLibraryLoadData(&library, NULL, NULL, NULL, 0, NULL, NULL, 0));
    GIVES(hipErrorInvalidValue, hipLibraryLoadData(&library, image, NULL, NULL, 1, NULL, NULL, 0));
    GIVES(hipErrorInvalidValue, hipLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 1));
    GIVES(hipErrorFileNotFound, hipLibraryLoadFromFile(&library, "/nowhere", NULL, NULL, 0, NULL, NULL, 0));
    GIVES(hipErrorInvalidValue, hipKernelGetName(NULL, found));
    GIVES(hipErrorInvalidValue, hipKernelGetLibrary(NULL, found));
    GIVES(hipErrorInvalidHandle, hipKernelGetLibrary(&of, NULL));
    OK(hipFree(data));
}

static void a_fat_binary_is_a_module(void **state)
{
    char image[1 << 17] = "__CLANG_OFFLOAD_BUNDLE__";
    hipModule_t module;
    FILE *file;

    (void)state;
    GIVES(hipErrorInvalidImage, hipModuleLoadFatBinary(&module, image));
    GIVES(hipErrorInvalidValue, hipModuleLoadFatBinary(&module, NULL));
    file = fopen(module_path(), "rb");
    assert_non_null(file);
    assert_true(fread(image, 1, sizeof image, file) > 0);
    fclose(file);
    OK(hipModuleLoadFatBinary(&module, image));
    OK(hipModuleUnload(module));
}

/* ---- choice of a device, and functions found by name ---- */

static void the_device_that_matches_best_is_chosen(void **state)
{
    hipDeviceProp_t wanted = {0};
    int device = -1;

    (void)state;
    OK(hipChooseDevice(&device, &wanted));
    assert_int_equal(device, 0);
    wanted.major = 1;
    wanted.multiProcessorCount = 1 << 30; /* more multiprocessors than any device has */
    OK(hipChooseDeviceR0600(&device, &wanted));
    assert_int_equal(device, 0);
    GIVES(hipErrorInvalidValue, hipChooseDevice(NULL, &wanted));
    GIVES(hipErrorInvalidValue, hipChooseDevice(&device, NULL));
}

static void a_linear_texture_would_be_so_wide(void **state)
{
    hipChannelFormatDesc desc = {.x = 32, .f = hipChannelFormatKindFloat};
    hipDeviceProp_t properties;
    size_t width = 1;

    (void)state;
    OK(hipGetDeviceProperties(&properties, 0));
    OK(hipDeviceGetTexture1DLinearMaxWidth(&width, &desc, 0));
    assert_int_equal(width, properties.maxTexture1DLinear);
    assert_int_equal(width, 0); /* 0, because textures are not supported */
    GIVES(hipErrorInvalidValue, hipDeviceGetTexture1DLinearMaxWidth(NULL, &desc, 0));
    GIVES(hipErrorInvalidValue, hipDeviceGetTexture1DLinearMaxWidth(&width, NULL, 0));
    GIVES(hipErrorInvalidDevice, hipDeviceGetTexture1DLinearMaxWidth(&width, &desc, 99));
}

static void names_are_found(void **state)
{
    hipDriverEntryPointQueryResult result = hipDriverEntryPointVersionNotSufficent;
    hipDriverProcAddressQueryResult address;
    void *there = NULL;

    (void)state;
    OK(hipGetDriverEntryPoint("hipStreamQuery", &there, hipEnableDefault, &result));
    assert_true(there == (void *)(uintptr_t)hipStreamQuery);
    assert_int_equal(result, hipDriverEntryPointSuccess);
    OK(hipGetDriverEntryPoint("hipStreamQuery", &there, hipEnablePerThreadDefaultStream, NULL));
    assert_true(there == (void *)(uintptr_t)hipStreamQuery_spt);
    OK(hipGetDriverEntryPoint_spt("hipStreamQuery", &there, hipEnableDefault, NULL));
    assert_true(there == (void *)(uintptr_t)hipStreamQuery_spt);
    OK(hipGetDriverEntryPoint_spt("hipStreamQuery", &there, hipEnableLegacyStream, NULL));
    assert_true(there == (void *)(uintptr_t)hipStreamQuery);
    OK(hipGetDriverEntryPoint("hipGetDeviceProperties", &there, hipEnableDefault, NULL));
    assert_true(there == (void *)(uintptr_t)hipGetDevicePropertiesR0600);
    OK(hipGetProcAddress("hipChooseDevice", &there, 60300000, 0, &address));
    assert_true(there == (void *)(uintptr_t)hipChooseDeviceR0600);
    GIVES(hipErrorInvalidValue, hipGetDriverEntryPoint("hipNothing", &there, hipEnableDefault, &result));
    assert_int_equal(result, hipDriverEntryPointSymbolNotFound);
    assert_null(there);
    GIVES(hipErrorInvalidValue, hipGetDriverEntryPoint("leatc_init", &there, hipEnableDefault, NULL));
    GIVES(hipErrorInvalidValue, hipGetDriverEntryPoint("", &there, hipEnableDefault, NULL));
    GIVES(hipErrorInvalidValue, hipGetDriverEntryPoint("hipMalloc", NULL, hipEnableDefault, NULL));
    GIVES(hipErrorInvalidValue, hipGetDriverEntryPoint("hipMalloc", &there, 3, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attributes_of_a_function),
        cmocka_unit_test(occupancy_by_pointer),
        cmocka_unit_test(occupancy_of_modules),
        cmocka_unit_test(launches_with_attributes),
        cmocka_unit_test(grids_that_wait_are_refused),
        cmocka_unit_test(libraries),
        cmocka_unit_test(a_fat_binary_is_a_module),
        cmocka_unit_test(the_device_that_matches_best_is_chosen),
        cmocka_unit_test(a_linear_texture_would_be_so_wide),
        cmocka_unit_test(names_are_found),
    };

    int wrong = cmocka_run_group_tests(tests, NULL, NULL);

    for (int i = 0; i < 2; i++) /* free everything, so that leak checkers find nothing */
        wrong += hipSetDevice(i) || hipDeviceReset();
    return wrong;
}

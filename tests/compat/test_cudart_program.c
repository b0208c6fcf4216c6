/*
 * test_cudart_program.c - tests the calls that NVIDIA's compiler puts into programs, and lists of a library's
 * kernels. The functions below have the types of NVIDIA's; no header declares them.
 */
#include <cuda_runtime.h>

#include "compat.h"

#include <leat/compat/kernel_support.h>
#include <leat/device_code.h>

#include <libgen.h>
#include <unistd.h>

void **__cudaRegisterFatBinary(void *code);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
char __cudaInitModule(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit, void *tid,
                            void *bid, dim3 *block, dim3 *grid, int *warp);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t bytes,
                       int constant, int global);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
                               cudaStream_t stream);
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
                                    cudaStream_t stream);

static const dim3 one = {1, 1, 1};

LEAT_KERNEL(set_to, int *, to, int, value)
{
    *to = value;
}

LEAT_KERNEL(set_to_sum, int *, to, int, value, int, more)
{
    *to = value + more;
}

/* Stand for the functions that the compiler makes of __global__ functions. */
static void first_stub(void)
{
}

static void second_stub(void)
{
}

static void a_launch_of_gpu_code_is_an_error(void **state)
{
    static const char code[] = "no leat device can run this";
    const void *first = (const void *)(uintptr_t)&first_stub, *second = (const void *)(uintptr_t)&second_stub;
    struct cudaFuncAttributes attributes;
    void **handle, **other;
    cudaKernel_t kernel;
    cudaGraph_t graph;
    cudaStream_t stream;
    int blocks;

    (void)state;
    GIVES(cudaErrorInvalidDeviceFunction, cudaLaunchKernel(first, one, one, NULL, 0, NULL));
    GIVES(cudaErrorInvalidDeviceFunction, __cudaGetKernel(&kernel, first));
    (void)cudaGetLastError();
    handle = __cudaRegisterFatBinary((void *)(uintptr_t)code);
    other = __cudaRegisterFatBinary((void *)(uintptr_t)code);
    assert_true(handle && other && handle != other);
    __cudaRegisterFunction(handle, first, NULL, "_Z5firstv", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFunction(other, second, NULL, "_Z6secondv", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(handle);
    assert_int_equal(__cudaInitModule(handle), 1);

    GIVES(cudaErrorNoKernelImageForDevice, cudaLaunchKernel(first, one, one, NULL, 0, NULL));
    GIVES(cudaErrorNoKernelImageForDevice, cudaGetLastError()); /* where programs look after <<< >>> */
    OK(cudaGetLastError());
    OK(__cudaGetKernel(&kernel, first));
    GIVES(cudaErrorNoKernelImageForDevice, __cudaLaunchKernel(kernel, one, one, NULL, 0, NULL));
    GIVES(cudaErrorNoKernelImageForDevice, __cudaLaunchKernel_ptsz(kernel, one, one, NULL, 0, NULL));
    OK(cudaGetKernel(&kernel, second));
    GIVES(cudaErrorNoKernelImageForDevice, __cudaLaunchKernel(kernel, one, one, NULL, 0, NULL));
    GIVES(cudaErrorNoKernelImageForDevice, cudaLaunchCooperativeKernel(first, one, one, NULL, 0, NULL));
    GIVES(cudaErrorNoKernelImageForDevice, cudaFuncGetAttributes(&attributes, first));
    GIVES(cudaErrorNoKernelImageForDevice,
          cudaFuncSetAttribute(first, cudaFuncAttributeMaxDynamicSharedMemorySize, 64));
    GIVES(cudaErrorNoKernelImageForDevice, cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, first, 32, 0));
    GIVES(cudaErrorInvalidValue, __cudaGetKernel(NULL, first));

    OK(cudaStreamCreate(&stream));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    GIVES(cudaErrorNoKernelImageForDevice, cudaLaunchKernel(first, one, one, NULL, 0, stream));
    (void)cudaStreamEndCapture(stream, &graph);
    OK(cudaStreamDestroy(stream));

    __cudaUnregisterFatBinary(handle);
    GIVES(cudaErrorInvalidDeviceFunction, cudaLaunchKernel(first, one, one, NULL, 0, NULL));
    GIVES(cudaErrorNoKernelImageForDevice, cudaLaunchKernel(second, one, one, NULL, 0, NULL));
    __cudaUnregisterFatBinary(other);
    __cudaUnregisterFatBinary(other); /* an unknown handle */
    GIVES(cudaErrorInvalidDeviceFunction, cudaLaunchKernel(second, one, one, NULL, 0, NULL));
    (void)cudaGetLastError();
}

/* A function that leat can run is launched by the same calls. */
static void kernels_of_the_program_run(void **state)
{
    int *memory, value = 41, there = 0;
    void *args[] = {&memory, &value};
    cudaKernel_t kernel;

    (void)state;
    OK(cudaMalloc((void **)&memory, sizeof *memory));
    OK(__cudaGetKernel(&kernel, &leat_cpu_kernel_set_to));
    OK(__cudaLaunchKernel(kernel, one, one, args, 0, NULL));
    OK(cudaMemcpy(&there, memory, sizeof there, cudaMemcpyDefault));
    assert_int_equal(there, 41);
    OK(cudaFree(memory));
}

static void configurations_are_a_stack(void **state)
{
    dim3 grid, block;
    cudaStream_t stream;
    size_t shared;

    (void)state;
    OK(__cudaPushCallConfiguration((dim3){2, 3, 4}, (dim3){5, 6, 7}, 8, (cudaStream_t)9));
    OK(__cudaPushCallConfiguration(one, one, 0, NULL));
    OK(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
    assert_true(grid.x == 1 && block.z == 1 && shared == 0 && !stream);
    GIVES(cudaErrorInvalidValue, __cudaPopCallConfiguration(NULL, &block, &shared, &stream));
    OK(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
    assert_true(grid.x == 2 && grid.y == 3 && grid.z == 4 && block.x == 5 && block.y == 6 && block.z == 7);
    assert_true(shared == 8 && stream == (cudaStream_t)9);
    GIVES(cudaErrorMissingConfiguration, __cudaPopCallConfiguration(&grid, &block, &shared, &stream));
    (void)cudaGetLastError();
}

static int variable = 5;

/* The compiler registers a variable's stand-in on the host, which is the variable here. */
static void variables_are_those_of_the_program(void **state)
{
    void **handle = __cudaRegisterFatBinary(NULL);
    size_t bytes = 0;
    int six = 6;

    (void)state;
    __cudaRegisterVar(handle, (char *)&variable, NULL, "variable", 0, sizeof variable, 0, 0);
    OK(cudaGetSymbolSize(&bytes, &variable));
    assert_int_equal(bytes, sizeof variable);
    OK(cudaMemcpyToSymbol(&variable, &six, sizeof six, 0, cudaMemcpyHostToDevice));
    assert_int_equal(variable, 6);
    __cudaUnregisterFatBinary(handle);
}

static void libraries_list_their_kernels(void **state)
{
    char self[3072] = "", path[4096];
    cudaKernel_t kernels[64], scale, first;
    cudaLibrary_t library;
    unsigned count = 0;
    size_t bytes;
    bool found = false;
    void *address;

    (void)state;
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    (void)snprintf(path, sizeof path, "%s/../kernels_user.so", dirname(self));
    OK(cudaLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0));
    OK(cudaLibraryGetKernelCount(&count, library));
    assert_true(count >= 2 && count <= 64);
    OK(cudaLibraryEnumerateKernels(kernels, 64, library));
    OK(cudaLibraryEnumerateKernels(&first, 1, library));
    OK(cudaLibraryGetKernel(&scale, library, "user_scale_f32"));
    OK(cudaKernelSetAttributeForDevice(scale, cudaFuncAttributeMaxDynamicSharedMemorySize, 64, 0));
    for (unsigned i = 0; i < count; i++) {
        struct cudaFuncAttributes attributes;

        OK(cudaFuncGetAttributes(&attributes, kernels[i]));
        found |= attributes.maxThreadsPerBlock > 0;
    }
    assert_true(found);
    GIVES(cudaErrorInvalidDevice, cudaKernelSetAttributeForDevice(scale, cudaFuncAttributeMax - 1, 0, 99));
    GIVES(cudaErrorInvalidValue, cudaLibraryGetKernelCount(NULL, library));
    GIVES(cudaErrorInvalidValue, cudaLibraryEnumerateKernels(NULL, 1, library));
    GIVES(cudaErrorSymbolNotFound, cudaLibraryGetGlobal(&address, &bytes, library, "variable"));
    GIVES(cudaErrorSymbolNotFound, cudaLibraryGetManaged(&address, &bytes, library, "variable"));
    GIVES(cudaErrorSymbolNotFound, cudaLibraryGetUnifiedFunction(&address, library, "function"));
    GIVES(cudaErrorInvalidValue, cudaLibraryGetGlobal(NULL, NULL, library, "variable"));
    OK(cudaLibraryUnload(library));
    GIVES(cudaErrorInvalidResourceHandle, cudaLibraryGetKernelCount(&count, library));
    GIVES(cudaErrorInvalidResourceHandle, cudaLibraryGetGlobal(&address, &bytes, library, "variable"));
    (void)cudaGetLastError();
}

/* Ends what the devices have, for checkers of leaks. */
static int end(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        OK(cudaSetDevice(i));
        OK(cudaDeviceReset());
    }
    return 0;
}

/* A library with kernels is unloaded, and another one is loaded to the same addresses. */
static void kernels_end_with_their_library(void **state)
{
    static leat_cpu_kernel code; /* stands for memory of the libraries */
    leat_registered_kernel record = {
        .function = (const void *)(uintptr_t)&second_stub, .code = &code, .together = &code, .name = "kernel"};
    int *out, value = 5, more = 6;

    (void)state;
    OK(cudaMallocManaged((void **)&out, sizeof *out, cudaMemAttachGlobal));
    code = leat_cpu_kernel_set_to;
    leat_kernel_know(&record);
    OK(cudaLaunchKernel(record.function, one, one, (void *[]){&out, &value}, 0, NULL));
    OK(cudaDeviceSynchronize());
    assert_int_equal(*out, 5);
    leat_kernel_forget(&record);
    GIVES(cudaErrorInvalidDeviceFunction,
          cudaLaunchKernel(record.function, one, one, (void *[]){&out, &value}, 0, NULL));
    code = leat_cpu_kernel_set_to_sum;
    leat_kernel_know(&record);
    OK(cudaLaunchKernel(record.function, one, one, (void *[]){&out, &value, &more}, 0, NULL));
    OK(cudaDeviceSynchronize());
    assert_int_equal(*out, 11);
    leat_kernel_forget(&record);
    (void)cudaGetLastError();
    OK(cudaFree(out));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_launch_of_gpu_code_is_an_error), cmocka_unit_test(kernels_of_the_program_run),
        cmocka_unit_test(configurations_are_a_stack),       cmocka_unit_test(variables_are_those_of_the_program),
        cmocka_unit_test(libraries_list_their_kernels),     cmocka_unit_test(kernels_end_with_their_library),
    };

    return cmocka_run_group_tests(tests, NULL, end) ? 1 : 0;
}

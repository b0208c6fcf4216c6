/*
 * face_client13.c - a program that was linked with libcudart.so.13 and libcuda.so.1, as a user has one. faces.sh
 * runs it over leat's libraries of these names, and tells it what it must find.
 */
#include <cuda.h>
#include <cuda_runtime.h>

#include "compat.h"

#include <dlfcn.h>
#include <unistd.h>

static void find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);

    assert_non_null(found);
    memcpy(function, &found, sizeof found);
}

static void copies_have_the_right_bytes(void **state)
{
    unsigned char in[5000], out[5000];
    struct cudaPointerAttributes attributes;
    cudaGraphExec_t executable;
    cudaStream_t stream;
    cudaGraph_t graph;
    void *memory;
    int version;

    (void)state;
    OK(cudaRuntimeGetVersion(&version));
    assert_int_equal(version, 13000);
    OK(cudaMalloc(&memory, sizeof in));
    OK(cudaStreamCreate(&stream));
    write_pattern(in, sizeof in, 3);
    OK(cudaMemcpyAsync(memory, in, sizeof in, cudaMemcpyHostToDevice, stream));
    OK(cudaMemcpyAsync(out, memory, sizeof in, cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    HAS_PATTERN(out, sizeof out, 3);
    OK(cudaPointerGetAttributes(&attributes, memory));
    assert_int_equal(attributes.type, cudaMemoryTypeDevice);

    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    OK(cudaMemsetAsync(memory, 7, sizeof in, stream));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&executable, graph, 0));
    OK(cudaGraphLaunch(executable, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(out, memory, sizeof out, cudaMemcpyDefault));
    HAS_BYTES(out, sizeof out, 7);
    OK(cudaGraphExecDestroy(executable));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(memory));
}

/* The runtime finds the driver's functions in libcuda.so.1 of the same folder, and both share memory. */
static void the_driver_is_the_same(void **state)
{
    enum cudaDriverEntryPointQueryResult status;
    CUresult (*get_range)(CUdeviceptr *, size_t *, CUdeviceptr);
    CUdeviceptr base;
    size_t bytes;
    void *memory, *entry;

    (void)state;
    OK(cudaMalloc(&memory, 300));
    OK(cudaGetDriverEntryPointByVersion("cuMemGetAddressRange", &entry, 12000, cudaEnableDefault, &status));
    assert_int_equal(status, cudaDriverEntryPointSuccess);
    memcpy(&get_range, &entry, sizeof entry);
    OK(get_range(&base, &bytes, (CUdeviceptr)(uintptr_t)memory));
    assert_int_equal(bytes, 300);
    assert_ptr_equal(entry,
                     (void *)(uintptr_t)&cuMemGetAddressRange); /* of the library that the program has loaded */
    entry = memory;
    OK(cudaGetDriverEntryPointByVersion("cuNothing", &entry, 13000, cudaEnableDefault, &status));
    assert_int_equal(status, cudaDriverEntryPointSymbolNotFound);
    assert_null(entry);
    OK(cudaFree(memory));
}

static void a_kernel_is_an_error(void **state)
{
    static const int stub = 0;

    (void)state;
    GIVES(cudaErrorInvalidDeviceFunction,
          cudaLaunchKernel(&stub, (dim3){1, 1, 1}, (dim3){1, 1, 1}, NULL, 0, NULL));
    GIVES(cudaErrorInvalidDeviceFunction, cudaGetLastError());
}

struct process_info {
    unsigned pid;
    unsigned long long used_bytes;
};

struct fabric_info {
    unsigned version;
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
    unsigned health;
};

static void management_knows_the_devices(void **state)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW), *device, *other, *memory;
    int (*init)(void), (*driver_version)(int *), (*by_address)(const char *, void **);
    int (*processes)(void *, unsigned *, struct process_info *), (*fabric)(void *, struct fabric_info *);
    int (*link_type)(void *, unsigned, int *), (*link_address)(void *, unsigned, void *);
    struct fabric_info info = {.version = 2, .state = 9, .health = 5};
    struct process_info process[2];
    char address[32], link[256];
    int version, same, type;
    unsigned count = 0;

    (void)state;
    assert_non_null(library);
    find(library, "nvmlInit_v2", &init);
    find(library, "nvmlSystemGetCudaDriverVersion_v2", &driver_version);
    find(library, "nvmlDeviceGetHandleByPciBusId_v2", &by_address);
    find(library, "nvmlDeviceGetComputeRunningProcesses", &processes);
    find(library, "nvmlDeviceGetGpuFabricInfoV", &fabric);
    find(library, "nvmlDeviceGetNvLinkRemoteDeviceType", &link_type);
    find(library, "nvmlDeviceGetNvLinkRemotePciInfo_v2", &link_address);
    OK(init());
    OK(driver_version(&version));
    OK(cuDriverGetVersion(&same));
    assert_int_equal(version, same);
    GIVES(2, driver_version(NULL));
    OK(cudaDeviceGetPCIBusId(address, sizeof address, 1));
    OK(by_address(address, &device));
    OK(cudaDeviceGetPCIBusId(address, sizeof address, 0));
    OK(by_address(address, &other));
    assert_ptr_not_equal(device, other);
    GIVES(6, by_address("ffff:ff:1f.0", &device));
    GIVES(2, by_address(NULL, &device));
    OK(cudaMalloc(&memory, 4 << 20));
    GIVES(7, processes(other, &count, NULL)); /* returns how many there are */
    assert_int_equal(count, 1);
    count = 2;
    OK(processes(other, &count, process));
    assert_int_equal(count, 1);
    assert_int_equal(process[0].pid, getpid());
    assert_true(process[0].used_bytes >= 4 << 20);
    GIVES(2, processes(NULL, &count, process));
    OK(fabric(other, &info));
    assert_true(info.state == 0 && info.health == 5);
    GIVES(3, link_type(other, 0, &type));
    GIVES(3, link_address(other, 0, link));
    GIVES(2, link_type((void *)99999, 0, &type));
    OK(cudaFree(memory));
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

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_have_the_right_bytes),
        cmocka_unit_test(the_driver_is_the_same),
        cmocka_unit_test(a_kernel_is_an_error),
        cmocka_unit_test(management_knows_the_devices),
    };

    return cmocka_run_group_tests(tests, NULL, end) ? 1 : 0;
}

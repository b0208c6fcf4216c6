/*
 * cuda_pinned_async.c - submits a copy in, a kernel and a copy out of pinned memory to one stream, through the
 * CUDA runtime's API.
 *
 *     cc cuda_pinned_async.c -o cuda_pinned_async $(pkg-config --cflags --libs leat-cudart)
 *     nvcc -x cu cuda_pinned_async.c -o cuda_pinned_async    # with NVIDIA's library; add -I for leat's headers
 *
 * None of the three calls waits for the device, so the host can do other work until it synchronizes.
 */
#include "kernel.h"

#include <cuda_runtime.h>

#include <stdio.h>

#define COUNT (1 << 20)
#define BYTES (COUNT * sizeof(unsigned))
#define ADDEND 42u

KERNEL(add_to_all, 3, unsigned *, data, uint64_t, count, unsigned, addend)
{
    KERNEL_FOR(i, count)
    data[i] += addend;
}

#define CHECK(call) check((call), #call)

static int check(cudaError_t error, const char *call)
{
    if (error == cudaSuccess)
        return 0;
    fprintf(stderr, "cuda_pinned_async: %s: %s (%s)\n", call, cudaGetErrorString(error), cudaGetErrorName(error));
    return 1;
}

static int enqueue(unsigned *host, unsigned *device, cudaStream_t stream)
{
    uint64_t count = COUNT;
    unsigned addend = ADDEND;
    void *args[] = {&device, &count, &addend};
    dim3 grid = {512, 1, 1}, block = {256, 1, 1};

    return CHECK(cudaMemcpyAsync(device, host, BYTES, cudaMemcpyHostToDevice, stream)) ||
           CHECK(cudaLaunchKernel(KERNEL_POINTER(add_to_all), grid, block, args, 0, stream)) ||
           CHECK(cudaMemcpyAsync(host, device, BYTES, cudaMemcpyDeviceToHost, stream));
}

int main(void)
{
    cudaStream_t stream;
    unsigned *host, *device;

    if (CHECK(cudaMallocHost((void **)&host, BYTES)) || CHECK(cudaMalloc((void **)&device, BYTES)) ||
        CHECK(cudaStreamCreate(&stream)))
        return 1;
    for (unsigned i = 0; i < COUNT; i++)
        host[i] = i;
    if (enqueue(host, device, stream) || CHECK(cudaStreamSynchronize(stream)))
        return 1;
    for (unsigned i = 0; i < COUNT; i++)
        if (host[i] != i + ADDEND) {
            fprintf(stderr, "cuda_pinned_async: number %u is %u, not %u\n", i, host[i], i + ADDEND);
            return 1;
        }
    printf("%d numbers went there, had %u added and came back\n", COUNT, ADDEND);
    return CHECK(cudaStreamDestroy(stream)) || CHECK(cudaFree(device)) || CHECK(cudaFreeHost(host)) ||
           CHECK(cudaDeviceReset());
}

/*
 * hip_explicit.c - copies pinned memory to the device, runs a kernel and copies back, through HIP's API.
 *
 *     cc hip_explicit.c -o hip_explicit $(pkg-config --cflags --libs leat-hip)
 *     hipcc -x hip hip_explicit.c -o hip_explicit    # with AMD's library; add -I for leat's headers
 *
 * The program determines where each byte is and when it moves. Events time the copies in both directions.
 */
#include "kernel.h"

#include <hip/hip_runtime.h>

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

static int check(hipError_t error, const char *call)
{
    if (error == hipSuccess)
        return 0;
    fprintf(stderr, "hip_explicit: %s: %s (%s)\n", call, hipGetErrorString(error), hipGetErrorName(error));
    return 1;
}

static int there_and_back(unsigned *host, unsigned *device, hipStream_t stream, float *milliseconds)
{
    uint64_t count = COUNT;
    unsigned addend = ADDEND;
    void *args[] = {&device, &count, &addend};
    dim3 grid = {512, 1, 1}, block = {256, 1, 1};
    hipEvent_t start, stop;

    return CHECK(hipEventCreate(&start)) || CHECK(hipEventCreate(&stop)) || CHECK(hipEventRecord(start, stream)) ||
           CHECK(hipMemcpyAsync(device, host, BYTES, hipMemcpyHostToDevice, stream)) ||
           CHECK(hipLaunchKernel(KERNEL_POINTER(add_to_all), grid, block, args, 0, stream)) ||
           CHECK(hipMemcpyAsync(host, device, BYTES, hipMemcpyDeviceToHost, stream)) ||
           CHECK(hipEventRecord(stop, stream)) || CHECK(hipEventSynchronize(stop)) ||
           CHECK(hipEventElapsedTime(milliseconds, start, stop)) || CHECK(hipEventDestroy(start)) ||
           CHECK(hipEventDestroy(stop));
}

int main(void)
{
    unsigned *host, *device;
    hipStream_t stream;
    float milliseconds;

    if (CHECK(hipHostMalloc((void **)&host, BYTES, hipHostMallocDefault)) ||
        CHECK(hipMalloc((void **)&device, BYTES)) || CHECK(hipStreamCreate(&stream)))
        return 1;
    for (unsigned i = 0; i < COUNT; i++)
        host[i] = i;
    if (there_and_back(host, device, stream, &milliseconds))
        return 1;
    for (unsigned i = 0; i < COUNT; i++)
        if (host[i] != i + ADDEND) {
            fprintf(stderr, "hip_explicit: number %u is %u, not %u\n", i, host[i], i + ADDEND);
            return 1;
        }
    printf("%d numbers went there, had %u added and came back in %.3f ms\n", COUNT, ADDEND, (double)milliseconds);
    if (CHECK(hipStreamDestroy(stream)) || CHECK(hipFree(device)) || CHECK(hipHostFree(host)))
        return 1;
    return CHECK(hipDeviceReset()); /* frees everything, so that leak checkers find nothing */
}

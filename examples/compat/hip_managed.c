/*
 * hip_managed.c - uses managed memory, which has one address for the host and the device, through HIP's API.
 *
 *     cc hip_managed.c -o hip_managed $(pkg-config --cflags --libs leat-hip)
 *     hipcc -x hip hip_managed.c -o hip_managed    # with AMD's library; add -I for leat's headers
 *
 * The program makes no copies. It prefetches the memory to the side that uses it next, so that the memory does not
 * move page by page.
 */
#include "kernel.h"

#include <hip/hip_runtime.h>

#include <stdio.h>

#define COUNT (1 << 20)
#define BYTES (COUNT * sizeof(float))

KERNEL(halve, 2, float *, data, uint64_t, count)
{
    KERNEL_FOR(i, count)
    data[i] *= 0.5f;
}

#define CHECK(call) check((call), #call)

static int check(hipError_t error, const char *call)
{
    if (error == hipSuccess)
        return 0;
    fprintf(stderr, "hip_managed: %s: %s (%s)\n", call, hipGetErrorString(error), hipGetErrorName(error));
    return 1;
}

static int halve_on_device(float *data, int device)
{
    uint64_t count = COUNT;
    void *args[] = {&data, &count};
    dim3 grid = {512, 1, 1}, block = {256, 1, 1};

    return CHECK(hipMemPrefetchAsync(data, BYTES, device, 0)) ||
           CHECK(hipLaunchKernel(KERNEL_POINTER(halve), grid, block, args, 0, 0)) ||
           CHECK(hipMemPrefetchAsync(data, BYTES, hipCpuDeviceId, 0)) || CHECK(hipStreamSynchronize(0));
}

int main(void)
{
    float *data;
    int device;

    if (CHECK(hipGetDevice(&device)) || CHECK(hipMallocManaged((void **)&data, BYTES, hipMemAttachGlobal)) ||
        CHECK(hipMemAdvise(data, BYTES, hipMemAdviseSetPreferredLocation, device)))
        return 1;
    for (int i = 0; i < COUNT; i++)
        data[i] = (float)i;
    if (halve_on_device(data, device))
        return 1;
    for (int i = 0; i < COUNT; i++)
        if (data[i] != (float)i * 0.5f) {
            fprintf(stderr, "hip_managed: number %d is %g\n", i, (double)data[i]);
            return 1;
        }
    printf("%d numbers were halved where they were\n", COUNT);
    return CHECK(hipFree(data)) ||
           CHECK(hipDeviceReset()); /* frees everything, so that leak checkers find nothing */
}

/*
 * cuda_vector_add.c - adds two vectors and times it by events, through the CUDA runtime's API.
 *
 *     cc cuda_vector_add.c -o cuda_vector_add $(pkg-config --cflags --libs leat-cudart)
 *     nvcc -x cu cuda_vector_add.c -o cuda_vector_add    # with NVIDIA's library; add -I for leat's headers
 *
 * The kernel is a function of this program (kernel.h), and the program launches it by its pointer. On the CPU
 * device all cores run the kernel.
 */
#include "kernel.h"

#include <cuda_runtime.h>

#include <stdio.h>
#include <stdlib.h>

#define COUNT (1 << 20)
#define BYTES (COUNT * sizeof(float))

KERNEL(vector_add, 4, float *, sum, const float *, a, const float *, b, uint64_t, count)
{
    KERNEL_FOR(i, count)
    sum[i] = a[i] + b[i];
}

#define CHECK(call) check((call), #call)

static int check(cudaError_t error, const char *call)
{
    if (error == cudaSuccess)
        return 0;
    fprintf(stderr, "cuda_vector_add: %s: %s (%s)\n", call, cudaGetErrorString(error), cudaGetErrorName(error));
    return 1;
}

static int add(float *sum, const float *a, const float *b, float *milliseconds)
{
    uint64_t count = COUNT;
    void *args[] = {(void *)&sum, (void *)&a, (void *)&b, &count};
    dim3 grid = {COUNT / 256, 1, 1}, block = {256, 1, 1};
    cudaEvent_t start, end;

    return CHECK(cudaEventCreate(&start)) || CHECK(cudaEventCreate(&end)) || CHECK(cudaEventRecord(start, 0)) ||
           CHECK(cudaLaunchKernel(KERNEL_POINTER(vector_add), grid, block, args, 0, 0)) ||
           CHECK(cudaEventRecord(end, 0)) || CHECK(cudaEventSynchronize(end)) ||
           CHECK(cudaEventElapsedTime(milliseconds, start, end)) || CHECK(cudaEventDestroy(start)) ||
           CHECK(cudaEventDestroy(end));
}

static int run(float *a, float *b, float *sum)
{
    float *device_a, *device_b, *device_sum, milliseconds = -1;

    for (int i = 0; i < COUNT; i++) {
        a[i] = (float)i;
        b[i] = (float)(2 * i);
    }
    if (CHECK(cudaMalloc((void **)&device_a, BYTES)) || CHECK(cudaMalloc((void **)&device_b, BYTES)) ||
        CHECK(cudaMalloc((void **)&device_sum, BYTES)) ||
        CHECK(cudaMemcpy(device_a, a, BYTES, cudaMemcpyHostToDevice)) ||
        CHECK(cudaMemcpy(device_b, b, BYTES, cudaMemcpyHostToDevice)) ||
        add(device_sum, device_a, device_b, &milliseconds) ||
        CHECK(cudaMemcpy(sum, device_sum, BYTES, cudaMemcpyDeviceToHost)) || CHECK(cudaFree(device_a)) ||
        CHECK(cudaFree(device_b)) || CHECK(cudaFree(device_sum)) || CHECK(cudaDeviceReset()))
        return 1;
    for (int i = 0; i < COUNT; i++)
        if (sum[i] != (float)(3 * i)) {
            fprintf(stderr, "cuda_vector_add: element %d is %f, not %d\n", i, (double)sum[i], 3 * i);
            return 1;
        }
    if (milliseconds < 0)
        return 1;
    printf("%d elements added, each is right\n", COUNT);
    return 0;
}

int main(void)
{
    float *a = (float *)malloc(BYTES), *b = (float *)malloc(BYTES), *sum = (float *)malloc(BYTES);
    int wrong = !a || !b || !sum || run(a, b, sum);

    free(sum);
    free(b);
    free(a);
    return wrong;
}

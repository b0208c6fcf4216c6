/* sample_failures.cu - runs kernels that fail, and launches with invalid arguments. Each must return an error, and
 * the device must work again after a reset. */
#include "sample.h"

#include <cassert>
#include <cooperative_groups.h>

__global__ void asserts(int limit)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    __syncthreads();
    assert(i < limit);
    __syncthreads();
}

__global__ void traps(int *out)
{
    if (threadIdx.x == 3)
        __trap();
    __syncthreads();
    atomicAdd(out, 1);
}

__global__ void works(int *out)
{
    __shared__ int sum;

    if (threadIdx.x == 0)
        sum = 0;
    __syncthreads();
    atomicAdd(&sum, threadIdx.x);
    __syncthreads();
    if (threadIdx.x == 0 && blockIdx.x == 0)
        *out = sum;
}

static void worksAgain()
{
    int *out, host = -1;

    OK(cudaDeviceReset());
    OK(cudaGetLastError());
    OK(cudaMalloc(&out, sizeof *out));
    for (int i = 0; i < 3; i++)
        works<<<3, 100>>>(out);
    OK(cudaMemcpy(&host, out, sizeof host, cudaMemcpyDeviceToHost));
    CHECK(host == 4950);
    OK(cudaFree(out));
}

int main()
{
    int *out;

    worksAgain();
    asserts<<<2, 32>>>(60);
    GIVES(cudaErrorAssert, cudaDeviceSynchronize());
    GIVES(cudaErrorAssert, cudaMalloc(&out, 4)); /* the error is sticky */
    GIVES(cudaErrorAssert, cudaGetLastError());
    worksAgain();

    OK(cudaMalloc(&out, sizeof *out));
    traps<<<1, 8>>>(out);
    GIVES(cudaErrorLaunchFailure, cudaDeviceSynchronize());
    worksAgain();

    asserts<<<2, 32>>>(64); /* the assertion holds */
    OK(cudaDeviceSynchronize());
    return finish("what fails is told, and does no harm");
}

/* sample_failures.cu - runs kernels that fail, and launches with invalid arguments. Each must return an error, and
 * the device must work again after a reset. */
#include <cuda.h>
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

/* Each call of the driver API that waits for a failed kernel returns the failure, the first one too. */
static void theDriverTells()
{
    int *out, host;
    CUdeviceptr memory;
    CUevent event;

    for (int i = 0; i < 5; i++) {
        OK(cudaMalloc(&out, sizeof *out));
        memory = (CUdeviceptr)out;
        CHECK(cuEventCreate(&event, CU_EVENT_DEFAULT) == CUDA_SUCCESS);
        traps<<<1, 8>>>(out);
        CHECK(cuEventRecord(event, NULL) != CUDA_ERROR_INVALID_HANDLE); /* the kernel may have failed already */
        CHECK(i != 0 || cuCtxSynchronize() == CUDA_ERROR_LAUNCH_FAILED);
        CHECK(i != 1 || cuStreamSynchronize(NULL) == CUDA_ERROR_LAUNCH_FAILED);
        CHECK(i != 2 || cuMemcpyDtoH(&host, memory, sizeof host) == CUDA_ERROR_LAUNCH_FAILED);
        CHECK(i != 3 || cuMemFree(memory) == CUDA_ERROR_LAUNCH_FAILED);
        CHECK(cuEventSynchronize(event) == CUDA_ERROR_LAUNCH_FAILED);
        CHECK(cuEventQuery(event) == CUDA_ERROR_LAUNCH_FAILED);
        worksAgain();
    }
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

    theDriverTells();

    asserts<<<2, 32>>>(64); /* the assertion holds */
    OK(cudaDeviceSynchronize());
    return finish("what fails is told, and does no harm");
}

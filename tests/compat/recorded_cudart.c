/*
 * recorded_cudart.c - allocates memory by the CUDA runtime's calls, so that cli_record.sh can record the
 * allocations. Prints "allocations N peak BYTES" of device memory, as the program itself counts them.
 */
#include <cuda_runtime.h>

#include <stdio.h>
#include <stdlib.h>

enum { MIB = 1 << 20 };

#define OK(call) must((call), #call)

static void must(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "recorded_cudart: %s: %s\n", what, cudaGetErrorString(error));
    exit(1);
}

int main(void)
{
    cudaStream_t first, second;
    cudaEvent_t event;
    void *plain, *a, *b, *pinned;

    OK(cudaStreamCreate(&first));
    OK(cudaStreamCreate(&second));
    OK(cudaEventCreate(&event));
    OK(cudaMalloc(&plain, 3 * MIB));
    OK(cudaMallocHost(&pinned, MIB));
    OK(cudaMallocAsync(&a, 5 * MIB, first));
    OK(cudaMemsetAsync(a, 7, 5 * MIB, first));
    OK(cudaEventRecord(event, first));
    OK(cudaStreamWaitEvent(second, event, 0));
    OK(cudaMemcpyAsync(plain, a, 3 * MIB, cudaMemcpyDeviceToDevice, second));
    OK(cudaFreeAsync(a, second));
    OK(cudaMallocAsync(&b, 2 * MIB, second));
    OK(cudaStreamSynchronize(second));
    OK(cudaFreeAsync(b, second));
    OK(cudaFree(plain));
    OK(cudaFreeHost(pinned));
    OK(cudaEventDestroy(event));
    OK(cudaStreamDestroy(first));
    OK(cudaStreamDestroy(second));
    OK(cudaDeviceSynchronize());
    printf("allocations 3 peak %d\n", 8 * MIB);
    return 0;
}

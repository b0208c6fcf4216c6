/* sample_driver.cu - uses driver and runtime calls in one file: contexts, and kernels of one API that use memory
 * of the other. */
#include <cuda.h>
#include "sample.h"

__global__ void triple(unsigned *data, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < count)
        data[i] *= 3;
}

int main()
{
    CUdevice device = 0;
    CUcontext context;
    CUdeviceptr there;
    CUstream stream;
    unsigned host[1000];
    char name[100];
    int version = 0;

    CHECK(cuInit(0) == CUDA_SUCCESS && cuDeviceGet(&device, 0) == CUDA_SUCCESS);
    CHECK(cuDriverGetVersion(&version) == CUDA_SUCCESS && version >= 12000);
    CHECK(cuDeviceGetName(name, sizeof name, device) == CUDA_SUCCESS);
#if CUDA_VERSION >= 13000
    CUctxCreateParams *none = NULL;
    CHECK(cuCtxCreate(&context, none, 0, device) == CUDA_SUCCESS);
#else
    CHECK(cuCtxCreate(&context, 0, device) == CUDA_SUCCESS);
    CHECK(cuCtxDestroy(context) == CUDA_SUCCESS);
    CHECK(cuCtxCreate(&context, NULL, CU_CTX_SCHED_BLOCKING_SYNC, device) == CUDA_SUCCESS);
#endif
    CHECK(cuMemAlloc(&there, sizeof host) == CUDA_SUCCESS);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    for (unsigned i = 0; i < 1000; i++)
        host[i] = i;
    CHECK(cuMemcpyHtoDAsync(there, host, sizeof host, stream) == CUDA_SUCCESS);
    triple<<<4, 250, 0, (cudaStream_t)stream>>>((unsigned *)there, 1000);
    OK(cudaGetLastError());
    CHECK(cuMemcpyDtoHAsync(host, there, sizeof host, stream) == CUDA_SUCCESS);
    CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    for (unsigned i = 0; i < 1000; i++)
        CHECK(host[i] == 3 * i);
    CHECK(cuStreamDestroy(stream) == CUDA_SUCCESS && cuMemFree(there) == CUDA_SUCCESS);
    CHECK(cuCtxDestroy(context) == CUDA_SUCCESS);
    return finish("the driver and the runtime are one");
}

/* sample_occupancy.cu - tests occupancy and block sizes, and attributes of devices and kernels by which programs
 * divide. */
#include "sample.h"

#include <climits>

__global__ void square(int *array, int arrayCount)
{
    extern __shared__ int dynamicSmem[];
    int idx = threadIdx.x + blockIdx.x * blockDim.x;

    if (idx < arrayCount) {
        dynamicSmem[threadIdx.x] = array[idx];
        array[idx] *= dynamicSmem[threadIdx.x];
    }
}

template <class T> __global__ void other(T *data)
{
    *data = T(1);
}

static size_t bytesOf(int threads)
{
    return threads * sizeof(int) * 8;
}

static int attribute(cudaDeviceAttr which)
{
    int value = -1;

    OK(cudaDeviceGetAttribute(&value, which, 0));
    return value;
}

static void occupancies()
{
    int blockSize = 0, minGridSize = 0, numBlocks = 0, device;
    size_t available = 0;
    cudaDeviceProp prop;

    OK(cudaGetDevice(&device));
    OK(cudaGetDeviceProperties(&prop, device));
    OK(cudaOccupancyMaxPotentialBlockSize(&minGridSize, &blockSize, square, 0, 0));
    CHECK(blockSize >= 32 && blockSize <= prop.maxThreadsPerBlock && minGridSize >= prop.multiProcessorCount);
    OK(cudaOccupancyMaxPotentialBlockSize(&minGridSize, &blockSize, (void *)square, 0, 128));
    CHECK(blockSize > 0 && blockSize <= 128);
    OK(cudaOccupancyMaxPotentialBlockSizeVariableSMem(&minGridSize, &blockSize, square, bytesOf));
    CHECK(bytesOf(blockSize) <= prop.sharedMemPerBlockOptin);
    OK(cudaOccupancyMaxPotentialBlockSize(&minGridSize, &blockSize, other<float>, 0));

    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&numBlocks, square, 128, 0));
    CHECK(numBlocks > 0 && numBlocks * 128 <= prop.maxThreadsPerMultiProcessor);
    int with = 0;
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&with, (const void *)square, 128, 40 << 10));
    CHECK(with > 0 && with < numBlocks);
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&with, other<int>, 1024, 0, cudaOccupancyDefault));
    CHECK(with == prop.maxThreadsPerMultiProcessor / 1024);
    OK(cudaOccupancyAvailableDynamicSMemPerBlock(&available, square, 2, 128));
    CHECK(available > 0 && available <= prop.sharedMemPerMultiprocessor / 2);
    GIVES(cudaErrorInvalidValue, cudaOccupancyMaxActiveBlocksPerMultiprocessor(NULL, square, 128, 0));
}

static void launches()
{
    const int count = 1000;
    int *array, host[count], blockSize, minGridSize;

    for (int i = 0; i < count; i++)
        host[i] = i;
    OK(cudaMalloc(&array, sizeof host));
    OK(cudaMemcpy(array, host, sizeof host, cudaMemcpyHostToDevice));
    OK(cudaOccupancyMaxPotentialBlockSizeVariableSMem(&minGridSize, &blockSize, square, bytesOf, count));
    square<<<(count + blockSize - 1) / blockSize, blockSize, blockSize * sizeof(int)>>>(array, count);
    OK(cudaMemcpy(host, array, sizeof host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < count; i++)
        CHECK(host[i] == i * i);

    /* More than 48 KiB of shared memory needs an attribute of the kernel first; more than the device has is an
     * error. */
    square<<<1, 32, 49153>>>(array, 32);
    GIVES(cudaErrorInvalidValue, cudaGetLastError());
    OK(cudaFuncSetAttribute(square, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10));
    square<<<1, 32, 64 << 10>>>(array, 32);
    OK(cudaGetLastError());
    cudaFuncAttributes attributes;
    OK(cudaFuncGetAttributes(&attributes, square));
    CHECK(attributes.maxDynamicSharedSizeBytes == 64 << 10);
    GIVES(cudaErrorInvalidValue,
          cudaFuncSetAttribute(square, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 30));
    OK(cudaFuncGetAttributes(&attributes, (const void *)other<double>));
    CHECK(attributes.numRegs > 0 && attributes.maxThreadsPerBlock > 0);
    CHECK(attributes.maxDynamicSharedSizeBytes == 48 << 10);
    OK(cudaFree(array));
}

static void divisors()
{
    cudaDeviceProp prop;

    OK(cudaGetDeviceProperties(&prop, 0));
    CHECK(attribute(cudaDevAttrClockRate) > 0);
    CHECK(attribute(cudaDevAttrMemoryClockRate) > 0);
    CHECK(attribute(cudaDevAttrGlobalMemoryBusWidth) > 0 && prop.memoryBusWidth > 0);
    CHECK(attribute(cudaDevAttrL2CacheSize) > 0 && prop.l2CacheSize > 0);
    CHECK(prop.sharedMemPerBlock == 48 << 10 && prop.sharedMemPerMultiprocessor >= prop.sharedMemPerBlock);
    CHECK(prop.sharedMemPerBlockOptin >= prop.sharedMemPerBlock);
    CHECK(prop.warpSize == 32 && prop.regsPerBlock > 0 && prop.maxThreadsPerMultiProcessor >= 1024);
    CHECK(prop.multiProcessorCount > 0 && prop.totalConstMem > 0);
    CHECK(prop.cooperativeLaunch == 1);
    CHECK(attribute(cudaDevAttrMaxBlocksPerMultiprocessor) > 0);
}

int main()
{
    divisors();
    occupancies();
    launches();
    return finish("blocks are sized by what the device says");
}

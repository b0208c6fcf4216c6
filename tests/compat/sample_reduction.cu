/* sample_reduction.cu - computes sums with dynamic shared memory of a template type, cooperative groups, shuffles,
 * and the block that ends last. */
#include "sample.h"

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include <vector>

namespace cg = cooperative_groups;

/* Returns the dynamic shared memory of the block as an array of T. */
template <class T> struct SharedMemory {
    __device__ inline operator T *()
    {
        extern __shared__ int __smem[];
        return (T *)__smem;
    }

    __device__ inline operator const T *() const
    {
        extern __shared__ int __smem[];
        return (T *)__smem;
    }
};

template <class T, unsigned int blockSize, bool nIsPow2>
__global__ void reduce(const T *__restrict__ g_idata, T *__restrict__ g_odata, unsigned int n)
{
    cg::thread_block cta = cg::this_thread_block();
    T *sdata = SharedMemory<T>();
    unsigned int tid = threadIdx.x;
    unsigned int gridSize = blockSize * gridDim.x;
    T mySum = 0;

    if (nIsPow2) {
        unsigned int i = blockIdx.x * blockSize * 2 + threadIdx.x;
        gridSize = gridSize << 1;
        while (i < n) {
            mySum += g_idata[i];
            if ((i + blockSize) < n)
                mySum += g_idata[i + blockSize];
            i += gridSize;
        }
    } else {
        unsigned int i = blockIdx.x * blockSize + threadIdx.x;
        while (i < n) {
            mySum += g_idata[i];
            i += gridSize;
        }
    }
    sdata[tid] = mySum;
    cg::sync(cta);
    if ((blockSize >= 256) && (tid < 128))
        sdata[tid] = mySum = mySum + sdata[tid + 128];
    cg::sync(cta);
    if ((blockSize >= 128) && (tid < 64))
        sdata[tid] = mySum = mySum + sdata[tid + 64];
    cg::sync(cta);

    cg::thread_block_tile<32> tile32 = cg::tiled_partition<32>(cta);
    if (cta.thread_rank() < 32) {
        if (blockSize >= 64)
            mySum += sdata[tid + 32];
        for (int offset = tile32.size() / 2; offset > 0; offset /= 2)
            mySum += tile32.shfl_down(mySum, offset);
    }
    if (cta.thread_rank() == 0)
        g_odata[blockIdx.x] = mySum;
}

/* Sums the values with shuffles: each warp sums its values, then the first warp adds the sums of the warps. */
__global__ void reduceWarps(const int *in, int *out, unsigned n)
{
    __shared__ int sums[32];
    cg::thread_block block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    int sum = cg::reduce(warp, i < n ? in[i] : 0, cg::plus<int>());

    if (warp.thread_rank() == 0)
        sums[warp.meta_group_rank()] = sum;
    __syncthreads();
    if (warp.meta_group_rank() == 0) {
        sum = warp.thread_rank() < warp.meta_group_size() ? sums[warp.thread_rank()] : 0;
        for (int offset = warpSize / 2; offset > 0; offset /= 2)
            sum += __shfl_xor_sync(0xffffffff, sum, offset);
        if (warp.thread_rank() == 0)
            atomicAdd(out, sum);
    }
}

__device__ unsigned int retirementCount = 0;

/* The whole sum in one launch: the block that ends last adds the partial sums of the others. */
__global__ void reduceSinglePass(const float *in, float *partial, float *out, unsigned n)
{
    extern __shared__ float part[];
    __shared__ bool amLast;
    unsigned tid = threadIdx.x;
    float sum = 0;

    for (unsigned i = blockIdx.x * blockDim.x + tid; i < n; i += blockDim.x * gridDim.x)
        sum += in[i];
    part[tid] = sum;
    __syncthreads();
    for (unsigned s = blockDim.x / 2; s > 0; s >>= 1) {
        if (tid < s)
            part[tid] += part[tid + s];
        __syncthreads();
    }
    if (tid == 0) {
        partial[blockIdx.x] = part[0];
        __threadfence();
        amLast = atomicInc(&retirementCount, gridDim.x) == gridDim.x - 1;
    }
    __syncthreads();
    if (amLast && tid == 0) {
        sum = 0;
        for (unsigned i = 0; i < gridDim.x; i++)
            sum += partial[i];
        *out = sum;
        retirementCount = 0;
    }
}

template <class T> static T sumOf(const T *device, int threads, int blocks, int n)
{
    std::vector<T> host(blocks);
    T *sums, total = 0;
    size_t smemSize = (threads <= 32) ? 2 * threads * sizeof(T) : threads * sizeof(T);
    bool pow2 = (n & (n - 1)) == 0;

    OK(cudaMalloc(&sums, blocks * sizeof(T)));
    if (pow2) {
        switch (threads) {
        case 256:
            reduce<T, 256, true><<<blocks, threads, smemSize>>>(device, sums, n);
            break;
        case 64:
            reduce<T, 64, true><<<blocks, threads, smemSize>>>(device, sums, n);
            break;
        }
    } else {
        switch (threads) {
        case 256:
            reduce<T, 256, false><<<blocks, threads, smemSize>>>(device, sums, n);
            break;
        case 64:
            reduce<T, 64, false><<<blocks, threads, smemSize>>>(device, sums, n);
            break;
        }
    }
    OK(cudaGetLastError());
    OK(cudaMemcpy(host.data(), sums, blocks * sizeof(T), cudaMemcpyDeviceToHost));
    for (T each : host)
        total += each;
    OK(cudaFree(sums));
    return total;
}

template <class T> static void reduces(int n)
{
    std::vector<T> host(n);
    T *device, expected = 0;

    for (int i = 0; i < n; i++) {
        host[i] = (T)(i % 11);
        expected += host[i];
    }
    OK(cudaMalloc(&device, n * sizeof(T)));
    OK(cudaMemcpy(device, host.data(), n * sizeof(T), cudaMemcpyHostToDevice));
    CHECK(sumOf(device, 256, 7, n) == expected);
    CHECK(sumOf(device, 64, 3, n) == expected);
    OK(cudaFree(device));
}

static void reducesOtherwise()
{
    const unsigned n = 5000;
    int *in, *out;
    float *floats, *partial, *sum, host;

    OK(cudaMallocManaged(&in, n * sizeof(int)));
    OK(cudaMallocManaged(&out, sizeof(int)));
    OK(cudaMallocManaged(&floats, n * sizeof(float)));
    OK(cudaMalloc(&partial, 16 * sizeof(float)));
    OK(cudaMalloc(&sum, sizeof(float)));
    *out = 0;
    for (unsigned i = 0; i < n; i++) {
        in[i] = (int)i;
        floats[i] = 1;
    }
    reduceWarps<<<(n + 159) / 160, 160>>>(in, out, n);
    for (int i = 0; i < 2; i++)
        reduceSinglePass<<<16, 128, 128 * sizeof(float)>>>(floats, partial, sum, n);
    OK(cudaMemcpy(&host, sum, sizeof host, cudaMemcpyDeviceToHost));
    CHECK(*out == (int)(n * (n - 1) / 2));
    CHECK(host == n);
    OK(cudaFree(in));
    OK(cudaFree(out));
    OK(cudaFree(floats));
    OK(cudaFree(partial));
    OK(cudaFree(sum));
}

int main()
{
    reduces<int>(1 << 14);
    reduces<int>(10007);
    reduces<float>(1 << 12);
    reduces<double>(5001);
    reducesOtherwise();
    return finish("sums are right, by whichever way");
}

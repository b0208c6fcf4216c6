/*
 * block_sums.cu - a CUDA C++ program that sums the elements of each block in shared memory, and then all elements.
 *
 *     leat cu block_sums.cu -o block_sums       # for the CPU device, with the host's C++ compiler
 *     nvcc block_sums.cu -o block_sums          # the same with NVIDIA's compiler and library
 *
 * This file uses only CUDA's API. The threads of a block wait for one another at __syncthreads(); the launch
 * sets the size of their shared memory.
 */
#include <cstdio>
#include <vector>

#include <cuda_runtime.h>

#define THREADS 256

template <class T> __global__ void sumBlocks(const T *in, size_t count, T *sums)
{
    extern __shared__ unsigned char memory[];
    T *part = (T *)memory;
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;

    part[threadIdx.x] = i < count ? in[i] : T(0);
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        sums[blockIdx.x] = part[0];
}

#define CHECK(call)                                                                                               \
    do {                                                                                                          \
        cudaError_t error = (call);                                                                               \
        if (error != cudaSuccess) {                                                                               \
            fprintf(stderr, "block_sums: %s: %s\n", #call, cudaGetErrorString(error));                            \
            return 1;                                                                                             \
        }                                                                                                         \
    } while (0)

int main()
{
    const size_t count = 1 << 20, blocks = count / THREADS;
    std::vector<long long> host(count), sums(blocks);
    long long *in, *out, total = 0;

    for (size_t i = 0; i < count; i++)
        host[i] = (long long)i;
    CHECK(cudaMalloc(&in, count * sizeof *in));
    CHECK(cudaMalloc(&out, blocks * sizeof *out));
    CHECK(cudaMemcpy(in, host.data(), count * sizeof *in, cudaMemcpyHostToDevice));
    sumBlocks<<<blocks, THREADS, THREADS * sizeof *in>>>(in, count, out);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(sums.data(), out, blocks * sizeof *out, cudaMemcpyDeviceToHost));
    for (long long sum : sums)
        total += sum;
    printf("%zu blocks sum up to %lld\n", blocks, total);
    CHECK(cudaFree(out));
    CHECK(cudaFree(in));
    CHECK(cudaDeviceReset());
    return total != (long long)(count * (count - 1) / 2);
}

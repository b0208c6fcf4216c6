/*
 * hip/hip_runtime.h - hip_runtime_api.h, and for C++ kernels that are functions of the program.
 *
 * With a C++ compiler (C++14 or later) a `__global__` function is an ordinary one. hipLaunchKernelGGL() runs it on
 * the CPU device, once for each thread of the grid, with threadIdx, blockIdx, blockDim and gridDim as in HIP:
 *
 *     __global__ void scale(float *data, size_t count, float factor)
 *     {
 *         size_t i = blockIdx.x * blockDim.x + threadIdx.x;
 *
 *         if (i < count)
 *             data[i] *= factor;
 *     }
 *
 *     hipLaunchKernelGGL(scale, dim3(blocks), dim3(256), 0, stream, data, count, 2.0f);
 *
 * The threads of a block run one after the other, blocks side by side. So a block has no memory of its own and no
 * barrier: __shared__ and __syncthreads() are not there, and a kernel with them does not compile. There is no
 * <<< >>>, which no C++ compiler takes. In C, and for hipLaunchKernel(), kernels are LEAT_KERNEL()s of
 * leat/device_code.h, and their pointer is &leat_cpu_kernel_NAME.
 */
#ifndef LEAT_COMPAT_HIP_RUNTIME_H
#define LEAT_COMPAT_HIP_RUNTIME_H

#include "hip_runtime_api.h"

#define HIP_SYMBOL(symbol) symbol
#define HIP_KERNEL_NAME(...) __VA_ARGS__

#ifdef __cplusplus

/* hipcc has its own. */
#if __cplusplus >= 201402L && !defined(__HIP__) && !defined(__CUDACC__)

#include <tuple>
#include <utility>

#include <leat/device_code.h>

#define __global__
#define __host__
#define __device__
#ifndef __forceinline__
#define __forceinline__ inline __attribute__((always_inline))
#endif

/* Where a kernel's thread is. The same variables in all files of a program, though each defines them. */
#define LEAT_HIP_PLACE_ __attribute__((weak)) __thread
LEAT_HIP_PLACE_ uint3 threadIdx;
LEAT_HIP_PLACE_ uint3 blockIdx;
LEAT_HIP_PLACE_ uint3 blockDim;
LEAT_HIP_PLACE_ uint3 gridDim;
#undef LEAT_HIP_PLACE_

/* A kernel of leat's for all functions with these parameters: its one parameter is the function with its
 * arguments. */
template <class... P> struct leat_hip_kernel {
    typedef std::tuple<void (*)(P...), P...> call;

    template <std::size_t... I> static void run_thread(const call &it, std::index_sequence<I...>)
    {
        std::get<0>(it)(std::get<I + 1>(it)...);
    }

    static void run(const leat_cpu_block *block, void *const *args)
    {
        const call &it = *static_cast<const call *>(args[0]);
        const leat_cpu_dim threads = block->block_threads;

        blockIdx = make_uint3(block->block.x, block->block.y, block->block.z);
        blockDim = make_uint3(threads.x, threads.y, threads.z);
        gridDim = make_uint3(block->grid_blocks.x, block->grid_blocks.y, block->grid_blocks.z);
        for (uint32_t z = 0; z < threads.z; z++)
            for (uint32_t y = 0; y < threads.y; y++)
                for (uint32_t x = 0; x < threads.x; x++) {
                    threadIdx = make_uint3(x, y, z);
                    run_thread(it, std::index_sequence_for<P...>());
                }
    }

    static const uint32_t bytes;
    static const leat_cpu_kernel kernel;
};

template <class... P> const uint32_t leat_hip_kernel<P...>::bytes = sizeof(typename leat_hip_kernel<P...>::call);
template <class... P>
const leat_cpu_kernel leat_hip_kernel<P...>::kernel = {LEAT_CPU_KERNEL_ABI, 1, &leat_hip_kernel<P...>::bytes,
                                                       &leat_hip_kernel<P...>::run};

/* As in HIP it returns nothing; hipGetLastError() says what went wrong. */
template <class... P, class... A>
inline void hipLaunchKernelGGL(void (*kernel)(P...), dim3 grid, dim3 block, uint32_t sharedBytes,
                               hipStream_t stream, A... arguments)
{
    typename leat_hip_kernel<P...>::call call(kernel, static_cast<P>(arguments)...);
    void *list[] = {&call};

    (void)hipLaunchKernel(&leat_hip_kernel<P...>::kernel, grid, block, list, sharedBytes, stream);
}

#endif

/* Symbols are variables of the program; these forms take the variable instead of its address. */
template <class T> static inline hipError_t hipGetSymbolAddress(void **ptr, const T &symbol)
{
    return hipGetSymbolAddress(ptr, static_cast<const void *>(&symbol));
}

template <class T> static inline hipError_t hipGetSymbolSize(size_t *bytes, const T &symbol)
{
    return hipGetSymbolSize(bytes, static_cast<const void *>(&symbol));
}

template <class T>
static inline hipError_t hipMemcpyToSymbol(const T &symbol, const void *src, size_t bytes, size_t offset = 0,
                                           hipMemcpyKind kind = hipMemcpyHostToDevice)
{
    return hipMemcpyToSymbol(static_cast<const void *>(&symbol), src, bytes, offset, kind);
}

template <class T>
static inline hipError_t hipMemcpyFromSymbol(void *dst, const T &symbol, size_t bytes, size_t offset = 0,
                                             hipMemcpyKind kind = hipMemcpyDeviceToHost)
{
    return hipMemcpyFromSymbol(dst, static_cast<const void *>(&symbol), bytes, offset, kind);
}

#endif

#endif

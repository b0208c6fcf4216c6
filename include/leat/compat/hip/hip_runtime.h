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
 * The kernel may be a template, whose arguments are found as in a call, and arguments are converted as in one. The
 * threads of a block run one after the other, blocks side by side. So a block has no memory of its own and no
 * barrier: __shared__ and __syncthreads() are not there, and a kernel with them does not compile. There are
 * clock64() and wall_clock64(), both in nanoseconds, fences, and the atomics that are used most. There is no <<<
 * >>>, which no C++ compiler takes. In C, and for hipLaunchKernel(), kernels are LEAT_KERNEL()s of
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

#include <chrono>
#include <thread>
#include <tuple>
#include <utility>

#include <leat/device_code.h>

#define __global__
#define __host__
#define __device__
#define __constant__
#define __launch_bounds__(...)
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

/* A kernel of leat's for all launches that look alike: its one parameter is what to call, with its arguments. */
template <class F, class... A> struct leat_hip_kernel {
    typedef std::tuple<F, A...> call;

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
                    run_thread(it, std::index_sequence_for<A...>());
                }
    }

    static const uint32_t bytes;
    static const leat_cpu_kernel kernel;
};

template <class F, class... A>
const uint32_t leat_hip_kernel<F, A...>::bytes = sizeof(typename leat_hip_kernel<F, A...>::call);
template <class F, class... A>
const leat_cpu_kernel leat_hip_kernel<F, A...>::kernel = {LEAT_CPU_KERNEL_ABI, 1, &leat_hip_kernel<F, A...>::bytes,
                                                          &leat_hip_kernel<F, A...>::run};

template <class F, class... A>
inline void leat_hip_launch(dim3 grid, dim3 block, size_t sharedBytes, hipStream_t stream, F function,
                            A... arguments)
{
    std::tuple<F, A...> call(function, arguments...);
    void *list[] = {&call};

    (void)hipLaunchKernel(&leat_hip_kernel<F, A...>::kernel, grid, block, list, sharedBytes, stream);
}

/* As in HIP it returns nothing; hipGetLastError() says what went wrong. Macros, so that a template may be given.
 */
#define hipLaunchKernelGGL(kernel, ...) LEAT_HIP_LAUNCH_((kernel), __VA_ARGS__)
#define LEAT_HIP_LAUNCH_(kernel, grid, block, sharedBytes, stream, ...)                                           \
    leat_hip_launch(                                                                                              \
        grid, block, sharedBytes, stream, [=](auto... leat_arguments) { kernel(leat_arguments...); },             \
        ##__VA_ARGS__)

/* ---- what kernels call ---- */

static inline long long wall_clock64()
{
    return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static inline long long clock64()
{
    return wall_clock64();
}

static inline void __threadfence()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline void __threadfence_block()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline void __threadfence_system()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

template <class T> static inline T atomicCAS(T *at, T compare, T value)
{
    __atomic_compare_exchange(at, &compare, &value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return compare;
}

template <class T> static inline T atomicExch(T *at, T value)
{
    T before;

    __atomic_exchange(at, &value, &before, __ATOMIC_SEQ_CST);
    return before;
}

/* Puts what change makes of the value there, and gives the one before. */
template <class T, class C> static inline T leat_hip_atomic(T *at, C change)
{
    T before, after;

    __atomic_load(at, &before, __ATOMIC_SEQ_CST);
    do {
        after = change(before);
    } while (!__atomic_compare_exchange(at, &before, &after, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    return before;
}

template <class T> static inline T atomicAdd(T *at, T value)
{
    return leat_hip_atomic(at, [=](T now) { return static_cast<T>(now + value); });
}

template <class T> static inline T atomicSub(T *at, T value)
{
    return leat_hip_atomic(at, [=](T now) { return static_cast<T>(now - value); });
}

template <class T> static inline T atomicMin(T *at, T value)
{
    return leat_hip_atomic(at, [=](T now) { return value < now ? value : now; });
}

template <class T> static inline T atomicMax(T *at, T value)
{
    return leat_hip_atomic(at, [=](T now) { return now < value ? value : now; });
}

template <class T> static inline T atomicAdd_system(T *at, T value)
{
    return atomicAdd(at, value);
}

/* Clang has these by itself. */
#ifndef __HIP_MEMORY_SCOPE_SYSTEM
#define __HIP_MEMORY_SCOPE_WORKGROUP 3
#define __HIP_MEMORY_SCOPE_AGENT 4
#define __HIP_MEMORY_SCOPE_SYSTEM 5
#endif
#ifndef __clang__
template <class T, class V> static inline void __hip_atomic_store(T *at, V value, int order, int)
{
    T it = static_cast<T>(value);

    __atomic_store(at, &it, order);
}

template <class T> static inline T __hip_atomic_load(const T *at, int order, int)
{
    T it;

    __atomic_load(at, &it, order);
    return it;
}

template <class T, class V> static inline T __hip_atomic_fetch_add(T *at, V value, int, int)
{
    return atomicAdd(at, static_cast<T>(value));
}
#endif

/* What AMD's compiler has for kernels that wait. */
static inline void __builtin_amdgcn_s_sleep(int)
{
    std::this_thread::yield();
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

template <class T>
static inline hipError_t hipMemcpyToSymbolAsync(const T &symbol, const void *src, size_t bytes, size_t offset,
                                                hipMemcpyKind kind, hipStream_t stream = 0)
{
    return hipMemcpyToSymbolAsync(static_cast<const void *>(&symbol), src, bytes, offset, kind, stream);
}

template <class T>
static inline hipError_t hipMemcpyFromSymbolAsync(void *dst, const T &symbol, size_t bytes, size_t offset,
                                                  hipMemcpyKind kind, hipStream_t stream = 0)
{
    return hipMemcpyFromSymbolAsync(dst, static_cast<const void *>(&symbol), bytes, offset, kind, stream);
}

#endif

#endif

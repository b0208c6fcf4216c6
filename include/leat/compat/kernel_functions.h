/*
 * leat/compat/kernel_functions.h - kernels that are functions of the program, for C++14 and later.
 *
 * For the headers of HIP and of the CUDA runtime, which describe it. A `__global__` function is an ordinary one, and
 * a launch runs it once for each thread of the grid, with threadIdx, blockIdx, blockDim and gridDim. The threads of a
 * block run one after the other, blocks side by side.
 */
#ifndef LEAT_COMPAT_KERNEL_FUNCTIONS_H
#define LEAT_COMPAT_KERNEL_FUNCTIONS_H

#if defined(__cplusplus) && __cplusplus >= 201402L

#include <chrono>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>

#include <leat/compat/vector_types.h>
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
#define LEAT_PLACE_ __attribute__((weak)) __thread
LEAT_PLACE_ uint3 threadIdx;
LEAT_PLACE_ uint3 blockIdx;
LEAT_PLACE_ uint3 blockDim;
LEAT_PLACE_ uint3 gridDim;
#undef LEAT_PLACE_

/* A kernel of leat's for all launches that look alike: its one parameter is what to call, with its arguments. */
template <class F, class... A> struct leat_kernel_function {
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
const uint32_t leat_kernel_function<F, A...>::bytes = sizeof(typename leat_kernel_function<F, A...>::call);
template <class F, class... A>
const leat_cpu_kernel leat_kernel_function<F, A...>::kernel = {LEAT_CPU_KERNEL_ABI, 1, &leat_kernel_function<F, A...>::bytes,
                                                          &leat_kernel_function<F, A...>::run};

/* ---- what kernels call ---- */

static inline long long clock64()
{
    return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
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
template <class T, class C> static inline T leat_atomic_change(T *at, C change)
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
    return leat_atomic_change(at, [=](T now) { return static_cast<T>(now + value); });
}

template <class T> static inline T atomicSub(T *at, T value)
{
    return leat_atomic_change(at, [=](T now) { return static_cast<T>(now - value); });
}

template <class T> static inline T atomicMin(T *at, T value)
{
    return leat_atomic_change(at, [=](T now) { return value < now ? value : now; });
}

template <class T> static inline T atomicMax(T *at, T value)
{
    return leat_atomic_change(at, [=](T now) { return now < value ? value : now; });
}

#endif

#endif

/*
 * leat/compat/kernel_functions.h - kernels that are functions of the program, for C++14 and later.
 *
 * For the headers of HIP and of the CUDA runtime, which describe it. A `__global__` function is an ordinary one,
 * and a launch runs it once for each thread of the grid, with threadIdx, blockIdx, blockDim and gridDim. Blocks
 * run side by side. The threads of a block take turns: each runs to its end, or to the next __syncthreads(), where
 * it stands on a stack of its own until the others are there. __shared__ variables are the block's; `extern
 * __shared__`, whose size a launch says, is not there.
 */
#ifndef LEAT_COMPAT_KERNEL_FUNCTIONS_H
#define LEAT_COMPAT_KERNEL_FUNCTIONS_H

#if defined(__cplusplus) && __cplusplus >= 201402L

#include <chrono>
#include <memory>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <ucontext.h>

#include <leat/compat/vector_types.h>
#include <leat/device_code.h>

#define __global__
#define __host__
#define __device__
#define __constant__
#define __launch_bounds__(...)
/* A block runs on one thread of the host from its start to its end. */
#define __shared__ thread_local
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

#if defined(__SANITIZE_THREAD__)
extern "C" {
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
}
#endif

/*
 * Runs the threads of blocks, one block at a time; each thread of the host has one. A fiber is a stack on which
 * one thread after the other runs. When one of them stands at a barrier, so does its fiber, and the next thread
 * runs on another. So a kernel without barriers takes one fiber and two switches for each block.
 */
class leat_block_threads
{
    struct fiber {
        ucontext_t context;
        std::unique_ptr<char[]> stack;
        uint3 index; /* of the thread that stands at a barrier */
#if defined(__SANITIZE_THREAD__)
        void *known = nullptr;
        ~fiber()
        {
            if (stack && known)
                __tsan_destroy_fiber(known);
        }
#endif
    };

    static constexpr std::size_t stack_bytes = 256 << 10;

    fiber home;
    fiber *now = nullptr;
    std::vector<std::unique_ptr<fiber>> all;
    std::vector<fiber *> idle, waiting;
    void (*thread)(const void *call) = nullptr;
    const void *call = nullptr;
    leat_cpu_dim size = {};
    uint64_t next = 0, count = 0;

    static void change(fiber &from, fiber &to)
    {
#if defined(__SANITIZE_THREAD__)
        __tsan_switch_to_fiber(to.known, 0);
#endif
        swapcontext(&from.context, &to.context);
    }

    void resume(fiber *it)
    {
        now = it;
        change(home, *it);
        now = nullptr;
    }

    static void begin()
    {
        here().work();
    }

    void work()
    {
        for (;;) {
            while (next < count) {
                uint64_t i = next++;

                threadIdx = make_uint3(i % size.x, i / size.x % size.y, i / size.x / size.y);
                thread(call);
            }
            idle.push_back(now);
            change(*now, home);
        }
    }

    fiber *take()
    {
        if (idle.empty()) {
            std::unique_ptr<fiber> made(new fiber);

            getcontext(&made->context);
            made->stack.reset(new char[stack_bytes]);
            made->context.uc_stack.ss_sp = made->stack.get();
            made->context.uc_stack.ss_size = stack_bytes;
            made->context.uc_link = nullptr;
#if defined(__SANITIZE_THREAD__)
            made->known = __tsan_create_fiber(0);
#endif
            makecontext(&made->context, &leat_block_threads::begin, 0);
            idle.push_back(made.get());
            all.push_back(std::move(made));
        }

        fiber *taken = idle.back();

        idle.pop_back();
        return taken;
    }

  public:
    static leat_block_threads &here()
    {
        static thread_local leat_block_threads it;

        return it;
    }

    void run(const leat_cpu_dim &threads, void (*function)(const void *), const void *argument)
    {
        thread = function;
        call = argument;
        size = threads;
        next = 0;
        count = static_cast<uint64_t>(threads.x) * threads.y * threads.z;
#if defined(__SANITIZE_THREAD__)
        home.known = __tsan_get_current_fiber();
#endif
        while (next < count)
            resume(take());
        while (!waiting.empty()) {
            std::vector<fiber *> released;

            released.swap(waiting);
            for (fiber *each : released) {
                threadIdx = each->index;
                resume(each);
            }
        }
    }

    /* Until all threads of the block that have not ended are here. */
    void barrier()
    {
        fiber *mine = now;

        if (!mine)
            return;
        mine->index = threadIdx;
        waiting.push_back(mine);
        change(*mine, home);
    }
};

/* A kernel of leat's for all launches that look alike: its one parameter is what to call, with its arguments. */
template <class F, class... A> struct leat_kernel_function {
    typedef std::tuple<F, A...> call;

    template <std::size_t... I> static void run_with(const call &it, std::index_sequence<I...>)
    {
        std::get<0>(it)(std::get<I + 1>(it)...);
    }

    static void run_thread(const void *it)
    {
        run_with(*static_cast<const call *>(it), std::index_sequence_for<A...>());
    }

    static void run(const leat_cpu_block *block, void *const *args)
    {
        const leat_cpu_dim threads = block->block_threads;

        blockIdx = make_uint3(block->block.x, block->block.y, block->block.z);
        blockDim = make_uint3(threads.x, threads.y, threads.z);
        gridDim = make_uint3(block->grid_blocks.x, block->grid_blocks.y, block->grid_blocks.z);
        leat_block_threads::here().run(threads, run_thread, args[0]);
    }

    static const uint32_t bytes;
    static const leat_cpu_kernel kernel;
};

template <class F, class... A>
const uint32_t leat_kernel_function<F, A...>::bytes = sizeof(typename leat_kernel_function<F, A...>::call);
template <class F, class... A>
const leat_cpu_kernel leat_kernel_function<F, A...>::kernel = {
    LEAT_CPU_KERNEL_ABI, 1, &leat_kernel_function<F, A...>::bytes, &leat_kernel_function<F, A...>::run};

/* ---- what kernels call ---- */

static inline void __syncthreads()
{
    leat_block_threads::here().barrier();
}

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

/*
 * leat/compat/kernel_functions.h - runs kernels that are functions of the program on the CPU device, for C++14 and
 * later.
 *
 * cuda_runtime.h and hip_runtime.h include this file. A `__global__` function is an ordinary function. A launch
 * calls it once for each thread of the grid, with threadIdx, blockIdx, blockDim and gridDim set. Blocks run in
 * parallel. The threads of a block run one at a time, each until it ends or waits (kernel_support.h). __shared__
 * variables are thread_local, because a host thread runs one block at a time. `extern __shared__` needs `leat cu`,
 * which replaces it by leat_dynamic_shared().
 */
#ifndef LEAT_COMPAT_KERNEL_FUNCTIONS_H
#define LEAT_COMPAT_KERNEL_FUNCTIONS_H

#if defined(__cplusplus) && __cplusplus >= 201402L

#include <tuple>
#include <type_traits>
#include <utility>

#include <leat/compat/kernel_support.h>
#include <leat/compat/vector_types.h>

/* `leat cu` translates these two words itself. */
#ifndef __LEAT_CU__
#define __global__
/* thread_local, because one host thread runs a block from start to end. */
#define __shared__ thread_local
#endif

#define __host__
#define __device__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __cluster_dims__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#ifndef __forceinline__
#define __forceinline__ inline __attribute__((always_inline))
#endif

/* Position of the kernel thread that runs. The variables are weak, so that all files of a program share them. */
#define LEAT_PLACE_ __attribute__((weak)) __thread
LEAT_PLACE_ uint3 threadIdx;
LEAT_PLACE_ uint3 blockIdx;
LEAT_PLACE_ uint3 blockDim;
LEAT_PLACE_ uint3 gridDim;
LEAT_PLACE_ const leat_cpu_block *leat_block;
#undef LEAT_PLACE_

/* ---- execution of a block ---- */

/* Makes the next thread of the block the current thread. Requires next < count. */
inline void leat_next_thread(leat_block_job *job)
{
    threadIdx.x = job->at.x;
    threadIdx.y = job->at.y;
    threadIdx.z = job->at.z;
    job->next++;
    if (++job->at.x == blockDim.x) {
        job->at.x = 0;
        if (++job->at.y == blockDim.y) {
            job->at.y = 0;
            job->at.z++;
        }
    }
}

/* Runs all threads of a block. threads() runs some of them, as the field of leat_block_job says. */
inline void leat_run_block(const leat_cpu_block *block, void *const *args, void (*threads)(leat_block_job *))
{
    const leat_cpu_dim size = block->block_threads;
    leat_block_job job = {threads, block, args, 0, size.x * size.y * size.z, {0, 0, 0}};

    blockIdx = make_uint3(block->block.x, block->block.y, block->block.z);
    blockDim = make_uint3(size.x, size.y, size.z);
    gridDim = make_uint3(block->grid_blocks.x, block->grid_blocks.y, block->grid_blocks.z);
    leat_block = block;
    leat_block_run(&job);
    leat_block = nullptr;
}

/* Saves threadIdx, and restores it at the end of a scope. Other threads of the block may run in that scope. */
class leat_keeps_place
{
    const uint3 kept;

  public:
    leat_keeps_place() : kept(threadIdx)
    {
    }
    ~leat_keeps_place()
    {
        threadIdx = kept;
    }
};

/* Returns the number of the current thread in its block. */
inline unsigned leat_thread_number()
{
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

/* Returns the dynamic shared memory of the current block, or NULL. */
inline void *leat_dynamic_shared()
{
    return leat_block ? leat_block->shared : nullptr;
}

/* `leat cu` puts this in place of `extern __shared__ T name[]` at namespace scope. */
template <class T> struct leat_dynamic_shared_as {
    operator T *() const
    {
        return static_cast<T *>(leat_dynamic_shared());
    }
};

/* One leat kernel for all functions of one type. Its only parameter is a tuple of the function and its
 * arguments. */
template <class F, class... A> struct leat_kernel_function {
    typedef std::tuple<F, A...> call;

    template <std::size_t... I> static void run_thread(const call &it, std::index_sequence<I...>)
    {
        std::get<0>(it)(std::get<I + 1>(it)...);
    }

    static void run_threads(leat_block_job *job)
    {
        const call &it = *static_cast<const call *>(job->args[0]);

        while (job->next < job->count) {
            leat_next_thread(job);
            run_thread(it, std::index_sequence_for<A...>());
        }
    }

    static void run(const leat_cpu_block *block, void *const *args)
    {
        leat_run_block(block, args, run_threads);
    }

    static const uint32_t bytes;
    static const leat_cpu_kernel kernel, kernel_together; /* kernel_together is for cooperative launches */
};

template <class F, class... A>
const uint32_t leat_kernel_function<F, A...>::bytes = sizeof(typename leat_kernel_function<F, A...>::call);
template <class F, class... A>
const leat_cpu_kernel leat_kernel_function<F, A...>::kernel = {
    LEAT_CPU_KERNEL_ABI, 1, &leat_kernel_function<F, A...>::bytes, &leat_kernel_function<F, A...>::run, 0};
template <class F, class... A>
const leat_cpu_kernel leat_kernel_function<F, A...>::kernel_together = {
    LEAT_CPU_KERNEL_ABI, 1, &leat_kernel_function<F, A...>::bytes, &leat_kernel_function<F, A...>::run,
    LEAT_CPU_KERNEL_TOGETHER};

/* ---- kernels compiled by `leat cu` ---- */

/* The type that a parameter has in its function's type: without const, volatile and restrict at the top level. */
template <class T> struct leat_without_restrict {
    typedef T type;
};
template <class T> struct leat_without_restrict<T *__restrict__> {
    typedef T *type;
};
template <class T> using leat_parameter = typename leat_without_restrict<typename std::remove_cv<T>::type>::type;

/*
 * A kernel that `leat cu` has generated. A call of Function launches it. Body::run has the same parameters and
 * contains the code of a thread. If a file uses `known`, the kernel is registered under the address of Function
 * when the program starts.
 */
template <class Body, class F, F Function> struct leat_kernel_of;
template <class Body, class... P, void (*Function)(P...)> struct leat_kernel_of<Body, void (*)(P...), Function> {
    template <std::size_t... I> static void run_threads_with(leat_block_job *job, std::index_sequence<I...>)
    {
        while (job->next < job->count) {
            leat_next_thread(job);
            Body::run(*static_cast<typename std::remove_reference<P>::type *>(job->args[I])...);
        }
    }

    static void run_threads(leat_block_job *job)
    {
        run_threads_with(job, std::index_sequence_for<P...>());
    }

    static void run(const leat_cpu_block *block, void *const *args)
    {
        leat_run_block(block, args, run_threads);
    }

    struct known_kernel : leat_registered_kernel {
        known_kernel()
            : leat_registered_kernel{
                  reinterpret_cast<const void *>(Function), &kernel, &kernel_together, Body::name(), 0, nullptr}
        {
            leat_kernel_know(this);
        }
        ~known_kernel()
        {
            leat_kernel_forget(this);
        }
    };

    static const uint32_t bytes[];
    static const leat_cpu_kernel kernel, kernel_together;
    static known_kernel known;
};

template <class Body, class... P, void (*Function)(P...)>
const uint32_t leat_kernel_of<Body, void (*)(P...), Function>::bytes[] = {static_cast<uint32_t>(sizeof(P))..., 0};
template <class Body, class... P, void (*Function)(P...)>
const leat_cpu_kernel leat_kernel_of<Body, void (*)(P...), Function>::kernel = {
    LEAT_CPU_KERNEL_ABI, sizeof...(P), &leat_kernel_of<Body, void (*)(P...), Function>::bytes[0],
    &leat_kernel_of<Body, void (*)(P...), Function>::run, 0};
template <class Body, class... P, void (*Function)(P...)>
const leat_cpu_kernel leat_kernel_of<Body, void (*)(P...), Function>::kernel_together = {
    LEAT_CPU_KERNEL_ABI, sizeof...(P), &leat_kernel_of<Body, void (*)(P...), Function>::bytes[0],
    &leat_kernel_of<Body, void (*)(P...), Function>::run, LEAT_CPU_KERNEL_TOGETHER};
template <class Body, class... P, void (*Function)(P...)>
typename leat_kernel_of<Body, void (*)(P...), Function>::known_kernel
    leat_kernel_of<Body, void (*)(P...), Function>::known;

#include <leat/compat/device_functions.h>

#endif

#endif

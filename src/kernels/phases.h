/*
 * phases.h - defines macros for kernels with barriers that also work on the CPU device, where one thread of a
 * block does the work of all its threads.
 *
 *     SHARED_ARRAY(uint32_t, tile, 1024);
 *     PHASE (t)
 *         tile[t] = ...;
 *     BARRIER();
 *     PHASE (t)
 *         ... = tile[1023 - t];
 *
 * t is the thread's number. On a GPU each thread runs the phases for its own t. On the CPU device the first thread
 * of a block runs all phases: the first phase for every t, then the second phase for every t, and so on. So local
 * variables cannot carry values from one phase to the next, only arrays can. Code outside of phases must compute
 * the same values for all threads of a block. Blocks must have one dimension. A value that each thread keeps for
 * itself from one phase to the next needs an array with an element for each t:
 *
 *     OWN_ARRAY(uint32_t, kept, 256);
 *     PHASE (t)
 *         OWN(kept, t) = ...;
 *
 * Do not use break or continue to leave a PHASE.
 */
#ifndef LEATI_KERNELS_PHASES_H
#define LEATI_KERNELS_PHASES_H

#include <leat/device_code.h>

#if defined(__NVPTX__) || defined(__AMDGCN__)

#define GLOBAL __attribute__((address_space(1)))
#define SHARED __attribute__((address_space(3)))
#define SHARED_ARRAY(type, name, count)                                                                           \
    static SHARED type name[count] __attribute__((aligned(16), loader_uninitialized))
#define OWN_ARRAY(type, name, threads) type name[1]
#define OWN(name, t) name[0]
#define PHASE(t) for (uint32_t t = leat_thread_x(), end_##t = t + 1; t != end_##t; t++)
#define UNROLL _Pragma("unroll")
#define KEEP_LOOP _Pragma("nounroll")

#if defined(__NVPTX__)
#define BARRIER() __syncthreads()
#else
#define BARRIER()                                                                                                 \
    do {                                                                                                          \
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");                                                    \
        __builtin_amdgcn_s_barrier();                                                                             \
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");                                                    \
    } while (0)
#endif

#else

#define GLOBAL
#define SHARED
#define SHARED_ARRAY(type, name, count) type name[count] __attribute__((aligned(16)))
#define OWN_ARRAY(type, name, threads) type name[threads]
#define OWN(name, t) name[t]
#define PHASE(t)                                                                                                  \
    for (uint32_t t = leat_thread_x() == 0 ? 0 : leat_block_threads_x(); t < leat_block_threads_x(); t++)
#define UNROLL
#define KEEP_LOOP
#define BARRIER() ((void)0)

#endif

#endif

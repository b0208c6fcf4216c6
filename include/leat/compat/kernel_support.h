/*
 * leat/compat/kernel_support.h - run-time support for kernels that are functions of the program: barriers between
 * the threads of a block, and launches by function address. The calls are in libleat-compat.
 *
 * Used by kernel_functions.h and by code that `leat cu` generates; programs use the names of their API
 * (__syncthreads() and so on).
 *
 * Threads of a block. One host thread runs a block. The block's threads run on its stack one after the other until
 * one of them waits. That thread keeps the stack, and the others continue on stacks of their own (fibers). So
 * exactly one thread of a block runs at any time, and threads are switched only in the calls declared here; a
 * kernel that calls none of them uses no second stack.
 *
 * End of a wait. Barriers count the threads that have not ended. When no thread of the block can run, the
 * innermost incomplete wait ends with the threads that are present: first leat_warp_active(), then
 * leat_warp_meet(), then the barrier of the block, then that of the grid. CUDA leaves such kernels undefined; here
 * they do not hang.
 *
 * threadIdx belongs to the host thread, so callers save it before each of these calls and restore it afterwards;
 * kernel_functions.h does.
 *
 * Stacks have 256 KiB, or what cudaDeviceSetLimit(cudaLimitStackSize) asked for if that is more, and a guard page
 * below. Host threads cache them.
 */
#ifndef LEAT_COMPAT_KERNEL_SUPPORT_H
#define LEAT_COMPAT_KERNEL_SUPPORT_H

#include <leat/device_code.h>
#include <leat/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LEAT_WARP_THREADS 32u

/* A block while a host thread runs it. */
typedef struct leat_block_job {
    /* Runs threads until next == count: advances next and at before it runs a thread. It is called again on
     * another stack while earlier calls are suspended inside a thread, so it must reload the fields in every
     * iteration. */
    void (*threads)(struct leat_block_job *job);
    const leat_cpu_block *block;
    void *const *args; /* of the kernel */
    uint32_t next, count;
    leat_cpu_dim at;
} leat_block_job;

/* Runs all threads of a block. */
LEAT_API void leat_block_run(leat_block_job *job);

/* Block barrier. Outside of kernels it returns at once. */
LEAT_API void leat_block_wait(void);

/* Block barrier that returns how many threads arrived, and how many of them with a non-zero predicate. */
typedef struct leat_block_votes {
    uint32_t threads, in_favour;
} leat_block_votes;
LEAT_API leat_block_votes leat_block_vote(int predicate);

/* Grid barrier. Fails the kernel if the launch was not cooperative. */
LEAT_API void leat_grid_wait(void);

/* One lane's part in a warp operation. */
typedef struct leat_lane {
    uint32_t mask;    /* participating lanes; those that the block does not have are ignored */
    uint32_t present; /* out: the lanes that took part */
    const void *in;
    void *out;
    uint32_t source;    /* for combine */
    const void *caller; /* used by leat_warp_active() */

    /* Called once per operation, by the lane that arrives last: lanes[i] belongs to lane i, for each bit of
     * present. Writes the results. May be NULL. */
    void (*combine)(struct leat_lane *const *lanes, uint32_t present);
} leat_lane;

/* Warp operation: waits until all lanes of the mask have called it with the same mask. thread: number of the
 * caller in its block. */
LEAT_API void leat_warp_meet(uint32_t thread, leat_lane *lane);

/* Returns the lanes of the caller's warp that wait in this call, called from the same place in the program, when
 * no other thread of the block can run. */
LEAT_API uint32_t leat_warp_active(uint32_t thread);

/* Each ends the calling block and fails the launch: __trap(); an unsupported operation; a failed assertion, which
 * is printed to standard error as in CUDA. Outside of kernels they call abort(). */
LEAT_API __attribute__((noreturn)) void leat_kernel_trap(void);
LEAT_API __attribute__((noreturn)) void leat_kernel_refuse(void);
LEAT_API __attribute__((noreturn)) void leat_kernel_assert(const char *assertion, const char *file, unsigned line,
                                                           const char *function);

/* ---- kernels by function address ---- */

/* Registers a kernel under the address of a function of any type, for calls that take a function address, and
 * under its name in the source, for PTX modules on the CPU device. The fields up to name are set by the caller. */
typedef struct leat_registered_kernel {
    const void *function;
    const leat_cpu_kernel *code;
    const leat_cpu_kernel *together; /* the same with LEAT_CPU_KERNEL_TOGETHER, for cooperative launches */
    const char *name;
    size_t most_shared_bytes; /* limit of dynamic shared memory; set by leat, as next is */
    struct leat_registered_kernel *next;
} leat_registered_kernel;

/* The record and what it points to must stay valid until leat_kernel_forget(). */
LEAT_API void leat_kernel_know(leat_registered_kernel *kernel);
LEAT_API void leat_kernel_forget(leat_registered_kernel *kernel);

/* Returns the kernel registered for a function, or NULL. */
LEAT_API const leat_cpu_kernel *leat_kernel_of_function(const void *function);

/* The execution configuration between <<< and >>>. put() pushes it to a stack of the calling thread, from which
 * the kernel's function takes it; beyond 16 entries the oldest is dropped. take() returns 0 if the stack is empty.
 */
typedef struct leat_launch_shape {
    leat_cpu_dim grid, block;
    size_t shared_bytes;
    void *stream;
} leat_launch_shape;
LEAT_API void leat_launch_shape_put(const leat_launch_shape *shape);
LEAT_API int leat_launch_shape_take(leat_launch_shape *shape);

#ifdef __cplusplus
}
#endif

#endif

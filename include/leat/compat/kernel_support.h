/*
 * leat/compat/kernel_support.h - declares what kernels that are functions of the program need at run time:
 * barriers between the threads of a block, and launches by function address. libleat-compat contains the calls.
 *
 * kernel_functions.h and the code that `leat cu` generates use these names. Programs use the names of their API,
 * such as __syncthreads().
 *
 * Threads of a block. One host thread runs a block. It runs the block's threads on its own stack, one after the
 * other, until one of them waits. The waiting thread keeps that stack, and the other threads continue on stacks of
 * their own (fibers). So exactly one thread of a block runs at any time, and a switch between threads happens only
 * in the calls declared here. A kernel that makes none of these calls uses no second stack.
 *
 * End of a wait. Barriers count the threads that have not ended. If no thread of the block can run, one kind of
 * wait ends, with the threads that have arrived: leat_warp_active(), or else leat_warp_meet(), or else the barrier
 * of the block, or else the barrier of the grid. CUDA leaves the behaviour of such kernels undefined; here they do
 * not hang.
 *
 * threadIdx belongs to the host thread. So callers save it before each of these calls and restore it afterwards,
 * as kernel_functions.h does.
 *
 * A stack has 256 KiB, or more if the program has called cudaDeviceSetLimit(cudaLimitStackSize) with a larger
 * size, and a guard page below it. Host threads cache the stacks.
 */
#ifndef LEAT_COMPAT_KERNEL_SUPPORT_H
#define LEAT_COMPAT_KERNEL_SUPPORT_H

#include <leat/device_code.h>
#include <leat/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LEAT_WARP_THREADS 32u

/* A block that a host thread runs. */
typedef struct leat_block_job {
    /* Runs threads until next == count. It advances next and at before it runs a thread. While a thread is
     * suspended, leat may call this function again on another stack, so it must read the fields again in every
     * iteration. */
    void (*threads)(struct leat_block_job *job);
    const leat_cpu_block *block;
    void *const *args; /* arguments of the kernel */
    uint32_t next, count;
    leat_cpu_dim at;
} leat_block_job;

/* Runs all threads of a block. */
LEAT_API void leat_block_run(leat_block_job *job);

/* Waits at the block barrier. Outside of kernels it returns at once. */
LEAT_API void leat_block_wait(void);

/* Waits at the block barrier. Returns the number of threads that have arrived, and the number of those whose
 * predicate is not 0. */
typedef struct leat_block_votes {
    uint32_t threads, in_favour;
} leat_block_votes;
LEAT_API leat_block_votes leat_block_vote(int predicate);

/* Waits at the grid barrier. If the launch is not cooperative, the kernel fails. */
LEAT_API void leat_grid_wait(void);

/* What one lane contributes to a warp operation and receives from it. */
typedef struct leat_lane {
    uint32_t mask;    /* lanes that take part; lanes that the block does not have are ignored */
    uint32_t present; /* output: the lanes that took part */
    const void *in;
    void *out;
    uint32_t source;    /* lane whose value a shuffle reads; only combine() uses it */
    const void *caller; /* place of the call, for leat_warp_active() */

    /* The lane that arrives last calls this once for the whole operation, to write the results of all lanes.
     * lanes[i] belongs to lane i, for each bit of present. May be NULL. */
    void (*combine)(struct leat_lane *const *lanes, uint32_t present);
} leat_lane;

/* Performs a warp operation: waits until all lanes of the mask have called this function with the same mask.
 * thread is the number of the caller in its block. */
LEAT_API void leat_warp_meet(uint32_t thread, leat_lane *lane);

/* Waits until no other thread of the block can run. Returns the lanes of the caller's warp that then wait in this
 * function and have called it from the same place in the program. */
LEAT_API uint32_t leat_warp_active(uint32_t thread);

/* Each of these calls ends the calling block and fails the launch. The reasons are __trap(), an unsupported
 * operation, and a failed assertion, which is printed to standard error as in CUDA. Outside of kernels they call
 * abort(). */
LEAT_API __attribute__((noreturn)) void leat_kernel_trap(void);
LEAT_API __attribute__((noreturn)) void leat_kernel_refuse(void);
LEAT_API __attribute__((noreturn)) void leat_kernel_assert(const char *assertion, const char *file, unsigned line,
                                                           const char *function);

/* ---- kernels by function address ---- */

/* A kernel that is registered under the address of a function, for calls that take a function address, and under
 * its name in the source, for PTX modules on the CPU device. The caller sets the fields up to name. */
typedef struct leat_registered_kernel {
    const void *function;
    const leat_cpu_kernel *code;
    const leat_cpu_kernel *together; /* the form with LEAT_CPU_KERNEL_TOGETHER, for cooperative launches */
    const char *name;
    size_t most_shared_bytes; /* maximum dynamic shared memory; leat sets this field and next */
    struct leat_registered_kernel *next;
} leat_registered_kernel;

/* Registers a kernel. The record and everything it points to must stay valid until leat_kernel_forget(). */
LEAT_API void leat_kernel_know(leat_registered_kernel *kernel);
LEAT_API void leat_kernel_forget(leat_registered_kernel *kernel);

/* Returns the kernel that is registered for a function, or NULL. */
LEAT_API const leat_cpu_kernel *leat_kernel_of_function(const void *function);

/* The execution configuration between <<< and >>>. leat_launch_shape_put() pushes it to a stack of the calling
 * thread, which drops the oldest entry if it has more than 16. The kernel's function takes it from there with
 * leat_launch_shape_take(), which returns 0 if the stack is empty. */
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

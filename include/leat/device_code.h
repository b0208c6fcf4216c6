/*
 * leat/device_code.h - defines kernels that are written once, in C, for every device.
 *
 * Include this in a C file that contains only kernels. clang-19 compiles it to PTX (for the named NVIDIA GPU and
 * all later ones), clang-19 with lld-19 to an AMD code object, and any C compiler to a shared object for the CPU
 * device:
 *
 *     #include <leat/device_code.h>
 *
 *     LEAT_KERNEL(scale, float *, data, uint64_t, count, float, factor)
 *     {
 *         LEAT_FOR (i, count)
 *             data[i] *= factor;
 *     }
 *
 *     clang-19 --target=nvptx64-nvidia-cuda -march=sm_75 --cuda-feature=+ptx63 -O3 -ffreestanding -nogpulib \
 *              -S scale.c -o scale.ptx
 *     clang-19 --target=amdgcn-amd-amdhsa -mcpu=gfx942 -O3 -ffreestanding -nogpulib scale.c -o scale.co
 *     cc -O3 -fPIC -shared scale.c -o scale.so
 *
 * (Without --cuda-feature=+ptx63 clang-19 writes PTX 8.5, which drivers before CUDA 12.5 refuse.)
 *
 * LEAT_KERNEL(name, type, parameter, ...) defines a kernel of 1 to 8 parameters of plain types: numbers and
 * pointers. If that is not enough, pass a pointer to a struct. A type that is not written as one word and stars
 * (an array, a function) needs a typedef. The number of parameters may follow the name, as in LEAT_KERNEL(scale,
 * 3, float *, ...): a wrong number does not compile.
 *
 * LEAT_FOR (i, count) runs its body once for each i from 0 to count - 1, spread over all threads of a
 * one-dimensional grid. The assignment of elements to threads depends on the device, and a kernel must not rely on
 * it. On a GPU adjacent threads take adjacent elements. On the CPU device the first thread of each block takes one
 * contiguous range of elements, so that the compiler can vectorize the loop. count is an unsigned number of up to
 * 64 bits, evaluated once (on a GPU, count must be below 2^64 minus the number of threads, which is more than any
 * memory has). A kernel may have several such loops, one after the other; loops with the same count give a thread
 * the same elements. Do not nest these loops: two nested loops do not visit all pairs of indices, because each of
 * them spreads its range over the same threads. Use LEAT_FOR outside and an ordinary loop inside. break leaves
 * only the calling thread's part.
 *
 * Inside a kernel body (not in functions that it calls): leat_thread_x/y/z(), leat_block_x/y/z() (indices),
 * leat_block_threads_x/y/z(), leat_grid_blocks_x/y/z() (sizes), leat_global_index(), leat_global_count()
 * (one-dimensional). leat_atomic_add_u32/u64(pointer, value) work on memory that the whole grid shares.
 *
 * Not supported: waiting for other threads of the block (barriers) and memory shared by a block, because on the
 * CPU device the threads of a block run one after the other; more than 8 parameters; calls of the C library, which
 * does not exist on a GPU. Write a kernel that needs these with the vendor's tools and load it as PTX or cubin.
 */
#ifndef LEAT_DEVICE_CODE_H
#define LEAT_DEVICE_CODE_H

#include <stddef.h>
#include <stdint.h>

/* Argument lists: LEAT_P3_(D, t1, p1, t2, p2, t3, p3) gives D(0, t1, p1), D(1, t2, p2), D(2, t3, p3). */
#define LEAT_P1_(D, t, p) D(0, t, p)
#define LEAT_P2_(D, t, p, ...) D(0, t, p), LEAT_P2B_(D, __VA_ARGS__)
#define LEAT_P3_(D, t, p, ...) D(0, t, p), LEAT_P3B_(D, __VA_ARGS__)
#define LEAT_P4_(D, t, p, ...) D(0, t, p), LEAT_P4B_(D, __VA_ARGS__)
#define LEAT_P5_(D, t, p, ...) D(0, t, p), LEAT_P5B_(D, __VA_ARGS__)
#define LEAT_P6_(D, t, p, ...) D(0, t, p), LEAT_P6B_(D, __VA_ARGS__)
#define LEAT_P7_(D, t, p, ...) D(0, t, p), LEAT_P7B_(D, __VA_ARGS__)
#define LEAT_P8_(D, t, p, ...) D(0, t, p), LEAT_P8B_(D, __VA_ARGS__)
#define LEAT_P2B_(D, t, p) D(1, t, p)
#define LEAT_P3B_(D, t, p, ...) D(1, t, p), LEAT_P3C_(D, __VA_ARGS__)
#define LEAT_P4B_(D, t, p, ...) D(1, t, p), LEAT_P4C_(D, __VA_ARGS__)
#define LEAT_P5B_(D, t, p, ...) D(1, t, p), LEAT_P5C_(D, __VA_ARGS__)
#define LEAT_P6B_(D, t, p, ...) D(1, t, p), LEAT_P6C_(D, __VA_ARGS__)
#define LEAT_P7B_(D, t, p, ...) D(1, t, p), LEAT_P7C_(D, __VA_ARGS__)
#define LEAT_P8B_(D, t, p, ...) D(1, t, p), LEAT_P8C_(D, __VA_ARGS__)
#define LEAT_P3C_(D, t, p) D(2, t, p)
#define LEAT_P4C_(D, t, p, ...) D(2, t, p), LEAT_P4D_(D, __VA_ARGS__)
#define LEAT_P5C_(D, t, p, ...) D(2, t, p), LEAT_P5D_(D, __VA_ARGS__)
#define LEAT_P6C_(D, t, p, ...) D(2, t, p), LEAT_P6D_(D, __VA_ARGS__)
#define LEAT_P7C_(D, t, p, ...) D(2, t, p), LEAT_P7D_(D, __VA_ARGS__)
#define LEAT_P8C_(D, t, p, ...) D(2, t, p), LEAT_P8D_(D, __VA_ARGS__)
#define LEAT_P4D_(D, t, p) D(3, t, p)
#define LEAT_P5D_(D, t, p, ...) D(3, t, p), LEAT_P5E_(D, __VA_ARGS__)
#define LEAT_P6D_(D, t, p, ...) D(3, t, p), LEAT_P6E_(D, __VA_ARGS__)
#define LEAT_P7D_(D, t, p, ...) D(3, t, p), LEAT_P7E_(D, __VA_ARGS__)
#define LEAT_P8D_(D, t, p, ...) D(3, t, p), LEAT_P8E_(D, __VA_ARGS__)
#define LEAT_P5E_(D, t, p) D(4, t, p)
#define LEAT_P6E_(D, t, p, ...) D(4, t, p), LEAT_P6F_(D, __VA_ARGS__)
#define LEAT_P7E_(D, t, p, ...) D(4, t, p), LEAT_P7F_(D, __VA_ARGS__)
#define LEAT_P8E_(D, t, p, ...) D(4, t, p), LEAT_P8F_(D, __VA_ARGS__)
#define LEAT_P6F_(D, t, p) D(5, t, p)
#define LEAT_P7F_(D, t, p, ...) D(5, t, p), LEAT_P7G_(D, __VA_ARGS__)
#define LEAT_P8F_(D, t, p, ...) D(5, t, p), LEAT_P8G_(D, __VA_ARGS__)
#define LEAT_P7G_(D, t, p) D(6, t, p)
#define LEAT_P8G_(D, t, p, ...) D(6, t, p), LEAT_P8H_(D, __VA_ARGS__)
#define LEAT_P8H_(D, t, p) D(7, t, p)

/* The same lists with the number of parameters in front. They compile only if that number is right. */
#define LEAT_N1_(D, count, ...) LEAT_COUNTED_(D, count, 1, LEAT_P1_, __VA_ARGS__)
#define LEAT_N2_(D, count, ...) LEAT_COUNTED_(D, count, 2, LEAT_P2_, __VA_ARGS__)
#define LEAT_N3_(D, count, ...) LEAT_COUNTED_(D, count, 3, LEAT_P3_, __VA_ARGS__)
#define LEAT_N4_(D, count, ...) LEAT_COUNTED_(D, count, 4, LEAT_P4_, __VA_ARGS__)
#define LEAT_N5_(D, count, ...) LEAT_COUNTED_(D, count, 5, LEAT_P5_, __VA_ARGS__)
#define LEAT_N6_(D, count, ...) LEAT_COUNTED_(D, count, 6, LEAT_P6_, __VA_ARGS__)
#define LEAT_N7_(D, count, ...) LEAT_COUNTED_(D, count, 7, LEAT_P7_, __VA_ARGS__)
#define LEAT_N8_(D, count, ...) LEAT_COUNTED_(D, count, 8, LEAT_P8_, __VA_ARGS__)
#define LEAT_COUNTED_(D, count, real, list, ...) LEAT_COUNT_##real##_IS_##count(list, D, __VA_ARGS__)
#define LEAT_COUNT_1_IS_1(list, D, ...) list(D, __VA_ARGS__)
#define LEAT_COUNT_2_IS_2(list, D, ...) list(D, __VA_ARGS__)
#define LEAT_COUNT_3_IS_3(list, D, ...) list(D, __VA_ARGS__)
#define LEAT_COUNT_4_IS_4(list, D, ...) list(D, __VA_ARGS__)
#define LEAT_COUNT_5_IS_5(list, D, ...) list(D, __VA_ARGS__)
#define LEAT_COUNT_6_IS_6(list, D, ...) list(D, __VA_ARGS__)
#define LEAT_COUNT_7_IS_7(list, D, ...) list(D, __VA_ARGS__)
#define LEAT_COUNT_8_IS_8(list, D, ...) list(D, __VA_ARGS__)

/* LEAT_PICK_() picks a macro by the number of arguments. An even number means pairs of type and parameter; an odd
 * number means that the count of parameters precedes the pairs. LEAT_PARAMETERS_() applies D to each pair,
 * LEAT_PARAMETER_COUNT_() is the number of pairs. */
#define LEAT_PICK_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, picked, ...) picked
#define LEAT_PARAMETERS_(D, ...)                                                                                  \
    LEAT_PICK_(__VA_ARGS__, LEAT_N8_, LEAT_P8_, LEAT_N7_, LEAT_P7_, LEAT_N6_, LEAT_P6_, LEAT_N5_, LEAT_P5_,       \
               LEAT_N4_, LEAT_P4_, LEAT_N3_, LEAT_P3_, LEAT_N2_, LEAT_P2_, LEAT_N1_, LEAT_P1_, leat_no_parameter, \
               leat_none)                                                                                         \
    (D, __VA_ARGS__)
#define LEAT_PARAMETER_COUNT_(...) LEAT_PICK_(__VA_ARGS__, 8, 8, 7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0)

#define LEAT_DECLARE_(i, t, p) t p

#ifdef __cplusplus
#define LEAT_EXTERN_ extern "C"
#else
#define LEAT_EXTERN_ extern
#endif

#if defined(__NVPTX__) || defined(__AMDGCN__)

#if defined(__NVPTX__)

#define LEAT_ENTRY_ __attribute__((nvptx_kernel))

#define leat_thread_x() ((uint32_t)__nvvm_read_ptx_sreg_tid_x())
#define leat_thread_y() ((uint32_t)__nvvm_read_ptx_sreg_tid_y())
#define leat_thread_z() ((uint32_t)__nvvm_read_ptx_sreg_tid_z())
#define leat_block_x() ((uint32_t)__nvvm_read_ptx_sreg_ctaid_x())
#define leat_block_y() ((uint32_t)__nvvm_read_ptx_sreg_ctaid_y())
#define leat_block_z() ((uint32_t)__nvvm_read_ptx_sreg_ctaid_z())
#define leat_block_threads_x() ((uint32_t)__nvvm_read_ptx_sreg_ntid_x())
#define leat_block_threads_y() ((uint32_t)__nvvm_read_ptx_sreg_ntid_y())
#define leat_block_threads_z() ((uint32_t)__nvvm_read_ptx_sreg_ntid_z())
#define leat_grid_blocks_x() ((uint32_t)__nvvm_read_ptx_sreg_nctaid_x())
#define leat_grid_blocks_y() ((uint32_t)__nvvm_read_ptx_sreg_nctaid_y())
#define leat_grid_blocks_z() ((uint32_t)__nvvm_read_ptx_sreg_nctaid_z())

#else

#define LEAT_ENTRY_ __attribute__((amdgpu_kernel, visibility("protected")))

#define leat_thread_x() ((uint32_t)__builtin_amdgcn_workitem_id_x())
#define leat_thread_y() ((uint32_t)__builtin_amdgcn_workitem_id_y())
#define leat_thread_z() ((uint32_t)__builtin_amdgcn_workitem_id_z())
#define leat_block_x() ((uint32_t)__builtin_amdgcn_workgroup_id_x())
#define leat_block_y() ((uint32_t)__builtin_amdgcn_workgroup_id_y())
#define leat_block_z() ((uint32_t)__builtin_amdgcn_workgroup_id_z())
#define leat_block_threads_x() ((uint32_t)__builtin_amdgcn_workgroup_size_x())
#define leat_block_threads_y() ((uint32_t)__builtin_amdgcn_workgroup_size_y())
#define leat_block_threads_z() ((uint32_t)__builtin_amdgcn_workgroup_size_z())
/* On AMD the size of the grid is in threads, not in blocks. */
#define leat_grid_blocks_x() ((uint32_t)__builtin_amdgcn_grid_size_x() / leat_block_threads_x())
#define leat_grid_blocks_y() ((uint32_t)__builtin_amdgcn_grid_size_y() / leat_block_threads_y())
#define leat_grid_blocks_z() ((uint32_t)__builtin_amdgcn_grid_size_z() / leat_block_threads_z())

#endif

/* The declaration before the definition avoids a compiler warning about a function without a prototype. */
#define LEAT_KERNEL(name, ...)                                                                                    \
    LEAT_EXTERN_ LEAT_ENTRY_ void name(LEAT_PARAMETERS_(LEAT_DECLARE_, __VA_ARGS__));                             \
    LEAT_ENTRY_ void name(LEAT_PARAMETERS_(LEAT_DECLARE_, __VA_ARGS__))

/* The loop's own variables end in the name of the index, so that a nested loop does not shadow them. */
#define LEAT_FOR(i, count)                                                                                        \
    for (uint64_t i = leat_global_index(), leat_step_##i = leat_global_count(), leat_end_##i = (count);           \
         i < leat_end_##i; i += leat_step_##i)

#else /* the CPU device */

/* Three dimensions, with the same layout as leat_dim3. */
typedef struct leat_cpu_dim {
    uint32_t x, y, z;
} leat_cpu_dim;

/* Tells run() which block to run on the CPU device, with the sizes of the launch. */
typedef struct leat_cpu_block {
    leat_cpu_dim grid_blocks;
    leat_cpu_dim block_threads;
    leat_cpu_dim block;
    uint32_t shared_bytes; /* size of the dynamic shared memory, from leat_launch() */
    void *shared; /* the dynamic shared memory, aligned to 128 bytes, uninitialized; NULL if shared_bytes is 0 */

    /* Grid barrier of a kernel with LEAT_CPU_KERNEL_TOGETHER, otherwise NULL. Blocks that have ended count as
     * arrived. */
    void (*wait_for_grid)(const struct leat_cpu_block *block);
    void *launch; /* private to leat */
} leat_cpu_block;

#define LEAT_CPU_KERNEL_ABI 2

/* Flag of a kernel whose blocks may wait for one another: all blocks of a grid run concurrently, each on its own
 * thread. leat_launch() then takes at most 16 blocks per compute unit. */
#define LEAT_CPU_KERNEL_TOGETHER 1u

/* Describes a kernel for the CPU device. A shared object exports this struct for the kernel NAME as
 * leat_cpu_kernel_NAME. run() executes one block, from its first thread to its last; args are pointers to the
 * parameter values. Several threads run blocks concurrently. */
typedef struct leat_cpu_kernel {
    uint32_t abi; /* must be LEAT_CPU_KERNEL_ABI */
    uint32_t parameter_count;
    const uint32_t *parameter_bytes; /* sizeof each parameter */
    void (*run)(const leat_cpu_block *block, void *const *args);
    uint32_t flags;
} leat_cpu_kernel;

typedef struct leat_cpu_thread {
    const leat_cpu_block *launch;
    leat_cpu_dim thread;
} leat_cpu_thread;

#define LEAT_BYTES_(i, t, p) (uint32_t)sizeof(t)
#define LEAT_PASS_(i, t, p) *(t *)leat_args_[i]

/* leat_launch_ is a local copy, so that the compiler knows that no store of the kernel changes it. */
#define LEAT_KERNEL(name, ...)                                                                                    \
    static inline __attribute__((always_inline)) void leat_body_##name(                                           \
        const leat_cpu_thread *leat_self_, LEAT_PARAMETERS_(LEAT_DECLARE_, __VA_ARGS__));                         \
    static void leat_run_##name(const leat_cpu_block *leat_block_, void *const *leat_args_)                       \
    {                                                                                                             \
        leat_cpu_block leat_launch_ = *leat_block_;                                                               \
        leat_cpu_thread leat_self_ = {&leat_launch_, {0, 0, 0}};                                                  \
        leat_cpu_dim *leat_at_ = &leat_self_.thread;                                                              \
        for (leat_at_->z = 0; leat_at_->z < leat_launch_.block_threads.z; leat_at_->z++)                          \
            for (leat_at_->y = 0; leat_at_->y < leat_launch_.block_threads.y; leat_at_->y++)                      \
                for (leat_at_->x = 0; leat_at_->x < leat_launch_.block_threads.x; leat_at_->x++)                  \
                    leat_body_##name(&leat_self_, LEAT_PARAMETERS_(LEAT_PASS_, __VA_ARGS__));                     \
    }                                                                                                             \
    static const uint32_t leat_bytes_##name[] = {LEAT_PARAMETERS_(LEAT_BYTES_, __VA_ARGS__)};                     \
    LEAT_EXTERN_ LEAT_CPU_KERNEL_EXPORT const leat_cpu_kernel leat_cpu_kernel_##name;                             \
    const leat_cpu_kernel leat_cpu_kernel_##name = {LEAT_CPU_KERNEL_ABI, LEAT_PARAMETER_COUNT_(__VA_ARGS__),      \
                                                    leat_bytes_##name, leat_run_##name, 0};                       \
    static inline __attribute__((always_inline)) void leat_body_##name(                                           \
        __attribute__((unused)) const leat_cpu_thread *leat_self_, LEAT_PARAMETERS_(LEAT_DECLARE_, __VA_ARGS__))

/* A program that links kernels into itself may define this differently, to keep their symbols private. */
#ifndef LEAT_CPU_KERNEL_EXPORT
#define LEAT_CPU_KERNEL_EXPORT __attribute__((visibility("default")))
#endif

#define leat_thread_x() (leat_self_->thread.x)
#define leat_thread_y() (leat_self_->thread.y)
#define leat_thread_z() (leat_self_->thread.z)
#define leat_block_x() (leat_self_->launch->block.x)
#define leat_block_y() (leat_self_->launch->block.y)
#define leat_block_z() (leat_self_->launch->block.z)
#define leat_block_threads_x() (leat_self_->launch->block_threads.x)
#define leat_block_threads_y() (leat_self_->launch->block_threads.y)
#define leat_block_threads_z() (leat_self_->launch->block_threads.z)
#define leat_grid_blocks_x() (leat_self_->launch->grid_blocks.x)
#define leat_grid_blocks_y() (leat_self_->launch->grid_blocks.y)
#define leat_grid_blocks_z() (leat_self_->launch->grid_blocks.z)

/* Returns the start of one piece of a range that is cut into pieces of almost the same length: the first count %
 * pieces of them are one element longer. No step can overflow, since no start is past count. Threads without
 * elements call this with count 0; the function then skips the division. */
static inline uint64_t leat_cpu_piece_start(uint64_t count, uint64_t pieces, uint64_t piece)
{
    uint64_t longer = count ? count % pieces : 0;

    return count ? piece * (count / pieces) + (piece < longer ? piece : longer) : 0;
}

/* Each block has one contiguous range of elements. The block's first thread takes all of them; its other threads
 * have nothing to do. */
#define LEAT_FOR(i, count)                                                                                        \
    for (uint64_t leat_count_##i = leat_thread_x() == 0 ? (count) : 0,                                            \
                  i = leat_cpu_piece_start(leat_count_##i, leat_grid_blocks_x(), leat_block_x()),                 \
                  leat_end_##i = leat_cpu_piece_start(leat_count_##i, leat_grid_blocks_x(), leat_block_x() + 1);  \
         i < leat_end_##i; i++)

#endif

#define leat_global_index() ((uint64_t)leat_block_x() * leat_block_threads_x() + leat_thread_x())
#define leat_global_count() ((uint64_t)leat_grid_blocks_x() * leat_block_threads_x())

#define leat_atomic_add_u32(pointer, value)                                                                       \
    ((void)__atomic_fetch_add((uint32_t *)(pointer), (value), __ATOMIC_RELAXED))
#define leat_atomic_add_u64(pointer, value)                                                                       \
    ((void)__atomic_fetch_add((uint64_t *)(pointer), (value), __ATOMIC_RELAXED))

#endif

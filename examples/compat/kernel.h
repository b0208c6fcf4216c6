/*
 * kernel.h - macros for kernels that can be compiled by nvcc, or by any C compiler with leat's headers.
 *
 * KERNEL(name, count, type, parameter, ...) defines a kernel. KERNEL_FOR (i, count) is a loop over 0 to count - 1
 * whose iterations are distributed over all threads of the grid. KERNEL_POINTER(name) is the argument for
 * cudaLaunchKernel() and hipLaunchKernel().
 */
#ifndef EXAMPLE_KERNEL_H
#define EXAMPLE_KERNEL_H

#include <leat/device_code.h>

#if defined(__CUDACC__) || defined(__HIPCC__)
#define KERNEL(name, count, ...) __global__ void name(LEAT_P##count##_(LEAT_DECLARE_, __VA_ARGS__))
#define KERNEL_FOR(i, count)                                                                                      \
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (count);                               \
         i += (uint64_t)gridDim.x * blockDim.x)
#define KERNEL_POINTER(name) ((const void *)name)
#else
#define KERNEL LEAT_KERNEL
#define KERNEL_FOR LEAT_FOR
#define KERNEL_POINTER(name) ((const void *)&leat_cpu_kernel_##name)
#endif

#endif

/*
 * kernel.h - kernels that two compilers understand: nvcc, and any C compiler with leat.
 *
 * KERNEL(name, count, type, parameter, ...) defines one, KERNEL_FOR (i, count) visits 0 to count - 1, spread over
 * all threads of the grid, and KERNEL_POINTER(name) is what cudaLaunchKernel() and hipLaunchKernel() take.
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

/*
 * hip/hip_runtime.h - includes hip_runtime_api.h, and for C++ adds kernels that are functions of the program.
 *
 * With a C++ compiler (C++14 or later) a `__global__` function is an ordinary function. hipLaunchKernelGGL() runs
 * it on the CPU device, once for each thread of the grid, with threadIdx, blockIdx, blockDim and gridDim as in
 * HIP:
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
 * The kernel may be a template. The compiler deduces its template arguments and converts its arguments as in a
 * call. Blocks run in parallel. The threads of a block run one at a time, each from one __syncthreads() to the
 * next. The size of __shared__ variables must be known at compile time. clock64() and wall_clock64() count
 * nanoseconds; device_functions.h has the other functions for kernels. <<< >>> is not available, because a C++
 * compiler does not accept it. In C, and for hipLaunchKernel(), kernels are LEAT_KERNEL()s of leat/device_code.h,
 * and their pointer is &leat_cpu_kernel_NAME.
 */
#ifndef LEAT_COMPAT_HIP_RUNTIME_H
#define LEAT_COMPAT_HIP_RUNTIME_H

#include "hip_runtime_api.h"

#define HIP_SYMBOL(symbol) symbol
#define HIP_KERNEL_NAME(...) __VA_ARGS__

#ifdef __cplusplus

/* hipcc has its own versions of the definitions below. */
#if __cplusplus >= 201402L && !defined(__HIP__) && !defined(__CUDACC__)

#include <leat/compat/kernel_functions.h>

#include <sched.h>

template <class F, class... A>
inline void leat_hip_launch(dim3 grid, dim3 block, size_t sharedBytes, hipStream_t stream, F function,
                            A... arguments)
{
    std::tuple<F, A...> call(function, arguments...);
    void *list[] = {&call};

    (void)hipLaunchKernel(&leat_kernel_function<F, A...>::kernel, grid, block, list, sharedBytes, stream);
}

/* Launches a kernel. As in HIP it returns nothing, and hipGetLastError() returns the result. It is a macro, so
 * that the kernel may be a template. */
#define hipLaunchKernelGGL(kernel, ...) LEAT_HIP_LAUNCH_((kernel), __VA_ARGS__)
#define LEAT_HIP_LAUNCH_(kernel, grid, block, sharedBytes, stream, ...)                                           \
    leat_hip_launch(                                                                                              \
        grid, block, sharedBytes, stream, [=](auto... leat_arguments) { kernel(leat_arguments...); },             \
        ##__VA_ARGS__)

/* Calls that query a kernel pass leat_hip_kernel<P...>, the one leat kernel of all functions of its type. */
template <class... P> using leat_hip_kernel = leat_kernel_function<void (*)(P...), P...>;

template <class... P> inline const void *leat_hip_function(void (*)(P...))
{
    return static_cast<const void *>(&leat_hip_kernel<P...>::kernel);
}

template <class... P> inline hipError_t hipFuncGetAttributes(hipFuncAttributes *attributes, void (*kernel)(P...))
{
    return hipFuncGetAttributes(attributes, leat_hip_function(kernel));
}

template <class... P>
inline hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void (*kernel)(P...), int blockThreads,
                                                               size_t sharedBytes)
{
    return hipOccupancyMaxActiveBlocksPerMultiprocessor(blocks, leat_hip_function(kernel), blockThreads,
                                                        sharedBytes);
}

template <class... P>
inline hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, void (*kernel)(P...),
                                                                        int blockThreads, size_t sharedBytes,
                                                                        unsigned int flags = hipOccupancyDefault)
{
    return hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, leat_hip_function(kernel), blockThreads,
                                                                 sharedBytes, flags);
}

template <class... P>
inline hipError_t hipOccupancyMaxPotentialBlockSize(int *gridSize, int *blockSize, void (*kernel)(P...),
                                                    size_t sharedBytes = 0, int blockLimit = 0)
{
    return hipOccupancyMaxPotentialBlockSize(gridSize, blockSize, leat_hip_function(kernel), sharedBytes,
                                             blockLimit);
}

template <class... P, std::size_t... I>
inline hipError_t leat_hip_launch_together(void (*kernel)(P...), dim3 grid, dim3 block, void **arguments,
                                           unsigned int sharedBytes, hipStream_t stream, std::index_sequence<I...>)
{
    typename leat_hip_kernel<P...>::call call(kernel,
                                              *static_cast<typename std::decay<P>::type *>(arguments[I])...);
    void *list[] = {&call};

    return hipLaunchCooperativeKernel(leat_hip_function(kernel), grid, block, list, sharedBytes, stream);
}

template <class... P>
inline hipError_t hipLaunchCooperativeKernel(void (*kernel)(P...), dim3 grid, dim3 block, void **arguments,
                                             unsigned int sharedBytes, hipStream_t stream)
{
    return leat_hip_launch_together(kernel, grid, block, arguments, sharedBytes, stream,
                                    std::index_sequence_for<P...>());
}

/* ---- what kernels call ---- */

static inline long long wall_clock64()
{
    return clock64();
}

/* Clang defines these numbers and functions itself. */
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

/* A function of AMD's compiler, with which a kernel pauses while it waits. */
static inline void __builtin_amdgcn_s_sleep(int)
{
    sched_yield();
}

#endif

/* Symbols are variables of the program. These variants take the variable instead of its address. */
template <class T> static inline hipError_t hipGetSymbolAddress(void **ptr, const T &symbol)
{
    return hipGetSymbolAddress(ptr, static_cast<const void *>(&symbol));
}

template <class T> static inline hipError_t hipGetSymbolSize(size_t *bytes, const T &symbol)
{
    void *there;
    hipError_t error =
        bytes ? hipGetSymbolAddress(&there, static_cast<const void *>(&symbol)) : hipErrorInvalidValue;

    if (error == hipSuccess)
        *bytes = sizeof symbol;
    return error;
}

template <class T>
static inline hipError_t hipMemcpyToSymbol(const T &symbol, const void *src, size_t bytes, size_t offset = 0,
                                           hipMemcpyKind kind = hipMemcpyHostToDevice)
{
    return offset > sizeof symbol || bytes > sizeof symbol - offset
               ? hipErrorInvalidValue
               : hipMemcpyToSymbol(static_cast<const void *>(&symbol), src, bytes, offset, kind);
}

template <class T>
static inline hipError_t hipMemcpyFromSymbol(void *dst, const T &symbol, size_t bytes, size_t offset = 0,
                                             hipMemcpyKind kind = hipMemcpyDeviceToHost)
{
    return offset > sizeof symbol || bytes > sizeof symbol - offset
               ? hipErrorInvalidValue
               : hipMemcpyFromSymbol(dst, static_cast<const void *>(&symbol), bytes, offset, kind);
}

template <class T>
static inline hipError_t hipMemcpyToSymbolAsync(const T &symbol, const void *src, size_t bytes, size_t offset,
                                                hipMemcpyKind kind, hipStream_t stream = 0)
{
    return offset > sizeof symbol || bytes > sizeof symbol - offset
               ? hipErrorInvalidValue
               : hipMemcpyToSymbolAsync(static_cast<const void *>(&symbol), src, bytes, offset, kind, stream);
}

template <class T>
static inline hipError_t hipMemcpyFromSymbolAsync(void *dst, const T &symbol, size_t bytes, size_t offset,
                                                  hipMemcpyKind kind, hipStream_t stream = 0)
{
    return offset > sizeof symbol || bytes > sizeof symbol - offset
               ? hipErrorInvalidValue
               : hipMemcpyFromSymbolAsync(dst, static_cast<const void *>(&symbol), bytes, offset, kind, stream);
}

#endif

#endif

/*
 * leat/compat/cuda_runtime.h - cuda_runtime_api.h, and for C++ the forms that spare casts, and kernels.
 *
 * The typed forms of C++ (cudaMalloc(&pointer_to_float, bytes) and the like) are inline and call the plain ones.
 *
 * With a C++ compiler (C++14 or later) a `__global__` function is an ordinary one. It is launched by the vendor's
 * typed forms, and runs on the CPU device, once for each thread of the grid:
 *
 *     __global__ void scale(float *data, size_t count, float factor)
 *     {
 *         size_t i = blockIdx.x * blockDim.x + threadIdx.x;
 *
 *         if (i < count)
 *             data[i] *= factor;
 *     }
 *
 *     cudaLaunchConfig_t config = {};
 *     config.gridDim = blocks, config.blockDim = 256, config.stream = stream;
 *     cudaLaunchKernelEx(&config, scale, data, count, 2.0f);
 *
 * cudaLaunchKernel(scale, grid, block, args, 0, stream) does the same with pointers to the arguments. Blocks run
 * side by side, the threads of a block one after the other, from one __syncthreads() to the next. __shared__
 * variables have their size at compile time. There is no <<< >>>, which no C++ compiler takes. Symbols are
 * variables of the program. In C, kernels are LEAT_KERNEL()s of leat/device_code.h, and their pointer is
 * &leat_cpu_kernel_NAME.
 */
#ifndef LEAT_COMPAT_CUDA_RUNTIME_H
#define LEAT_COMPAT_CUDA_RUNTIME_H

/* What programs, and headers of theirs, ask whether the vendor's header was included by. */
#define __CUDA_RUNTIME_H__

#include <leat/compat/cuda_runtime_api.h>

#ifdef __cplusplus

template <class T> inline cudaError_t cudaMalloc(T **devPtr, size_t size)
{
    return ::cudaMalloc((void **)(void *)devPtr, size);
}

template <class T> inline cudaError_t cudaMallocHost(T **ptr, size_t size, unsigned int flags = 0)
{
    return ::cudaHostAlloc((void **)(void *)ptr, size, flags);
}

template <class T> inline cudaError_t cudaHostAlloc(T **ptr, size_t size, unsigned int flags)
{
    return ::cudaHostAlloc((void **)(void *)ptr, size, flags);
}

template <class T>
inline cudaError_t cudaMallocManaged(T **devPtr, size_t size, unsigned int flags = cudaMemAttachGlobal)
{
    return ::cudaMallocManaged((void **)(void *)devPtr, size, flags);
}

template <class T> inline cudaError_t cudaMallocPitch(T **devPtr, size_t *pitch, size_t width, size_t height)
{
    return ::cudaMallocPitch((void **)(void *)devPtr, pitch, width, height);
}

template <class T> inline cudaError_t cudaHostGetDevicePointer(T **pDevice, void *pHost, unsigned int flags)
{
    return ::cudaHostGetDevicePointer((void **)(void *)pDevice, pHost, flags);
}

template <class T> inline cudaError_t cudaMallocAsync(T **devPtr, size_t size, cudaStream_t stream)
{
    return ::cudaMallocAsync((void **)(void *)devPtr, size, stream);
}

template <class T>
inline cudaError_t cudaMallocFromPoolAsync(T **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream)
{
    return ::cudaMallocFromPoolAsync((void **)(void *)ptr, size, memPool, stream);
}

inline cudaError_t cudaEventCreate(cudaEvent_t *event, unsigned int flags)
{
    return ::cudaEventCreateWithFlags(event, flags);
}

/* Allocating in stream order from a pool, and the older form of instantiating, which told of one node more. */
inline cudaError_t cudaMallocAsync(void **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream)
{
    return ::cudaMallocFromPoolAsync(ptr, size, memPool, stream);
}

template <class T>
inline cudaError_t cudaMallocAsync(T **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream)
{
    return ::cudaMallocFromPoolAsync((void **)(void *)ptr, size, memPool, stream);
}

inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
                                        cudaGraphNode_t *pErrorNode, char *pLogBuffer, size_t bufferSize)
{
    (void)pErrorNode, (void)pLogBuffer, (void)bufferSize;
    return ::cudaGraphInstantiate(pGraphExec, graph, 0);
}

/* As programs for CUDA 12 and before have them: the place is a device, or cudaCpuDeviceId. */
inline cudaMemLocation leat_cuda_place(int device)
{
    cudaMemLocation place = {device == cudaCpuDeviceId ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice,
                             device == cudaCpuDeviceId ? 0 : device};

    return place;
}

inline cudaError_t cudaMemPrefetchAsync(const void *devPtr, size_t count, int dstDevice, cudaStream_t stream = 0)
{
    return ::cudaMemPrefetchAsync(devPtr, count, leat_cuda_place(dstDevice), 0, stream);
}

inline cudaError_t cudaMemAdvise(const void *devPtr, size_t count, cudaMemoryAdvise advice, int device)
{
    return ::cudaMemAdvise(devPtr, count, advice, leat_cuda_place(device));
}

/* The elements of an array by their type: numbers of up to 32 bits, and their vectors of 1, 2 and 4. */
template <class T> inline cudaChannelFormatDesc cudaCreateChannelDesc()
{
    return ::cudaCreateChannelDesc(0, 0, 0, 0, cudaChannelFormatKindNone);
}

template <class T> inline cudaChannelFormatDesc leat_cuda_channels(int count)
{
    const int bits = (int)sizeof(T) * 8;

    return ::cudaCreateChannelDesc(bits, count > 1 ? bits : 0, count > 2 ? bits : 0, count > 3 ? bits : 0,
                                   T(1) / T(2) != T(0) ? cudaChannelFormatKindFloat
                                   : T(-1) > T(0)      ? cudaChannelFormatKindUnsigned
                                                       : cudaChannelFormatKindSigned);
}

#define LEAT_CUDA_CHANNELS_(type, name)                                                                           \
    template <> inline cudaChannelFormatDesc cudaCreateChannelDesc<type>()                                        \
    {                                                                                                             \
        return leat_cuda_channels<type>(1);                                                                       \
    }                                                                                                             \
    template <> inline cudaChannelFormatDesc cudaCreateChannelDesc<name##1>()                                     \
    {                                                                                                             \
        return leat_cuda_channels<type>(1);                                                                       \
    }                                                                                                             \
    template <> inline cudaChannelFormatDesc cudaCreateChannelDesc<name##2>()                                     \
    {                                                                                                             \
        return leat_cuda_channels<type>(2);                                                                       \
    }                                                                                                             \
    template <> inline cudaChannelFormatDesc cudaCreateChannelDesc<name##4>()                                     \
    {                                                                                                             \
        return leat_cuda_channels<type>(4);                                                                       \
    }

LEAT_CUDA_CHANNELS_(signed char, char)
LEAT_CUDA_CHANNELS_(unsigned char, uchar)
LEAT_CUDA_CHANNELS_(short, short)
LEAT_CUDA_CHANNELS_(unsigned short, ushort)
LEAT_CUDA_CHANNELS_(int, int)
LEAT_CUDA_CHANNELS_(unsigned int, uint)
LEAT_CUDA_CHANNELS_(float, float)

#undef LEAT_CUDA_CHANNELS_

template <> inline cudaChannelFormatDesc cudaCreateChannelDesc<char>()
{
    return cudaCreateChannelDesc<signed char>();
}

/* ---- kernels that are functions, and symbols -------------------------------------------------------------- */

/* nvcc has its own. */
#if __cplusplus >= 201402L && !defined(__CUDACC__) && !defined(__HIP__)

#include <leat/compat/kernel_functions.h>

template <class... P> using leat_cuda_kernel = leat_kernel_function<void (*)(P...), P...>;

template <class... P, std::size_t... I>
inline cudaError_t leat_cuda_launch(void (*kernel)(P...), dim3 grid, dim3 block, void **args, size_t shared_bytes,
                                    cudaStream_t stream, std::index_sequence<I...>)
{
    typename leat_cuda_kernel<P...>::call call(kernel, *static_cast<typename std::decay<P>::type *>(args[I])...);
    void *list[] = {&call};

    return ::cudaLaunchKernel(static_cast<const void *>(&leat_cuda_kernel<P...>::kernel), grid, block, list,
                              shared_bytes, stream);
}

template <class... P>
inline cudaError_t cudaLaunchKernel(void (*kernel)(P...), dim3 gridDim, dim3 blockDim, void **args,
                                    size_t sharedMem = 0, cudaStream_t stream = 0)
{
    return leat_cuda_launch(kernel, gridDim, blockDim, args, sharedMem, stream, std::index_sequence_for<P...>());
}

template <class... P, class... A>
inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(P...), A &&...args)
{
    typename leat_cuda_kernel<P...>::call call(kernel, static_cast<P>(args)...);
    void *list[] = {&call};

    return ::cudaLaunchKernelExC(config, static_cast<const void *>(&leat_cuda_kernel<P...>::kernel), list);
}

template <class... P> inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attr, void (*)(P...))
{
    return ::cudaFuncGetAttributes(attr, static_cast<const void *>(&leat_cuda_kernel<P...>::kernel));
}

template <class... P> inline cudaError_t cudaFuncSetAttribute(void (*)(P...), cudaFuncAttribute attr, int value)
{
    return ::cudaFuncSetAttribute(static_cast<const void *>(&leat_cuda_kernel<P...>::kernel), attr, value);
}

template <class... P> inline cudaError_t cudaFuncSetCacheConfig(void (*)(P...), cudaFuncCache cacheConfig)
{
    return ::cudaFuncSetCacheConfig(static_cast<const void *>(&leat_cuda_kernel<P...>::kernel), cacheConfig);
}

template <class... P>
inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, void (*)(P...), int blockSize,
                                                                 size_t dynamicSMemSize)
{
    return ::cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        numBlocks, static_cast<const void *>(&leat_cuda_kernel<P...>::kernel), blockSize, dynamicSMemSize);
}

/* A block as large as the device takes, and blocks for all of its multiprocessors. */
template <class... P>
inline cudaError_t cudaOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, void (*kernel)(P...),
                                                      size_t dynamicSMemSize = 0, int blockSizeLimit = 0)
{
    int device = 0, processors = 0, threads = 0, blocks = 0;
    cudaError_t error = !minGridSize || !blockSize ? cudaErrorInvalidValue : ::cudaGetDevice(&device);

    if (error == cudaSuccess)
        error = ::cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    if (error == cudaSuccess)
        error = ::cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerBlock, device);
    if (blockSizeLimit > 0 && blockSizeLimit < threads)
        threads = blockSizeLimit;
    if (error == cudaSuccess)
        error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, dynamicSMemSize);
    if (error != cudaSuccess)
        return error;
    *blockSize = threads;
    *minGridSize = blocks * processors;
    return cudaSuccess;
}

#endif

/* Symbols are variables of the program; these forms take the variable instead of its address. */
template <class T> inline cudaError_t cudaGetSymbolAddress(void **devPtr, const T &symbol)
{
    return ::cudaGetSymbolAddress(devPtr, static_cast<const void *>(&symbol));
}

template <class T> inline cudaError_t cudaGetSymbolSize(size_t *size, const T &symbol)
{
    void *there;
    cudaError_t error =
        size ? ::cudaGetSymbolAddress(&there, static_cast<const void *>(&symbol)) : cudaErrorInvalidValue;

    if (error == cudaSuccess)
        *size = sizeof symbol;
    return error;
}

template <class T>
inline cudaError_t cudaMemcpyToSymbol(const T &symbol, const void *src, size_t count, size_t offset = 0,
                                      cudaMemcpyKind kind = cudaMemcpyHostToDevice)
{
    return offset > sizeof symbol || count > sizeof symbol - offset
               ? cudaErrorInvalidValue
               : ::cudaMemcpyToSymbol(static_cast<const void *>(&symbol), src, count, offset, kind);
}

template <class T>
inline cudaError_t cudaMemcpyFromSymbol(void *dst, const T &symbol, size_t count, size_t offset = 0,
                                        cudaMemcpyKind kind = cudaMemcpyDeviceToHost)
{
    return offset > sizeof symbol || count > sizeof symbol - offset
               ? cudaErrorInvalidValue
               : ::cudaMemcpyFromSymbol(dst, static_cast<const void *>(&symbol), count, offset, kind);
}

template <class T>
inline cudaError_t cudaMemcpyToSymbolAsync(const T &symbol, const void *src, size_t count, size_t offset = 0,
                                           cudaMemcpyKind kind = cudaMemcpyHostToDevice, cudaStream_t stream = 0)
{
    return offset > sizeof symbol || count > sizeof symbol - offset
               ? cudaErrorInvalidValue
               : ::cudaMemcpyToSymbolAsync(static_cast<const void *>(&symbol), src, count, offset, kind, stream);
}

template <class T>
inline cudaError_t cudaMemcpyFromSymbolAsync(void *dst, const T &symbol, size_t count, size_t offset = 0,
                                             cudaMemcpyKind kind = cudaMemcpyDeviceToHost, cudaStream_t stream = 0)
{
    return offset > sizeof symbol || count > sizeof symbol - offset
               ? cudaErrorInvalidValue
               : ::cudaMemcpyFromSymbolAsync(dst, static_cast<const void *>(&symbol), count, offset, kind, stream);
}

template <class T>
inline cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, T *devPtr, size_t length = 0,
                                            unsigned int flags = cudaMemAttachSingle)
{
    return ::cudaStreamAttachMemAsync(stream, static_cast<void *>(devPtr), length, flags);
}

/* ---- graphs ---- */

template <class T>
inline cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                                  const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                                  const T &symbol, const void *src, size_t count, size_t offset,
                                                  cudaMemcpyKind kind)
{
    return offset > sizeof symbol || count > sizeof symbol - offset
               ? cudaErrorInvalidValue
               : ::cudaGraphAddMemcpyNodeToSymbol(pGraphNode, graph, pDependencies, numDependencies,
                                                  static_cast<const void *>(&symbol), src, count, offset, kind);
}

template <class T>
inline cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                                    const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                                    void *dst, const T &symbol, size_t count, size_t offset,
                                                    cudaMemcpyKind kind)
{
    return offset > sizeof symbol || count > sizeof symbol - offset
               ? cudaErrorInvalidValue
               : ::cudaGraphAddMemcpyNodeFromSymbol(pGraphNode, graph, pDependencies, numDependencies, dst,
                                                    static_cast<const void *>(&symbol), count, offset, kind);
}

template <class T>
inline cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const T &symbol, const void *src,
                                                        size_t count, size_t offset, cudaMemcpyKind kind)
{
    return offset > sizeof symbol || count > sizeof symbol - offset
               ? cudaErrorInvalidValue
               : ::cudaGraphMemcpyNodeSetParamsToSymbol(node, static_cast<const void *>(&symbol), src, count,
                                                        offset, kind);
}

template <class T>
inline cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void *dst, const T &symbol,
                                                          size_t count, size_t offset, cudaMemcpyKind kind)
{
    return offset > sizeof symbol || count > sizeof symbol - offset
               ? cudaErrorInvalidValue
               : ::cudaGraphMemcpyNodeSetParamsFromSymbol(node, dst, static_cast<const void *>(&symbol), count,
                                                          offset, kind);
}

template <class T>
inline cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                            const T &symbol, const void *src, size_t count,
                                                            size_t offset, cudaMemcpyKind kind)
{
    return offset > sizeof symbol || count > sizeof symbol - offset
               ? cudaErrorInvalidValue
               : ::cudaGraphExecMemcpyNodeSetParamsToSymbol(hGraphExec, node, static_cast<const void *>(&symbol),
                                                            src, count, offset, kind);
}

template <class T>
inline cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                              void *dst, const T &symbol, size_t count,
                                                              size_t offset, cudaMemcpyKind kind)
{
    return offset > sizeof symbol || count > sizeof symbol - offset
               ? cudaErrorInvalidValue
               : ::cudaGraphExecMemcpyNodeSetParamsFromSymbol(
                     hGraphExec, node, dst, static_cast<const void *>(&symbol), count, offset, kind);
}

/* As programs for CUDA 11 and before have it. */
inline cudaError_t cudaGraphExecUpdate(cudaGraphExec_t hGraphExec, cudaGraph_t hGraph,
                                       cudaGraphNode_t *hErrorNode_out,
                                       cudaGraphExecUpdateResult *updateResult_out)
{
    cudaGraphExecUpdateResultInfo info;
    cudaError_t error = ::cudaGraphExecUpdate(hGraphExec, hGraph, &info);

    if (hErrorNode_out)
        *hErrorNode_out = info.errorNode;
    if (updateResult_out)
        *updateResult_out = info.result;
    return error;
}

template <class T> inline void leat_cuda_delete(void *object)
{
    delete static_cast<T *>(object);
}

/* An object that is deleted with its last reference. */
template <class T>
inline cudaError_t cudaUserObjectCreate(cudaUserObject_t *object_out, T *objectToWrap,
                                        unsigned int initialRefcount, unsigned int flags)
{
    return ::cudaUserObjectCreate(object_out, objectToWrap, leat_cuda_delete<T>, initialRefcount, flags);
}

template <class T>
inline cudaError_t cudaUserObjectCreate(cudaUserObject_t *object_out, T *objectToWrap,
                                        unsigned int initialRefcount, cudaUserObjectFlags flags)
{
    return cudaUserObjectCreate(object_out, objectToWrap, initialRefcount, static_cast<unsigned int>(flags));
}

#endif

#endif

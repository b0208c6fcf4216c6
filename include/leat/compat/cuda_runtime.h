/*
 * leat/compat/cuda_runtime.h - includes cuda_runtime_api.h, and for C++ adds typed variants of its calls, and
 * kernels.
 *
 * The typed variants for C++, such as cudaMalloc(&pointer_to_float, bytes), are inline and call the C functions.
 * They make casts unnecessary.
 *
 * Kernels are `__global__` functions of the program, which run on the CPU device. They need C++14 or later:
 *
 *     __global__ void scale(float *data, size_t count, float factor)
 *     {
 *         size_t i = blockIdx.x * blockDim.x + threadIdx.x;
 *
 *         if (i < count)
 *             data[i] *= factor;
 *     }
 *
 *     scale<<<blocks, 256, 0, stream>>>(data, count, 2.0f);
 *
 * This is code for `leat cu`, which compiles a .cu file with the host's C++ compiler. A C++ compiler alone
 * compiles the same kernel, except for `extern __shared__`, and launches it by a typed variant:
 *
 *     cudaLaunchConfig_t config = {};
 *     config.gridDim = blocks, config.blockDim = 256, config.stream = stream;
 *     cudaLaunchKernelEx(&config, scale, data, count, 2.0f);
 *
 * cudaLaunchKernel(scale, grid, block, args, 0, stream) does the same with pointers to the arguments. Blocks run
 * in parallel. The threads of a block run one at a time, each until it waits (kernel_support.h).
 * device_functions.h and cooperative_groups.h have the functions that kernels may call. Symbols are variables of
 * the program. In C, kernels are LEAT_KERNEL()s of leat/device_code.h, and their pointer is &leat_cpu_kernel_NAME.
 */
#ifndef LEAT_COMPAT_CUDA_RUNTIME_H
#define LEAT_COMPAT_CUDA_RUNTIME_H

/* Programs test this macro to find out whether the vendor's header was included. */
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

/* Variants of two calls: cudaMallocAsync() with a pool, and cudaGraphInstantiate() as before CUDA 12, whose
 * parameters for the description of a failure are ignored. */
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

/* Converts the location of older programs, for CUDA 12 and before: a device, or cudaCpuDeviceId. */
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

/* Describes the elements of an array by their C++ type: numbers of up to 32 bits, and vectors of 1, 2 or 4 of
 * them. */
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

#if defined(__LEAT_CU__) && __cplusplus < 201402L
#error "leat: kernels need C++14 or later: -std=c++14"
#endif

/* ---- kernels that are functions, and symbols -------------------------------------------------------------- */

/* nvcc has its own versions of the definitions below. */
#if __cplusplus >= 201402L && (!defined(__CUDACC__) || defined(__LEAT_CU__)) && !defined(__HIP__)

#include <assert.h>
#include <leat/compat/kernel_functions.h>

template <class... P> using leat_cuda_kernel = leat_kernel_function<void (*)(P...), P...>;

/* Returns the function pointer that identifies a kernel in the C calls: the function itself if `leat cu` has
 * compiled it, or else the one kernel for all functions of its type. */
template <class... P> inline const void *leat_cuda_function(void (*kernel)(P...))
{
    const void *function = reinterpret_cast<const void *>(kernel);

    return leat_kernel_of_function(function) ? function
                                             : static_cast<const void *>(&leat_cuda_kernel<P...>::kernel);
}

inline const void *leat_cuda_function(const void *function)
{
    return function;
}

/* Stores the execution configuration of a launch. `leat cu` translates kernel<<<grid, block, shared_bytes,
 * stream>>>(arguments) to a call of this function and a call of kernel(arguments), which launches the kernel. */
inline void leat_cuda_configure(dim3 grid, dim3 block, size_t shared_bytes = 0, cudaStream_t stream = 0)
{
    const leat_launch_shape shape = {{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared_bytes, stream};

    leat_launch_shape_put(&shape);
}

template <class Body, class F, F Function> struct leat_cuda_stub {
    /* Function, the kernel's function, calls this with its own parameters. */
    template <class... P> static void launch(P &...arguments)
    {
        /* A C cast, because parameters may be const, volatile or restrict. */
        void *list[] = {(void *)&arguments..., nullptr};
        leat_launch_shape shape;

        (void)&leat_kernel_of<Body, F, Function>::known;
        if (leat_block)
            leat_kernel_refuse(); /* a kernel has called a kernel, which is not supported */
        if (!leat_launch_shape_take(&shape))
            shape = leat_launch_shape(); /* called without <<< >>>: the launch fails with this empty
                                          * configuration */
        (void)::cudaLaunchKernel(reinterpret_cast<const void *>(Function),
                                 dim3(shape.grid.x, shape.grid.y, shape.grid.z),
                                 dim3(shape.block.x, shape.block.y, shape.block.z), list, shape.shared_bytes,
                                 static_cast<cudaStream_t>(shape.stream));
    }
};

/* Packs a function and its arguments, for the one kernel of all functions of its type. */
template <class... P, std::size_t... I>
inline typename leat_cuda_kernel<P...>::call leat_cuda_call(void (*kernel)(P...), void **args,
                                                            std::index_sequence<I...>)
{
    return typename leat_cuda_kernel<P...>::call(kernel, *static_cast<typename std::decay<P>::type *>(args[I])...);
}

template <class... P>
inline cudaError_t cudaLaunchKernel(void (*kernel)(P...), dim3 grid, dim3 block, void **args, size_t sharedMem = 0,
                                    cudaStream_t stream = 0)
{
    const void *function = leat_cuda_function(kernel);

    if (function == reinterpret_cast<const void *>(kernel))
        return ::cudaLaunchKernel(function, grid, block, args, sharedMem, stream);

    auto call = leat_cuda_call(kernel, args, std::index_sequence_for<P...>());
    void *list[] = {&call};

    return ::cudaLaunchKernel(function, grid, block, list, sharedMem, stream);
}

inline cudaError_t cudaLaunchKernel(const void *func, dim3 grid, dim3 block, void **args, size_t sharedMem = 0)
{
    return ::cudaLaunchKernel(func, grid, block, args, sharedMem, 0);
}

template <class... P>
inline cudaError_t cudaLaunchCooperativeKernel(void (*kernel)(P...), dim3 grid, dim3 block, void **args,
                                               size_t sharedMem = 0, cudaStream_t stream = 0)
{
    const void *function = leat_cuda_function(kernel);

    if (function == reinterpret_cast<const void *>(kernel))
        return ::cudaLaunchCooperativeKernel(function, grid, block, args, sharedMem, stream);

    auto call = leat_cuda_call(kernel, args, std::index_sequence_for<P...>());
    void *list[] = {&call};

    return ::cudaLaunchCooperativeKernel(static_cast<const void *>(&leat_cuda_kernel<P...>::kernel_together), grid,
                                         block, list, sharedMem, stream);
}

inline cudaError_t cudaLaunchCooperativeKernel(const void *func, dim3 grid, dim3 block, void **args,
                                               size_t sharedMem = 0)
{
    return ::cudaLaunchCooperativeKernel(func, grid, block, args, sharedMem, 0);
}

template <class T, std::size_t... I>
inline cudaError_t leat_cuda_launch_ex(const cudaLaunchConfig_t *config, const void *function, T &values,
                                       std::index_sequence<I...>)
{
    void *list[] = {const_cast<void *>(static_cast<const volatile void *>(&std::get<I>(values)))..., nullptr};

    return ::cudaLaunchKernelExC(config, function, list);
}

inline bool leat_cuda_is_cooperative(const cudaLaunchConfig_t *config)
{
    for (unsigned i = 0; config && config->attrs && i < config->numAttrs; i++)
        if (config->attrs[i].id == cudaLaunchAttributeCooperative && config->attrs[i].val.cooperative)
            return true;
    return false;
}

/* Launches a kernel. The arguments are converted as in a call of it. */
template <class... P, class... A>
inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(P...), A &&...args)
{
    typedef leat_cuda_kernel<P...> common;
    const void *function = leat_cuda_function(kernel);

    if (function == reinterpret_cast<const void *>(kernel)) {
        std::tuple<typename std::decay<P>::type...> values(static_cast<P>(std::forward<A>(args))...);

        return leat_cuda_launch_ex(config, function, values, std::index_sequence_for<P...>());
    }

    typename common::call call(kernel, static_cast<P>(std::forward<A>(args))...);
    void *list[] = {&call};

    return ::cudaLaunchKernelExC(
        config,
        static_cast<const void *>(leat_cuda_is_cooperative(config) ? &common::kernel_together : &common::kernel),
        list);
}

template <class... P> inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attr, void (*kernel)(P...))
{
    return ::cudaFuncGetAttributes(attr, leat_cuda_function(kernel));
}

template <class... P>
inline cudaError_t cudaFuncSetAttribute(void (*kernel)(P...), cudaFuncAttribute attr, int value)
{
    return ::cudaFuncSetAttribute(leat_cuda_function(kernel), attr, value);
}

template <class... P> inline cudaError_t cudaFuncSetCacheConfig(void (*kernel)(P...), cudaFuncCache cacheConfig)
{
    return ::cudaFuncSetCacheConfig(leat_cuda_function(kernel), cacheConfig);
}

template <class... P>
inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, void (*kernel)(P...),
                                                                 int blockSize, size_t dynamicSMemSize)
{
    return ::cudaOccupancyMaxActiveBlocksPerMultiprocessor(numBlocks, leat_cuda_function(kernel), blockSize,
                                                           dynamicSMemSize);
}

template <class... P>
inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, void (*kernel)(P...),
                                                                          int blockSize, size_t dynamicSMemSize,
                                                                          unsigned int flags)
{
    return ::cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, leat_cuda_function(kernel),
                                                                    blockSize, dynamicSMemSize, flags);
}

template <class... P>
inline cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, void (*kernel)(P...),
                                                             int numBlocks, int blockSize)
{
    return ::cudaOccupancyAvailableDynamicSMemPerBlock(dynamicSmemSize, leat_cuda_function(kernel), numBlocks,
                                                       blockSize);
}

/* Returns the largest block size with maximum occupancy, and the number of such blocks that all multiprocessors
 * can run. The size is blockSizeLimit or a multiple of the warp size. kernel: a function or its address.
 * shared_bytes(threads): dynamic shared memory of a block. */
template <class F, class Shared>
inline cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(int *minGridSize, int *blockSize,
                                                                           F kernel, Shared shared_bytes,
                                                                           int blockSizeLimit = 0,
                                                                           unsigned int flags = 0)
{
    const void *function = leat_cuda_function(kernel);
    int device = 0, processors = 0, most = 0, best = 0;
    cudaFuncAttributes attributes;
    cudaError_t error = !minGridSize || !blockSize ? cudaErrorInvalidValue : ::cudaGetDevice(&device);

    if (error == cudaSuccess)
        error = ::cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    if (error == cudaSuccess)
        error = ::cudaFuncGetAttributes(&attributes, function);
    if (error != cudaSuccess)
        return error;
    most = attributes.maxThreadsPerBlock;
    if (blockSizeLimit > 0 && blockSizeLimit < most)
        most = blockSizeLimit;
    for (int threads = most; threads > 0; threads = (threads - 1) / 32 * 32) {
        int blocks = 0;

        error = ::cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, function, threads,
                                                                         shared_bytes(threads), flags);
        if (error != cudaSuccess)
            return error;
        if (blocks * threads > best) {
            best = blocks * threads;
            *blockSize = threads;
            *minGridSize = blocks * processors;
        }
    }
    return best ? cudaSuccess : cudaErrorInvalidValue;
}

template <class F, class Shared>
inline cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int *minGridSize, int *blockSize, F kernel,
                                                                  Shared shared_bytes, int blockSizeLimit = 0)
{
    return cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(minGridSize, blockSize, kernel, shared_bytes,
                                                                   blockSizeLimit);
}

template <class F>
inline cudaError_t cudaOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize, F kernel,
                                                               size_t dynamicSMemSize = 0, int blockSizeLimit = 0,
                                                               unsigned int flags = 0)
{
    return cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(
        minGridSize, blockSize, kernel, [=](int) { return dynamicSMemSize; }, blockSizeLimit, flags);
}

template <class F>
inline cudaError_t cudaOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, F kernel,
                                                      size_t dynamicSMemSize = 0, int blockSizeLimit = 0)
{
    return cudaOccupancyMaxPotentialBlockSizeWithFlags(minGridSize, blockSize, kernel, dynamicSMemSize,
                                                       blockSizeLimit);
}

#endif

/* Symbols are variables of the program. These variants take the variable instead of its address. */
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

/* The variant of this call for programs that were written for CUDA 11 and before. */
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

/* Creates a user object that deletes objectToWrap when its last reference is released. */
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

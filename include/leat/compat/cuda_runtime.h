/*
 * leat/compat/cuda_runtime.h - cuda_runtime_api.h, and for C++ the forms that spare casts.
 *
 * The typed forms of C++ (cudaMalloc(&pointer_to_float, bytes) and the like) are inline and call the plain ones.
 */
#ifndef LEAT_COMPAT_CUDA_RUNTIME_H
#define LEAT_COMPAT_CUDA_RUNTIME_H

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

template <class T> inline cudaChannelFormatDesc cudaCreateChannelDesc()
{
    return ::cudaCreateChannelDesc((int)sizeof(T) * 8, 0, 0, 0,
                                   T(-1) > T(0)         ? cudaChannelFormatKindUnsigned
                                   : T(3) / T(2) > T(1) ? cudaChannelFormatKindFloat
                                                        : cudaChannelFormatKindSigned);
}

#endif

#endif

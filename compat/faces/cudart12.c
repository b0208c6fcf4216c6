/*
 * cudart12.c - functions of libcudart.so.12 in the form of CUDA 12, where CUDA 13 has another one. Each calls the
 * function of compat/cudart (cudart12_names.h).
 *
 * The names are given to the assembler, because the header declares the functions of CUDA 13 under them.
 */
#include "faces/cudart12_names.h"

#include "cudart/cudart.h"

#include <stdint.h>
#include <string.h>

#define AS(name) __asm__(#name)

/* ---- device properties ---- */

/* cudaDeviceProp of CUDA 12 */
struct properties {
    char name[256];
    cudaUUID_t uuid;
    char luid[8];
    unsigned luidDeviceNodeMask;
    size_t totalGlobalMem, sharedMemPerBlock;
    int regsPerBlock, warpSize;
    size_t memPitch;
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
    int clockRate;
    size_t totalConstMem;
    int major, minor;
    size_t textureAlignment, texturePitchAlignment;
    int deviceOverlap, multiProcessorCount, kernelExecTimeoutEnabled, integrated, canMapHostMemory, computeMode;
    int maxTexture1D, maxTexture1DMipmap, maxTexture1DLinear;
    int maxTexture2D[2], maxTexture2DMipmap[2], maxTexture2DLinear[3], maxTexture2DGather[2];
    int maxTexture3D[3], maxTexture3DAlt[3], maxTextureCubemap;
    int maxTexture1DLayered[2], maxTexture2DLayered[3], maxTextureCubemapLayered[2];
    int maxSurface1D, maxSurface2D[2], maxSurface3D[3];
    int maxSurface1DLayered[2], maxSurface2DLayered[3], maxSurfaceCubemap, maxSurfaceCubemapLayered[2];
    size_t surfaceAlignment;
    int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver;
    int asyncEngineCount, unifiedAddressing, memoryClockRate, memoryBusWidth;
    int l2CacheSize, persistingL2CacheMaxSize, maxThreadsPerMultiProcessor;
    int streamPrioritiesSupported, globalL1CacheSupported, localL1CacheSupported;
    size_t sharedMemPerMultiprocessor;
    int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID;
    int hostNativeAtomicSupported, singleToDoublePrecisionPerfRatio;
    int pageableMemoryAccess, concurrentManagedAccess, computePreemptionSupported;
    int canUseHostPointerForRegisteredMem, cooperativeLaunch, cooperativeMultiDeviceLaunch;
    size_t sharedMemPerBlockOptin;
    int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost, maxBlocksPerMultiProcessor;
    int accessPolicyMaxWindowSize;
    size_t reservedSharedMemPerBlock;
    int hostRegisterSupported, sparseCudaArraySupported, hostRegisterReadOnlySupported;
    int timelineSemaphoreInteropSupported, memoryPoolsSupported, gpuDirectRDMASupported;
    unsigned gpuDirectRDMAFlushWritesOptions;
    int gpuDirectRDMAWritesOrdering;
    unsigned memoryPoolSupportedHandleTypes;
    int deferredMappingCudaArraySupported, ipcEventSupported, clusterLaunch, unifiedFunctionPointers;
    int reserved[63];
};

_Static_assert(sizeof(struct properties) == 1032, "the size in CUDA 12");

/* The fields that both versions have. */
#define SAME_FIELDS(X)                                                                                            \
    X(name)                                                                                                       \
    X(uuid) X(luid) X(luidDeviceNodeMask) X(totalGlobalMem) X(sharedMemPerBlock) X(regsPerBlock) X(warpSize) X(   \
        memPitch) X(maxThreadsPerBlock) X(maxThreadsDim) X(maxGridSize) X(totalConstMem) X(major) X(minor)        \
        X(textureAlignment) X(texturePitchAlignment) X(multiProcessorCount) X(integrated) X(canMapHostMemory) X(  \
            maxTexture1D) X(maxTexture1DMipmap) X(maxTexture2D) X(maxTexture2DMipmap) X(maxTexture2DLinear)       \
            X(maxTexture2DGather) X(maxTexture3D) X(maxTexture3DAlt) X(maxTextureCubemap) X(                      \
                maxTexture1DLayered) X(maxTexture2DLayered) X(maxTextureCubemapLayered) X(maxSurface1D)           \
                X(maxSurface2D) X(maxSurface3D) X(maxSurface1DLayered) X(maxSurface2DLayered) X(                  \
                    maxSurfaceCubemap) X(maxSurfaceCubemapLayered) X(surfaceAlignment) X(concurrentKernels)       \
                    X(ECCEnabled) X(pciBusID) X(pciDeviceID) X(pciDomainID) X(tccDriver) X(asyncEngineCount) X(   \
                        unifiedAddressing) X(memoryBusWidth) X(l2CacheSize) X(persistingL2CacheMaxSize)           \
                        X(maxThreadsPerMultiProcessor) X(streamPrioritiesSupported) X(globalL1CacheSupported) X(  \
                            localL1CacheSupported) X(sharedMemPerMultiprocessor) X(regsPerMultiprocessor)         \
                            X(managedMemory) X(isMultiGpuBoard) X(multiGpuBoardGroupID) X(                        \
                                hostNativeAtomicSupported) X(pageableMemoryAccess) X(concurrentManagedAccess)     \
                                X(computePreemptionSupported) X(canUseHostPointerForRegisteredMem)                \
                                    X(cooperativeLaunch) X(sharedMemPerBlockOptin) X(                             \
                                        pageableMemoryAccessUsesHostPageTables) X(directManagedMemAccessFromHost) \
                                        X(maxBlocksPerMultiProcessor) X(accessPolicyMaxWindowSize)                \
                                            X(reservedSharedMemPerBlock) X(hostRegisterSupported)                 \
                                                X(sparseCudaArraySupported) X(hostRegisterReadOnlySupported)      \
                                                    X(timelineSemaphoreInteropSupported) X(memoryPoolsSupported)  \
                                                        X(gpuDirectRDMASupported)                                 \
                                                            X(gpuDirectRDMAFlushWritesOptions)                    \
                                                                X(gpuDirectRDMAWritesOrdering)                    \
                                                                    X(memoryPoolSupportedHandleTypes)             \
                                                                        X(deferredMappingCudaArraySupported)      \
                                                                            X(ipcEventSupported) X(clusterLaunch) \
                                                                                X(unifiedFunctionPointers)

static int attribute(int device, int number)
{
    int value = 0;

    (void)leatc_device_attribute(device, number, &value);
    return value;
}

cudaError_t get_properties(struct properties *to, int device) AS(cudaGetDeviceProperties_v2);
cudaError_t get_properties(struct properties *to, int device)
{
    struct cudaDeviceProp from;
    cudaError_t result;

    if (!to)
        return note(LEATC_INVALID_VALUE);
    result = cudaGetDeviceProperties(&from, device);
    if (result != cudaSuccess)
        return result;
    memset(to, 0, sizeof *to);
#define COPY(field)                                                                                               \
    _Static_assert(sizeof to->field == sizeof from.field, "the same type");                                       \
    memcpy((char *)to + offsetof(struct properties, field), &from.field, sizeof from.field);
    SAME_FIELDS(COPY)
#undef COPY
    to->clockRate = attribute(device, 13);
    to->deviceOverlap = attribute(device, 15);
    to->kernelExecTimeoutEnabled = attribute(device, 17);
    to->computeMode = attribute(device, 20);
    to->memoryClockRate = attribute(device, 36);
    to->maxTexture1DLinear = attribute(device, 69);
    to->singleToDoublePrecisionPerfRatio = attribute(device, 87);
    return cudaSuccess;
}

cudaError_t choose_device(int *device, const struct properties *wanted) AS(cudaChooseDevice);
cudaError_t choose_device(int *device, const struct properties *wanted)
{
    struct cudaDeviceProp converted;

    if (!wanted)
        return cudaChooseDevice(device, NULL);
    memset(&converted, 0, sizeof converted);
    converted.major = wanted->major;
    converted.minor = wanted->minor;
    converted.totalGlobalMem = wanted->totalGlobalMem;
    return cudaChooseDevice(device, &converted);
}

/* ---- pointers ---- */

/* cudaPointerAttributes of CUDA 12, without the reserved fields. */
struct pointer_attributes {
    enum cudaMemoryType type;
    int device;
    void *devicePointer, *hostPointer;
};

cudaError_t pointer_attributes(struct pointer_attributes *to, const void *ptr) AS(cudaPointerGetAttributes);
cudaError_t pointer_attributes(struct pointer_attributes *to, const void *ptr)
{
    struct cudaPointerAttributes from;
    cudaError_t result;

    if (!to)
        return note(LEATC_INVALID_VALUE);
    result = cudaPointerGetAttributes(&from, ptr);
    if (result == cudaSuccess)
        *to = (struct pointer_attributes){from.type, from.device, from.devicePointer, from.hostPointer};
    return result;
}

/* ---- managed memory: places are device numbers ---- */

static struct cudaMemLocation place(int device)
{
    return device == cudaCpuDeviceId ? (struct cudaMemLocation){.type = cudaMemLocationTypeHost}
                                     : (struct cudaMemLocation){.type = cudaMemLocationTypeDevice, .id = device};
}

cudaError_t advise(const void *ptr, size_t count, enum cudaMemoryAdvise advice, int device) AS(cudaMemAdvise);
cudaError_t advise(const void *ptr, size_t count, enum cudaMemoryAdvise advice, int device)
{
    return cudaMemAdvise(ptr, count, advice, place(device));
}

cudaError_t advise_v2(const void *ptr, size_t count, enum cudaMemoryAdvise advice, struct cudaMemLocation location)
    AS(cudaMemAdvise_v2);
cudaError_t advise_v2(const void *ptr, size_t count, enum cudaMemoryAdvise advice, struct cudaMemLocation location)
{
    return cudaMemAdvise(ptr, count, advice, location);
}

cudaError_t cudaMemPrefetchAsync_ptsz(const void *ptr, size_t count, struct cudaMemLocation location,
                                      unsigned flags, cudaStream_t stream);
cudaError_t cudaMemcpyBatchAsync_ptsz(void *const *dsts, const void *const *srcs, const size_t *sizes,
                                      size_t count, struct cudaMemcpyAttributes *attrs, size_t *attrsIdxs,
                                      size_t numAttrs, cudaStream_t stream);
cudaError_t cudaMemcpy3DBatchAsync_ptsz(size_t numOps, struct cudaMemcpy3DBatchOp *opList,
                                        unsigned long long flags, cudaStream_t stream);
cudaError_t cudaStreamGetCaptureInfo_ptsz(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                          unsigned long long *id, cudaGraph_t *graph,
                                          const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edges,
                                          size_t *count);
cudaError_t cudaStreamUpdateCaptureDependencies_ptsz(cudaStream_t stream, cudaGraphNode_t *dependencies,
                                                     const cudaGraphEdgeData *edges, size_t count, unsigned flags);

/* Defines a function for the legacy default stream and its variant for per-thread default streams. `call` is the
 * function of CUDA 13 with its arguments in parentheses after it. */
#define BOTH(own, name, parameters, call, arguments)                                                              \
    cudaError_t own parameters __asm__(#name);                                                                    \
    cudaError_t own parameters                                                                                    \
    {                                                                                                             \
        return call arguments;                                                                                    \
    }                                                                                                             \
    cudaError_t own##_ptsz parameters __asm__(#name "_ptsz");                                                     \
    cudaError_t own##_ptsz parameters                                                                             \
    {                                                                                                             \
        return call##_ptsz arguments;                                                                             \
    }

BOTH(prefetch, cudaMemPrefetchAsync, (const void *ptr, size_t count, int device, cudaStream_t stream),
     leat13_cudaMemPrefetchAsync, (ptr, count, place(device), 0, stream))
BOTH(prefetch_v2, cudaMemPrefetchAsync_v2,
     (const void *ptr, size_t count, struct cudaMemLocation location, unsigned flags, cudaStream_t stream),
     leat13_cudaMemPrefetchAsync, (ptr, count, location, flags, stream))

/* ---- batches: CUDA 12 returns the index of the copy that failed ---- */

static cudaError_t give_failed(cudaError_t result, size_t *failed)
{
    if (result != cudaSuccess && failed)
        *failed = cudart_failed_copy;
    return result;
}

#define BOTH_BATCH(own, name, parameters, call, arguments)                                                        \
    cudaError_t own parameters __asm__(#name);                                                                    \
    cudaError_t own parameters                                                                                    \
    {                                                                                                             \
        return give_failed(call arguments, failed);                                                               \
    }                                                                                                             \
    cudaError_t own##_ptsz parameters __asm__(#name "_ptsz");                                                     \
    cudaError_t own##_ptsz parameters                                                                             \
    {                                                                                                             \
        return give_failed(call##_ptsz arguments, failed);                                                        \
    }

BOTH_BATCH(copy_batch, cudaMemcpyBatchAsync,
           (void **dsts, void **srcs, size_t *sizes, size_t count, struct cudaMemcpyAttributes *attributes,
            size_t *indexes, size_t attribute_count, size_t *failed, cudaStream_t stream),
           leat13_cudaMemcpyBatchAsync,
           (dsts, (const void *const *)srcs, sizes, count, attributes, indexes, attribute_count, stream))
BOTH_BATCH(copy_3d_batch, cudaMemcpy3DBatchAsync,
           (size_t count, struct cudaMemcpy3DBatchOp *copies, size_t *failed, unsigned long long flags,
            cudaStream_t stream),
           leat13_cudaMemcpy3DBatchAsync, (count, copies, flags, stream))

/* ---- capture and graphs: the first form has no data of edges, and the second is that of CUDA 13 ---- */

BOTH(capture_info_v2, cudaStreamGetCaptureInfo_v2,
     (cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id, cudaGraph_t *graph,
      const cudaGraphNode_t **dependencies, size_t *count),
     leat13_cudaStreamGetCaptureInfo, (stream, status, id, graph, dependencies, NULL, count))
BOTH(capture_info_v3, cudaStreamGetCaptureInfo_v3,
     (cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id, cudaGraph_t *graph,
      const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edges, size_t *count),
     leat13_cudaStreamGetCaptureInfo, (stream, status, id, graph, dependencies, edges, count))
BOTH(capture_info, cudaStreamGetCaptureInfo,
     (cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id),
     leat13_cudaStreamGetCaptureInfo, (stream, status, id, NULL, NULL, NULL, NULL))
BOTH(capture_update, cudaStreamUpdateCaptureDependencies,
     (cudaStream_t stream, cudaGraphNode_t *dependencies, size_t count, unsigned flags),
     leat13_cudaStreamUpdateCaptureDependencies, (stream, dependencies, NULL, count, flags))
BOTH(capture_update_v2, cudaStreamUpdateCaptureDependencies_v2,
     (cudaStream_t stream, cudaGraphNode_t *dependencies, const cudaGraphEdgeData *edges, size_t count,
      unsigned flags),
     leat13_cudaStreamUpdateCaptureDependencies, (stream, dependencies, edges, count, flags))

#define ONE(own, name, parameters, call)                                                                          \
    cudaError_t own parameters __asm__(#name);                                                                    \
    cudaError_t own parameters                                                                                    \
    {                                                                                                             \
        return call;                                                                                              \
    }

ONE(add_node, cudaGraphAddNode,
    (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t *dependencies, size_t count,
     struct cudaGraphNodeParams *params),
    leat13_cudaGraphAddNode(node, graph, dependencies, NULL, count, params))
ONE(add_node_v2, cudaGraphAddNode_v2,
    (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
     const cudaGraphEdgeData *edges, size_t count, struct cudaGraphNodeParams *params),
    leat13_cudaGraphAddNode(node, graph, dependencies, edges, count, params))
ONE(add_dependencies, cudaGraphAddDependencies,
    (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t count),
    leat13_cudaGraphAddDependencies(graph, from, to, NULL, count))
ONE(add_dependencies_v2, cudaGraphAddDependencies_v2,
    (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, const cudaGraphEdgeData *edges,
     size_t count),
    leat13_cudaGraphAddDependencies(graph, from, to, edges, count))
ONE(remove_dependencies, cudaGraphRemoveDependencies,
    (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t count),
    leat13_cudaGraphRemoveDependencies(graph, from, to, NULL, count))
ONE(remove_dependencies_v2, cudaGraphRemoveDependencies_v2,
    (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, const cudaGraphEdgeData *edges,
     size_t count),
    leat13_cudaGraphRemoveDependencies(graph, from, to, edges, count))
ONE(get_edges, cudaGraphGetEdges, (cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *count),
    leat13_cudaGraphGetEdges(graph, from, to, NULL, count))
ONE(get_edges_v2, cudaGraphGetEdges_v2,
    (cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, cudaGraphEdgeData *edges, size_t *count),
    leat13_cudaGraphGetEdges(graph, from, to, edges, count))
ONE(get_dependencies, cudaGraphNodeGetDependencies,
    (cudaGraphNode_t node, cudaGraphNode_t *dependencies, size_t *count),
    leat13_cudaGraphNodeGetDependencies(node, dependencies, NULL, count))
ONE(get_dependencies_v2, cudaGraphNodeGetDependencies_v2,
    (cudaGraphNode_t node, cudaGraphNode_t *dependencies, cudaGraphEdgeData *edges, size_t *count),
    leat13_cudaGraphNodeGetDependencies(node, dependencies, edges, count))
ONE(get_dependents, cudaGraphNodeGetDependentNodes,
    (cudaGraphNode_t node, cudaGraphNode_t *dependents, size_t *count),
    leat13_cudaGraphNodeGetDependentNodes(node, dependents, NULL, count))
ONE(get_dependents_v2, cudaGraphNodeGetDependentNodes_v2,
    (cudaGraphNode_t node, cudaGraphNode_t *dependents, cudaGraphEdgeData *edges, size_t *count),
    leat13_cudaGraphNodeGetDependentNodes(node, dependents, edges, count))
ONE(elapsed_v2, cudaEventElapsedTime_v2, (float *milliseconds, cudaEvent_t start, cudaEvent_t end),
    cudaEventElapsedTime(milliseconds, start, end))

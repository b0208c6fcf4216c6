/*
 * hip/hip_runtime_api.h - declares HIP's API, implemented by leat. Programs that were written for HIP's host API
 * build with any C or C++ compiler, and run with an AMD GPU, an NVIDIA GPU, or none.
 *
 * Model. Put the folder leat/compat before AMD's in the include path, and link with -lleat-hip instead of
 * -lamdhip64. Types, numbers and results are those of HIP 6.3 for AMD's platform. Calls behave as AMD documents:
 * which of them wait, how the default streams are ordered, which arguments are refused with which result. For a
 * destroyed stream or event, calls return hipErrorContextIsDestroyed, as AMD's do. The last error stays until
 * hipGetLastError() reads it, as since HIP 7: a call that succeeds does not clear it. docs/compatibility.md lists
 * every name, what leat supports of it, and the names that are missing.
 *
 * Devices belong to one driver of leat: the driver that LEAT_DEVICE names, or else the first one that has a
 * device. Without a GPU there are two CPU devices. Programs launch kernels by function pointer (hip_runtime.h) or
 * from modules.
 *
 * Threads. As with HIP, each thread has its own current device, which is 0 at first. Any thread may call any
 * function.
 */
#ifndef LEAT_COMPAT_HIP_RUNTIME_API_H
#define LEAT_COMPAT_HIP_RUNTIME_API_H

#include "channel_descriptor.h"
#include "driver_types.h"
#include "hip_vector_types.h"
#include "texture_types.h"

/* Gives a parameter a default value in C++. */
#ifdef __cplusplus
#define LEAT_HIP_OR(value) = value
extern "C" {
#else
#define LEAT_HIP_OR(value)
#endif

/* ---- start, results ---- */

hipError_t hipInit(unsigned int flags);
hipError_t hipDriverGetVersion(int *driverVersion);
hipError_t hipRuntimeGetVersion(int *runtimeVersion);
hipError_t hipGetLastError(void);
hipError_t hipExtGetLastError(void);
hipError_t hipPeekAtLastError(void);
const char *hipGetErrorName(hipError_t error);
const char *hipGetErrorString(hipError_t error);
hipError_t hipDrvGetErrorName(hipError_t error, const char **name);
hipError_t hipDrvGetErrorString(hipError_t error, const char **text);
hipError_t hipGetProcAddress(const char *symbol, void **function, int version, uint64_t flags,
                             hipDriverProcAddressQueryResult *result);
hipError_t hipGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags,
                                  hipDriverEntryPointQueryResult *result);

/* ---- devices ---- */

hipError_t hipGetDeviceCount(int *count);
hipError_t hipGetDevice(int *device);
hipError_t hipSetDevice(int device);
hipError_t hipSetValidDevices(int *devices, int count);
hipError_t hipDeviceGet(hipDevice_t *device, int ordinal);
hipError_t hipDeviceGetName(char *name, int bytes, hipDevice_t device);
hipError_t hipDeviceGetUuid(hipUUID *uuid, hipDevice_t device);
hipError_t hipDeviceTotalMem(size_t *bytes, hipDevice_t device);
hipError_t hipDeviceComputeCapability(int *major, int *minor, hipDevice_t device);
hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t attribute, int device);
hipError_t hipDeviceGetTexture1DLinearMaxWidth(size_t *width, const hipChannelFormatDesc *desc, int device);
#define hipGetDeviceProperties hipGetDevicePropertiesR0600
hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600 *properties, int device);
#define hipChooseDevice hipChooseDeviceR0600
/* Chooses the device that meets most of the wanted properties. A field of wanted that is 0 asks for nothing. */
hipError_t hipChooseDeviceR0600(int *device, const hipDeviceProp_tR0600 *wanted);
hipError_t hipDeviceGetPCIBusId(char *text, int bytes, int device);
hipError_t hipDeviceGetByPCIBusId(int *device, const char *text);
hipError_t hipDeviceSynchronize(void);
hipError_t hipDeviceReset(void);
hipError_t hipProfilerStart(void);
hipError_t hipProfilerStop(void);
hipError_t hipDeviceGetLimit(size_t *value, enum hipLimit_t limit);
hipError_t hipDeviceSetLimit(enum hipLimit_t limit, size_t value);
hipError_t hipDeviceGetCacheConfig(hipFuncCache_t *config);
hipError_t hipDeviceSetCacheConfig(hipFuncCache_t config);
hipError_t hipDeviceGetSharedMemConfig(hipSharedMemConfig *config);
hipError_t hipDeviceSetSharedMemConfig(hipSharedMemConfig config);
hipError_t hipGetDeviceFlags(unsigned int *flags);
hipError_t hipSetDeviceFlags(unsigned flags);
hipError_t hipDeviceGetStreamPriorityRange(int *least, int *greatest);
hipError_t hipDeviceCanAccessPeer(int *possible, int device, int peer);
hipError_t hipDeviceEnablePeerAccess(int peer, unsigned int flags);
hipError_t hipDeviceDisablePeerAccess(int peer);
hipError_t hipDeviceGetP2PAttribute(int *value, hipDeviceP2PAttr attribute, int device, int peer);
hipError_t hipExtGetLinkTypeAndHopCount(int first, int second, uint32_t *type, uint32_t *hops);

/* ---- contexts: each device has one ---- */

hipError_t hipCtxCreate(hipCtx_t *context, unsigned int flags, hipDevice_t device);
hipError_t hipCtxDestroy(hipCtx_t context);
hipError_t hipCtxPopCurrent(hipCtx_t *context);
hipError_t hipCtxPushCurrent(hipCtx_t context);
hipError_t hipCtxSetCurrent(hipCtx_t context);
hipError_t hipCtxGetCurrent(hipCtx_t *context);
hipError_t hipCtxGetDevice(hipDevice_t *device);
hipError_t hipCtxGetApiVersion(hipCtx_t context, int *version);
hipError_t hipCtxGetCacheConfig(hipFuncCache_t *config);
hipError_t hipCtxSetCacheConfig(hipFuncCache_t config);
hipError_t hipCtxSetSharedMemConfig(hipSharedMemConfig config);
hipError_t hipCtxGetSharedMemConfig(hipSharedMemConfig *config);
hipError_t hipCtxSynchronize(void);
hipError_t hipCtxGetFlags(unsigned int *flags);
hipError_t hipCtxEnablePeerAccess(hipCtx_t peer, unsigned int flags);
hipError_t hipCtxDisablePeerAccess(hipCtx_t peer);
hipError_t hipDevicePrimaryCtxGetState(hipDevice_t device, unsigned int *flags, int *active);
hipError_t hipDevicePrimaryCtxRelease(hipDevice_t device);
hipError_t hipDevicePrimaryCtxRetain(hipCtx_t *context, hipDevice_t device);
hipError_t hipDevicePrimaryCtxReset(hipDevice_t device);
hipError_t hipDevicePrimaryCtxSetFlags(hipDevice_t device, unsigned int flags);

/* ---- memory ---- */

hipError_t hipMalloc(void **ptr, size_t bytes);
hipError_t hipExtMallocWithFlags(void **ptr, size_t bytes, unsigned int flags);
hipError_t hipMallocHost(void **ptr, size_t bytes);
hipError_t hipMemAllocHost(void **ptr, size_t bytes);
hipError_t hipHostAlloc(void **ptr, size_t bytes, unsigned int flags);
hipError_t hipHostMalloc(void **ptr, size_t bytes, unsigned int flags);
hipError_t hipExtHostAlloc(void **ptr, size_t bytes, unsigned int flags);
hipError_t hipMallocManaged(void **ptr, size_t bytes, unsigned int flags LEAT_HIP_OR(hipMemAttachGlobal));
hipError_t hipMallocPitch(void **ptr, size_t *pitch, size_t width, size_t height);
hipError_t hipMemAllocPitch(hipDeviceptr_t *ptr, size_t *pitch, size_t width, size_t height,
                            unsigned int elementBytes);
hipError_t hipMalloc3D(hipPitchedPtr *ptr, hipExtent extent);
hipError_t hipFree(void *ptr);
hipError_t hipFreeHost(void *ptr);
hipError_t hipHostFree(void *ptr);
hipError_t hipHostRegister(void *ptr, size_t bytes, unsigned int flags);
hipError_t hipHostUnregister(void *ptr);
hipError_t hipHostGetDevicePointer(void **devicePtr, void *ptr, unsigned int flags);
hipError_t hipHostGetFlags(unsigned int *flags, void *ptr);
hipError_t hipMemGetInfo(size_t *available, size_t *total);
hipError_t hipMemPtrGetInfo(void *ptr, size_t *bytes);
hipError_t hipMemGetAddressRange(hipDeviceptr_t *base, size_t *bytes, hipDeviceptr_t ptr);
hipError_t hipPointerGetAttributes(hipPointerAttribute_t *attributes, const void *ptr);
hipError_t hipPointerGetAttribute(void *data, hipPointer_attribute attribute, hipDeviceptr_t ptr);
hipError_t hipDrvPointerGetAttributes(unsigned int count, hipPointer_attribute *attributes, void **data,
                                      hipDeviceptr_t ptr);
hipError_t hipPointerSetAttribute(const void *value, hipPointer_attribute attribute, hipDeviceptr_t ptr);
hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t *handle, void *ptr);
hipError_t hipIpcOpenMemHandle(void **ptr, hipIpcMemHandle_t handle, unsigned int flags);
hipError_t hipIpcCloseMemHandle(void *ptr);
hipError_t hipIpcGetEventHandle(hipIpcEventHandle_t *handle, hipEvent_t event);
hipError_t hipIpcOpenEventHandle(hipEvent_t *event, hipIpcEventHandle_t handle);

/* ---- managed memory ---- */

hipError_t hipMemPrefetchAsync(const void *ptr, size_t bytes, int device, hipStream_t stream LEAT_HIP_OR(0));
hipError_t hipMemAdvise(const void *ptr, size_t bytes, hipMemoryAdvise advice, int device);
hipError_t hipMemPrefetchAsync_v2(const void *ptr, size_t bytes, hipMemLocation place, unsigned int flags,
                                  hipStream_t stream LEAT_HIP_OR(0));
/* Prefetches several ranges. places[p] applies to the ranges from placeIndexes[p] up to the next index. */
hipError_t hipMemPrefetchBatchAsync(void **ptrs, size_t *bytes, size_t count, hipMemLocation *places,
                                    size_t *placeIndexes, size_t placeCount, unsigned long long flags,
                                    hipStream_t stream);
hipError_t hipMemAdvise_v2(const void *ptr, size_t bytes, hipMemoryAdvise advice, hipMemLocation place);
hipError_t hipMemRangeGetAttribute(void *data, size_t dataBytes, hipMemRangeAttribute attribute, const void *ptr,
                                   size_t bytes);
hipError_t hipMemRangeGetAttributes(void **data, size_t *dataBytes, hipMemRangeAttribute *attributes, size_t count,
                                    const void *ptr, size_t bytes);
hipError_t hipStreamAttachMemAsync(hipStream_t stream, void *ptr, size_t bytes LEAT_HIP_OR(0),
                                   unsigned int flags LEAT_HIP_OR(hipMemAttachSingle));

/* ---- copies ---- */

hipError_t hipMemcpy(void *dst, const void *src, size_t bytes, hipMemcpyKind kind);
hipError_t hipMemcpyWithStream(void *dst, const void *src, size_t bytes, hipMemcpyKind kind, hipStream_t stream);
hipError_t hipMemcpyAsync(void *dst, const void *src, size_t bytes, hipMemcpyKind kind,
                          hipStream_t stream LEAT_HIP_OR(0));
hipError_t hipMemcpyHtoD(hipDeviceptr_t dst, void *src, size_t bytes);
hipError_t hipMemcpyDtoH(void *dst, hipDeviceptr_t src, size_t bytes);
hipError_t hipMemcpyDtoD(hipDeviceptr_t dst, hipDeviceptr_t src, size_t bytes);
hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t dst, void *src, size_t bytes, hipStream_t stream);
hipError_t hipMemcpyDtoHAsync(void *dst, hipDeviceptr_t src, size_t bytes, hipStream_t stream);
hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t dst, hipDeviceptr_t src, size_t bytes, hipStream_t stream);
hipError_t hipMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice, size_t bytes);
hipError_t hipMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice, size_t bytes,
                              hipStream_t stream LEAT_HIP_OR(0));
hipError_t hipMemcpyToSymbol(const void *symbol, const void *src, size_t bytes, size_t offset LEAT_HIP_OR(0),
                             hipMemcpyKind kind LEAT_HIP_OR(hipMemcpyHostToDevice));
hipError_t hipMemcpyToSymbolAsync(const void *symbol, const void *src, size_t bytes, size_t offset,
                                  hipMemcpyKind kind, hipStream_t stream LEAT_HIP_OR(0));
hipError_t hipMemcpyFromSymbol(void *dst, const void *symbol, size_t bytes, size_t offset LEAT_HIP_OR(0),
                               hipMemcpyKind kind LEAT_HIP_OR(hipMemcpyDeviceToHost));
hipError_t hipMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t bytes, size_t offset, hipMemcpyKind kind,
                                    hipStream_t stream LEAT_HIP_OR(0));
hipError_t hipGetSymbolAddress(void **ptr, const void *symbol);
hipError_t hipGetSymbolSize(size_t *bytes, const void *symbol);
hipError_t hipMemcpy2D(void *dst, size_t dstPitch, const void *src, size_t srcPitch, size_t width, size_t height,
                       hipMemcpyKind kind);
hipError_t hipMemcpy2DAsync(void *dst, size_t dstPitch, const void *src, size_t srcPitch, size_t width,
                            size_t height, hipMemcpyKind kind, hipStream_t stream LEAT_HIP_OR(0));
hipError_t hipMemcpyParam2D(const hip_Memcpy2D *copy);
hipError_t hipMemcpyParam2DAsync(const hip_Memcpy2D *copy, hipStream_t stream LEAT_HIP_OR(0));
hipError_t hipDrvMemcpy2DUnaligned(const hip_Memcpy2D *copy);
hipError_t hipMemcpy3D(const struct hipMemcpy3DParms *copy);
hipError_t hipMemcpy3DAsync(const struct hipMemcpy3DParms *copy, hipStream_t stream LEAT_HIP_OR(0));
hipError_t hipDrvMemcpy3D(const HIP_MEMCPY3D *copy);
hipError_t hipDrvMemcpy3DAsync(const HIP_MEMCPY3D *copy, hipStream_t stream);
hipError_t hipMemcpy3DPeer(hipMemcpy3DPeerParms *copy);
hipError_t hipMemcpy3DPeerAsync(hipMemcpy3DPeerParms *copy, hipStream_t stream LEAT_HIP_OR(0));
/* Make several copies, in order. failedIndex may be NULL. If a copy is refused, *failedIndex becomes its index,
 * and the copies before it were made. If the call fails for another reason, *failedIndex becomes SIZE_MAX. */
hipError_t hipMemcpyBatchAsync(void **dsts, void **srcs, size_t *bytes, size_t count,
                               hipMemcpyAttributes *attributes, size_t *attributeIndexes, size_t attributeCount,
                               size_t *failedIndex, hipStream_t stream LEAT_HIP_OR(0));
hipError_t hipMemcpy3DBatchAsync(size_t count, hipMemcpy3DBatchOp *copies, size_t *failedIndex,
                                 unsigned long long flags, hipStream_t stream LEAT_HIP_OR(0));

/* ---- fills ---- */

hipError_t hipMemset(void *dst, int value, size_t bytes);
hipError_t hipMemsetAsync(void *dst, int value, size_t bytes, hipStream_t stream LEAT_HIP_OR(0));
hipError_t hipMemsetD8(hipDeviceptr_t dst, unsigned char value, size_t count);
hipError_t hipMemsetD8Async(hipDeviceptr_t dst, unsigned char value, size_t count,
                            hipStream_t stream LEAT_HIP_OR(0));
hipError_t hipMemsetD16(hipDeviceptr_t dst, unsigned short value, size_t count);
hipError_t hipMemsetD16Async(hipDeviceptr_t dst, unsigned short value, size_t count,
                             hipStream_t stream LEAT_HIP_OR(0));
hipError_t hipMemsetD32(hipDeviceptr_t dst, int value, size_t count);
hipError_t hipMemsetD32Async(hipDeviceptr_t dst, int value, size_t count, hipStream_t stream LEAT_HIP_OR(0));
hipError_t hipMemset2D(void *dst, size_t pitch, int value, size_t width, size_t height);
hipError_t hipMemset2DAsync(void *dst, size_t pitch, int value, size_t width, size_t height,
                            hipStream_t stream LEAT_HIP_OR(0));
hipError_t hipMemset3D(hipPitchedPtr dst, int value, hipExtent extent);
hipError_t hipMemset3DAsync(hipPitchedPtr dst, int value, hipExtent extent, hipStream_t stream LEAT_HIP_OR(0));
hipError_t hipMemsetD2D8(hipDeviceptr_t dst, size_t pitch, unsigned char value, size_t width, size_t height);
hipError_t hipMemsetD2D8Async(hipDeviceptr_t dst, size_t pitch, unsigned char value, size_t width, size_t height,
                              hipStream_t stream LEAT_HIP_OR(0));
hipError_t hipMemsetD2D16(hipDeviceptr_t dst, size_t pitch, unsigned short value, size_t width, size_t height);
hipError_t hipMemsetD2D16Async(hipDeviceptr_t dst, size_t pitch, unsigned short value, size_t width, size_t height,
                               hipStream_t stream LEAT_HIP_OR(0));
hipError_t hipMemsetD2D32(hipDeviceptr_t dst, size_t pitch, unsigned int value, size_t width, size_t height);
hipError_t hipMemsetD2D32Async(hipDeviceptr_t dst, size_t pitch, unsigned int value, size_t width, size_t height,
                               hipStream_t stream LEAT_HIP_OR(0));

/* ---- arrays ---- */

hipError_t hipMallocArray(hipArray_t *array, const hipChannelFormatDesc *desc, size_t width,
                          size_t height LEAT_HIP_OR(0), unsigned int flags LEAT_HIP_OR(hipArrayDefault));
hipError_t hipMalloc3DArray(hipArray_t *array, const struct hipChannelFormatDesc *desc, struct hipExtent extent,
                            unsigned int flags);
hipError_t hipArrayCreate(hipArray_t *array, const HIP_ARRAY_DESCRIPTOR *shape);
hipError_t hipArray3DCreate(hipArray_t *array, const HIP_ARRAY3D_DESCRIPTOR *shape);
hipError_t hipMallocMipmappedArray(hipMipmappedArray_t *array, const struct hipChannelFormatDesc *desc,
                                   struct hipExtent extent, unsigned int levels,
                                   unsigned int flags LEAT_HIP_OR(0));
hipError_t hipFreeMipmappedArray(hipMipmappedArray_t array);
hipError_t hipGetMipmappedArrayLevel(hipArray_t *level, hipMipmappedArray_const_t array, unsigned int number);
hipError_t hipMipmappedArrayCreate(hipMipmappedArray_t *array, HIP_ARRAY3D_DESCRIPTOR *shape, unsigned int levels);
hipError_t hipMipmappedArrayDestroy(hipMipmappedArray_t array);
hipError_t hipMipmappedArrayGetLevel(hipArray_t *level, hipMipmappedArray_t array, unsigned int number);
hipError_t hipFreeArray(hipArray_t array);
hipError_t hipArrayDestroy(hipArray_t array);
hipError_t hipArrayGetInfo(hipChannelFormatDesc *desc, hipExtent *extent, unsigned int *flags, hipArray_t array);
hipError_t hipArrayGetDescriptor(HIP_ARRAY_DESCRIPTOR *shape, hipArray_t array);
hipError_t hipArray3DGetDescriptor(HIP_ARRAY3D_DESCRIPTOR *shape, hipArray_t array);
hipError_t hipGetChannelDesc(hipChannelFormatDesc *desc, hipArray_const_t array);
hipError_t hipMemcpy2DToArray(hipArray_t dst, size_t x, size_t y, const void *src, size_t srcPitch, size_t width,
                              size_t height, hipMemcpyKind kind);
hipError_t hipMemcpy2DToArrayAsync(hipArray_t dst, size_t x, size_t y, const void *src, size_t srcPitch,
                                   size_t width, size_t height, hipMemcpyKind kind,
                                   hipStream_t stream LEAT_HIP_OR(0));
hipError_t hipMemcpy2DFromArray(void *dst, size_t dstPitch, hipArray_const_t src, size_t x, size_t y, size_t width,
                                size_t height, hipMemcpyKind kind);
hipError_t hipMemcpy2DFromArrayAsync(void *dst, size_t dstPitch, hipArray_const_t src, size_t x, size_t y,
                                     size_t width, size_t height, hipMemcpyKind kind,
                                     hipStream_t stream LEAT_HIP_OR(0));
hipError_t hipMemcpy2DArrayToArray(hipArray_t dst, size_t dstX, size_t dstY, hipArray_const_t src, size_t srcX,
                                   size_t srcY, size_t width, size_t height, hipMemcpyKind kind);
hipError_t hipMemcpyToArray(hipArray_t dst, size_t x, size_t y, const void *src, size_t bytes, hipMemcpyKind kind);
hipError_t hipMemcpyFromArray(void *dst, hipArray_const_t src, size_t x, size_t y, size_t bytes,
                              hipMemcpyKind kind);
hipError_t hipMemcpyAtoH(void *dst, hipArray_t src, size_t offset, size_t bytes);
hipError_t hipMemcpyHtoA(hipArray_t dst, size_t offset, const void *src, size_t bytes);
hipError_t hipMemcpyAtoHAsync(void *dst, hipArray_t src, size_t offset, size_t bytes, hipStream_t stream);
hipError_t hipMemcpyHtoAAsync(hipArray_t dst, size_t offset, const void *src, size_t bytes, hipStream_t stream);
hipError_t hipMemcpyAtoD(hipDeviceptr_t dst, hipArray_t src, size_t offset, size_t bytes);
hipError_t hipMemcpyDtoA(hipArray_t dst, size_t offset, hipDeviceptr_t src, size_t bytes);
hipError_t hipMemcpyAtoA(hipArray_t dst, size_t dstOffset, hipArray_t src, size_t srcOffset, size_t bytes);

/* ---- textures and surfaces: there are none ---- */

hipError_t hipCreateTextureObject(hipTextureObject_t *texture, const hipResourceDesc *resource,
                                  const hipTextureDesc *desc, const struct hipResourceViewDesc *view);
hipError_t hipDestroyTextureObject(hipTextureObject_t texture);
hipError_t hipTexObjectCreate(hipTextureObject_t *texture, const HIP_RESOURCE_DESC *resource,
                              const HIP_TEXTURE_DESC *desc, const HIP_RESOURCE_VIEW_DESC *view);
hipError_t hipTexObjectDestroy(hipTextureObject_t texture);
hipError_t hipCreateSurfaceObject(hipSurfaceObject_t *surface, const hipResourceDesc *resource);
hipError_t hipDestroySurfaceObject(hipSurfaceObject_t surface);

/* ---- streams ---- */

hipError_t hipStreamCreate(hipStream_t *stream);
hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned int flags);
hipError_t hipStreamCreateWithPriority(hipStream_t *stream, unsigned int flags, int priority);
hipError_t hipExtStreamCreateWithCUMask(hipStream_t *stream, uint32_t words, const uint32_t *mask);
hipError_t hipExtStreamGetCUMask(hipStream_t stream, uint32_t words, uint32_t *mask);
hipError_t hipStreamDestroy(hipStream_t stream);
hipError_t hipStreamQuery(hipStream_t stream);
hipError_t hipStreamSynchronize(hipStream_t stream);
hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned int flags LEAT_HIP_OR(0));
hipError_t hipStreamGetFlags(hipStream_t stream, unsigned int *flags);
hipError_t hipStreamGetPriority(hipStream_t stream, int *priority);
hipError_t hipStreamGetDevice(hipStream_t stream, hipDevice_t *device);
int hipGetStreamDeviceId(hipStream_t stream);
hipError_t hipStreamGetId(hipStream_t stream, unsigned long long *id);
hipError_t hipStreamSetAttribute(hipStream_t stream, hipStreamAttrID attribute, const hipStreamAttrValue *value);
hipError_t hipStreamGetAttribute(hipStream_t stream, hipStreamAttrID attribute, hipStreamAttrValue *value);
hipError_t hipStreamCopyAttributes(hipStream_t dst, hipStream_t src);
hipError_t hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t callback, void *userData,
                                unsigned int flags);
hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void *userData);
hipError_t hipStreamWaitValue32(hipStream_t stream, void *ptr, uint32_t value, unsigned int flags,
                                uint32_t mask LEAT_HIP_OR(0xFFFFFFFF));
hipError_t hipStreamWaitValue64(hipStream_t stream, void *ptr, uint64_t value, unsigned int flags,
                                uint64_t mask LEAT_HIP_OR(0xFFFFFFFFFFFFFFFF));
hipError_t hipStreamWriteValue32(hipStream_t stream, void *ptr, uint32_t value, unsigned int flags);
hipError_t hipStreamWriteValue64(hipStream_t stream, void *ptr, uint64_t value, unsigned int flags);
hipError_t hipStreamBatchMemOp(hipStream_t stream, unsigned int count, hipStreamBatchMemOpParams *operations,
                               unsigned int flags);

/* ---- capture ---- */

hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode);
hipError_t hipStreamBeginCaptureToGraph(hipStream_t stream, hipGraph_t graph, const hipGraphNode_t *dependencies,
                                        const hipGraphEdgeData *dependencyData, size_t count,
                                        hipStreamCaptureMode mode);
hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph);
hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus *status);
hipError_t hipStreamGetCaptureInfo(hipStream_t stream, hipStreamCaptureStatus *status, unsigned long long *id);
hipError_t hipStreamGetCaptureInfo_v2(hipStream_t stream, hipStreamCaptureStatus *status,
                                      unsigned long long *id LEAT_HIP_OR(0), hipGraph_t *graph LEAT_HIP_OR(0),
                                      const hipGraphNode_t **dependencies LEAT_HIP_OR(0),
                                      size_t *count LEAT_HIP_OR(0));
hipError_t hipStreamUpdateCaptureDependencies(hipStream_t stream, hipGraphNode_t *dependencies, size_t count,
                                              unsigned int flags LEAT_HIP_OR(0));
hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode *mode);

/* ---- graphs ---- */

hipError_t hipGraphCreate(hipGraph_t *graph, unsigned int flags);
hipError_t hipGraphDestroy(hipGraph_t graph);
hipError_t hipGraphClone(hipGraph_t *clone, hipGraph_t graph);
hipError_t hipGraphNodeFindInClone(hipGraphNode_t *found, hipGraphNode_t node, hipGraph_t clone);
hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t *nodes, size_t *count);
hipError_t hipGraphGetRootNodes(hipGraph_t graph, hipGraphNode_t *nodes, size_t *count);
hipError_t hipGraphNodeGetType(hipGraphNode_t node, hipGraphNodeType *type);
hipError_t hipGraphDestroyNode(hipGraphNode_t node);
hipError_t hipGraphDebugDotPrint(hipGraph_t graph, const char *path, unsigned int flags);
hipError_t hipGraphGetEdges(hipGraph_t graph, hipGraphNode_t *from, hipGraphNode_t *to, size_t *count);
hipError_t hipGraphNodeGetDependencies(hipGraphNode_t node, hipGraphNode_t *nodes, size_t *count);
hipError_t hipGraphNodeGetDependentNodes(hipGraphNode_t node, hipGraphNode_t *nodes, size_t *count);
hipError_t hipGraphAddDependencies(hipGraph_t graph, const hipGraphNode_t *from, const hipGraphNode_t *to,
                                   size_t count);
hipError_t hipGraphRemoveDependencies(hipGraph_t graph, const hipGraphNode_t *from, const hipGraphNode_t *to,
                                      size_t count);
hipError_t hipGraphInstantiate(hipGraphExec_t *executable, hipGraph_t graph, hipGraphNode_t *errorNode, char *log,
                               size_t logBytes);
hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t *executable, hipGraph_t graph, unsigned long long flags);
hipError_t hipGraphInstantiateWithParams(hipGraphExec_t *executable, hipGraph_t graph,
                                         hipGraphInstantiateParams *params);
hipError_t hipGraphExecGetFlags(hipGraphExec_t executable, unsigned long long *flags);
hipError_t hipGraphUpload(hipGraphExec_t executable, hipStream_t stream);
hipError_t hipGraphLaunch(hipGraphExec_t executable, hipStream_t stream);
hipError_t hipGraphExecDestroy(hipGraphExec_t executable);
hipError_t hipGraphExecUpdate(hipGraphExec_t executable, hipGraph_t graph, hipGraphNode_t *errorNode,
                              hipGraphExecUpdateResult *why);
hipError_t hipGraphNodeSetEnabled(hipGraphExec_t executable, hipGraphNode_t node, unsigned int isEnabled);
hipError_t hipGraphNodeGetEnabled(hipGraphExec_t executable, hipGraphNode_t node, unsigned int *isEnabled);
hipError_t hipUserObjectCreate(hipUserObject_t *object, void *ptr, hipHostFn_t destroy, unsigned int references,
                               unsigned int flags);
hipError_t hipUserObjectRetain(hipUserObject_t object, unsigned int count LEAT_HIP_OR(1));
hipError_t hipUserObjectRelease(hipUserObject_t object, unsigned int count LEAT_HIP_OR(1));
hipError_t hipGraphRetainUserObject(hipGraph_t graph, hipUserObject_t object, unsigned int count LEAT_HIP_OR(1),
                                    unsigned int flags LEAT_HIP_OR(0));
hipError_t hipGraphReleaseUserObject(hipGraph_t graph, hipUserObject_t object, unsigned int count LEAT_HIP_OR(1));
hipError_t hipDeviceGraphMemTrim(int device);
hipError_t hipDeviceGetGraphMemAttribute(int device, hipGraphMemAttributeType attribute, void *value);
hipError_t hipDeviceSetGraphMemAttribute(int device, hipGraphMemAttributeType attribute, void *value);

/* ---- nodes of graphs ---- */

hipError_t hipGraphAddKernelNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *dependencies,
                                 size_t count, const hipKernelNodeParams *params);
hipError_t hipGraphKernelNodeGetParams(hipGraphNode_t node, hipKernelNodeParams *params);
hipError_t hipGraphKernelNodeSetParams(hipGraphNode_t node, const hipKernelNodeParams *params);
hipError_t hipGraphExecKernelNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node,
                                           const hipKernelNodeParams *params);
hipError_t hipGraphKernelNodeCopyAttributes(hipGraphNode_t src, hipGraphNode_t dst);
hipError_t hipGraphKernelNodeGetAttribute(hipGraphNode_t node, hipKernelNodeAttrID attribute,
                                          hipKernelNodeAttrValue *value);
hipError_t hipGraphKernelNodeSetAttribute(hipGraphNode_t node, hipKernelNodeAttrID attribute,
                                          const hipKernelNodeAttrValue *value);
hipError_t hipGraphAddMemcpyNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *dependencies,
                                 size_t count, const hipMemcpy3DParms *params);
hipError_t hipGraphAddMemcpyNode1D(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *dependencies,
                                   size_t count, void *dst, const void *src, size_t bytes, hipMemcpyKind kind);
hipError_t hipGraphAddMemcpyNodeToSymbol(hipGraphNode_t *node, hipGraph_t graph,
                                         const hipGraphNode_t *dependencies, size_t count, const void *symbol,
                                         const void *src, size_t bytes, size_t offset, hipMemcpyKind kind);
hipError_t hipGraphAddMemcpyNodeFromSymbol(hipGraphNode_t *node, hipGraph_t graph,
                                           const hipGraphNode_t *dependencies, size_t count, void *dst,
                                           const void *symbol, size_t bytes, size_t offset, hipMemcpyKind kind);
hipError_t hipGraphMemcpyNodeGetParams(hipGraphNode_t node, hipMemcpy3DParms *params);
hipError_t hipGraphMemcpyNodeSetParams(hipGraphNode_t node, const hipMemcpy3DParms *params);
hipError_t hipGraphMemcpyNodeSetParams1D(hipGraphNode_t node, void *dst, const void *src, size_t bytes,
                                         hipMemcpyKind kind);
hipError_t hipGraphMemcpyNodeSetParamsToSymbol(hipGraphNode_t node, const void *symbol, const void *src,
                                               size_t bytes, size_t offset, hipMemcpyKind kind);
hipError_t hipGraphMemcpyNodeSetParamsFromSymbol(hipGraphNode_t node, void *dst, const void *symbol, size_t bytes,
                                                 size_t offset, hipMemcpyKind kind);
hipError_t hipGraphExecMemcpyNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node,
                                           hipMemcpy3DParms *params);
hipError_t hipGraphExecMemcpyNodeSetParams1D(hipGraphExec_t executable, hipGraphNode_t node, void *dst,
                                             const void *src, size_t bytes, hipMemcpyKind kind);
hipError_t hipGraphExecMemcpyNodeSetParamsToSymbol(hipGraphExec_t executable, hipGraphNode_t node,
                                                   const void *symbol, const void *src, size_t bytes,
                                                   size_t offset, hipMemcpyKind kind);
hipError_t hipGraphExecMemcpyNodeSetParamsFromSymbol(hipGraphExec_t executable, hipGraphNode_t node, void *dst,
                                                     const void *symbol, size_t bytes, size_t offset,
                                                     hipMemcpyKind kind);
hipError_t hipGraphAddMemsetNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *dependencies,
                                 size_t count, const hipMemsetParams *params);
hipError_t hipGraphMemsetNodeGetParams(hipGraphNode_t node, hipMemsetParams *params);
hipError_t hipGraphMemsetNodeSetParams(hipGraphNode_t node, const hipMemsetParams *params);
hipError_t hipGraphExecMemsetNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node,
                                           const hipMemsetParams *params);
hipError_t hipGraphAddHostNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *dependencies,
                               size_t count, const hipHostNodeParams *params);
hipError_t hipGraphHostNodeGetParams(hipGraphNode_t node, hipHostNodeParams *params);
hipError_t hipGraphHostNodeSetParams(hipGraphNode_t node, const hipHostNodeParams *params);
hipError_t hipGraphExecHostNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node,
                                         const hipHostNodeParams *params);
hipError_t hipGraphAddChildGraphNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *dependencies,
                                     size_t count, hipGraph_t child);
hipError_t hipGraphChildGraphNodeGetGraph(hipGraphNode_t node, hipGraph_t *graph);
hipError_t hipGraphExecChildGraphNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node, hipGraph_t child);
hipError_t hipGraphAddEmptyNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *dependencies,
                                size_t count);
hipError_t hipGraphAddEventRecordNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *dependencies,
                                      size_t count, hipEvent_t event);
hipError_t hipGraphEventRecordNodeGetEvent(hipGraphNode_t node, hipEvent_t *event);
hipError_t hipGraphEventRecordNodeSetEvent(hipGraphNode_t node, hipEvent_t event);
hipError_t hipGraphExecEventRecordNodeSetEvent(hipGraphExec_t executable, hipGraphNode_t node, hipEvent_t event);
hipError_t hipGraphAddEventWaitNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *dependencies,
                                    size_t count, hipEvent_t event);
hipError_t hipGraphEventWaitNodeGetEvent(hipGraphNode_t node, hipEvent_t *event);
hipError_t hipGraphEventWaitNodeSetEvent(hipGraphNode_t node, hipEvent_t event);
hipError_t hipGraphExecEventWaitNodeSetEvent(hipGraphExec_t executable, hipGraphNode_t node, hipEvent_t event);
hipError_t hipGraphAddBatchMemOpNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *dependencies,
                                     size_t count, const hipBatchMemOpNodeParams *params);
hipError_t hipGraphBatchMemOpNodeGetParams(hipGraphNode_t node, hipBatchMemOpNodeParams *params);
hipError_t hipGraphBatchMemOpNodeSetParams(hipGraphNode_t node, hipBatchMemOpNodeParams *params);
hipError_t hipGraphExecBatchMemOpNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node,
                                               const hipBatchMemOpNodeParams *params);
hipError_t hipGraphAddMemAllocNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *dependencies,
                                   size_t count, hipMemAllocNodeParams *params);
hipError_t hipGraphMemAllocNodeGetParams(hipGraphNode_t node, hipMemAllocNodeParams *params);
hipError_t hipGraphAddMemFreeNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *dependencies,
                                  size_t count, void *ptr);
hipError_t hipGraphMemFreeNodeGetParams(hipGraphNode_t node, void *ptr);
hipError_t hipGraphAddNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *dependencies,
                           size_t count, hipGraphNodeParams *params);
hipError_t hipGraphNodeSetParams(hipGraphNode_t node, hipGraphNodeParams *params);
hipError_t hipGraphExecNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node, hipGraphNodeParams *params);
hipError_t hipDrvGraphAddMemcpyNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *dependencies,
                                    size_t count, const HIP_MEMCPY3D *params, hipCtx_t context);
hipError_t hipDrvGraphExecMemcpyNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node,
                                              const HIP_MEMCPY3D *params, hipCtx_t context);
hipError_t hipDrvGraphMemcpyNodeSetParams(hipGraphNode_t node, const HIP_MEMCPY3D *params);
hipError_t hipDrvGraphMemcpyNodeGetParams(hipGraphNode_t node, HIP_MEMCPY3D *params);
hipError_t hipDrvGraphAddMemsetNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *dependencies,
                                    size_t count, const HIP_MEMSET_NODE_PARAMS *params, hipCtx_t context);
hipError_t hipDrvGraphExecMemsetNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node,
                                              const HIP_MEMSET_NODE_PARAMS *params, hipCtx_t context);
hipError_t hipDrvGraphAddMemFreeNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *dependencies,
                                     size_t count, hipDeviceptr_t ptr);

/* ---- events ---- */

hipError_t hipEventCreate(hipEvent_t *event);
hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned flags);
hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream LEAT_HIP_OR(0));
hipError_t hipEventRecordWithFlags(hipEvent_t event, hipStream_t stream LEAT_HIP_OR(0),
                                   unsigned int flags LEAT_HIP_OR(0));
hipError_t hipEventDestroy(hipEvent_t event);
hipError_t hipEventSynchronize(hipEvent_t event);
hipError_t hipEventElapsedTime(float *milliseconds, hipEvent_t start, hipEvent_t stop);
hipError_t hipEventQuery(hipEvent_t event);

/* ---- pools ---- */

hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t *pool, int device);
hipError_t hipDeviceSetMemPool(int device, hipMemPool_t pool);
hipError_t hipDeviceGetMemPool(hipMemPool_t *pool, int device);
hipError_t hipMemGetDefaultMemPool(hipMemPool_t *pool, hipMemLocation *place, hipMemAllocationType type);
hipError_t hipMemGetMemPool(hipMemPool_t *pool, hipMemLocation *place, hipMemAllocationType type);
hipError_t hipMemSetMemPool(hipMemLocation *place, hipMemAllocationType type, hipMemPool_t pool);
hipError_t hipMallocAsync(void **ptr, size_t bytes, hipStream_t stream);
hipError_t hipMallocFromPoolAsync(void **ptr, size_t bytes, hipMemPool_t pool, hipStream_t stream);
hipError_t hipFreeAsync(void *ptr, hipStream_t stream);
hipError_t hipMemPoolCreate(hipMemPool_t *pool, const hipMemPoolProps *properties);
hipError_t hipMemPoolDestroy(hipMemPool_t pool);
hipError_t hipMemPoolTrimTo(hipMemPool_t pool, size_t bytesToKeep);
hipError_t hipMemPoolSetAttribute(hipMemPool_t pool, hipMemPoolAttr attribute, void *value);
hipError_t hipMemPoolGetAttribute(hipMemPool_t pool, hipMemPoolAttr attribute, void *value);
hipError_t hipMemPoolSetAccess(hipMemPool_t pool, const hipMemAccessDesc *accesses, size_t count);
hipError_t hipMemPoolGetAccess(hipMemAccessFlags *flags, hipMemPool_t pool, hipMemLocation *location);
hipError_t hipMemPoolExportToShareableHandle(void *handle, hipMemPool_t pool, hipMemAllocationHandleType type,
                                             unsigned int flags);
hipError_t hipMemPoolImportFromShareableHandle(hipMemPool_t *pool, void *handle, hipMemAllocationHandleType type,
                                               unsigned int flags);
hipError_t hipMemPoolExportPointer(hipMemPoolPtrExportData *data, void *ptr);
hipError_t hipMemPoolImportPointer(void **ptr, hipMemPool_t pool, hipMemPoolPtrExportData *data);

/* ---- virtual memory ---- */

hipError_t hipMemGetAllocationGranularity(size_t *bytes, const hipMemAllocationProp *properties,
                                          hipMemAllocationGranularity_flags option);
hipError_t hipMemAddressReserve(void **ptr, size_t bytes, size_t alignment, void *address,
                                unsigned long long flags);
hipError_t hipMemAddressFree(void *ptr, size_t bytes);
hipError_t hipMemCreate(hipMemGenericAllocationHandle_t *handle, size_t bytes,
                        const hipMemAllocationProp *properties, unsigned long long flags);
hipError_t hipMemRelease(hipMemGenericAllocationHandle_t handle);
hipError_t hipMemMap(void *ptr, size_t bytes, size_t offset, hipMemGenericAllocationHandle_t handle,
                     unsigned long long flags);
hipError_t hipMemUnmap(void *ptr, size_t bytes);
hipError_t hipMemSetAccess(void *ptr, size_t bytes, const hipMemAccessDesc *accesses, size_t count);
hipError_t hipMemGetAccess(unsigned long long *flags, const hipMemLocation *location, void *ptr);
hipError_t hipMemRetainAllocationHandle(hipMemGenericAllocationHandle_t *handle, void *ptr);
hipError_t hipMemGetAllocationPropertiesFromHandle(hipMemAllocationProp *properties,
                                                   hipMemGenericAllocationHandle_t handle);
hipError_t hipMemExportToShareableHandle(void *shareable, hipMemGenericAllocationHandle_t handle,
                                         hipMemAllocationHandleType type, unsigned long long flags);
/* osHandle: the address of a descriptor, as before HIP 7.1, or the descriptor itself in place of the pointer, as
 * since then. */
hipError_t hipMemImportFromShareableHandle(hipMemGenericAllocationHandle_t *handle, void *osHandle,
                                           hipMemAllocationHandleType type);

hipError_t hipMemGetHandleForAddressRange(void *handle, hipDeviceptr_t ptr, size_t bytes,
                                          hipMemRangeHandleType type, unsigned long long flags);
hipError_t hipMemMapArrayAsync(hipArrayMapInfo *maps, unsigned int count, hipStream_t stream);

/* ---- modules and launches ---- */

hipError_t hipModuleLoad(hipModule_t *module, const char *path);
/* image: a shared object for the CPU device (leat/kernel.h), or any code that the vendor's driver loads. */
hipError_t hipModuleLoadData(hipModule_t *module, const void *image);
hipError_t hipModuleLoadDataEx(hipModule_t *module, const void *image, unsigned int count, hipJitOption *options,
                               void **values);
hipError_t hipModuleLoadFatBinary(hipModule_t *module, const void *fatBinary);
hipError_t hipModuleUnload(hipModule_t module);
hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t module, const char *name);
hipError_t hipModuleGetGlobal(hipDeviceptr_t *ptr, size_t *bytes, hipModule_t module, const char *name);
hipError_t hipFuncSetAttribute(const void *function, hipFuncAttribute attribute, int value);
hipError_t hipFuncSetCacheConfig(const void *function, hipFuncCache_t config);
hipError_t hipFuncSetSharedMemConfig(const void *function, hipSharedMemConfig config);
hipError_t hipFuncGetAttributes(struct hipFuncAttributes *attributes, const void *function);
hipError_t hipGetFuncBySymbol(hipFunction_t *function, const void *symbol);
hipError_t hipFuncGetAttribute(int *value, hipFunction_attribute attribute, hipFunction_t function);
hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned int gridX, unsigned int gridY,
                                 unsigned int gridZ, unsigned int blockX, unsigned int blockY, unsigned int blockZ,
                                 unsigned int sharedBytes, hipStream_t stream, void **arguments, void **extra);
hipError_t hipLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                           size_t sharedBytes LEAT_HIP_OR(0), hipStream_t stream LEAT_HIP_OR(0));
hipError_t hipExtLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t sharedBytes,
                              hipStream_t stream, hipEvent_t start, hipEvent_t stop, int flags);
hipError_t hipLaunchKernelExC(const hipLaunchConfig_t *config, const void *function, void **arguments);
hipError_t hipDrvLaunchKernelEx(const HIP_LAUNCH_CONFIG *config, hipFunction_t function, void **arguments,
                                void **extra);

/* Launches a kernel whose blocks may wait for one another. hipErrorNotSupported: the kernel has no cooperative
 * form. */
hipError_t hipLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                                      unsigned int sharedBytes, hipStream_t stream);
hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t function, unsigned int gridX, unsigned int gridY,
                                            unsigned int gridZ, unsigned int blockX, unsigned int blockY,
                                            unsigned int blockZ, unsigned int sharedBytes, hipStream_t stream,
                                            void **arguments);

/* Launches on several devices. They always return hipErrorNotSupported. */
hipError_t hipLaunchCooperativeKernelMultiDevice(hipLaunchParams *launches, int count, unsigned int flags);
hipError_t hipExtLaunchMultiKernelMultiDevice(hipLaunchParams *launches, int count, unsigned int flags);
hipError_t hipModuleLaunchCooperativeKernelMultiDevice(hipFunctionLaunchParams *launches, unsigned int count,
                                                       unsigned int flags);

/* Occupancy calls. They compute with the limits of the current device only, not with the needs of the kernel. */
hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int blockThreads,
                                                        size_t sharedBytes);
hipError_t
hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *function, int blockThreads,
                                                      size_t sharedBytes,
                                                      unsigned int flags LEAT_HIP_OR(hipOccupancyDefault));
hipError_t hipOccupancyMaxPotentialBlockSize(int *gridSize, int *blockSize, const void *function,
                                             size_t sharedBytes, int blockLimit);
hipError_t hipOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, const void *function, int blocks,
                                                    int blockThreads);
hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, hipFunction_t function,
                                                              int blockThreads, size_t sharedBytes);
hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, hipFunction_t function,
                                                                       int blockThreads, size_t sharedBytes,
                                                                       unsigned int flags);
hipError_t hipModuleOccupancyMaxPotentialBlockSize(int *gridSize, int *blockSize, hipFunction_t function,
                                                   size_t sharedBytes, int blockLimit);
hipError_t hipModuleOccupancyMaxPotentialBlockSizeWithFlags(int *gridSize, int *blockSize, hipFunction_t function,
                                                            size_t sharedBytes, int blockLimit,
                                                            unsigned int flags);

/* Libraries are modules with newer names. A program may pass a kernel of a library to hipLaunchKernel() in place
 * of a function. */
hipError_t hipLibraryLoadData(hipLibrary_t *library, const void *code, hipJitOption *jitOptions, void **jitValues,
                              unsigned int jitCount, hipLibraryOption *options, void **values, unsigned int count);
hipError_t hipLibraryLoadFromFile(hipLibrary_t *library, const char *path, hipJitOption *jitOptions,
                                  void **jitValues, unsigned int jitCount, hipLibraryOption *options,
                                  void **values, unsigned int count);
hipError_t hipLibraryUnload(hipLibrary_t library);
hipError_t hipLibraryGetKernel(hipKernel_t *kernel, hipLibrary_t library, const char *name);
hipError_t hipKernelGetLibrary(hipLibrary_t *library, hipKernel_t kernel);
hipError_t hipKernelGetName(const char **name, hipKernel_t kernel);

/* ---- variants in which 0 is the per-thread default stream ---- */

hipError_t hipMemcpy_spt(void *dst, const void *src, size_t bytes, hipMemcpyKind kind);
hipError_t hipMemcpyAsync_spt(void *dst, const void *src, size_t bytes, hipMemcpyKind kind, hipStream_t stream);
hipError_t hipMemcpy2D_spt(void *dst, size_t dstPitch, const void *src, size_t srcPitch, size_t width,
                           size_t height, hipMemcpyKind kind);
hipError_t hipMemcpy2DAsync_spt(void *dst, size_t dstPitch, const void *src, size_t srcPitch, size_t width,
                                size_t height, hipMemcpyKind kind, hipStream_t stream);
hipError_t hipMemcpy3D_spt(const struct hipMemcpy3DParms *copy);
hipError_t hipMemcpy3DAsync_spt(const struct hipMemcpy3DParms *copy, hipStream_t stream);
hipError_t hipMemset_spt(void *dst, int value, size_t bytes);
hipError_t hipMemsetAsync_spt(void *dst, int value, size_t bytes, hipStream_t stream);
hipError_t hipMemset2D_spt(void *dst, size_t pitch, int value, size_t width, size_t height);
hipError_t hipMemset2DAsync_spt(void *dst, size_t pitch, int value, size_t width, size_t height,
                                hipStream_t stream);
hipError_t hipMemset3D_spt(hipPitchedPtr dst, int value, hipExtent extent);
hipError_t hipMemset3DAsync_spt(hipPitchedPtr dst, int value, hipExtent extent, hipStream_t stream);
hipError_t hipMemcpyToSymbol_spt(const void *symbol, const void *src, size_t bytes, size_t offset,
                                 hipMemcpyKind kind);
hipError_t hipMemcpyFromSymbol_spt(void *dst, const void *symbol, size_t bytes, size_t offset, hipMemcpyKind kind);
hipError_t hipMemcpyToSymbolAsync_spt(const void *symbol, const void *src, size_t bytes, size_t offset,
                                      hipMemcpyKind kind, hipStream_t stream);
hipError_t hipMemcpyFromSymbolAsync_spt(void *dst, const void *symbol, size_t bytes, size_t offset,
                                        hipMemcpyKind kind, hipStream_t stream);
hipError_t hipMemcpyFromArray_spt(void *dst, hipArray_const_t src, size_t x, size_t y, size_t bytes,
                                  hipMemcpyKind kind);
hipError_t hipMemcpy2DToArrayAsync_spt(hipArray_t dst, size_t x, size_t y, const void *src, size_t srcPitch,
                                       size_t width, size_t height, hipMemcpyKind kind, hipStream_t stream);
hipError_t hipMemcpy2DFromArrayAsync_spt(void *dst, size_t dstPitch, hipArray_const_t src, size_t x, size_t y,
                                         size_t width, size_t height, hipMemcpyKind kind, hipStream_t stream);
hipError_t hipMemcpy2DToArray_spt(hipArray_t dst, size_t x, size_t y, const void *src, size_t srcPitch,
                                  size_t width, size_t height, hipMemcpyKind kind);
hipError_t hipMemcpy2DFromArray_spt(void *dst, size_t dstPitch, hipArray_const_t src, size_t x, size_t y,
                                    size_t width, size_t height, hipMemcpyKind kind);
hipError_t hipStreamQuery_spt(hipStream_t stream);
hipError_t hipStreamSynchronize_spt(hipStream_t stream);
hipError_t hipStreamGetFlags_spt(hipStream_t stream, unsigned int *flags);
hipError_t hipStreamGetPriority_spt(hipStream_t stream, int *priority);
hipError_t hipStreamWaitEvent_spt(hipStream_t stream, hipEvent_t event, unsigned int flags);
hipError_t hipStreamAddCallback_spt(hipStream_t stream, hipStreamCallback_t callback, void *userData,
                                    unsigned int flags);
hipError_t hipLaunchHostFunc_spt(hipStream_t stream, hipHostFn_t function, void *userData);
hipError_t hipEventRecord_spt(hipEvent_t event, hipStream_t stream);
hipError_t hipStreamBeginCapture_spt(hipStream_t stream, hipStreamCaptureMode mode);
hipError_t hipStreamEndCapture_spt(hipStream_t stream, hipGraph_t *graph);
hipError_t hipStreamIsCapturing_spt(hipStream_t stream, hipStreamCaptureStatus *status);
hipError_t hipStreamGetCaptureInfo_spt(hipStream_t stream, hipStreamCaptureStatus *status, unsigned long long *id);
hipError_t hipStreamGetCaptureInfo_v2_spt(hipStream_t stream, hipStreamCaptureStatus *status,
                                          unsigned long long *id, hipGraph_t *graph,
                                          const hipGraphNode_t **dependencies, size_t *count);
hipError_t hipGraphLaunch_spt(hipGraphExec_t executable, hipStream_t stream);
hipError_t hipLaunchKernel_spt(const void *function, dim3 grid, dim3 block, void **arguments, size_t sharedBytes,
                               hipStream_t stream);
hipError_t hipLaunchCooperativeKernel_spt(const void *function, dim3 grid, dim3 block, void **arguments,
                                          uint32_t sharedBytes, hipStream_t stream);
hipError_t hipGetDriverEntryPoint_spt(const char *symbol, void **function, unsigned long long flags,
                                      hipDriverEntryPointQueryResult *result);

#ifdef __cplusplus
}

/* Typed variants, which take the address of a pointer of any type. */
template <class T> static inline hipError_t hipMalloc(T **ptr, size_t bytes)
{
    return hipMalloc(reinterpret_cast<void **>(ptr), bytes);
}

template <class T>
static inline hipError_t hipHostMalloc(T **ptr, size_t bytes, unsigned int flags = hipHostMallocDefault)
{
    return hipHostMalloc(reinterpret_cast<void **>(ptr), bytes, flags);
}

template <class T>
static inline hipError_t hipHostAlloc(T **ptr, size_t bytes, unsigned int flags = hipHostAllocDefault)
{
    return hipHostAlloc(reinterpret_cast<void **>(ptr), bytes, flags);
}

template <class T>
static inline hipError_t hipMallocManaged(T **ptr, size_t bytes, unsigned int flags = hipMemAttachGlobal)
{
    return hipMallocManaged(reinterpret_cast<void **>(ptr), bytes, flags);
}

template <class T> static inline hipError_t hipMallocAsync(T **ptr, size_t bytes, hipStream_t stream)
{
    return hipMallocAsync(reinterpret_cast<void **>(ptr), bytes, stream);
}

template <class T>
static inline hipError_t hipMallocAsync(T **ptr, size_t bytes, hipMemPool_t pool, hipStream_t stream)
{
    return hipMallocFromPoolAsync(reinterpret_cast<void **>(ptr), bytes, pool, stream);
}

template <class T>
static inline hipError_t hipMallocFromPoolAsync(T **ptr, size_t bytes, hipMemPool_t pool, hipStream_t stream)
{
    return hipMallocFromPoolAsync(reinterpret_cast<void **>(ptr), bytes, pool, stream);
}

template <class T> static inline hipError_t hipMallocPitch(T **ptr, size_t *pitch, size_t width, size_t height)
{
    return hipMallocPitch(reinterpret_cast<void **>(ptr), pitch, width, height);
}
#endif

#endif

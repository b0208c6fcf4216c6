/*
 * proc.c - implements cuGetProcAddress(), which looks up functions by name.
 *
 * The caller passes a name and the CUDA version for which it was built. The result is the newest variant of the
 * function that this CUDA version has. Variants from before CUDA 4 are left out, because no program asks for them
 * any more. So most names have one entry in the table; names whose parameters changed in CUDA 11 to 13 have two.
 */
#include "cuda/names.h"

#include <string.h>

/* X(name, function, CUDA version since which the name has stood for this function). For a function that uses a
 * default stream, the variant for the per-thread default stream follows the function. */
// clang-format off
#define PLAIN_NAMES(X) \
    X(cuArray3DCreate, cuArray3DCreate_v2, 2000) \
    X(cuArray3DGetDescriptor, cuArray3DGetDescriptor_v2, 2000) \
    X(cuArrayCreate, cuArrayCreate_v2, 2000) \
    X(cuArrayDestroy, cuArrayDestroy, 2000) \
    X(cuArrayGetDescriptor, cuArrayGetDescriptor_v2, 2000) \
    X(cuCtxCreate, cuCtxCreate_v2, 2000) \
    X(cuCtxCreate, cuCtxCreate_v3, 11040) \
    X(cuCtxCreate, cuCtxCreate_v4, 12050) \
    X(cuCtxDestroy, cuCtxDestroy_v2, 2000) \
    X(cuCtxDisablePeerAccess, cuCtxDisablePeerAccess, 2000) \
    X(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, 2000) \
    X(cuCtxGetApiVersion, cuCtxGetApiVersion, 2000) \
    X(cuCtxGetCacheConfig, cuCtxGetCacheConfig, 2000) \
    X(cuCtxGetCurrent, cuCtxGetCurrent, 2000) \
    X(cuCtxGetDevice, cuCtxGetDevice, 2000) \
    X(cuCtxGetDevice, cuCtxGetDevice_v2, 13000) \
    X(cuCtxGetFlags, cuCtxGetFlags, 2000) \
    X(cuCtxGetId, cuCtxGetId, 2000) \
    X(cuCtxGetLimit, cuCtxGetLimit, 2000) \
    X(cuCtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange, 2000) \
    X(cuCtxPopCurrent, cuCtxPopCurrent_v2, 2000) \
    X(cuCtxPushCurrent, cuCtxPushCurrent_v2, 2000) \
    X(cuCtxSetCacheConfig, cuCtxSetCacheConfig, 2000) \
    X(cuCtxSetCurrent, cuCtxSetCurrent, 2000) \
    X(cuCtxSetFlags, cuCtxSetFlags, 2000) \
    X(cuCtxSetLimit, cuCtxSetLimit, 2000) \
    X(cuCtxSynchronize, cuCtxSynchronize, 2000) \
    X(cuCtxSynchronize, cuCtxSynchronize_v2, 13000) \
    X(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer, 2000) \
    X(cuDeviceComputeCapability, cuDeviceComputeCapability, 2000) \
    X(cuDeviceGet, cuDeviceGet, 2000) \
    X(cuDeviceGetAttribute, cuDeviceGetAttribute, 2000) \
    X(cuDeviceGetByPCIBusId, cuDeviceGetByPCIBusId, 2000) \
    X(cuDeviceGetCount, cuDeviceGetCount, 2000) \
    X(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, 2000) \
    X(cuDeviceGetMemPool, cuDeviceGetMemPool, 2000) \
    X(cuDeviceGetName, cuDeviceGetName, 2000) \
    X(cuDeviceGetP2PAttribute, cuDeviceGetP2PAttribute, 2000) \
    X(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, 2000) \
    X(cuDeviceGetProperties, cuDeviceGetProperties, 2000) \
    X(cuDeviceGetUuid, cuDeviceGetUuid, 2000) \
    X(cuDeviceGetUuid, cuDeviceGetUuid_v2, 11040) \
    X(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, 2000) \
    X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, 2000) \
    X(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, 2000) \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 2000) \
    X(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2, 2000) \
    X(cuDeviceSetMemPool, cuDeviceSetMemPool, 2000) \
    X(cuDeviceTotalMem, cuDeviceTotalMem_v2, 2000) \
    X(cuDriverGetVersion, cuDriverGetVersion, 2000) \
    X(cuEventCreate, cuEventCreate, 2000) \
    X(cuEventDestroy, cuEventDestroy_v2, 2000) \
    X(cuEventElapsedTime, cuEventElapsedTime, 2000) \
    X(cuEventElapsedTime, cuEventElapsedTime_v2, 12080) \
    X(cuEventQuery, cuEventQuery, 2000) \
    X(cuEventSynchronize, cuEventSynchronize, 2000) \
    X(cuFuncGetAttribute, cuFuncGetAttribute, 2000) \
    X(cuFuncGetModule, cuFuncGetModule, 2000) \
    X(cuFuncLoad, cuFuncLoad, 2000) \
    X(cuFuncSetAttribute, cuFuncSetAttribute, 2000) \
    X(cuFuncSetCacheConfig, cuFuncSetCacheConfig, 2000) \
    X(cuFuncGetName, cuFuncGetName, 12030) \
    X(cuFuncIsLoaded, cuFuncIsLoaded, 12040) \
    X(cuModuleGetLoadingMode, cuModuleGetLoadingMode, 11070) \
    X(cuLibraryLoadData, cuLibraryLoadData, 12000) \
    X(cuLibraryLoadFromFile, cuLibraryLoadFromFile, 12000) \
    X(cuLibraryUnload, cuLibraryUnload, 12000) \
    X(cuLibraryGetKernel, cuLibraryGetKernel, 12000) \
    X(cuLibraryGetKernelCount, cuLibraryGetKernelCount, 12040) \
    X(cuLibraryEnumerateKernels, cuLibraryEnumerateKernels, 12040) \
    X(cuLibraryGetModule, cuLibraryGetModule, 12000) \
    X(cuLibraryGetGlobal, cuLibraryGetGlobal, 12000) \
    X(cuLibraryGetManaged, cuLibraryGetManaged, 12000) \
    X(cuLibraryGetUnifiedFunction, cuLibraryGetUnifiedFunction, 12000) \
    X(cuKernelGetFunction, cuKernelGetFunction, 12000) \
    X(cuKernelGetLibrary, cuKernelGetLibrary, 12050) \
    X(cuKernelGetName, cuKernelGetName, 12030) \
    X(cuKernelGetAttribute, cuKernelGetAttribute, 12000) \
    X(cuKernelSetAttribute, cuKernelSetAttribute, 12000) \
    X(cuKernelSetCacheConfig, cuKernelSetCacheConfig, 12000) \
    X(cuMemGetMemPool, cuMemGetMemPool, 13000) \
    X(cuMemSetMemPool, cuMemSetMemPool, 13000) \
    X(cuMemGetDefaultMemPool, cuMemGetDefaultMemPool, 13000) \
    X(cuGetErrorName, cuGetErrorName, 2000) \
    X(cuGetErrorString, cuGetErrorString, 2000) \
    X(cuGetProcAddress, cuGetProcAddress, 11030) \
    X(cuGetProcAddress, cuGetProcAddress_v2, 12000) \
    X(cuInit, cuInit, 2000) \
    X(cuIpcCloseMemHandle, cuIpcCloseMemHandle, 2000) \
    X(cuIpcGetEventHandle, cuIpcGetEventHandle, 2000) \
    X(cuIpcGetMemHandle, cuIpcGetMemHandle, 2000) \
    X(cuIpcOpenEventHandle, cuIpcOpenEventHandle, 2000) \
    X(cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, 2000) \
    X(cuMemAddressFree, cuMemAddressFree, 2000) \
    X(cuMemAddressReserve, cuMemAddressReserve, 2000) \
    X(cuMemAdvise, cuMemAdvise, 2000) \
    X(cuMemAdvise, cuMemAdvise_v2, 12020) \
    X(cuMemAlloc, cuMemAlloc_v2, 2000) \
    X(cuMemAllocHost, cuMemAllocHost_v2, 2000) \
    X(cuMemAllocManaged, cuMemAllocManaged, 2000) \
    X(cuMemAllocPitch, cuMemAllocPitch_v2, 2000) \
    X(cuMemCreate, cuMemCreate, 2000) \
    X(cuMemExportToShareableHandle, cuMemExportToShareableHandle, 2000) \
    X(cuMemFree, cuMemFree_v2, 2000) \
    X(cuMemFreeHost, cuMemFreeHost, 2000) \
    X(cuMemGetAccess, cuMemGetAccess, 2000) \
    X(cuMemGetAddressRange, cuMemGetAddressRange_v2, 2000) \
    X(cuMemGetAllocationGranularity, cuMemGetAllocationGranularity, 2000) \
    X(cuMemGetAllocationPropertiesFromHandle, cuMemGetAllocationPropertiesFromHandle, 2000) \
    X(cuMemGetInfo, cuMemGetInfo_v2, 2000) \
    X(cuMemHostAlloc, cuMemHostAlloc, 2000) \
    X(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, 2000) \
    X(cuMemHostGetFlags, cuMemHostGetFlags, 2000) \
    X(cuMemHostRegister, cuMemHostRegister_v2, 2000) \
    X(cuMemHostUnregister, cuMemHostUnregister, 2000) \
    X(cuMemImportFromShareableHandle, cuMemImportFromShareableHandle, 2000) \
    X(cuMemMap, cuMemMap, 2000) \
    X(cuMemPoolCreate, cuMemPoolCreate, 2000) \
    X(cuMemPoolDestroy, cuMemPoolDestroy, 2000) \
    X(cuMemPoolExportPointer, cuMemPoolExportPointer, 2000) \
    X(cuMemPoolExportToShareableHandle, cuMemPoolExportToShareableHandle, 2000) \
    X(cuMemPoolGetAccess, cuMemPoolGetAccess, 2000) \
    X(cuMemPoolGetAttribute, cuMemPoolGetAttribute, 2000) \
    X(cuMemPoolImportFromShareableHandle, cuMemPoolImportFromShareableHandle, 2000) \
    X(cuMemPoolImportPointer, cuMemPoolImportPointer, 2000) \
    X(cuMemPoolSetAccess, cuMemPoolSetAccess, 2000) \
    X(cuMemPoolSetAttribute, cuMemPoolSetAttribute, 2000) \
    X(cuMemPoolTrimTo, cuMemPoolTrimTo, 2000) \
    X(cuMemRangeGetAttribute, cuMemRangeGetAttribute, 2000) \
    X(cuMemRangeGetAttributes, cuMemRangeGetAttributes, 2000) \
    X(cuMemRelease, cuMemRelease, 2000) \
    X(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, 2000) \
    X(cuMemSetAccess, cuMemSetAccess, 2000) \
    X(cuMemUnmap, cuMemUnmap, 2000) \
    X(cuModuleGetFunction, cuModuleGetFunction, 2000) \
    X(cuModuleGetGlobal, cuModuleGetGlobal_v2, 2000) \
    X(cuModuleLoad, cuModuleLoad, 2000) \
    X(cuModuleLoadData, cuModuleLoadData, 2000) \
    X(cuModuleLoadDataEx, cuModuleLoadDataEx, 2000) \
    X(cuModuleLoadFatBinary, cuModuleLoadFatBinary, 2000) \
    X(cuModuleUnload, cuModuleUnload, 2000) \
    X(cuPointerGetAttribute, cuPointerGetAttribute, 2000) \
    X(cuPointerGetAttributes, cuPointerGetAttributes, 2000) \
    X(cuPointerSetAttribute, cuPointerSetAttribute, 2000) \
    X(cuStreamCreate, cuStreamCreate, 2000) \
    X(cuStreamCreateWithPriority, cuStreamCreateWithPriority, 2000) \
    X(cuStreamDestroy, cuStreamDestroy_v2, 2000) \
    X(cuMemGetHandleForAddressRange, cuMemGetHandleForAddressRange, 2000) \
    X(cuArrayGetPlane, cuArrayGetPlane, 2000) \
    X(cuArrayGetMemoryRequirements, cuArrayGetMemoryRequirements, 2000) \
    X(cuArrayGetSparseProperties, cuArrayGetSparseProperties, 2000) \
    X(cuMipmappedArrayCreate, cuMipmappedArrayCreate, 2000) \
    X(cuMipmappedArrayDestroy, cuMipmappedArrayDestroy, 2000) \
    X(cuMipmappedArrayGetLevel, cuMipmappedArrayGetLevel, 2000) \
    X(cuCtxGetSharedMemConfig, cuCtxGetSharedMemConfig, 2000) \
    X(cuCtxSetSharedMemConfig, cuCtxSetSharedMemConfig, 2000) \
    X(cuCtxResetPersistingL2Cache, cuCtxResetPersistingL2Cache, 2000) \
    X(cuOccupancyAvailableDynamicSMemPerBlock, cuOccupancyAvailableDynamicSMemPerBlock, 2000) \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxActiveBlocksPerMultiprocessor, 2000) \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 2000) \
    X(cuOccupancyMaxPotentialBlockSize, cuOccupancyMaxPotentialBlockSize, 2000) \
    X(cuOccupancyMaxPotentialBlockSizeWithFlags, cuOccupancyMaxPotentialBlockSizeWithFlags, 2000) \
    X(cuDeviceGetGraphMemAttribute, cuDeviceGetGraphMemAttribute, 2000) \
    X(cuDeviceGraphMemTrim, cuDeviceGraphMemTrim, 2000) \
    X(cuDeviceSetGraphMemAttribute, cuDeviceSetGraphMemAttribute, 2000) \
    X(cuGraphAddBatchMemOpNode, cuGraphAddBatchMemOpNode, 2000) \
    X(cuGraphAddChildGraphNode, cuGraphAddChildGraphNode, 2000) \
    X(cuGraphAddEmptyNode, cuGraphAddEmptyNode, 2000) \
    X(cuGraphAddEventRecordNode, cuGraphAddEventRecordNode, 2000) \
    X(cuGraphAddEventWaitNode, cuGraphAddEventWaitNode, 2000) \
    X(cuGraphAddExternalSemaphoresSignalNode, cuGraphAddExternalSemaphoresSignalNode, 2000) \
    X(cuGraphAddExternalSemaphoresWaitNode, cuGraphAddExternalSemaphoresWaitNode, 2000) \
    X(cuGraphAddHostNode, cuGraphAddHostNode, 2000) \
    X(cuGraphAddMemAllocNode, cuGraphAddMemAllocNode, 2000) \
    X(cuGraphAddMemFreeNode, cuGraphAddMemFreeNode, 2000) \
    X(cuGraphAddMemcpyNode, cuGraphAddMemcpyNode, 2000) \
    X(cuGraphAddMemsetNode, cuGraphAddMemsetNode, 2000) \
    X(cuGraphBatchMemOpNodeGetParams, cuGraphBatchMemOpNodeGetParams, 2000) \
    X(cuGraphBatchMemOpNodeSetParams, cuGraphBatchMemOpNodeSetParams, 2000) \
    X(cuGraphChildGraphNodeGetGraph, cuGraphChildGraphNodeGetGraph, 2000) \
    X(cuGraphClone, cuGraphClone, 2000) \
    X(cuGraphConditionalHandleCreate, cuGraphConditionalHandleCreate, 2000) \
    X(cuGraphDebugDotPrint, cuGraphDebugDotPrint, 2000) \
    X(cuGraphDestroyNode, cuGraphDestroyNode, 2000) \
    X(cuGraphEventRecordNodeGetEvent, cuGraphEventRecordNodeGetEvent, 2000) \
    X(cuGraphEventRecordNodeSetEvent, cuGraphEventRecordNodeSetEvent, 2000) \
    X(cuGraphEventWaitNodeGetEvent, cuGraphEventWaitNodeGetEvent, 2000) \
    X(cuGraphEventWaitNodeSetEvent, cuGraphEventWaitNodeSetEvent, 2000) \
    X(cuGraphExecBatchMemOpNodeSetParams, cuGraphExecBatchMemOpNodeSetParams, 2000) \
    X(cuGraphExecChildGraphNodeSetParams, cuGraphExecChildGraphNodeSetParams, 2000) \
    X(cuGraphExecEventRecordNodeSetEvent, cuGraphExecEventRecordNodeSetEvent, 2000) \
    X(cuGraphExecEventWaitNodeSetEvent, cuGraphExecEventWaitNodeSetEvent, 2000) \
    X(cuGraphExecExternalSemaphoresSignalNodeSetParams, cuGraphExecExternalSemaphoresSignalNodeSetParams, 2000) \
    X(cuGraphExecExternalSemaphoresWaitNodeSetParams, cuGraphExecExternalSemaphoresWaitNodeSetParams, 2000) \
    X(cuGraphExecGetFlags, cuGraphExecGetFlags, 2000) \
    X(cuGraphExecHostNodeSetParams, cuGraphExecHostNodeSetParams, 2000) \
    X(cuGraphExecMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams, 2000) \
    X(cuGraphExecMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams, 2000) \
    X(cuGraphExecNodeSetParams, cuGraphExecNodeSetParams, 2000) \
    X(cuGraphExternalSemaphoresSignalNodeGetParams, cuGraphExternalSemaphoresSignalNodeGetParams, 2000) \
    X(cuGraphExternalSemaphoresSignalNodeSetParams, cuGraphExternalSemaphoresSignalNodeSetParams, 2000) \
    X(cuGraphExternalSemaphoresWaitNodeGetParams, cuGraphExternalSemaphoresWaitNodeGetParams, 2000) \
    X(cuGraphExternalSemaphoresWaitNodeSetParams, cuGraphExternalSemaphoresWaitNodeSetParams, 2000) \
    X(cuGraphHostNodeGetParams, cuGraphHostNodeGetParams, 2000) \
    X(cuGraphHostNodeSetParams, cuGraphHostNodeSetParams, 2000) \
    X(cuGraphKernelNodeCopyAttributes, cuGraphKernelNodeCopyAttributes, 2000) \
    X(cuGraphKernelNodeGetAttribute, cuGraphKernelNodeGetAttribute, 2000) \
    X(cuGraphKernelNodeSetAttribute, cuGraphKernelNodeSetAttribute, 2000) \
    X(cuGraphMemAllocNodeGetParams, cuGraphMemAllocNodeGetParams, 2000) \
    X(cuGraphMemFreeNodeGetParams, cuGraphMemFreeNodeGetParams, 2000) \
    X(cuGraphMemcpyNodeGetParams, cuGraphMemcpyNodeGetParams, 2000) \
    X(cuGraphMemcpyNodeSetParams, cuGraphMemcpyNodeSetParams, 2000) \
    X(cuGraphMemsetNodeGetParams, cuGraphMemsetNodeGetParams, 2000) \
    X(cuGraphMemsetNodeSetParams, cuGraphMemsetNodeSetParams, 2000) \
    X(cuGraphNodeFindInClone, cuGraphNodeFindInClone, 2000) \
    X(cuGraphNodeGetEnabled, cuGraphNodeGetEnabled, 2000) \
    X(cuGraphNodeSetEnabled, cuGraphNodeSetEnabled, 2000) \
    X(cuGraphNodeSetParams, cuGraphNodeSetParams, 2000) \
    X(cuGraphReleaseUserObject, cuGraphReleaseUserObject, 2000) \
    X(cuGraphRetainUserObject, cuGraphRetainUserObject, 2000) \
    X(cuUserObjectCreate, cuUserObjectCreate, 2000) \
    X(cuUserObjectRelease, cuUserObjectRelease, 2000) \
    X(cuUserObjectRetain, cuUserObjectRetain, 2000) \
    X(cuGraphAddKernelNode, cuGraphAddKernelNode, 2000) \
    X(cuGraphAddKernelNode, cuGraphAddKernelNode_v2, 12000) \
    X(cuGraphKernelNodeGetParams, cuGraphKernelNodeGetParams, 2000) \
    X(cuGraphKernelNodeGetParams, cuGraphKernelNodeGetParams_v2, 12000) \
    X(cuGraphKernelNodeSetParams, cuGraphKernelNodeSetParams, 2000) \
    X(cuGraphKernelNodeSetParams, cuGraphKernelNodeSetParams_v2, 12000) \
    X(cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams, 2000) \
    X(cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams_v2, 12000) \
    X(cuGraphExecUpdate, cuGraphExecUpdate, 2000) \
    X(cuGraphExecUpdate, cuGraphExecUpdate_v2, 12000) \
    X(cuGraphGetEdges, cuGraphGetEdges, 2000) \
    X(cuGraphGetEdges, cuGraphGetEdges_v2, 12030) \
    X(cuGraphNodeGetDependencies, cuGraphNodeGetDependencies, 2000) \
    X(cuGraphNodeGetDependencies, cuGraphNodeGetDependencies_v2, 12030) \
    X(cuGraphNodeGetDependentNodes, cuGraphNodeGetDependentNodes, 2000) \
    X(cuGraphNodeGetDependentNodes, cuGraphNodeGetDependentNodes_v2, 12030) \
    X(cuGraphAddDependencies, cuGraphAddDependencies, 2000) \
    X(cuGraphAddDependencies, cuGraphAddDependencies_v2, 12030) \
    X(cuGraphRemoveDependencies, cuGraphRemoveDependencies, 2000) \
    X(cuGraphRemoveDependencies, cuGraphRemoveDependencies_v2, 12030) \
    X(cuGraphAddNode, cuGraphAddNode, 2000) \
    X(cuGraphAddNode, cuGraphAddNode_v2, 12030) \
    X(cuGraphInstantiate, cuGraphInstantiate_v2, 2000) \
    X(cuGraphCreate, cuGraphCreate, 2000) \
    X(cuGraphDestroy, cuGraphDestroy, 2000) \
    X(cuGraphExecDestroy, cuGraphExecDestroy, 2000) \
    X(cuGraphGetNodes, cuGraphGetNodes, 2000) \
    X(cuGraphGetRootNodes, cuGraphGetRootNodes, 2000) \
    X(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 2000) \
    X(cuGraphNodeGetType, cuGraphNodeGetType, 2000) \
    X(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, 2000)
#define STREAM_NAMES(X) \
    X(cuEventRecord, cuEventRecord, cuEventRecord_ptsz, 2000) \
    X(cuEventRecordWithFlags, cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz, 2000) \
    X(cuGraphLaunch, cuGraphLaunch, cuGraphLaunch_ptsz, 2000) \
    X(cuMemcpyBatchAsync, cuMemcpyBatchAsync, cuMemcpyBatchAsync_ptsz, 2000) \
    X(cuMemcpyBatchAsync, cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync_v2_ptsz, 13000) \
    X(cuStreamCopyAttributes, cuStreamCopyAttributes, cuStreamCopyAttributes_ptsz, 2000) \
    X(cuStreamGetAttribute, cuStreamGetAttribute, cuStreamGetAttribute_ptsz, 2000) \
    X(cuStreamSetAttribute, cuStreamSetAttribute, cuStreamSetAttribute_ptsz, 2000) \
    X(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams, cuGraphInstantiateWithParams_ptsz, 2000) \
    X(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph_ptsz, 2000) \
    X(cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies_ptsz, 2000) \
    X(cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies_v2, cuStreamUpdateCaptureDependencies_v2_ptsz, 12030) \
    X(cuGraphUpload, cuGraphUpload, cuGraphUpload_ptsz, 2000) \
    X(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz, 2000) \
    X(cuLaunchHostFunc, cuLaunchHostFunc, cuLaunchHostFunc_ptsz, 2000) \
    X(cuLaunchHostFunc, cuLaunchHostFunc_v2, cuLaunchHostFunc_v2_ptsz, 13010) \
    X(cuLaunchKernel, cuLaunchKernel, cuLaunchKernel_ptsz, 2000) \
    X(cuLaunchKernelEx, cuLaunchKernelEx, cuLaunchKernelEx_ptsz, 11080) \
    X(cuMemPrefetchBatchAsync, cuMemPrefetchBatchAsync, cuMemPrefetchBatchAsync_ptsz, 13000) \
    X(cuMemDiscardBatchAsync, cuMemDiscardBatchAsync, cuMemDiscardBatchAsync_ptsz, 13000) \
    X(cuMemDiscardAndPrefetchBatchAsync, cuMemDiscardAndPrefetchBatchAsync, cuMemDiscardAndPrefetchBatchAsync_ptsz, 13000) \
    X(cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync_ptsz, 12080) \
    X(cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync_v2, cuMemcpy3DBatchAsync_v2_ptsz, 13000) \
    X(cuMemcpyWithAttributesAsync, cuMemcpyWithAttributesAsync, cuMemcpyWithAttributesAsync_ptsz, 13020) \
    X(cuMemcpy3DWithAttributesAsync, cuMemcpy3DWithAttributesAsync, cuMemcpy3DWithAttributesAsync_ptsz, 13020) \
    X(cuMemAllocAsync, cuMemAllocAsync, cuMemAllocAsync_ptsz, 2000) \
    X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz, 2000) \
    X(cuMemFreeAsync, cuMemFreeAsync, cuMemFreeAsync_ptsz, 2000) \
    X(cuMemPrefetchAsync, cuMemPrefetchAsync, cuMemPrefetchAsync_ptsz, 2000) \
    X(cuMemPrefetchAsync, cuMemPrefetchAsync_v2, cuMemPrefetchAsync_v2_ptsz, 12020) \
    X(cuMemcpy, cuMemcpy, cuMemcpy_ptds, 2000) \
    X(cuMemcpy2D, cuMemcpy2D_v2, cuMemcpy2D_v2_ptds, 2000) \
    X(cuMemcpy2DAsync, cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz, 2000) \
    X(cuMemcpy2DUnaligned, cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds, 2000) \
    X(cuMemcpy3D, cuMemcpy3D_v2, cuMemcpy3D_v2_ptds, 2000) \
    X(cuMemcpy3DAsync, cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz, 2000) \
    X(cuMemcpy3DPeer, cuMemcpy3DPeer, cuMemcpy3DPeer_ptds, 2000) \
    X(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz, 2000) \
    X(cuMemcpyAsync, cuMemcpyAsync, cuMemcpyAsync_ptsz, 2000) \
    X(cuMemcpyAtoA, cuMemcpyAtoA_v2, cuMemcpyAtoA_v2_ptds, 2000) \
    X(cuMemcpyAtoD, cuMemcpyAtoD_v2, cuMemcpyAtoD_v2_ptds, 2000) \
    X(cuMemcpyAtoH, cuMemcpyAtoH_v2, cuMemcpyAtoH_v2_ptds, 2000) \
    X(cuMemcpyAtoHAsync, cuMemcpyAtoHAsync_v2, cuMemcpyAtoHAsync_v2_ptsz, 2000) \
    X(cuMemcpyDtoA, cuMemcpyDtoA_v2, cuMemcpyDtoA_v2_ptds, 2000) \
    X(cuMemcpyDtoD, cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds, 2000) \
    X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz, 2000) \
    X(cuMemcpyDtoH, cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds, 2000) \
    X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz, 2000) \
    X(cuMemcpyHtoA, cuMemcpyHtoA_v2, cuMemcpyHtoA_v2_ptds, 2000) \
    X(cuMemcpyHtoAAsync, cuMemcpyHtoAAsync_v2, cuMemcpyHtoAAsync_v2_ptsz, 2000) \
    X(cuMemcpyHtoD, cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds, 2000) \
    X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz, 2000) \
    X(cuMemcpyPeer, cuMemcpyPeer, cuMemcpyPeer_ptds, 2000) \
    X(cuMemcpyPeerAsync, cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz, 2000) \
    X(cuMemsetD16, cuMemsetD16_v2, cuMemsetD16_v2_ptds, 2000) \
    X(cuMemsetD16Async, cuMemsetD16Async, cuMemsetD16Async_ptsz, 2000) \
    X(cuMemsetD2D16, cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds, 2000) \
    X(cuMemsetD2D16Async, cuMemsetD2D16Async, cuMemsetD2D16Async_ptsz, 2000) \
    X(cuMemsetD2D32, cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds, 2000) \
    X(cuMemsetD2D32Async, cuMemsetD2D32Async, cuMemsetD2D32Async_ptsz, 2000) \
    X(cuMemsetD2D8, cuMemsetD2D8_v2, cuMemsetD2D8_v2_ptds, 2000) \
    X(cuMemsetD2D8Async, cuMemsetD2D8Async, cuMemsetD2D8Async_ptsz, 2000) \
    X(cuMemsetD32, cuMemsetD32_v2, cuMemsetD32_v2_ptds, 2000) \
    X(cuMemsetD32Async, cuMemsetD32Async, cuMemsetD32Async_ptsz, 2000) \
    X(cuMemsetD8, cuMemsetD8_v2, cuMemsetD8_v2_ptds, 2000) \
    X(cuMemsetD8Async, cuMemsetD8Async, cuMemsetD8Async_ptsz, 2000) \
    X(cuStreamAddCallback, cuStreamAddCallback, cuStreamAddCallback_ptsz, 2000) \
    X(cuStreamAttachMemAsync, cuStreamAttachMemAsync, cuStreamAttachMemAsync_ptsz, 2000) \
    X(cuStreamBatchMemOp, cuStreamBatchMemOp_v2, cuStreamBatchMemOp_v2_ptsz, 2000) \
    X(cuStreamBeginCapture, cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz, 2000) \
    X(cuStreamEndCapture, cuStreamEndCapture, cuStreamEndCapture_ptsz, 2000) \
    X(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo_v2_ptsz, 11030) \
    X(cuStreamGetCaptureInfo, leatcu_capture_info_v1, leatcu_capture_info_v1_ptsz, 10010) \
    X(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo_v3_ptsz, 12030) \
    X(cuStreamGetCtx, cuStreamGetCtx, cuStreamGetCtx_ptsz, 2000) \
    X(cuStreamGetCtx, cuStreamGetCtx_v2, cuStreamGetCtx_v2_ptsz, 12050) \
    X(cuStreamGetDevice, cuStreamGetDevice, cuStreamGetDevice_ptsz, 2000) \
    X(cuStreamGetFlags, cuStreamGetFlags, cuStreamGetFlags_ptsz, 2000) \
    X(cuStreamGetId, cuStreamGetId, cuStreamGetId_ptsz, 2000) \
    X(cuStreamGetPriority, cuStreamGetPriority, cuStreamGetPriority_ptsz, 2000) \
    X(cuStreamIsCapturing, cuStreamIsCapturing, cuStreamIsCapturing_ptsz, 2000) \
    X(cuStreamQuery, cuStreamQuery, cuStreamQuery_ptsz, 2000) \
    X(cuStreamSynchronize, cuStreamSynchronize, cuStreamSynchronize_ptsz, 2000) \
    X(cuStreamWaitEvent, cuStreamWaitEvent, cuStreamWaitEvent_ptsz, 2000) \
    X(cuStreamWaitValue32, cuStreamWaitValue32_v2, cuStreamWaitValue32_v2_ptsz, 2000) \
    X(cuStreamWaitValue64, cuStreamWaitValue64_v2, cuStreamWaitValue64_v2_ptsz, 2000) \
    X(cuStreamWriteValue32, cuStreamWriteValue32_v2, cuStreamWriteValue32_v2_ptsz, 2000) \
    X(cuStreamWriteValue64, cuStreamWriteValue64_v2, cuStreamWriteValue64_v2_ptsz, 2000)
// clang-format on

struct entry {
    const char *name;
    void (*function)(void);
    void (*per_thread)(void);
    int since;
};

static const struct entry entries[] = {
#define PLAIN_ENTRY(name, function, since) {#name, (void (*)(void))function, (void (*)(void))function, since},
#define STREAM_ENTRY(name, function, twin, since) {#name, (void (*)(void))function, (void (*)(void))twin, since},
    PLAIN_NAMES(PLAIN_ENTRY) STREAM_NAMES(STREAM_ENTRY)
#undef PLAIN_ENTRY
#undef STREAM_ENTRY
};

/* Returns the newest entry of a name that version already had, or NULL. *known: true if there is any entry of the
 * name. */
static const struct entry *find(const char *name, int version, bool *known)
{
    const struct entry *best = NULL;

    *known = false;
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        if (strcmp(entries[i].name, name))
            continue;
        *known = true;
        if (entries[i].since <= version && (!best || entries[i].since > best->since))
            best = &entries[i];
    }
    return best;
}

CUresult cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *why)
{
    const cuuint64_t known_flags =
        CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    const struct entry *entry;
    bool known;

    CU_CHECK(name && function && !(flags & ~known_flags));
    entry = find(name, version, &known);
    if (why)
        *why = entry   ? CU_GET_PROC_ADDRESS_SUCCESS
               : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                       : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    *function = NULL;
    if (!entry)
        return CUDA_SUCCESS; /* *why says what is missing */
    /* Copy with memcpy(), because ISO C has no cast between function pointers and void *. POSIX guarantees that
     * both have the same representation. */
    if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        memcpy(function, &entry->per_thread, sizeof *function);
    else
        memcpy(function, &entry->function, sizeof *function);
    return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags)
{
    void *found = NULL;

    CU_CHECK(function);
    CU_TRY(cuGetProcAddress_v2(name, &found, version, flags, NULL));
    if (!found)
        return CUDA_ERROR_NOT_FOUND;
    *function = found;
    return CUDA_SUCCESS;
}

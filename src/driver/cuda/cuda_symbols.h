/*
 * cuda_symbols.h - lists all functions that leat loads from libcuda.so.1.
 *
 * X(field, exported name, REQUIRED or OPTIONAL, parameters). All functions return cu_result. The names are exactly
 * the exported names, because cuda.h hides versions behind macros ("cuMemAlloc" is cuMemAlloc_v2), and the
 * exported name without a version is an older function with other parameters. Every driver from CUDA 11.4 to 13
 * has all required functions. leat uses the first version of cuEventElapsedTime, which newer drivers still have.
 */
#ifndef LEATI_CUDA_SYMBOLS_H
#define LEATI_CUDA_SYMBOLS_H

// clang-format off
#define LEATI_CUDA_SYMBOL_LIST(X)                                                                                 \
    X(init, cuInit, REQUIRED, (unsigned int))                                                                     \
    X(version, cuDriverGetVersion, REQUIRED, (int *))                                                      \
    X(error_name, cuGetErrorName, REQUIRED, (cu_result, const char **))                                           \
    X(error_string, cuGetErrorString, REQUIRED, (cu_result, const char **))                                       \
    X(device_count, cuDeviceGetCount, REQUIRED, (int *))                                                          \
    X(device_get, cuDeviceGet, REQUIRED, (cu_device *, int))                                                      \
    X(device_name, cuDeviceGetName, REQUIRED, (char *, int, cu_device))                                           \
    X(device_total_memory, cuDeviceTotalMem_v2, REQUIRED, (size_t *, cu_device))                                  \
    X(device_attribute, cuDeviceGetAttribute, REQUIRED, (int *, cu_device_attribute, cu_device))                  \
    X(device_pci_address, cuDeviceGetPCIBusId, REQUIRED, (char *, int, cu_device))                                \
    X(device_can_access_peer, cuDeviceCanAccessPeer, REQUIRED, (int *, cu_device, cu_device))                     \
    X(primary_context_retain, cuDevicePrimaryCtxRetain, REQUIRED, (cu_context *, cu_device))                      \
    X(primary_context_release, cuDevicePrimaryCtxRelease_v2, REQUIRED, (cu_device))                               \
    X(context_current, cuCtxGetCurrent, REQUIRED, (cu_context *))                                                 \
    X(context_push, cuCtxPushCurrent_v2, REQUIRED, (cu_context))                                                  \
    X(context_pop, cuCtxPopCurrent_v2, REQUIRED, (cu_context *))                                                  \
    X(context_device, cuCtxGetDevice, REQUIRED, (cu_device *))                                                    \
    X(device_synchronize, cuCtxSynchronize, REQUIRED, (void))                                                    \
    X(context_enable_peer, cuCtxEnablePeerAccess, REQUIRED, (cu_context, unsigned int))                           \
    X(mem_info, cuMemGetInfo_v2, REQUIRED, (size_t *, size_t *))                                                  \
    X(mem_alloc, cuMemAlloc_v2, REQUIRED, (cu_deviceptr *, size_t))                                               \
    X(mem_free, cuMemFree_v2, REQUIRED, (cu_deviceptr))                                                           \
    X(mem_alloc_async, cuMemAllocAsync, OPTIONAL, (cu_deviceptr *, size_t, cu_stream))                            \
    X(mem_free_async, cuMemFreeAsync, OPTIONAL, (cu_deviceptr, cu_stream))                                        \
    X(mem_alloc_managed, cuMemAllocManaged, REQUIRED, (cu_deviceptr *, size_t, unsigned int))                     \
    X(prefetch, cuMemPrefetchAsync_v2, OPTIONAL,                                                                  \
      (cu_deviceptr, size_t, cu_mem_location, unsigned int, cu_stream))                                           \
    X(advise, cuMemAdvise_v2, OPTIONAL, (cu_deviceptr, size_t, cu_mem_advice, cu_mem_location))                   \
    X(range_attributes, cuMemRangeGetAttributes, REQUIRED,                                                        \
      (void **, size_t *, cu_range_attribute *, size_t, cu_deviceptr, size_t))                                    \
    X(stream_attach, cuStreamAttachMemAsync, REQUIRED, (cu_stream, cu_deviceptr, size_t, unsigned int))           \
    X(host_alloc, cuMemHostAlloc, REQUIRED, (void **, size_t, unsigned int))                                      \
    X(host_free, cuMemFreeHost, REQUIRED, (void *))                                                               \
    X(host_register, cuMemHostRegister_v2, REQUIRED, (void *, size_t, unsigned int))                              \
    X(host_unregister, cuMemHostUnregister, REQUIRED, (void *))                                                   \
    X(host_device_pointer, cuMemHostGetDevicePointer_v2, REQUIRED, (cu_deviceptr *, void *, unsigned int))        \
    X(pointer_attributes, cuPointerGetAttributes, REQUIRED,                                                       \
      (unsigned int, cu_pointer_attribute *, void **, cu_deviceptr))                                              \
    X(vm_granularity, cuMemGetAllocationGranularity, REQUIRED,                                                    \
      (size_t *, const cu_mem_properties *, cu_granularity_kind))                                                 \
    X(vm_reserve, cuMemAddressReserve, REQUIRED,                                                                  \
      (cu_deviceptr *, size_t, size_t, cu_deviceptr, unsigned long long))                                         \
    X(vm_unreserve, cuMemAddressFree, REQUIRED, (cu_deviceptr, size_t))                                           \
    X(vm_create, cuMemCreate, REQUIRED,                                                                           \
      (cu_mem_handle *, size_t, const cu_mem_properties *, unsigned long long))                                   \
    X(vm_release, cuMemRelease, REQUIRED, (cu_mem_handle))                                                        \
    X(vm_map, cuMemMap, REQUIRED, (cu_deviceptr, size_t, size_t, cu_mem_handle, unsigned long long))              \
    X(vm_unmap, cuMemUnmap, REQUIRED, (cu_deviceptr, size_t))                                                     \
    X(vm_set_access, cuMemSetAccess, REQUIRED, (cu_deviceptr, size_t, const cu_mem_access *, size_t))             \
    X(vm_export, cuMemExportToShareableHandle, REQUIRED,                                                          \
      (void *, cu_mem_handle, cu_handle_type, unsigned long long))                                                \
    X(vm_import, cuMemImportFromShareableHandle, REQUIRED, (cu_mem_handle *, void *, cu_handle_type))             \
    X(copy, cuMemcpyAsync, REQUIRED, (cu_deviceptr, cu_deviceptr, size_t, cu_stream))                             \
    X(copy_in, cuMemcpyHtoDAsync_v2, REQUIRED, (cu_deviceptr, const void *, size_t, cu_stream))                   \
    X(copy_out, cuMemcpyDtoHAsync_v2, REQUIRED, (void *, cu_deviceptr, size_t, cu_stream))                        \
    X(copy_on_device, cuMemcpyDtoDAsync_v2, REQUIRED, (cu_deviceptr, cu_deviceptr, size_t, cu_stream))            \
    X(copy_peer, cuMemcpyPeerAsync, REQUIRED,                                                                     \
      (cu_deviceptr, cu_context, cu_deviceptr, cu_context, size_t, cu_stream))                                    \
    X(copy_region, cuMemcpy3DAsync_v2, REQUIRED, (const cu_region_copy *, cu_stream))                             \
    X(copy_region_peer, cuMemcpy3DPeerAsync, REQUIRED, (const cu_region_copy_peer *, cu_stream))                  \
    X(fill_8, cuMemsetD8Async, REQUIRED, (cu_deviceptr, unsigned char, size_t, cu_stream))                        \
    X(fill_16, cuMemsetD16Async, REQUIRED, (cu_deviceptr, unsigned short, size_t, cu_stream))                     \
    X(fill_32, cuMemsetD32Async, REQUIRED, (cu_deviceptr, unsigned int, size_t, cu_stream))                       \
    X(stream_create, cuStreamCreate, REQUIRED, (cu_stream *, unsigned int))                                       \
    X(stream_destroy, cuStreamDestroy_v2, REQUIRED, (cu_stream))                                                  \
    X(stream_query, cuStreamQuery, REQUIRED, (cu_stream))                                                         \
    X(stream_synchronize, cuStreamSynchronize, REQUIRED, (cu_stream))                                             \
    X(stream_wait, cuStreamWaitEvent, REQUIRED, (cu_stream, cu_event, unsigned int))                              \
    X(stream_mem_ops, cuStreamBatchMemOp_v2, OPTIONAL,                                                            \
      (cu_stream, unsigned int, cu_value_operation *, unsigned int))                                              \
    X(stream_context, cuStreamGetCtx, REQUIRED, (cu_stream, cu_context *))                                        \
    X(capture_mode, cuThreadExchangeStreamCaptureMode, REQUIRED, (unsigned int *))                                \
    X(launch_host, cuLaunchHostFunc, REQUIRED, (cu_stream, cu_host_function, void *))                             \
    X(event_create, cuEventCreate, REQUIRED, (cu_event *, unsigned int))                                          \
    X(event_destroy, cuEventDestroy_v2, REQUIRED, (cu_event))                                                     \
    X(event_record, cuEventRecord, REQUIRED, (cu_event, cu_stream))                                               \
    X(event_query, cuEventQuery, REQUIRED, (cu_event))                                                            \
    X(event_synchronize, cuEventSynchronize, REQUIRED, (cu_event))                                                \
    X(event_elapsed, cuEventElapsedTime, REQUIRED, (float *, cu_event, cu_event))                                 \
    X(module_load, cuModuleLoadDataEx, REQUIRED,                                                                  \
      (cu_module *, const void *, unsigned int, cu_jit_option *, void **))                                        \
    X(module_unload, cuModuleUnload, REQUIRED, (cu_module))                                                       \
    X(module_function, cuModuleGetFunction, REQUIRED, (cu_function *, cu_module, const char *))                   \
    X(function_attribute, cuFuncGetAttribute, REQUIRED, (int *, cu_function_attribute, cu_function))              \
    X(function_set_attribute, cuFuncSetAttribute, REQUIRED, (cu_function, cu_function_attribute, int))            \
    X(function_load, cuFuncLoad, OPTIONAL, (cu_function))                                                         \
    X(function_parameter, cuFuncGetParamInfo, OPTIONAL, (cu_function, size_t, size_t *, size_t *))                \
    X(launch, cuLaunchKernel, REQUIRED,                                                                           \
      (cu_function, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,           \
       unsigned int, cu_stream, void **, void **))

/*
 * First versions of functions that have a second version since CUDA 12.2, for older drivers. Newer headers use the
 * same names for the second versions, so the ABI test cannot compare the types of the first ones. These functions
 * take a device number, -1 for the host.
 */
#define LEATI_CUDA_FIRST_SYMBOL_LIST(X)                                                                           \
    X(prefetch_first, cuMemPrefetchAsync, OPTIONAL, (cu_deviceptr, size_t, cu_device, cu_stream))                 \
    X(advise_first, cuMemAdvise, OPTIONAL, (cu_deviceptr, size_t, cu_mem_advice, cu_device))
// clang-format on

#endif

/*
 * hip_symbols.h - lists all functions that leat loads from libamdhip64.so.
 *
 * X(field, exported name, REQUIRED or OPTIONAL, parameters). All functions return hi_result, except two that
 * return error texts and have their own list. Every library from ROCm 5.2 to 7 has all required functions. Names
 * with an R and a number are newer versions; hip_runtime_api.h hides them behind macros with the plain names. If
 * CUDA has a function with the same effect, both have the same field name (cuda_symbols.h).
 */
#ifndef LEATI_HIP_SYMBOLS_H
#define LEATI_HIP_SYMBOLS_H

// clang-format off
#define LEATI_HIP_TEXT_LIST(X)                                                                                    \
    X(error_name, hipGetErrorName, REQUIRED, (hi_result))                                                        \
    X(error_string, hipGetErrorString, REQUIRED, (hi_result))

#define LEATI_HIP_SYMBOL_LIST(X)                                                                                  \
    X(init, hipInit, REQUIRED, (unsigned int))                                                                    \
    X(version, hipRuntimeGetVersion, REQUIRED, (int *))                                                           \
    X(device_count, hipGetDeviceCount, REQUIRED, (int *))                                                         \
    X(device_current, hipGetDevice, REQUIRED, (int *))                                                            \
    X(device_set, hipSetDevice, REQUIRED, (int))                                                                  \
    X(device_get, hipDeviceGet, REQUIRED, (hi_device *, int))                                                    \
    X(device_name, hipDeviceGetName, REQUIRED, (char *, int, hi_device))                                         \
    X(device_total_memory, hipDeviceTotalMem, REQUIRED, (size_t *, hi_device))                                   \
    X(device_attribute, hipDeviceGetAttribute, REQUIRED, (int *, hi_device_attribute, int))                      \
    X(device_properties_5, hipGetDeviceProperties, OPTIONAL, (hi_properties_5 *, int))                           \
    X(device_properties_6, hipGetDevicePropertiesR0600, OPTIONAL, (hi_properties_6 *, int))                      \
    X(device_pci_address, hipDeviceGetPCIBusId, REQUIRED, (char *, int, int))                                     \
    X(device_can_access_peer, hipDeviceCanAccessPeer, REQUIRED, (int *, int, int))                                \
    X(device_enable_peer, hipDeviceEnablePeerAccess, REQUIRED, (int, unsigned int))                               \
    X(device_synchronize, hipDeviceSynchronize, REQUIRED, (void))                                                 \
    X(primary_context_retain, hipDevicePrimaryCtxRetain, REQUIRED, (hi_context *, hi_device))                   \
    X(primary_context_release, hipDevicePrimaryCtxRelease, REQUIRED, (hi_device))                                \
    X(mem_info, hipMemGetInfo, REQUIRED, (size_t *, size_t *))                                                    \
    X(mem_alloc, hipMalloc, REQUIRED, (void **, size_t))                                                          \
    X(mem_free, hipFree, REQUIRED, (void *))                                                                      \
    X(mem_alloc_async, hipMallocAsync, OPTIONAL, (void **, size_t, hi_stream))                                   \
    X(mem_free_async, hipFreeAsync, OPTIONAL, (void *, hi_stream))                                               \
    X(mem_alloc_managed, hipMallocManaged, REQUIRED, (void **, size_t, unsigned int))                             \
    X(mem_range, hipMemGetAddressRange, REQUIRED, (hi_deviceptr *, size_t *, hi_deviceptr))                     \
    X(host_alloc, hipHostMalloc, REQUIRED, (void **, size_t, unsigned int))                                       \
    X(host_free, hipHostFree, REQUIRED, (void *))                                                                 \
    X(host_register, hipHostRegister, REQUIRED, (void *, size_t, unsigned int))                                   \
    X(host_unregister, hipHostUnregister, REQUIRED, (void *))                                                     \
    X(host_device_pointer, hipHostGetDevicePointer, REQUIRED, (void **, void *, unsigned int))                    \
    X(pointer_attributes, hipPointerGetAttributes, REQUIRED, (hi_pointer_attributes *, const void *))            \
    X(prefetch, hipMemPrefetchAsync, OPTIONAL, (const void *, size_t, int, hi_stream))                            \
    X(advise, hipMemAdvise, OPTIONAL, (const void *, size_t, hi_mem_advice, int))                                 \
    X(range_attributes, hipMemRangeGetAttributes, OPTIONAL,                                                       \
      (void **, size_t *, hi_range_attribute *, size_t, const void *, size_t))                                    \
    X(stream_attach, hipStreamAttachMemAsync, OPTIONAL, (hi_stream, void *, size_t, unsigned int))                \
    X(vm_granularity, hipMemGetAllocationGranularity, OPTIONAL,                                                   \
      (size_t *, const hi_mem_properties *, hi_granularity_kind))                                               \
    X(vm_reserve, hipMemAddressReserve, OPTIONAL, (void **, size_t, size_t, void *, unsigned long long))          \
    X(vm_unreserve, hipMemAddressFree, OPTIONAL, (void *, size_t))                                                \
    X(vm_create, hipMemCreate, OPTIONAL,                                                                          \
      (hi_mem_handle *, size_t, const hi_mem_properties *, unsigned long long))                                 \
    X(vm_release, hipMemRelease, OPTIONAL, (hi_mem_handle))                                                      \
    X(vm_map, hipMemMap, OPTIONAL, (void *, size_t, size_t, hi_mem_handle, unsigned long long))                  \
    X(vm_unmap, hipMemUnmap, OPTIONAL, (void *, size_t))                                                          \
    X(vm_set_access, hipMemSetAccess, OPTIONAL, (void *, size_t, const hi_mem_access *, size_t))                 \
    X(vm_export, hipMemExportToShareableHandle, OPTIONAL,                                                         \
      (void *, hi_mem_handle, hi_handle_type, unsigned long long))                                              \
    X(vm_import, hipMemImportFromShareableHandle, OPTIONAL, (hi_mem_handle *, void *, hi_handle_type))          \
    X(copy, hipMemcpyAsync, REQUIRED, (void *, const void *, size_t, hi_copy_kind, hi_stream))                  \
    X(copy_peer, hipMemcpyPeerAsync, REQUIRED, (void *, int, const void *, int, size_t, hi_stream))              \
    X(copy_region, hipMemcpy3DAsync, REQUIRED, (const hi_region_copy *, hi_stream))                              \
    X(fill_8, hipMemsetD8Async, REQUIRED, (hi_deviceptr, unsigned char, size_t, hi_stream))                     \
    X(fill_16, hipMemsetD16Async, REQUIRED, (hi_deviceptr, unsigned short, size_t, hi_stream))                  \
    X(fill_32, hipMemsetD32Async, REQUIRED, (hi_deviceptr, int, size_t, hi_stream))                             \
    X(stream_create, hipStreamCreateWithFlags, REQUIRED, (hi_stream *, unsigned int))                            \
    X(stream_destroy, hipStreamDestroy, REQUIRED, (hi_stream))                                                   \
    X(stream_query, hipStreamQuery, REQUIRED, (hi_stream))                                                       \
    X(stream_synchronize, hipStreamSynchronize, REQUIRED, (hi_stream))                                           \
    X(stream_wait, hipStreamWaitEvent, REQUIRED, (hi_stream, hi_event, unsigned int))                           \
    X(stream_wait_value, hipStreamWaitValue32, OPTIONAL, (hi_stream, void *, uint32_t, unsigned int, uint32_t))  \
    X(stream_write_value, hipStreamWriteValue32, OPTIONAL, (hi_stream, void *, uint32_t, unsigned int))          \
    X(stream_device, hipStreamGetDevice, OPTIONAL, (hi_stream, hi_device *))                                    \
    X(capture_mode, hipThreadExchangeStreamCaptureMode, OPTIONAL, (unsigned int *))                               \
    X(launch_host, hipLaunchHostFunc, OPTIONAL, (hi_stream, hi_host_function, void *))                          \
    X(stream_callback, hipStreamAddCallback, REQUIRED, (hi_stream, hi_stream_callback, void *, unsigned int))   \
    X(event_create, hipEventCreateWithFlags, REQUIRED, (hi_event *, unsigned int))                               \
    X(event_destroy, hipEventDestroy, REQUIRED, (hi_event))                                                      \
    X(event_record, hipEventRecord, REQUIRED, (hi_event, hi_stream))                                            \
    X(event_query, hipEventQuery, REQUIRED, (hi_event))                                                          \
    X(event_synchronize, hipEventSynchronize, REQUIRED, (hi_event))                                              \
    X(event_elapsed, hipEventElapsedTime, REQUIRED, (float *, hi_event, hi_event))                              \
    X(module_load, hipModuleLoadData, REQUIRED, (hi_module *, const void *))                                     \
    X(module_unload, hipModuleUnload, REQUIRED, (hi_module))                                                     \
    X(module_function, hipModuleGetFunction, REQUIRED, (hi_function *, hi_module, const char *))                \
    X(function_attribute, hipFuncGetAttribute, REQUIRED, (int *, hi_function_attribute, hi_function))           \
    X(launch, hipModuleLaunchKernel, REQUIRED,                                                                    \
      (hi_function, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,          \
       unsigned int, hi_stream, void **, void **))
// clang-format on

#endif

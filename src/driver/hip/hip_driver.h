/*
 * hip_driver.h - defines HIP's types, constants and words for the shared code of the GPU drivers, and declares a
 * function of the HIP driver alone. gpu/gpu_driver.h describes the shared code.
 *
 * This driver has never run on AMD hardware. It was tested only with a fake library (tests/fake/fake_hip.c) and
 * with leat's own libleat-hip.
 *
 * Devices. HIP's calls do not depend on contexts. Each thread has a current device, on which its calls work. leat
 * always restores the thread's device. GPU_TRY checks which device is current. If another device is wanted,
 * GPU_TRY sets this device for one call. A thread that uses only one device pays only for the check.
 *
 * Errors. If a HIP call that leat makes fails, hipGetLastError() in the same thread returns the error, as after a
 * HIP call of the program.
 */
#ifndef LEATI_HIP_DRIVER_H
#define LEATI_HIP_DRIVER_H

#include "driver/hip/hip_symbols.h"
#include "driver/hip/hip_types.h"

#define GPU(name) leati_hip_##name

#define GPU_SYMBOL_LIST(X) LEATI_HIP_SYMBOL_LIST(X)
#define GPU_TEXT_LIST(X) LEATI_HIP_TEXT_LIST(X)

typedef hi_result gpu_result;
typedef hi_device gpu_number; /* the ordinal */
typedef hi_device_attribute gpu_attribute;
typedef hi_deviceptr gpu_address;
typedef hi_context gpu_context; /* the device's only context; HIP calls do not need it */
typedef hi_stream gpu_stream_handle;
typedef hi_event gpu_event_handle;
typedef hi_function gpu_function;
typedef hi_mem_handle gpu_mem_handle;
typedef hi_mem_properties gpu_mem_properties;
typedef hi_mem_access gpu_mem_access;
typedef hi_range_attribute gpu_range_attribute;
typedef int gpu_pattern; /* pattern of a 4-byte fill */
typedef int gpu_before;  /* the device that GPU(leave) restores */

enum {
    GPU_SUCCESS = LEATI_hipSuccess,
    GPU_ERROR_INVALID_VALUE = LEATI_hipErrorInvalidValue,
    GPU_ERROR_OUT_OF_MEMORY = LEATI_hipErrorOutOfMemory,
    GPU_ERROR_NO_DEVICE = LEATI_hipErrorNoDevice,
    GPU_ERROR_INVALID_HANDLE = LEATI_hipErrorInvalidHandle,
    GPU_ERROR_NOT_READY = LEATI_hipErrorNotReady,
    GPU_ERROR_UNKNOWN = LEATI_hipErrorUnknown,
    GPU_ERROR_CAPTURE_FIRST = LEATI_hipErrorStreamCaptureUnsupported,
    GPU_ERROR_CAPTURE_LAST = LEATI_hipErrorStreamCaptureWrongThread,

    GPU_ATTRIBUTE_COMPUTE_UNITS = LEATI_hipDeviceAttributeMultiprocessorCount,
    GPU_ATTRIBUTE_BLOCK_THREADS = LEATI_hipDeviceAttributeMaxThreadsPerBlock,
    GPU_ATTRIBUTE_SHARED_BYTES = LEATI_hipDeviceAttributeMaxSharedMemoryPerBlock,
    GPU_ATTRIBUTE_MEMORY_CLOCK = LEATI_hipDeviceAttributeMemoryClockRate,
    GPU_ATTRIBUTE_MEMORY_BUS = LEATI_hipDeviceAttributeMemoryBusWidth,
    GPU_ATTRIBUTE_COPY_ENGINES = LEATI_hipDeviceAttributeAsyncEngineCount,
    GPU_ATTRIBUTE_MANAGED = LEATI_hipDeviceAttributeManagedMemory,
    GPU_ATTRIBUTE_VIRTUAL = LEATI_hipDeviceAttributeVirtualMemoryManagementSupported,

    GPU_HOST_ALLOC_FLAGS = LEATI_hipHostMallocPortable | LEATI_hipHostMallocMapped,
    GPU_HOST_REGISTER_FLAGS = LEATI_hipHostRegisterPortable | LEATI_hipHostRegisterMapped,
    GPU_STREAM_NON_BLOCKING = LEATI_hipStreamNonBlocking,
    GPU_EVENT_DEFAULT = LEATI_hipEventDefault,

    GPU_NUMBER_OF_HOST = LEATI_hipCpuDeviceId, /* stands for the host where a device number is expected */
    GPU_NUMBER_OF_NONE = LEATI_hipInvalidDeviceId,
    GPU_MEM_ATTACH_GLOBAL = LEATI_hipMemAttachGlobal,
    GPU_RANGE_READ_MOSTLY = LEATI_hipMemRangeAttributeReadMostly,
    GPU_RANGE_PREFERRED = LEATI_hipMemRangeAttributePreferredLocation,
    GPU_RANGE_ACCESSED_BY = LEATI_hipMemRangeAttributeAccessedBy,
    GPU_RANGE_LAST_PREFETCH = LEATI_hipMemRangeAttributeLastPrefetchLocation,

    GPU_MEM_ALLOCATION_PINNED = LEATI_hipMemAllocationTypePinned,
    GPU_MEM_LOCATION_DEVICE = LEATI_hipMemLocationTypeDevice,
    GPU_MEM_HANDLE_DESCRIPTOR = LEATI_hipMemHandleTypePosixFileDescriptor,
    GPU_MEM_ACCESS_READ_WRITE = LEATI_hipMemAccessFlagsProtReadWrite,
    GPU_MEM_GRANULARITY_MINIMUM = LEATI_hipMemAllocationGranularityMinimum,
};

/* Words for the messages of the shared code. */
#define GPU_DRIVER_NAME "hip"
#define GPU_VENDOR "HIP"
#define GPU_LIBRARY "HIP library"
#define GPU_LIBRARY_FILE "libamdhip64.so"
#define GPU_LIBRARY_OWNER "ROCm's"
#define GPU_LIBRARY_OPTION "LEAT_HIP_LIBRARY"
#define GPU_INSTALL "install ROCm's HIP runtime (Debian: libamdhip64-5)"
#define GPU_INSTALL_AGAIN "install ROCm's HIP runtime again"
#define GPU_LIBRARY_DAMAGED "is damaged, for another machine, or lacks a library of ROCm"
#define GPU_EVENT_TYPE "hipEvent_t"
#define GPU_OTHER_PLACE "device" /* HIP's events belong to a device */
#define GPU_NOT_CONCURRENT "concurrentManagedAccess is 0, as it is without HSA_XNACK=1 on most GPUs"

#include "driver/gpu/gpu_driver.h"

/* Writes a device's architecture, such as "gfx90a", to text, without features such as ":sramecc+". Writes "" if
 * the library does not report the architecture. In hip_info.c. */
void leati_hip_architecture(const struct gpu_api *api, int ordinal, char *text, size_t text_bytes);

#endif

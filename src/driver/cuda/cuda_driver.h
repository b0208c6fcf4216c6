/*
 * cuda_driver.h - defines CUDA's types, constants and words for the shared code of the GPU drivers, and declares
 * the entries that only CUDA has. gpu/gpu_driver.h describes the shared code.
 *
 * Contexts. A driver API call works in the calling thread's current context. leat always restores the thread's
 * context. GPU_TRY checks which context is current. If this is not the device's context, GPU_TRY pushes the
 * device's context for one call. If the device's context is current, the thread pays only for the check. Otherwise
 * the thread pays for push and pop, but checks only at every sixteenth call.
 */
#ifndef LEATI_CUDA_DRIVER_H
#define LEATI_CUDA_DRIVER_H

#include "driver/cuda/cuda_symbols.h"
#include "driver/cuda/cuda_types.h"

#include <stdbool.h>

#define GPU(name) leati_cuda_##name

#define GPU_SYMBOL_LIST(X) LEATI_CUDA_SYMBOL_LIST(X) LEATI_CUDA_FIRST_SYMBOL_LIST(X)
#define GPU_TEXT_LIST(X) /* empty, because CUDA's functions for error texts return a result like all others */

typedef cu_result gpu_result;
typedef cu_device gpu_number;
typedef cu_device_attribute gpu_attribute;
typedef cu_deviceptr gpu_address;
typedef cu_context gpu_context;
typedef cu_stream gpu_stream_handle;
typedef cu_event gpu_event_handle;
typedef cu_function gpu_function;
typedef cu_mem_handle gpu_mem_handle;
typedef cu_mem_properties gpu_mem_properties;
typedef cu_mem_access gpu_mem_access;
typedef cu_range_attribute gpu_range_attribute;
typedef unsigned int gpu_pattern; /* pattern of a 4-byte fill */
typedef bool gpu_before;          /* true if GPU(enter) pushed the context */

enum {
    GPU_SUCCESS = LEATI_CUDA_SUCCESS,
    GPU_ERROR_INVALID_VALUE = LEATI_CUDA_ERROR_INVALID_VALUE,
    GPU_ERROR_OUT_OF_MEMORY = LEATI_CUDA_ERROR_OUT_OF_MEMORY,
    GPU_ERROR_NO_DEVICE = LEATI_CUDA_ERROR_NO_DEVICE,
    GPU_ERROR_INVALID_HANDLE = LEATI_CUDA_ERROR_INVALID_HANDLE,
    GPU_ERROR_NOT_READY = LEATI_CUDA_ERROR_NOT_READY,
    GPU_ERROR_UNKNOWN = LEATI_CUDA_ERROR_UNKNOWN,
    GPU_ERROR_CAPTURE_FIRST = LEATI_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
    GPU_ERROR_CAPTURE_LAST = LEATI_CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,

    GPU_ATTRIBUTE_COMPUTE_UNITS = LEATI_CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
    GPU_ATTRIBUTE_BLOCK_THREADS = LEATI_CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
    GPU_ATTRIBUTE_SHARED_BYTES = LEATI_CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
    GPU_ATTRIBUTE_MEMORY_CLOCK = LEATI_CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE,
    GPU_ATTRIBUTE_MEMORY_BUS = LEATI_CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH,
    GPU_ATTRIBUTE_COPY_ENGINES = LEATI_CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT,
    GPU_ATTRIBUTE_MANAGED = LEATI_CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY,
    GPU_ATTRIBUTE_VIRTUAL = LEATI_CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,

    GPU_HOST_ALLOC_FLAGS = LEATI_CU_MEMHOSTALLOC_PORTABLE | LEATI_CU_MEMHOSTALLOC_DEVICEMAP,
    GPU_HOST_REGISTER_FLAGS = LEATI_CU_MEMHOSTREGISTER_PORTABLE | LEATI_CU_MEMHOSTREGISTER_DEVICEMAP,
    GPU_STREAM_NON_BLOCKING = LEATI_CU_STREAM_NON_BLOCKING,
    GPU_EVENT_DEFAULT = LEATI_CU_EVENT_DEFAULT,

    GPU_NUMBER_OF_HOST = LEATI_CU_DEVICE_CPU, /* stands for the host where a device number is expected */
    GPU_NUMBER_OF_NONE = LEATI_CU_DEVICE_INVALID,
    GPU_MEM_ATTACH_GLOBAL = LEATI_CU_MEM_ATTACH_GLOBAL,
    GPU_RANGE_READ_MOSTLY = LEATI_CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
    GPU_RANGE_PREFERRED = LEATI_CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
    GPU_RANGE_ACCESSED_BY = LEATI_CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY,
    GPU_RANGE_LAST_PREFETCH = LEATI_CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION,

    GPU_MEM_ALLOCATION_PINNED = LEATI_CU_MEM_ALLOCATION_TYPE_PINNED,
    GPU_MEM_LOCATION_DEVICE = LEATI_CU_MEM_LOCATION_TYPE_DEVICE,
    GPU_MEM_HANDLE_DESCRIPTOR = LEATI_CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
    GPU_MEM_ACCESS_READ_WRITE = LEATI_CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    GPU_MEM_GRANULARITY_MINIMUM = LEATI_CU_MEM_ALLOC_GRANULARITY_MINIMUM,
};

/* Words for the messages of the shared code. */
#define GPU_DRIVER_NAME "cuda"
#define GPU_VENDOR "CUDA"
#define GPU_LIBRARY "CUDA driver library"
#define GPU_LIBRARY_FILE "libcuda.so.1"
#define GPU_LIBRARY_OWNER "the NVIDIA driver's"
#define GPU_LIBRARY_OPTION "LEAT_CUDA_LIBRARY"
#define GPU_INSTALL "install the NVIDIA driver"
#define GPU_INSTALL_AGAIN "reinstall the NVIDIA driver"
#define GPU_LIBRARY_DAMAGED "is damaged or for another machine"
#define GPU_EVENT_TYPE "CUevent"
#define GPU_OTHER_PLACE "context" /* CUDA's events belong to a context */
#define GPU_NOT_CONCURRENT "concurrentManagedAccess is 0"

#include "driver/gpu/gpu_driver.h"

/* Returns true for the handles of default streams. Such a handle names no context: it means the default stream of
 * the context in which a call is made. */
static inline bool leati_cuda_is_default(cu_stream handle)
{
    return !handle || handle == LEATI_CU_STREAM_LEGACY || handle == LEATI_CU_STREAM_PER_THREAD;
}

/* ---- entries that only CUDA has ---- */

/* cuda_virtual.c */
leat_status leati_cuda_vm_set_rights(struct leati_driver *driver, void *device, void *ptr, size_t bytes,
                                     const struct leati_right *rights, unsigned count);

/* cuda_info.c. Returns the architecture, such as 90, of leat's machine code that this device can run. Returns 0 if
 * leat has none, the driver is too old for it, or the device has refused it. */
unsigned leati_cuda_machine_code(struct gpu_driver *cuda, int ordinal, cu_device device);

/* cuda_module.c */
leat_status leati_cuda_kernel_parameter(struct leati_driver *driver, void *device, void *kernel, unsigned index,
                                        size_t *bytes);

#endif

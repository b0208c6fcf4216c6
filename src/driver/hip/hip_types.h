/*
 * hip_types.h - declares the part of HIP's binary interface that leat uses.
 *
 * leat builds without AMD's headers. If hip/hip_runtime_api.h is installed, tests/unit/test_hip_abi.c compares all
 * declarations with it. Declarations that an older header lacks follow AMD's public sources. Where HIP 5 and HIP 6
 * differ, this file has both versions, and leat chooses by the version that the library reports. Opaque types have
 * the vendor's struct tags, so that one source file may include both headers.
 */
#ifndef LEATI_HIP_TYPES_H
#define LEATI_HIP_TYPES_H

#include <stddef.h>
#include <stdint.h>

/* These stand for the vendor's enumerations. unsigned int has the same size and is passed in the same way. */
typedef unsigned int hi_result;
typedef unsigned int hi_device_attribute;
typedef unsigned int hi_function_attribute;
typedef unsigned int hi_copy_kind;
typedef unsigned int hi_mem_advice;
typedef unsigned int hi_range_attribute;
typedef unsigned int hi_handle_type;
typedef unsigned int hi_granularity_kind;

typedef int hi_device; /* also the ordinal */
typedef void *hi_deviceptr;
typedef struct ihipCtx_t *hi_context;
typedef struct ihipStream_t *hi_stream;
typedef struct ihipEvent_t *hi_event;
typedef struct ihipModule_t *hi_module;
typedef struct ihipModuleSymbol_t *hi_function;
typedef struct ihipMemGenericAllocationHandle *hi_mem_handle;
typedef void (*hi_host_function)(void *);
typedef void (*hi_stream_callback)(hi_stream, hi_result, void *);

typedef struct hi_mem_location {
    unsigned int type;
    int id;
} hi_mem_location;

/* The vendor's struct since HIP 5.3, the first version with virtual memory on Linux. HIP 5.2 has the same members
 * in another order, but reports no device with virtual memory, so leat never passes the struct to HIP 5.2. */
typedef struct hi_mem_properties {
    unsigned int type;
    unsigned int handle_types;
    hi_mem_location location;
    void *win32_metadata;
    struct {
        unsigned char compression;
        unsigned char gpu_direct_rdma;
        unsigned short usage;
    } flags;
} hi_mem_properties;

typedef struct hi_mem_access {
    hi_mem_location location;
    unsigned int flags;
} hi_mem_access;

/* The result of hipPointerGetAttributes. The values of type differ between HIP 5 and HIP 6. */
typedef struct hi_pointer_attributes {
    unsigned int type;
    int device;
    void *device_pointer;
    void *host_pointer;
    int is_managed;
    unsigned int flags;
} hi_pointer_attributes;

/* A 3-D region of bytes: hipMemcpy3DParms. leat does not use the members for the vendor's arrays. */
typedef struct hi_pitched {
    void *ptr;
    size_t pitch, width, height;
} hi_pitched;

typedef struct hi_region_copy {
    void *src_array;
    size_t src_x, src_y, src_z;
    hi_pitched src;
    void *dst_array;
    size_t dst_x, dst_y, dst_z;
    hi_pitched dst;
    size_t width, height, depth;
    hi_copy_kind kind;
} hi_region_copy;

/* hipDeviceProp_t, of which leat needs only the architecture: hi_properties_5 for HIP 5, and hi_properties_6 for
 * hipGetDevicePropertiesR0600. Each has spare room at the end, in case a newer library writes more members. */
typedef struct hi_properties_5 {
    _Alignas(8) char before[396];
    char architecture[256];
    char after[140];
} hi_properties_5;

typedef struct hi_properties_6 {
    _Alignas(8) char before[1160];
    char architecture[256];
    char after[56];
} hi_properties_6;

/* The vendor's handles of the default streams: of the legacy stream, since HIP 6 (NULL in all versions), and of
 * the per-thread stream. */
#define LEATI_HIP_STREAM_LEGACY ((hi_stream)(uintptr_t)1)
#define LEATI_HIP_STREAM_PER_THREAD ((hi_stream)(uintptr_t)2)

/* X(the vendor's name, value). leat's constant has the same name with the prefix LEATI_. */
#define LEATI_HIP_CONSTANT_LIST(X)                                                                                \
    X(hipSuccess, 0)                                                                                              \
    X(hipErrorInvalidValue, 1)                                                                                    \
    X(hipErrorOutOfMemory, 2)                                                                                     \
    X(hipErrorNotInitialized, 3)                                                                                  \
    X(hipErrorDeinitialized, 4)                                                                                   \
    X(hipErrorInvalidConfiguration, 9)                                                                            \
    X(hipErrorInvalidPitchValue, 12)                                                                              \
    X(hipErrorInvalidDevicePointer, 17)                                                                           \
    X(hipErrorInsufficientDriver, 35)                                                                             \
    X(hipErrorNoDevice, 100)                                                                                      \
    X(hipErrorInvalidDevice, 101)                                                                                 \
    X(hipErrorInvalidImage, 200)                                                                                  \
    X(hipErrorInvalidContext, 201)                                                                                \
    X(hipErrorNoBinaryForGpu, 209)                                                                                \
    X(hipErrorECCNotCorrectable, 214)                                                                             \
    X(hipErrorPeerAccessUnsupported, 217)                                                                         \
    X(hipErrorInvalidKernelFile, 218)                                                                             \
    X(hipErrorInvalidSource, 300)                                                                                 \
    X(hipErrorSharedObjectSymbolNotFound, 302)                                                                    \
    X(hipErrorSharedObjectInitFailed, 303)                                                                        \
    X(hipErrorOperatingSystem, 304)                                                                               \
    X(hipErrorInvalidHandle, 400)                                                                                 \
    X(hipErrorNotFound, 500)                                                                                      \
    X(hipErrorNotReady, 600)                                                                                      \
    X(hipErrorIllegalAddress, 700)                                                                                \
    X(hipErrorLaunchOutOfResources, 701)                                                                          \
    X(hipErrorLaunchTimeOut, 702)                                                                                 \
    X(hipErrorPeerAccessAlreadyEnabled, 704)                                                                      \
    X(hipErrorContextIsDestroyed, 709)                                                                            \
    X(hipErrorAssert, 710)                                                                                        \
    X(hipErrorHostMemoryAlreadyRegistered, 712)                                                                   \
    X(hipErrorHostMemoryNotRegistered, 713)                                                                       \
    X(hipErrorLaunchFailure, 719)                                                                                 \
    X(hipErrorNotSupported, 801)                                                                                  \
    X(hipErrorStreamCaptureUnsupported, 900)                                                                      \
    X(hipErrorStreamCaptureWrongThread, 908)                                                                      \
    X(hipErrorUnknown, 999)                                                                                       \
    X(hipErrorRuntimeMemory, 1052)                                                                                \
    X(hipErrorRuntimeOther, 1053)                                                                                 \
    X(hipDeviceAttributeAsyncEngineCount, 2)                                                                      \
    X(hipDeviceAttributeManagedMemory, 24)                                                                        \
    X(hipDeviceAttributeMaxThreadsPerBlock, 56)                                                                   \
    X(hipDeviceAttributeMemoryBusWidth, 59)                                                                       \
    X(hipDeviceAttributeMemoryClockRate, 60)                                                                      \
    X(hipDeviceAttributeMultiprocessorCount, 63)                                                                  \
    X(hipDeviceAttributeMaxSharedMemoryPerBlock, 74)                                                              \
    X(hipDeviceAttributeMemoryPoolsSupported, 88)                                                                 \
    X(hipDeviceAttributeCanUseStreamWaitValue, 10013)                                                             \
    X(hipMemcpyHostToHost, 0)                                                                                     \
    X(hipMemcpyHostToDevice, 1)                                                                                   \
    X(hipMemcpyDeviceToHost, 2)                                                                                   \
    X(hipMemcpyDeviceToDevice, 3)                                                                                 \
    X(hipMemcpyDefault, 4)                                                                                        \
    X(HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0)                                                                \
    X(HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1)                                                                    \
    X(hipStreamNonBlocking, 1)                                                                                    \
    X(hipStreamWaitValueGte, 0)                                                                                   \
    X(hipEventDefault, 0)                                                                                         \
    X(hipCpuDeviceId, -1)                                                                                         \
    X(hipInvalidDeviceId, -2)                                                                                     \
    X(hipMemRangeAttributeReadMostly, 1)                                                                          \
    X(hipMemRangeAttributePreferredLocation, 2)                                                                   \
    X(hipMemRangeAttributeAccessedBy, 3)                                                                          \
    X(hipMemRangeAttributeLastPrefetchLocation, 4)                                                                \
    X(hipDeviceAttributeConcurrentManagedAccess, 9)                                                               \
    X(hipMemAttachGlobal, 1)                                                                                      \
    X(hipHostMallocPortable, 1)                                                                                   \
    X(hipHostMallocMapped, 2)                                                                                     \
    X(hipHostRegisterPortable, 1)                                                                                 \
    X(hipHostRegisterMapped, 2)                                                                                   \
    X(hipMemAllocationTypePinned, 1)                                                                              \
    X(hipMemLocationTypeDevice, 1)                                                                                \
    X(hipMemHandleTypePosixFileDescriptor, 1)                                                                     \
    X(hipMemAccessFlagsProtReadWrite, 3)                                                                          \
    X(hipMemAllocationGranularityMinimum, 0)

/* Constants whose values changed with HIP 6. */
#define LEATI_HIP_5_CONSTANT_LIST(X)                                                                              \
    X(hipMemoryTypeHost, 0)                                                                                       \
    X(hipMemoryTypeDevice, 1)

#define LEATI_HIP_6_CONSTANT_LIST(X)                                                                              \
    X(hipMemoryTypeUnregistered, 0)                                                                               \
    X(hipMemoryTypeHost, 1)                                                                                       \
    X(hipMemoryTypeDevice, 2)                                                                                     \
    X(hipMemoryTypeManaged, 3)

/* A constant that HIP 5.3 added. Earlier libraries reject its value and have no virtual memory. */
#define LEATI_HIP_53_CONSTANT_LIST(X) X(hipDeviceAttributeVirtualMemoryManagementSupported, 89)

enum {
#define LEATI_HIP_CONSTANT(name, value) LEATI_##name = value,
    LEATI_HIP_CONSTANT_LIST(LEATI_HIP_CONSTANT) LEATI_HIP_53_CONSTANT_LIST(LEATI_HIP_CONSTANT)
#undef LEATI_HIP_CONSTANT
#define LEATI_HIP_CONSTANT(name, value) LEATI_HIP_5_##name = value,
        LEATI_HIP_5_CONSTANT_LIST(LEATI_HIP_CONSTANT)
#undef LEATI_HIP_CONSTANT
#define LEATI_HIP_CONSTANT(name, value) LEATI_HIP_6_##name = value,
            LEATI_HIP_6_CONSTANT_LIST(LEATI_HIP_CONSTANT)
#undef LEATI_HIP_CONSTANT
};

/* Returns a version in the numbering of hipRuntimeGetVersion, in which 60342134 is HIP 6.3. */
#define LEATI_HIP_VERSION(major, minor) ((major)*10000000 + (minor)*100000)

#endif

/*
 * cuda_types.h - declares the part of the CUDA driver's binary interface that leat uses.
 *
 * leat builds without NVIDIA's cuda.h. If cuda.h is installed, tests/unit/test_cuda_abi.c compares all
 * declarations with it. Opaque types have the vendor's struct tags, so that one source file may include both
 * headers.
 */
#ifndef LEATI_CUDA_TYPES_H
#define LEATI_CUDA_TYPES_H

#include <stddef.h>
#include <stdint.h>

/* These stand for the vendor's enumerations. unsigned int has the same size and is passed in the same way. */
typedef unsigned int cu_result;
typedef unsigned int cu_device_attribute;
typedef unsigned int cu_pointer_attribute;
typedef unsigned int cu_function_attribute;
typedef unsigned int cu_jit_option;
typedef unsigned int cu_handle_type;
typedef unsigned int cu_granularity_kind;
typedef unsigned int cu_mem_advice;
typedef unsigned int cu_range_attribute;

typedef int cu_device;
typedef unsigned long long cu_deviceptr;
typedef unsigned long long cu_mem_handle;
typedef struct CUctx_st *cu_context;
typedef struct CUstream_st *cu_stream;
typedef struct CUevent_st *cu_event;
typedef struct CUmod_st *cu_module;
typedef struct CUfunc_st *cu_function;
typedef void (*cu_host_function)(void *);

typedef struct cu_mem_location {
    unsigned int type;
    int id;
} cu_mem_location;

typedef struct cu_mem_properties {
    unsigned int type;
    unsigned int handle_types;
    cu_mem_location location;
    void *win32_metadata;
    struct {
        unsigned char compression;
        unsigned char gpu_direct_rdma;
        unsigned short usage;
        unsigned char reserved[4];
    } flags;
} cu_mem_properties;

typedef struct cu_mem_access {
    cu_mem_location location;
    unsigned int flags;
} cu_mem_access;

/* One operation of cuStreamBatchMemOp. The vendor's union has the same members for both operations that leat uses:
 * waiting until a word reaches a value, and writing a word. */
typedef struct cu_value_operation {
    unsigned int operation;
    cu_deviceptr address;
    uint64_t value; /* a 32-bit value is in the low half */
    unsigned int flags;
    cu_deviceptr alias; /* unused */
    uint64_t reserved;
} cu_value_operation;

/* A 3-D region of bytes. It stands for two structs of the vendor: CUDA_MEMCPY3D for copies within a context, and
 * CUDA_MEMCPY3D_PEER for copies between two contexts. Within a context both contexts are NULL. leat does not use
 * the members for the vendor's arrays. */
typedef struct cu_region_copy {
    size_t src_x, src_y, src_z, src_level;
    unsigned int src_type;
    const void *src_host;
    cu_deviceptr src_device;
    void *src_array;
    cu_context src_context;
    size_t src_pitch, src_height;
    size_t dst_x, dst_y, dst_z, dst_level;
    unsigned int dst_type;
    void *dst_host;
    cu_deviceptr dst_device;
    void *dst_array;
    cu_context dst_context;
    size_t dst_pitch, dst_height;
    size_t width, height, depth;
} cu_region_copy;
typedef cu_region_copy cu_region_copy_peer;

/* The vendor's handles of the default streams, which every context has. */
#define LEATI_CU_STREAM_LEGACY ((cu_stream)(uintptr_t)1)
#define LEATI_CU_STREAM_PER_THREAD ((cu_stream)(uintptr_t)2)

/* Special device numbers. */
#define LEATI_CU_DEVICE_CPU (-1)
#define LEATI_CU_DEVICE_INVALID (-2)

/* X(the vendor's name, value). leat's constant has the same name with the prefix LEATI_. */
#define LEATI_CUDA_CONSTANT_LIST(X)                                                                               \
    X(CUDA_SUCCESS, 0)                                                                                            \
    X(CUDA_ERROR_INVALID_VALUE, 1)                                                                                \
    X(CUDA_ERROR_OUT_OF_MEMORY, 2)                                                                                \
    X(CUDA_ERROR_NOT_INITIALIZED, 3)                                                                              \
    X(CUDA_ERROR_STUB_LIBRARY, 34)                                                                                \
    X(CUDA_ERROR_DEVICE_UNAVAILABLE, 46)                                                                          \
    X(CUDA_ERROR_NO_DEVICE, 100)                                                                                  \
    X(CUDA_ERROR_INVALID_DEVICE, 101)                                                                             \
    X(CUDA_ERROR_INVALID_IMAGE, 200)                                                                              \
    X(CUDA_ERROR_INVALID_CONTEXT, 201)                                                                            \
    X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209)                                                                          \
    X(CUDA_ERROR_ECC_UNCORRECTABLE, 214)                                                                          \
    X(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, 217)                                                                    \
    X(CUDA_ERROR_INVALID_PTX, 218)                                                                                \
    X(CUDA_ERROR_NVLINK_UNCORRECTABLE, 220)                                                                       \
    X(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, 221)                                                                     \
    X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222)                                                                    \
    X(CUDA_ERROR_JIT_COMPILATION_DISABLED, 223)                                                                   \
    X(CUDA_ERROR_CONTAINED, 226)                                                                                  \
    X(CUDA_ERROR_INVALID_SOURCE, 300)                                                                             \
    X(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, 302)                                                             \
    X(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, 303)                                                                  \
    X(CUDA_ERROR_OPERATING_SYSTEM, 304)                                                                           \
    X(CUDA_ERROR_INVALID_HANDLE, 400)                                                                             \
    X(CUDA_ERROR_NOT_FOUND, 500)                                                                                  \
    X(CUDA_ERROR_NOT_READY, 600)                                                                                  \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, 700)                                                                            \
    X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701)                                                                    \
    X(CUDA_ERROR_LAUNCH_TIMEOUT, 702)                                                                             \
    X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, 704)                                                                \
    X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709)                                                                       \
    X(CUDA_ERROR_ASSERT, 710)                                                                                     \
    X(CUDA_ERROR_TOO_MANY_PEERS, 711)                                                                             \
    X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712)                                                             \
    X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713)                                                                 \
    X(CUDA_ERROR_HARDWARE_STACK_ERROR, 714)                                                                       \
    X(CUDA_ERROR_ILLEGAL_INSTRUCTION, 715)                                                                        \
    X(CUDA_ERROR_MISALIGNED_ADDRESS, 716)                                                                         \
    X(CUDA_ERROR_INVALID_ADDRESS_SPACE, 717)                                                                      \
    X(CUDA_ERROR_INVALID_PC, 718)                                                                                 \
    X(CUDA_ERROR_LAUNCH_FAILED, 719)                                                                              \
    X(CUDA_ERROR_TENSOR_MEMORY_LEAK, 721)                                                                         \
    X(CUDA_ERROR_NOT_PERMITTED, 800)                                                                              \
    X(CUDA_ERROR_NOT_SUPPORTED, 801)                                                                              \
    X(CUDA_ERROR_SYSTEM_NOT_READY, 802)                                                                           \
    X(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803)                                                                     \
    X(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, 804)                                                             \
    X(CUDA_ERROR_MPS_CLIENT_TERMINATED, 810)                                                                      \
    X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900)                                                                 \
    X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908)                                                                \
    X(CUDA_ERROR_EXTERNAL_DEVICE, 911)                                                                            \
    X(CUDA_ERROR_UNKNOWN, 999)                                                                                    \
    X(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1)                                                               \
    X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)                                                               \
    X(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 36)                                                                  \
    X(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 37)                                                            \
    X(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 40)                                                                 \
    X(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 41)                                                                 \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)                                                           \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)                                                           \
    X(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 83)                                                                     \
    X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 97)                                                  \
    X(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 102)                                               \
    X(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 103)                                       \
    X(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 115)                                                            \
    X(CU_POINTER_ATTRIBUTE_CONTEXT, 1)                                                                            \
    X(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)                                                                        \
    X(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, 3)                                                                     \
    X(CU_POINTER_ATTRIBUTE_IS_MANAGED, 8)                                                                         \
    X(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9)                                                                     \
    X(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, 11)                                                                  \
    X(CU_POINTER_ATTRIBUTE_RANGE_SIZE, 12)                                                                        \
    X(CU_MEMORYTYPE_HOST, 1)                                                                                      \
    X(CU_MEMORYTYPE_DEVICE, 2)                                                                                    \
    X(CU_MEMORYTYPE_UNIFIED, 4)                                                                                   \
    X(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0)                                                                 \
    X(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1)                                                                     \
    X(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8)                                                         \
    X(CU_JIT_ERROR_LOG_BUFFER, 5)                                                                                 \
    X(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, 6)                                                                      \
    X(CU_STREAM_MEM_OP_WAIT_VALUE_32, 1)                                                                          \
    X(CU_STREAM_MEM_OP_WRITE_VALUE_32, 2)                                                                         \
    X(CU_STREAM_WAIT_VALUE_GEQ, 0)                                                                                \
    X(CU_STREAM_WRITE_VALUE_DEFAULT, 0)                                                                           \
    X(CU_STREAM_NON_BLOCKING, 1)                                                                                  \
    X(CU_EVENT_DEFAULT, 0)                                                                                        \
    X(CU_MEM_ATTACH_GLOBAL, 1)                                                                                    \
    X(CU_MEM_ATTACH_HOST, 2)                                                                                      \
    X(CU_MEM_ATTACH_SINGLE, 4)                                                                                    \
    X(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 89)                                                          \
    X(CU_MEMHOSTALLOC_PORTABLE, 1)                                                                                \
    X(CU_MEMHOSTALLOC_DEVICEMAP, 2)                                                                               \
    X(CU_MEMHOSTREGISTER_PORTABLE, 1)                                                                             \
    X(CU_MEMHOSTREGISTER_DEVICEMAP, 2)                                                                            \
    X(CU_MEM_ALLOCATION_TYPE_PINNED, 1)                                                                           \
    X(CU_MEM_LOCATION_TYPE_DEVICE, 1)                                                                             \
    X(CU_MEM_LOCATION_TYPE_HOST, 2)                                                                               \
    X(CU_MEM_ADVISE_SET_READ_MOSTLY, 1)                                                                           \
    X(CU_MEM_ADVISE_UNSET_READ_MOSTLY, 2)                                                                         \
    X(CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 3)                                                                    \
    X(CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, 4)                                                                  \
    X(CU_MEM_ADVISE_SET_ACCESSED_BY, 5)                                                                           \
    X(CU_MEM_ADVISE_UNSET_ACCESSED_BY, 6)                                                                         \
    X(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, 1)                                                                      \
    X(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, 2)                                                               \
    X(CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, 3)                                                                      \
    X(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, 4)                                                           \
    X(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1)                                                                \
    X(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 3)                                                                      \
    X(CU_MEM_ALLOC_GRANULARITY_MINIMUM, 0)

enum {
#define LEATI_CUDA_CONSTANT(name, value) LEATI_##name = value,
    LEATI_CUDA_CONSTANT_LIST(LEATI_CUDA_CONSTANT)
#undef LEATI_CUDA_CONSTANT
};

#endif
